"""How late the windows' event loops run while three windows train and exchange the small model, in ms.

The baseline is a lone window that has nothing to do. `beside` in it is one that has nothing to do while the three
train: on a computer with fewer cores than the windows keep busy, waiting for a core shows there too. The times count
from when torch is imported, as in the reports.
"""

from __future__ import annotations

import signal
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.bench.line import is_quick, print_line
from tests.e2e.test_demo import further_reports
from tests.e2e.windows import Line, Report, Window, Windows, wait_until

WINDOWS = 3
QUICK_S, FULL_S = 15.0, 60.0
NO_END = "1000000"  # rounds


def lag(line: Line) -> dict[str, float]:
    """p50, p99 and max of a report's line."""
    return dict(line["loop_lag_ms"])


def idle(windows: Windows, name: str) -> Window:
    """A window that does nothing, as soon as torch is there."""
    window = windows.start(name)
    window.report.wait(lambda line: line["import_gap_ms"] > 0, "torch is there")
    return window


def after(seconds: float, reports: list[Report]) -> list[Line]:
    """Let time pass: the newest line of each report then."""
    begun = time.monotonic()
    wait_until(lambda: time.monotonic() - begun > seconds, seconds + 60, "time passes")
    return [report.last for report in reports]


def close(window: Window) -> None:
    """End it as a person would."""
    window.signal(signal.SIGTERM)
    window.exit_code()


def busy(windows: Windows, seconds: float) -> list[Line]:
    """A line of each window of the demo after so many seconds of training, and one of a window beside them."""
    beside = idle(windows, "beside")
    demo = windows.start("demo", "--demo", str(WINDOWS), "--rounds", NO_END)
    reports = [demo.report, *further_reports(demo)]
    for report in reports:
        report.wait(lambda line: line["round"] > 0, "it trains", 120)
    lines = after(seconds, [*reports, beside.report])
    close(demo)
    close(beside)
    return lines


def worst(lines: list[Line]) -> dict[str, float]:
    """Of several windows the largest of each figure."""
    return {key: max(lag(line)[key] for line in lines) for key in ("p50", "p99", "max")}


def measure(seconds: float) -> tuple[dict[str, Any], dict[str, Any]]:
    """Figures and baseline."""
    with tempfile.TemporaryDirectory(prefix="loop-lag-") as folder, Windows(Path(folder)) as windows:
        lone = idle(windows, "lone")
        calm = after(seconds / 3, [lone.report])[0]
        close(lone)
        *lines, beside = busy(windows, seconds)
    figures = {
        "unit": "ms", **worst(lines), "windows": [lag(line) for line in lines], "parameters": lines[0]["parameters"],
        "rounds": lines[0]["round"], "seconds": seconds, "import_gap": max(line["import_gap_ms"] for line in lines),
    }
    baseline = {"what": "a lone window that has nothing to do", "unit": "ms", **lag(calm), "beside": lag(beside)}
    return figures, baseline


def main() -> None:
    """Prints the line."""
    quick = is_quick(__doc__ or "")
    figures, baseline = measure(QUICK_S if quick else FULL_S)
    ratio = round(figures["p99"] / baseline["p99"], 2) if baseline["p99"] else None
    print_line("loop_lag", figures, baseline, ratio)


if __name__ == "__main__":
    main()
