"""Work done in a few threads ahead of need: results in order, a bounded number under way, droppable at any moment."""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

THREADS = max(1, min(4, (os.cpu_count() or 2) - 1))
UNDER_WAY = 4  # pieces of work per thread
NICE = 10  # as training: the window goes first


def pool() -> ThreadPoolExecutor:
    """Threads that give way to the window."""
    return ThreadPoolExecutor(THREADS, "reading", initializer=_give_way)


def _give_way() -> None:
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)


def in_order(work: Callable[[T], R], things: Iterable[T]) -> Iterator[tuple[T, R]]:
    """Each thing with what `work` gives for it, in order. Closing the iterator drops what has not begun."""
    threads = pool()
    under_way: deque[tuple[T, Future[R]]] = deque()
    try:
        for thing in things:
            under_way.append((thing, threads.submit(work, thing)))
            if len(under_way) >= UNDER_WAY * THREADS:
                first, future = under_way.popleft()
                yield first, future.result()
        while under_way:
            first, future = under_way.popleft()
            yield first, future.result()
    finally:
        threads.shutdown(wait=False, cancel_futures=True)
