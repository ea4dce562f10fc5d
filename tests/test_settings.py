"""Settings: declared once, checked, kept in a file that another version's keys survive."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from desktop.errors import FolderError, OptionError, SettingsSaveError, UnknownSettingError
from desktop.paths import Folders
from desktop.settings import DECLARED, Settings, cores
from desktop.values import TurnServer


def test_defaults() -> None:
    settings = Settings()
    assert (settings.name, settings.theme, settings.seed, settings.min_members) == ("", "system", 42, 2)
    assert (settings.heartbeat_s, settings.silent_s, settings.stop_timeout_s) == (2, 8, 10)
    assert (settings.port, settings.models_folder, settings.reach, settings.turn) == (0, "", "auto", ())
    assert len(settings.ice_servers) >= 2
    assert settings.cpu_share == max(1, cores() - 1)
    assert settings.log_level == "info"


def test_each_default_is_a_value_that_is_allowed() -> None:
    for key, each in DECLARED.items():
        assert each.kind.read(each.kind.write(each.default)) == each.default, key


def test_saved_and_loaded(profile: Path) -> None:
    file = profile / "config" / "settings.json"
    settings = Settings(file)
    settings.port = 5000
    settings.set("name", "Ünter Wolf")
    settings.set("heartbeat_s", "0.5")
    settings.set("ice_servers", "stun:a.example,stun:b.example:3478")
    settings.set("turn", "turn:t.example|me|secret")
    settings.save()
    assert json.loads(file.read_text("utf-8")) == {
        "port": 5000, "name": "Ünter Wolf", "heartbeat_s": 0.5, "ice_servers": "stun:a.example,stun:b.example:3478",
        "turn": "turn:t.example|me|secret"}
    assert os.listdir(file.parent) == ["settings.json"]
    again = Settings.load(file)
    assert (again.port, again.name, again.heartbeat_s) == (5000, "Ünter Wolf", 0.5)
    assert again.ice_servers == ("stun:a.example", "stun:b.example:3478")
    assert again.turn == (TurnServer("turn:t.example", "me", "secret"),)
    assert again.problems == []


def test_no_file_yet(profile: Path) -> None:
    settings = Settings.load(profile / "settings.json")
    assert settings.port == 0
    assert settings.problems == []


def test_a_value_that_is_not_valid_is_refused_and_changes_nothing() -> None:
    settings = Settings()
    with pytest.raises(OptionError) as caught:
        settings.set("theme", "pink")
    assert caught.value.sentence == "theme: “pink” is not valid. Allowed: system, light, dark."
    with pytest.raises(OptionError) as caught:
        settings.port = 80
    assert caught.value.sentence == (
        "port: “80” is not valid. Allowed: a whole number from 1024 to 65535, or 0 for any free one.")
    with pytest.raises(OptionError) as caught:
        settings.set("heartbeat_s", "5")
    assert caught.value.sentence == "silent_s: “8” is not valid. Allowed: at least twice heartbeat_s, which is 5."
    with pytest.raises(OptionError) as caught:
        settings.set("models_folder", "models")
    assert caught.value.sentence == (
        "models_folder: “models” is not valid. Allowed: the full path of a folder, or nothing for the program's own.")
    assert (settings.theme, settings.port, settings.heartbeat_s, settings.models_folder) == ("system", 0, 2, "")


def test_unknown_keys_in_code_raise() -> None:
    settings = Settings()
    with pytest.raises(UnknownSettingError) as caught:
        settings.set("colour", "red")
    assert caught.value.sentence == "colour is not a setting of Peerloom."
    with pytest.raises(AttributeError):
        settings.colour = "red"  # type: ignore[attr-defined]


def test_keys_of_another_version_are_kept(profile: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    file = profile / "settings.json"
    file.write_text('{"wings": 2, "seed": 7}')
    settings = Settings.load(file)
    settings.set("theme", "dark")
    settings.save()
    assert json.loads(file.read_text()) == {"wings": 2, "seed": 7, "theme": "dark"}
    assert f"{file} holds wings, which this version does not know; it is kept" in caplog.messages


@pytest.mark.allow_log("is not valid")
def test_bad_values_in_the_file_are_said_and_left_at_their_defaults(profile: Path) -> None:
    file = profile / "settings.json"
    file.write_text('{"port": 80, "seed": 7, "theme": true, "heartbeat_s": 9}')
    settings = Settings.load(file)
    assert (settings.port, settings.seed, settings.theme, settings.heartbeat_s) == (0, 7, "system", 2)
    assert [problem.sentence for problem in settings.problems] == [
        "port: “80” is not valid. Allowed: a whole number from 1024 to 65535, or 0 for any free one.",
        "theme: “true” is not valid. Allowed: system, light, dark.",
        "silent_s: “8” is not valid. Allowed: at least twice heartbeat_s, which is 9.",
    ]


@pytest.mark.allow_log("cannot be read")
@pytest.mark.parametrize(("content", "why"), [
    (b"[1]", "it is not a table of keys and values"),
    (b"{", "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
    (b"\xff\xfe", "'utf-8' codec can't decode byte 0xff in position 0: invalid start byte"),
])
def test_a_broken_file_is_put_aside(profile: Path, content: bytes, why: str) -> None:
    file = profile / "settings.json"
    file.write_bytes(content)
    settings = Settings.load(file)
    assert settings.problems[0].sentence == (
        f"The settings in {file} cannot be read: {why}. The file is kept as {profile / 'settings.broken.json'},"
        " and the defaults are used.")
    settings.set("seed", "3")
    settings.save()
    assert (profile / "settings.broken.json").read_bytes() == content
    assert json.loads(file.read_text()) == {"seed": 3}


def test_a_save_that_fails_leaves_the_old_file(profile: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = profile / "settings.json"
    settings = Settings(file)
    settings.set("seed", "3")
    settings.save()
    settings.set("seed", "4")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(SettingsSaveError) as caught:
        settings.save()
    assert caught.value.sentence == (
        f"The settings could not be saved to {file}: No space left on device. They hold until the window closes.")
    assert json.loads(file.read_text()) == {"seed": 3}
    assert os.listdir(profile) == ["settings.json"]


def test_an_override_is_not_saved_until_a_person_sets_it(profile: Path) -> None:
    file = profile / "settings.json"
    settings = Settings(file)
    settings.set("seed", "3")
    settings.override("seed", "4")
    settings.override("seed", "5")
    settings.override("port", "5000")
    settings.save()
    assert (settings.seed, settings.port) == (5, 5000)
    assert json.loads(file.read_text()) == {"seed": 3}
    settings.set("port", "5000")
    settings.save()
    assert json.loads(file.read_text()) == {"seed": 3, "port": 5000}


def test_rows() -> None:
    settings = Settings()
    settings.set("theme", "dark")
    rows = {row.key: row for row in settings.rows()}
    assert list(rows) == list(DECLARED)
    theme = rows["theme"]
    assert (theme.title, theme.value, theme.kind, theme.default) == ("Theme", "dark", "choice", "system")
    assert theme.choices == ("system", "light", "dark")
    assert (rows["port"].kind, rows["port"].value, rows["heartbeat_s"].value) == ("number", "0", "2")
    for row in rows.values():
        assert row.title
        assert row.text.endswith(".")


# -- folders --------------------------------------------------------------------------------------------


def test_a_profile_keeps_everything_in_one_folder(profile: Path) -> None:
    folders = Folders.find(profile).make()
    assert sorted(os.listdir(profile)) == ["cache", "config", "data", "log", "models"]
    assert folders.settings == profile / "config" / "settings.json"


def test_without_a_profile_the_folders_are_apart() -> None:
    folders = Folders.find()
    places = {folders.config, folders.data, folders.cache, folders.log, folders.models}
    assert len(places) == 5
    assert all(place.is_absolute() and "eerloom" in str(place) for place in places)


def test_a_folder_that_cannot_be_made(profile: Path) -> None:
    (profile / "config").write_text("a file")
    with pytest.raises(FolderError) as caught:
        Folders.find(profile).make()
    assert caught.value.sentence == (
        f"{profile / 'config'} cannot be used as a folder: File exists. Choose another with --profile.")
