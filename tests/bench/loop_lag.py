"""How late the windows' event loops run while two windows train and exchange models of 0.1, 10 and 124 million weights.

In ms, from when torch is imported until the model is saved: building the model, training, exchanging and saving are
all in it. The baseline is a lone window that has nothing to do. `beside` is one that has nothing to do while the two
train: on a computer with fewer cores than the windows keep busy, waiting for a core shows there too.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

from tests.bench.line import is_quick, print_line
from tests.bench.rooms import close, ends, idle, load, opened, room, share_of
from tests.e2e.windows import Line, wait_until

MEMBERS = 2
QUICK = {"0.1m": 100}  # rounds by size
FULL = {"0.1m": 1000, "10m": 20, "124m": 4}
LONGEST_S = 900.0
CALM_S = 5.0


def lag(line: Line) -> dict[str, float]:
    """p50, p99 and max of a report's line."""
    return dict(line["loop_lag_ms"])


def calm() -> dict[str, float]:
    """A lone window that has nothing to do."""
    with opened("0.1m") as windows:
        window = idle(windows, "lone")
        begun = time.monotonic()
        wait_until(lambda: time.monotonic() - begun > CALM_S, CALM_S + 60, "time passes")
        return lag(window.report.last)


def measure(size: str, rounds: int) -> dict[str, Any]:
    """Figures of two windows that train so many rounds, and of a third one that does nothing."""
    before = load()
    with opened(size) as windows:
        beside = idle(windows, "beside")
        begun = time.monotonic()
        members = room(windows, MEMBERS, rounds)
        lines = ends(members, LONGEST_S)
        took = time.monotonic() - begun
        found = {
            **{key: max(lag(line)[key] for line in lines) for key in ("p50", "p99", "max")},
            "windows": [lag(line) for line in lines], "beside": lag(beside.report.last),
            "parameters": lines[0]["parameters"], "rounds": lines[0]["round"], "seconds": round(took, 1),
            "exchanging": round(statistics.mean(share_of("exchanging", each.report.lines) for each in members), 2),
            "import_gap": max(line["import_gap_ms"] for line in lines), "load": [before, load()],
        }
        for window in (*members, beside):
            close(window)
    return found


def main() -> None:
    """Prints the line."""
    quick = is_quick(__doc__ or "")
    alone = calm()
    sizes = {size: measure(size, rounds) for size, rounds in (QUICK if quick else FULL).items()}
    figures = {"unit": "ms", **{key: max(each[key] for each in sizes.values()) for key in ("p50", "p99", "max")},
               "sizes": sizes}
    baseline = {"what": "a lone window that has nothing to do", "unit": "ms", **alone}
    ratio = round(figures["p99"] / alone["p99"], 2) if alone["p99"] else None
    print_line("loop_lag", figures, baseline, ratio)


if __name__ == "__main__":
    main()
