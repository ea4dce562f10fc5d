"""The one event loop of the window, asyncio on Qt, and how late it runs."""

from __future__ import annotations

import asyncio
import heapq
import logging
import math
import time
from asyncio import selector_events
from collections import deque
from collections.abc import Callable
from contextvars import Context
from typing import Any

import PySide6.QtWidgets  # noqa: F401  (qasync takes the Qt that is already imported)
import qasync
from PySide6.QtCore import QCoreApplication, QEvent, QObject, Qt, QTimerEvent

log = logging.getLogger(__name__)

Handler = Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object]

SLICE_S = 0.002  # how long callbacks run before Qt's own events have their turn
DATAGRAMS = 32  # read at most per readiness event: some 3 ms of work
FEWEST_PURGED = 64  # timers; below, cancelled ones are simply left until they are due


class _Door(QObject):
    """Where Qt enters the loop: by one posted event for all callbacks that are due, and one timer for all timers."""

    def __init__(self, drain: Callable[[], None], expire: Callable[[], None]) -> None:
        super().__init__()
        self._drain = drain
        self._expire = expire

    def post(self) -> None:
        """From any thread."""
        QCoreApplication.postEvent(self, QEvent(QEvent.Type.User))

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.User:
            self._drain()
            return True
        return super().event(event)

    def timerEvent(self, event: QTimerEvent) -> None:
        self._expire()


