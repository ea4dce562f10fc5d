"""Whatever travels, all windows of a room end with the same weights, while one joins and one leaves on the way."""

from __future__ import annotations

import signal

import pytest

from desktop.rounds.messages import PRECISIONS
from tests.e2e.test_room import assert_same_weights
from tests.e2e.windows import Windows

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]

SHORT = ("int8", "nesterov")  # the most that can go wrong
OTHERS = [(precision, outer) for precision in PRECISIONS for outer in ("none", "nesterov")
          if (precision, outer) != SHORT]


@pytest.mark.parametrize(("precision", "outer"), [SHORT, *(pytest.param(*each, marks=pytest.mark.long)
                                                           for each in OTHERS)])
def test_one_joins_and_one_leaves(windows: Windows, precision: str, outer: str) -> None:
    host, link = windows.host("--rounds", "20", "--local-steps", "150", "--precision", precision, "--outer", outer,
                              "--quit-when-done", members=3)
    stays = windows.guest(2, 3, link, "--quit-when-done")
    leaves = windows.guest(3, 3, link)
    host.report.wait(lambda line: line["round"] >= 2, "round 2")
    late = windows.guest(1, 3, link, "--quit-when-done")
    late.report.wait(lambda line: line["state"] == "training" and line["round"] > 2, "it trains")
    leaves.signal(signal.SIGTERM)
    assert [window.exit_code() for window in (leaves, host, stays, late)] == [0, 0, 0, 0]
    assert_same_weights(host.report, stays.report, late.report)
    assert leaves.report.last["round"] < 20
    assert late.report.last["step"] > 0
    assert not [text for window in (host, stays, late) for text in window.report.faults() if "differed" in text]
