"""Rooms of real windows on this computer that train a model of a given size, for benchmarks."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.e2e.windows import Line, Window, Windows, written_at

LOCAL_STEPS = 2  # so few that most of the time is an exchange's
ENDED = ("done", "stopped", "failed")


@contextmanager
def opened(size: str) -> Iterator[Windows]:
    """Windows whose model has this size: "0.1m" is the program's own model of the digits, for others see `wide`."""
    program = ("desktop",) if size == "0.1m" else ("tests.bench.wide", size)
    with tempfile.TemporaryDirectory(prefix="peerloom-bench-") as folder, \
            Windows(Path(folder), settings={}, program=program) as windows:
        yield windows


def room(windows: Windows, members: int, rounds: int, *options: str) -> list[Window]:
    """A room of that many windows, which has begun to train; `options` of the host."""
    host, link = windows.host("--rounds", str(rounds), "--local-steps", str(LOCAL_STEPS), "--batch", "8", *options,
                              members=members)
    all_ = [host, *(windows.guest(number, members, link) for number in range(2, members + 1))]
    for window in all_:
        window.report.wait(lambda line: line["parameters"] > 0, "it trains", 120)
    return all_


def ends(windows: list[Window], seconds: float) -> list[Line]:
    """The lines in which each of them says that it has ended."""
    lines = [window.report.wait(lambda line: line["state"] in ENDED, "training ends", seconds) for window in windows]
    for window, line in zip(windows, lines, strict=True):
        if line["state"] != "done" or line["final"]["model_path"] == "":
            raise AssertionError(f"{window.name}: {window.story()}")
    return lines


def idle(windows: Windows, name: str, *options: str) -> Window:
    """A window that does nothing, as soon as torch is there."""
    window = windows.start(name, *options)
    window.report.wait(lambda line: line["import_gap_ms"] > 0, "torch is there")
    return window


def close(window: Window) -> None:
    """End it as a person would."""
    window.signal(signal.SIGTERM)
    window.exit_code()


def share_of(state: str, lines: list[Line]) -> float:
    """The part of the time in which a report said that state, from the first line that says "training" on."""
    begun = next(number for number, line in enumerate(lines) if line["state"] in ("training", "exchanging"))
    spans = [(before["state"], written_at(after) - written_at(before))
             for before, after in zip(lines[begun:], lines[begun + 1:], strict=False)]
    return sum(seconds for each, seconds in spans if each == state) / max(1e-9, sum(seconds for _, seconds in spans))


def load() -> float:
    """Processes that want a core, averaged over the last minute; what else runs here disturbs the figures."""
    return round(os.getloadavg()[0], 2)