class WindowEventLoop(qasync.QEventLoop):
    """qasync's loop, on the GUI thread only, with asyncio's own order and queue of callbacks.

    qasync starts and ends a Qt timer for each `call_soon`, and keeps one for each cancelled `call_later` until it is
    due. Here callbacks wait in one queue and timers in one heap, as in asyncio; a posted event drains the queue for
    `SLICE_S`, then Qt's events have their turn. Timers that are due go before all that: heartbeats are on time,
    however much the network brings. Readers and writers of sockets come through the same queue. Nothing
    runs while the loop does not, and nothing runs inside a step of a task: what a nested Qt loop finds there waits.
    """

    _handler: Handler | None = None

    def __init__(self, application: Any) -> None:
        self._queue: deque[asyncio.Handle] = deque()
        self._heap: list[asyncio.TimerHandle] = []
        self._due: deque[asyncio.Handle] = deque()  # timers, ahead of the queue
        self._purge_above = FEWEST_PURGED
        self._posted = False
        self._timer_id = 0  # Qt's; 0: none
        self._timer_due = 0.0
        self._raised: BaseException | None = None
        self._door = _Door(self._drain, self._expire)
        super().__init__(application)

    # -- what asyncio's users call ----------------------------------------------------------------------

    def call_soon(self, callback: Callable[..., object], *args: Any, context: Context | None = None) -> asyncio.Handle:
        """As asyncio's: in the order of the calls, each once."""
        self._check(callback, "call_soon")
        handle = asyncio.Handle(callback, args, self, context)
        self._add_callback(handle)
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """As asyncio's: from any thread. Appending to a deque and posting an event are both safe there."""
        return self.call_soon(callback, *args, context=context)

    def call_later(
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """As asyncio's."""
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """As asyncio's; what is due already takes its place in the queue at once."""
        self._check(callback, "call_at")
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        if when <= self.time():
            self._add_callback(handle)
            return handle
        if len(self._heap) > self._purge_above:
            self._heap = [each for each in self._heap if not each.cancelled()]
            heapq.heapify(self._heap)
            self._purge_above = max(FEWEST_PURGED, 2 * len(self._heap))
        heapq.heappush(self._heap, handle)
        self._arm()
        return handle

    def run_forever(self) -> None:
        """As asyncio's: KeyboardInterrupt and SystemExit of a callback end it and come out here."""
        self._post()
        self._raised = None
        super().run_forever()
        raised, self._raised = self._raised, None
        if raised is not None:
            raise raised

    def close(self) -> None:
        """As asyncio's: what still waits is dropped."""
        super().close()
        if self.is_closed():
            self._disarm()
            self._queue.clear()
            self._due.clear()
            self._heap.clear()

    def set_exception_handler(self, handler: Handler | None) -> None:
        """As asyncio's. qasync keeps the handler where `get_exception_handler` does not look."""
        self._handler = handler
        super().set_exception_handler(handler)

    def get_exception_handler(self) -> Handler | None:
        """The handler that was set, so that it can be wrapped instead of lost."""
        return self._handler

    # -- how it runs ------------------------------------------------------------------------------------

    def _check(self, callback: object, method: str) -> None:
        self._check_closed()
        if asyncio.iscoroutinefunction(callback) or not callable(callback):
            raise TypeError(f"{method}() needs something callable that is no coroutine function, not {callback!r}")

    def _add_callback(self, handle: asyncio.Handle, delay: float = 0) -> asyncio.Handle:
        """Also what qasync and asyncio call for sockets and signals. From any thread."""
        self._queue.append(handle)
        if not self._posted:
            self._post()
        return handle

    def _post(self) -> None:
        self._posted = True
        self._door.post()

    def _drain(self) -> None:
        """Run what is due, round by round as asyncio does, for `SLICE_S`; the last round of a stopped loop whole."""
        if asyncio.current_task(self) is not None:
            return  # a nested Qt loop within a task; the drain around it goes on, `_posted` stays set until then
        queue, due, ends = self._queue, self._due, time.monotonic() + SLICE_S
        while (due or queue) and self.is_running() and time.monotonic() < ends:
            for _ in range(len(due) + len(queue)):
                if not (due or queue):
                    break  # a nested Qt loop within a plain callback ran the rest
                self._run((due or queue).popleft())
                if self._raised is not None or (self.is_running() and time.monotonic() >= ends):
                    break
        self._posted = False  # before looking at the queue: another thread appends, then looks at this
        if (due or queue) and self.is_running():
            self._post()

    def _run(self, handle: asyncio.Handle) -> None:
        if handle.cancelled():
            return
        begun = time.monotonic() if self.get_debug() else 0.0
        try:
            handle._run()
        except BaseException as error:  # handles keep all but KeyboardInterrupt and SystemExit; Qt would print those
            self._raised = error
            self.stop()
        if begun and (took := time.monotonic() - begun) >= self.slow_callback_duration:
            log.warning("%r took %.3f s", handle, took)

    def _arm(self) -> None:
        """Have Qt's one timer fire when the first of the heap is due, never before."""
        due = self._heap[0].when()
        if self._timer_id and self._timer_due <= due:
            return
        self._disarm()
        wait_ms = max(1, math.ceil((due - self.time()) * 1000))
        self._timer_due = due
        self._timer_id = self._door.startTimer(min(wait_ms, 2**31 - 1), Qt.TimerType.PreciseTimer)

    def _disarm(self) -> None:
        if self._timer_id:
            self._door.killTimer(self._timer_id)
            self._timer_id = 0

    def _expire(self) -> None:
        self._disarm()
        now, heap = self.time(), self._heap
        while heap and (heap[0].cancelled() or heap[0].when() <= now):
            handle = heapq.heappop(heap)
            if not handle.cancelled():
                self._due.append(handle)
        if self._due and not self._posted:
            self._post()
        if heap:
            self._arm()

    def _make_datagram_transport(self, sock: Any, protocol: Any, *arguments: Any, **named: Any) -> Any:
        if isinstance(self, selector_events.BaseSelectorEventLoop):
            return _BatchingDatagrams(self, sock, protocol, *arguments, **named)
        return super()._make_datagram_transport(sock, protocol, *arguments, **named)


class _BatchingDatagrams(selector_events._SelectorDatagramTransport):  # type: ignore[name-defined]
    """asyncio's datagram transport, which reads one datagram per readiness event; this one up to `DATAGRAMS`."""

    def _read_ready(self) -> None:
        for _ in range(DATAGRAMS):
            if self._conn_lost or self.is_closing():
                return
            try:
                data, address = self._sock.recvfrom(self.max_size)
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                self._protocol.error_received(error)
                return
            self._protocol.datagram_received(data, address)


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
