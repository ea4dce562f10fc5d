"""Options and links: what is valid is read; the rest is refused with the key, the value and what is allowed."""

from __future__ import annotations

from pathlib import Path

import pytest

from desktop.errors import PeerloomError
from desktop.options import OPTIONS, TASKS, TRAINING_KEYS, Options, help_text, link_values, validate
from desktop.rooms.invite import OPTION_KEYS
from desktop.settings import Settings
from desktop.tasks import builtin
from desktop.values import TurnServer

LINK = "peerloom://join?room=maple-otter&key=aaaaaaaaaaaaaaaaaaaaaaaaaa&at=192.168.1.20:40123"


def refusal(*arguments: str) -> str:
    """The sentence with which these arguments are refused."""
    with pytest.raises(PeerloomError) as caught:
        Options.parse(arguments)
    return caught.value.sentence


def test_nothing_given() -> None:
    options = Options.parse([])
    assert (options.link, options.share, options.backend, options.start) == ("", (1, 1), "auto", False)
    assert options.task is options.batch is options.demo is options.report is options.profile is None


def test_the_demo_of_the_readme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    options = Options.parse(["--demo", "3", "--rounds=12", "--report", "r.jsonl", "--screenshot", "s.png",
                             "--quit-when-done"])
    assert (options.demo, options.rounds, options.quit_when_done) == (3, 12, True)
    assert (options.report, options.screenshot) == (tmp_path / "r.jsonl", tmp_path / "s.png")


def test_every_option(tmp_path: Path) -> None:
    common = ["--share", "2/3", "--data", "sample", "--backend", "cpu", "--ice", "stun:a.example:3478,stun:b.example",
              "--turn", "turn:t.example:3478|me|se:cret;turns:[2001:db8::1]:5349?transport=tcp|a|b",
              "--relay", "wss://r.example/x", "--start", "--name", "Quiet Heron", "--port", "40123", "--theme", "dark",
              "--profile", str(tmp_path / "p"), "--new-instance", "--window-size", "1280x800"]
    host = Options.parse([*common, "--host", "--members", "3", "--loopback", "--task", "digits", "--batch", "64",
                          "--lr", "1e-3", "--local-steps", "5", "--rounds", "9", "--precision", "f16", "--seed", "7",
                          "--weighting", "equal", "--topology", "star", "--late", "carry",
                          "--outer", "nesterov", "--outer-lr", "0.6", "--outer-momentum", "0"])
    assert (host.share, host.data, host.backend, host.start) == ((2, 3), "sample", "cpu", True)
    assert host.name == "Quiet Heron"
    assert host.ice == ("stun:a.example:3478", "stun:b.example")
    assert host.turn == (TurnServer("turn:t.example:3478", "me", "se:cret"),
                         TurnServer("turns:[2001:db8::1]:5349?transport=tcp", "a", "b"))
    assert (host.relay, host.port, host.theme) == (("wss://r.example/x",), 40123, "dark")
    assert (host.profile, host.new_instance, host.window_size) == (tmp_path / "p", True, (1280, 800))
    assert (host.host, host.members, host.loopback, host.task) == (True, 3, True, "digits")
    assert (host.batch, host.lr, host.local_steps, host.rounds) == (64, 0.001, 5, 9)
    assert (host.precision, host.seed, host.weighting, host.topology) == ("f16", 7, "equal", "star")
    assert (host.outer, host.outer_lr, host.outer_momentum, host.late) == ("nesterov", 0.6, 0.0, "carry")
    assert Options.parse(["--local-epochs", "0.5"]).local_epochs == 0.5
    guest = Options.parse([*common, "--room", "7-maple-otter", "--at", "192.168.1.20:40123"])
    assert (guest.room, guest.at) == ("7-maple-otter", "192.168.1.20:40123")
    assert Options.parse(["--version"]).version
    assert Options.parse(["--nonsense", "-h"]).help


def test_a_link_and_its_training_values() -> None:
    options = Options.parse([LINK + "&batch=16&lr=0.01&local-steps=3&precision=f16", "--start"])
    assert options.link.startswith(LINK)
    assert options.link_values == {"batch": 16, "lr": 0.01, "local-steps": 3, "precision": "f16"}


