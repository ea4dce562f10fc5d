"""The command of the README: three windows train one model, and the reports say how it went."""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from safetensors.numpy import load_file

from tests.e2e.conftest import assert_no_traceback
from tests.e2e.windows import Report, Window, Windows

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]

MINUTES_3 = 180.0
# Design section 5.
KEYS = {
    "peer", "name", "role", "state", "waiting_for", "backend", "task", "model", "parameters", "scheme", "precision",
    "room", "members", "round", "step", "epoch", "local_steps", "loss", "accuracy", "validation_loss",
    "validation_accuracy", "samples_per_s", "steps_per_s", "bytes_per_s", "policy", "digest", "faults", "loop_lag_ms",
    "final",
}
MEMBER_KEYS = {"peer", "name", "backend", "role", "link", "rtt_ms", "sent_bytes", "received_bytes", "round",
               "last_seen_s", "state"}


class Demo(NamedTuple):
    window: Window
    code: int
    reports: tuple[Report, ...]
    picture: Path


def digest_of_file(path: Path) -> str:
    """SHA-256 over all weights as little-endian float32, in the model's order: by layer, its weight before its bias."""
    weights = load_file(path)
    digest = hashlib.sha256()
    for name in sorted(weights, key=lambda name: (int(name.split(".")[0]), name.endswith(".bias"))):
        digest.update(weights[name].astype("<f4").tobytes())
    return digest.hexdigest()


def further_reports(window: Window) -> list[Report]:
    """The reports that the further windows of a demo of three write beside the first one's."""
    path = window.report.path
    return [Report(path.with_stem(f"{path.stem}-{number}")) for number in (2, 3)]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    """The demo, run to its end."""
    folder = tmp_path_factory.mktemp("demo")
    picture = folder / "s.png"
    with Windows(folder) as opened:
        window = opened.start("demo", "--demo", "3", "--rounds", "12", "--screenshot", picture, "--quit-when-done")
        try:
            code = window.exit_code(MINUTES_3)
            assert window.processes() == []
        except AssertionError as error:
            error.add_note(window.story())
            raise
        reports = (window.report, *further_reports(window))
        for report in reports:
            report.update()
        yield Demo(window, code, reports, picture)


def test_it_ends_by_itself_and_well(demo: Demo) -> None:
    assert demo.code == 0, demo.window.story()
    assert_no_traceback(demo.window)
    ended = [text for text in demo.window.report.faults() if text.startswith("Window")]
    assert sorted(ended) == ["Window 2 was closed.", "Window 3 was closed."]


def test_three_windows_end_with_the_same_weights(demo: Demo) -> None:
    last = [report.last for report in demo.reports]
    assert [line["round"] for line in last] == [12, 12, 12]
    assert [line["state"] for line in last] == ["done"] * 3
    assert re.fullmatch("[0-9a-f]{64}", last[0]["digest"])
    assert len({line["digest"] for line in last}) == 1
    assert len({line["peer"] for line in last}) == 3


def test_the_model_knows_digits_that_nobody_trained_on(demo: Demo) -> None:
    finals = [report.last["final"] for report in demo.reports]
    assert all(final["test_accuracy"] >= 0.95 for final in finals)
    assert len({(final["test_accuracy"], final["test_samples"]) for final in finals}) == 1
    assert finals[0]["test_samples"] >= 200


def test_each_saved_model_is_the_one_of_the_report(demo: Demo) -> None:
    paths = [Path(report.last["final"]["model_path"]) for report in demo.reports]
    assert len(set(paths)) == 3
    assert {digest_of_file(path) for path in paths} == {demo.reports[0].last["digest"]}
    assert list(demo.window.profile.rglob("*.part")) == []


def test_the_picture_shows_the_window_at_its_size(demo: Demo) -> None:
    header = demo.picture.read_bytes()[:24]
    assert header[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", header[16:]) == (1280, 720)


def test_the_reports_hold_what_a_person_sees(demo: Demo) -> None:
    for report in demo.reports:
        for line in report.lines:
            assert set(line) >= KEYS
            assert all(set(member) >= MEMBER_KEYS for member in line["members"])
        rounds = [line["round"] for line in report.lines]
        assert rounds == sorted(rounds)
        together = [line for line in report.lines if len(line["members"]) == 3 and 0 < line["round"] < 12]
        assert together, "a report shows all three members while they train"
        names = {member["name"] for member in together[-1]["members"]}
        assert names == {other.last["name"] for other in demo.reports}
        assert [member["role"] for member in together[-1]["members"]].count("leader") == 1
        assert all(member["link"] in ("you", "direct") for member in together[-1]["members"])


def test_the_reports_hold_the_loop_lag(demo: Demo) -> None:
    for report in demo.reports:
        lag = report.last["loop_lag_ms"]
        assert 0 < lag["p50"] <= lag["p99"] <= lag["max"]
        assert report.last["import_gap_ms"] > 0


def test_loss_falls_for_everyone(demo: Demo) -> None:
    for report in demo.reports:
        losses = [line["validation_loss"] for line in report.lines if line["validation_loss"] is not None]
        assert losses[-1] < 0.5 * losses[0]
