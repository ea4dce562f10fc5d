"""Whatever travels, all windows of a room end with the same weights, though one joins and one leaves on the way."""

from __future__ import annotations

import signal

import pytest

from desktop.rounds.messages import PRECISIONS
from tests.e2e.test_room import assert_same_weights
from tests.e2e.windows import Window, Windows

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(400)]

LONG_S = 300.0


def assert_ended_alike(*windows: Window) -> None:
    """They ended well, and nobody's weights ever differed from the room's."""
    assert [window.exit_code(LONG_S) for window in windows] == [0] * len(windows)
    assert_same_weights(*(window.report for window in windows))
    assert not [text for window in windows for text in window.report.faults() if "differed" in text]
    assert min(window.report.last["step"] for window in windows) > 0, "each trained"


def test_one_leaves_and_the_room_waits_for_one_that_joins(windows: Windows) -> None:
    host, link = windows.host("--rounds", "20", "--local-steps", "20", "--precision", "int8", "--outer", "nesterov",
                              "--quit-when-done")
    leaves = windows.guest(2, 2, link)
    host.report.wait(lambda line: line["round"] >= 2, "round 2")
    leaves.signal(signal.SIGTERM)
    late = windows.guest(1, 2, link, "--quit-when-done")
    assert_ended_alike(host, late)
    assert 0 < leaves.report.last["round"] < 20


@pytest.mark.long
@pytest.mark.parametrize("outer", ["none", "nesterov"])
@pytest.mark.parametrize("precision", PRECISIONS)
def test_one_joins_and_one_leaves_while_the_others_train(windows: Windows, precision: str, outer: str) -> None:
    host, link = windows.host("--rounds", "20", "--local-steps", "150", "--precision", precision, "--outer", outer,
                              "--quit-when-done", members=3)
    stays = windows.guest(2, 3, link, "--quit-when-done")
    leaves = windows.guest(3, 3, link)
    host.report.wait(lambda line: line["round"] >= 1, "round 1")
    late = windows.guest(1, 3, link, "--quit-when-done")
    late.report.wait(lambda line: line["state"] == "training" and line["round"] > 1, "it trains")
    leaves.signal(signal.SIGTERM)
    assert_ended_alike(host, stays, late)
    assert leaves.report.last["round"] < 20