@pytest.mark.parametrize(("key", "value", "allowed"), [
    ("--task", "cats", f"{', '.join(TASKS)}, or a .peerloom-task file that exists"),
    ("--data", "/no/such/folder", "sample, or a folder or file that exists"),
    ("--share", "4/3", "I/N, the I-th of N equal parts, such as 1/3; N is at most 256"),
    ("--share", "0/3", "I/N, the I-th of N equal parts, such as 1/3; N is at most 256"),
    ("--members", "0", "a whole number from 1 to 256"),
    ("--room", "maple otter", "the code that the host's window shows"),
    ("--backend", "tpu", "auto, cpu, cuda, mps"),
    ("--batch", "0", "a whole number from 1 to 65536"),
    ("--batch", "1_0", "a whole number from 1 to 65536"),
    ("--batch", "٣", "a whole number from 1 to 65536"),
    ("--lr", "1e6", "a number above 0, up to 10"),
    ("--lr", "0", "a number above 0, up to 10"),
    ("--lr", "-1", "a number above 0, up to 10"),
    ("--lr", "nan", "a number above 0, up to 10"),
    ("--lr", ".", "a number above 0, up to 10"),
    ("--local-steps", "2.5", "a whole number from 1 to 100000"),
    ("--rounds", "many", "a whole number from 1 to 1000000"),
    ("--precision", "f8", "f32, f16, int8"),
    ("--local-epochs", "-1", "a number from 0 to 1000"),
    ("--weighting", "rank", "samples, equal"),
    ("--late", "keep", "drop, carry"),
    ("--topology", "ring", "butterfly, star"),
    ("--outer", "adam", "none, momentum, nesterov"),
    ("--outer-lr", "0", "a number above 0, up to 10"),
    ("--outer-momentum", "1", "a number from 0 to 0.999"),
    ("--seed", "-1", "a whole number from 0 to 4294967295"),
    ("--ice", "http://a.example", "one or more URLs separated by commas, such as stun:stun.example.org:3478"),
    ("--ice", "stun:a.example:70000", "one or more URLs separated by commas, such as stun:stun.example.org:3478"),
    ("--turn", "turn:a.example", "turn:HOST:PORT|USER|PASSWORD, several separated by semicolons"),
    ("--relay", "a.example", "one or more URLs separated by commas, such as wss://relay.example.org"),
    ("--demo", "1", "a whole number from 2 to 8"),
    ("--report", "/no/such/folder/r.jsonl", "a file in a folder that exists"),
    ("--report", "/", "a file in a folder that exists"),
    ("--screenshot", "s.jpg", "a file whose name ends in .png in a folder that exists"),
    ("--name", "", "1 to 40 characters that can be seen"),
    ("--name", "x" * 41, "1 to 40 characters that can be seen"),
    ("--name", "a\u202eb", "1 to 40 characters that can be seen"),
    ("--port", "80", "a whole number from 1024 to 65535, or 0 for any free one"),
    ("--theme", "pink", "system, light, dark"),
    ("--profile", __file__, "a folder, there already or to be made"),
    ("--window-size", "10x10", "WIDTHxHEIGHT in pixels, 320 to 7680 each, such as 1280x800"),
])
def test_a_value_that_is_not_valid(key: str, value: str, allowed: str) -> None:
    extra = ["--data", "sample"] if key == "--share" else ["--outer", "nesterov"] if key.startswith("--outer-") else []
    assert refusal(f"{key}={value}", *extra) == f"{key}: “{value}” is not valid. Allowed: {allowed}."


def test_an_address_that_is_not_valid() -> None:
    assert refusal("--room", "x", "--at", "nowhere") == (
        "--at: “nowhere” is not valid. Allowed: HOST:PORT, such as 192.168.1.20:40123.")


def test_a_switch_with_a_value() -> None:
    assert refusal("--start=yes") == "--start: “yes” is not valid. Allowed: no value, only --start."


@pytest.mark.parametrize("argument", ["--bach", "-x", "--", "--link=x"])
def test_unknown_options(argument: str) -> None:
    key = argument.partition("=")[0]
    assert refusal(argument) == f"{key} is not an option of Peerloom. Run with --help for the list."


def test_options_are_not_abbreviated() -> None:
    assert refusal("--round", "3") == "--round is not an option of Peerloom. Run with --help for the list."


@pytest.mark.parametrize("arguments", [["--batch"], ["--batch", "--start"]])
def test_a_value_is_missing(arguments: list[str]) -> None:
    assert refusal(*arguments) == "--batch needs a value. Allowed: a whole number from 1 to 65536."


