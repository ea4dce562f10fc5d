"""The leader of five windows is killed in each phase of a round: the others go on, alike, and none waits for long."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from itertools import groupby, pairwise

import pytest

from tests.e2e.doomed import PHASES
from tests.e2e.test_room import assert_same_weights
from tests.e2e.windows import SETTINGS, Report, Window, Windows, written_at

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]

MEMBERS = 5
ROUNDS = 12
REPORT_S = 1.5  # between two lines of a report, on a busy computer


def room(windows: Windows, phase: str, round_: int) -> list[Window]:
    """Five windows that begin to train; the first one leads, and is killed in that phase of that round."""
    windows.program = ("tests.e2e.doomed", phase, str(round_))
    host, link = windows.host("--rounds", str(ROUNDS), "--local-steps", "20", members=MEMBERS)
    windows.program = ("tests.e2e.doomed", "never", "0")
    return [host, *(windows.guest(number, MEMBERS, link, "--quit-when-done") for number in range(2, MEMBERS + 1))]


def assert_killed(window: Window, phase: str) -> None:
    """It was the leader, and met its end where it should."""
    assert window.exit_code(90) == -signal.SIGKILL
    assert f"killed in {phase} of round" in window.log()
    assert window.report.last["role"] == "leader"


def assert_no_round_waits_for_long(report: Report) -> None:
    """A lost leader is missed within `silent_s`; then nobody waits longer than the deadline that is shown."""
    for round_, seconds, deadline_s in waits(report):
        assert seconds <= deadline_s + SETTINGS["silent_s"] + REPORT_S, f"round {round_ + 1}"


def waits(report: Report) -> Iterator[tuple[int, float, float]]:
    """(committed round, seconds until the next one was, longest deadline meanwhile), from the lines of a report."""
    lines = [line for line in report.update() if line["round"] > 0]
    groups = [list(group) for _, group in groupby(lines, lambda line: line["round"])]
    for group, after in pairwise(groups):
        yield (group[0]["round"], written_at(after[0]) - written_at(group[0]),
               max(line["policy"]["deadline_s"] for line in group))


@pytest.mark.parametrize("phase", ["commit", *(pytest.param(phase, marks=pytest.mark.long)
                                               for phase in PHASES if phase != "commit")])
def test_the_others_go_on(windows: Windows, phase: str) -> None:
    leader, *others = room(windows, phase, 4)
    assert_killed(leader, phase)
    assert [window.exit_code(90) for window in others] == [0] * len(others)
    assert_same_weights(*(window.report for window in others))
    for window in others:
        assert_no_round_waits_for_long(window.report)
