"""The window's loop: links run on it, its handler can be wrapped, its lag is measured."""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any

import pytest
from PySide6.QtWidgets import QApplication

from desktop.bridge.transport import digest_of
from desktop.peers.eventloop import LoopLag, WindowEventLoop, make_loop
from desktop.peers.packet import Kind
from tests.peers.doubles import close_all, opened_pair


def test_links_run_on_the_loop_of_the_window(qapp: QApplication) -> None:
    lost: list[dict[str, Any]] = []

    async def transfer() -> LoopLag:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: lost.append(context))
        lag = LoopLag(loop, time.monotonic)
        lag.start()
        a, heard_a, b, heard_b = await opened_pair()
        data = os.urandom(1_000_000)
        a.send(Kind.TRAINER, data, digest_of(data), bulk=True, token=1)
        await heard_a.until(lambda: bool(heard_a.of("sent")))
        assert heard_b.messages == [(Kind.TRAINER, data)]
        await close_all(a, b)
        lag.stop()
        return lag

    with asyncio.Runner(loop_factory=lambda: make_loop(qapp)) as runner:
        assert isinstance(runner.get_loop(), WindowEventLoop)
        lag = runner.run(transfer())
    assert lost == []
    assert lag.count > 5
    assert 0 <= lag.p50 <= lag.p99 <= lag.max < 2000


def test_exception_handler_can_be_wrapped(qapp: QApplication) -> None:
    loop = make_loop(qapp)
    seen: list[str] = []

    def handler(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        seen.append(context["message"])

    assert loop.get_exception_handler() is None
    loop.set_exception_handler(handler)
    assert loop.get_exception_handler() is handler
    loop.call_exception_handler({"message": "here"})
    assert seen == ["here"]
    loop.close()


def idle_lag() -> LoopLag:
    loop = asyncio.SelectorEventLoop()
    loop.close()
    return LoopLag(loop, time.monotonic)


def test_percentiles_of_known_delays() -> None:
    lag = idle_lag()
    assert (lag.p50, lag.p99, lag.max) == (0, 0, 0)
    for delay in range(1, 1001):
        lag.add(float(delay))
    assert lag.p50 == pytest.approx(500, rel=0.06)
    assert lag.p99 == pytest.approx(990, rel=0.06)
    assert lag.max == 1000
    lag.add(10.0**9)
    lag.add(-3.0)
    assert lag.max == 10.0**9
    assert lag.percentile(0.0) <= 0.05
    lag.reset()
    assert (lag.count, lag.p50, lag.max) == (0, 0, 0)


def test_memory_does_not_grow() -> None:
    lag = idle_lag()
    for delay in range(100_000):
        lag.add(delay % 977 / 7)
    assert len(lag._counts) == LoopLag.BINS
    assert sum(lag._counts) == lag.count == 100_000


def block(seconds: float) -> None:
    time.sleep(seconds)


async def test_a_blocked_loop_is_seen() -> None:
    lag = LoopLag(asyncio.get_running_loop(), time.monotonic)
    lag.start()
    await asyncio.sleep(0.1)
    block(0.2)
    await asyncio.sleep(0.05)
    assert 185 <= lag.max < 1000
    assert lag.p50 < 100
    lag.reset()
    await asyncio.sleep(0.1)
    assert lag.count > 0
    assert lag.max < 185
    lag.stop()
    lag.stop()