def test_given_twice() -> None:
    assert refusal("--batch", "3", "--batch", "4") == "--batch is given twice. Give it once."
    assert refusal(LINK, LINK) == "The link is given twice. Give it once."


@pytest.mark.parametrize(("arguments", "sentence"), [
    (["--host", LINK], "--host and a link cannot go together: a window is in one room."),
    (["--host", "--room", "a"], "--host and --room cannot go together: a window is in one room."),
    (["--room", "a", LINK], "--room and a link cannot go together: a window is in one room."),
    (["--demo", "3", "--host"], "--demo and --host cannot go together: the demo opens a room of its own."),
    (["--demo", "3", "--share", "1/3"], "--demo and --share cannot go together: the demo opens a room of its own."),
    (["--demo", "3", "--data", "/"], "--demo and --data / cannot go together: the demo trains on the sample data."),
    (["--local-epochs", "1", "--local-steps", "9"],
     "--local-epochs and --local-steps cannot go together: local steps are counted one way or the other."),
    (["--outer", "none", LINK], "--outer and a link cannot go together: the room's host decides it for all members."),
    (["--rounds", "3", LINK], "--rounds and a link cannot go together: the room's host decides it for all members."),
    (["--lr", "1", "--room", "a"], "--lr and --room cannot go together: the room's host decides it for all members."),
])
def test_options_that_contradict_each_other(arguments: list[str], sentence: str) -> None:
    assert refusal(*arguments) == sentence


def test_options_that_need_another() -> None:
    assert refusal("--at", "a:4000") == "--at works only together with --room."
    assert refusal("--share", "1/3") == "--share works only together with --data sample."
    for key in ("--outer-lr", "--outer-momentum"):
        sentence = f"{key} works only together with --outer momentum or --outer nesterov."
        assert refusal(key, "0.5") == refusal(key, "0.5", "--outer", "none") == sentence


def test_a_wrong_link() -> None:
    assert refusal("https://a.example/x") == (
        "This is not a link to a room: it has no peerloom://. Ask the host to copy the link again.")
    assert refusal(LINK + "&lr=1e6") == "lr: “1e6” is not valid. Allowed: a number above 0, up to 10."
    assert refusal(LINK + "&colour=red") == (
        "This is not a link to a room: “colour” is not known. Ask the host to copy the link again.")


def test_a_link_cannot_set_what_concerns_this_computer() -> None:
    assert set(TRAINING_KEYS) <= set(OPTION_KEYS) <= set(OPTIONS)
    for key in set(OPTIONS) - set(OPTION_KEYS) - {"room", "at"}:
        with pytest.raises(PeerloomError):
            link_values(f"{LINK}&{key}=1")


def test_validate_reads_training_values() -> None:
    assert validate("rounds", "12") == 12
    with pytest.raises(PeerloomError) as caught:
        validate("rounds", "0")
    assert caught.value.sentence == "rounds: “0” is not valid. Allowed: a whole number from 1 to 1000000."
    with pytest.raises(PeerloomError):
        validate("port", "5000")


def test_the_tasks_that_can_be_named_are_those_there_are() -> None:
    assert set(TASKS) == set(builtin.TASKS)


def test_each_option_has_a_field_and_each_field_an_option() -> None:
    fields = set(Options.__struct_fields__) - {"link", "link_values", "help"}
    assert {key.replace("-", "_") for key in OPTIONS} == fields


def test_settings_take_the_options() -> None:
    options = Options.parse(["--port", "5000", "--name", "Quiet Heron", "--turn", "turn:t.example|me|secret",
                             "--reach", "relay", "--ice", "stun:a.example"])
    settings = Settings()
    for key, text in options.settings().items():
        settings.override(key, text)
    assert (settings.port, settings.name) == (5000, "Quiet Heron")
    assert settings.turn == (TurnServer("turn:t.example", "me", "secret"),)
    assert (settings.reach, settings.ice_servers) == ("relay", ("stun:a.example",))
    assert settings.seed == 42


def test_help_names_what_a_person_may_give() -> None:
    text = help_text()
    assert "--window-size" not in text
    assert all(f"--{key}" in text for key in OPTIONS if key != "window-size")
    assert max(map(len, text.splitlines())) <= 110
