"""A demo of two windows whose packets may only go through a TURN server, a real one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.coturn import PASSWORD, USER, Coturn, running
from tests.e2e.windows import Report, Windows, wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(150)]


def passed_on(coturn: Coturn) -> int:
    """Bytes that it has passed on, as far as it has written that down."""
    return sum(int(count) for count in re.findall(r"peer usage: .* rb=(\d+)", coturn.log.read_text()))


def test_two_windows_train_through_a_relay_alone(windows: Windows, tmp_path: Path) -> None:
    folder = tmp_path / "coturn"
    folder.mkdir()
    with running(folder) as coturn:
        window = windows.start("relayed", "--demo", "2", "--rounds", "4", "--reach", "relay",
                               "--turn", f"{coturn.turn}|{USER}|{PASSWORD}", "--quit-when-done")
        assert window.exit_code(120) == 0, window.story()
        needed = 4 * 4 * window.report.last["parameters"]  # four rounds of updates in float32
        wait_until(lambda: passed_on(coturn) > needed, 10, "coturn counts a session a second after it has ended")
    reports = [window.report, Report(window.report.path.with_stem(f"{window.report.path.stem}-2"))]
    for report in reports:
        links = [member["link"] for line in report.update() for member in line["members"]
                 if member["link"] not in ("you", "connecting", "lost")]
        assert set(links) == {"relay"}
        assert (report.last["round"], report.last["state"]) == (4, "done")
    assert len({report.last["digest"] for report in reports}) == 1
    assert re.fullmatch("[0-9a-f]{64}", reports[0].last["digest"])
    everything = "".join(path.read_text("utf-8", "replace") for path in tmp_path.rglob("*.jsonl")) + window.log()
    assert PASSWORD not in everything
