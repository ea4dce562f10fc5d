"""The one event loop of the window, asyncio on Qt, and how late it runs."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Any

import PySide6.QtWidgets  # noqa: F401  (qasync takes the Qt that is already imported)
import qasync

Handler = Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object]


class WindowEventLoop(qasync.QEventLoop):
    """qasync's loop, on the GUI thread only.

    qasync starts and ends a Qt timer for each `call_soon`, and reads one datagram per readiness event; batching both
    belongs here, as overrides of `call_soon` and `_make_datagram_transport`.
    """

    _handler: Handler | None = None

    def set_exception_handler(self, handler: Handler | None) -> None:
        """As asyncio's. qasync keeps the handler where `get_exception_handler` does not look."""
        self._handler = handler
        super().set_exception_handler(handler)

    def get_exception_handler(self) -> Handler | None:
        """The handler that was set, so that it can be wrapped instead of lost."""
        return self._handler


def make_loop(application: Any) -> WindowEventLoop:
    """The loop for a QApplication. Use with `asyncio.Runner(loop_factory=...)`; never with a second thread."""
    return WindowEventLoop(application)


class LoopLag:
    """How late the loop is: a tick is due every 10 ms, and its delay goes into a histogram of fixed size.

    Bins grow by 5 %, so a percentile is at most that much above the true one; the maximum is exact. All in ms.
    """

    TICK_S = 0.010
    GROWTH = 1.05
    SMALLEST_MS = 0.05
    BINS = 340  # the last one begins at about 750 s

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Callable[[], float]) -> None:
        self._loop = loop
        self._clock = clock
        self._handle: asyncio.Handle | None = None
        self._due = 0.0
        self.reset()

    def start(self) -> None:
        """Begin to measure; again after `stop`."""
        self.stop()
        self._plan()

    def stop(self) -> None:
        """Stop measuring; the figures stay."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def reset(self) -> None:
        """Forget what was measured. A tick that is due now counts only from now on."""
        self._counts = [0] * self.BINS
        self.count = 0
        self.max = 0.0
        self._due = max(self._due, self._clock())

    def add(self, lag_ms: float) -> None:
        """Put one delay in."""
        lag_ms = max(0.0, lag_ms)
        place = 0
        if lag_ms > self.SMALLEST_MS:
            place = min(self.BINS - 1, math.ceil(math.log(lag_ms / self.SMALLEST_MS, self.GROWTH)))
        self._counts[place] += 1
        self.count += 1
        self.max = max(self.max, lag_ms)

    def percentile(self, share: float) -> float:
        """The delay below which this share (0..1) of the ticks stayed; 0 before the first one."""
        wanted, seen = share * self.count, 0
        for place, count in enumerate(self._counts):
            seen += count
            if count and seen >= wanted:
                return min(self.max, self.SMALLEST_MS * self.GROWTH**place)
        return 0.0

    @property
    def p50(self) -> float:
        """Median."""
        return self.percentile(0.50)

    @property
    def p99(self) -> float:
        """99th percentile."""
        return self.percentile(0.99)

    def _plan(self) -> None:
        self._due = self._clock() + self.TICK_S
        self._handle = self._loop.call_later(self.TICK_S, self._tick)

    def _tick(self) -> None:
        self.add((self._clock() - self._due) * 1000)
        self._plan()
