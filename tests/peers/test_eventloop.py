"""The window's loop: links run on it, it keeps what asyncio promises, its lag is measured."""

from __future__ import annotations

import asyncio
import contextvars
import os
import socket
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from PySide6.QtCore import QTimer
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


# -- asyncio's semantics on this loop -------------------------------------------------------------------


@pytest.fixture
def runner(qapp: QApplication) -> Iterator[asyncio.Runner]:
    with asyncio.Runner(loop_factory=lambda: make_loop(qapp)) as runner:
        yield runner


def test_callbacks_run_in_order_and_once(runner: asyncio.Runner) -> None:
    ran: list[int] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        handles = [loop.call_soon(ran.append, number) for number in range(1000)]
        for handle in handles[::3]:
            handle.cancel()
        loop.call_later(0, ran.append, 1000)
        loop.call_later(-1, ran.append, 1001)
        done = loop.create_future()
        loop.call_soon(done.set_result, None)
        await done

    runner.run(main())
    assert ran == [number for number in range(1000) if number % 3] + [1000, 1001]


def test_what_a_callback_adds_comes_after_what_waited(runner: asyncio.Runner) -> None:
    ran: list[str] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        done = loop.create_future()

        def first() -> None:
            ran.append("first")
            loop.call_soon(ran.append, "added")
            loop.call_soon(done.set_result, None)

        loop.call_soon(first)
        loop.call_soon(ran.append, "second")
        await done

    runner.run(main())
    assert ran == ["first", "second", "added"]


def test_callbacks_from_other_threads_all_come_in_the_order_of_each(runner: asyncio.Runner) -> None:
    each, threads = 2000, 4
    ran: list[tuple[int, int]] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        done = asyncio.Event()

        def note(thread: int, number: int) -> None:
            ran.append((thread, number))
            if len(ran) == each * threads:
                done.set()

        def work(thread: int) -> None:
            for number in range(each):
                loop.call_soon_threadsafe(note, thread, number)
                if number % 100 == 0:
                    time.sleep(0.001)  # so that the loop falls asleep now and then: nothing may be left lying

        workers = [threading.Thread(target=work, args=(thread,)) for thread in range(threads)]
        for worker in workers:
            worker.start()
        await asyncio.wait_for(done.wait(), 20)
        for worker in workers:
            worker.join()

    runner.run(main())
    for thread in range(threads):
        assert [number for of, number in ran if of == thread] == list(range(each))


def test_context_is_kept(runner: asyncio.Runner) -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="outside")
    seen: list[str] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        variable.set("inside")
        other = contextvars.Context()
        loop.call_soon(lambda: seen.append(variable.get()))
        loop.call_soon(lambda: seen.append(variable.get()), context=other)
        loop.call_soon_threadsafe(lambda: seen.append(variable.get()))
        loop.call_later(0.001, lambda: seen.append(variable.get()))
        loop.call_later(0.002, lambda: seen.append(variable.get()), context=other)
        await asyncio.sleep(0.02)

    runner.run(main())
    assert seen == ["inside", "outside", "inside", "inside", "outside"]


def test_exceptions_go_to_the_handler_and_the_rest_runs(runner: asyncio.Runner) -> None:
    heard: list[object] = []
    ran: list[str] = []
    error = ValueError("on purpose")

    def fail() -> None:
        raise error

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: heard.append(context["exception"]))
        loop.call_soon(fail)
        loop.call_soon(ran.append, "after")
        loop.call_later(0.001, fail)
        await asyncio.sleep(0.02)

    runner.run(main())
    assert heard == [error, error]
    assert ran == ["after"]


def test_system_exit_of_a_callback_ends_the_run(qapp: QApplication) -> None:
    loop = make_loop(qapp)
    ran: list[str] = []
    loop.call_soon(sys.exit, 3)
    loop.call_soon(ran.append, "later")
    with pytest.raises(SystemExit) as caught:
        loop.run_forever()
    assert caught.value.code == 3
    assert ran == []
    loop.call_soon(loop.stop)
    loop.run_forever()
    assert ran == ["later"]
    loop.close()


def test_timers_run_when_they_are_due(runner: asyncio.Runner) -> None:
    ran: list[tuple[str, float]] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        begun = loop.time()

        def note(name: str) -> None:
            ran.append((name, loop.time() - begun))

        late = loop.call_later(0.06, note, "late")
        loop.call_later(0.02, note, "early")
        never = loop.call_later(0.01, note, "never")
        at = loop.call_at(begun + 0.04, note, "between")
        assert at.when() == begun + 0.04
        assert late.when() > at.when()
        never.cancel()
        await asyncio.sleep(0.1)

    runner.run(main())
    assert [name for name, _ in ran] == ["early", "between", "late"]
    for (_, after), due in zip(ran, (0.02, 0.04, 0.06), strict=True):
        assert due <= after < due + 1


def test_cancelled_timers_do_not_pile_up(runner: asyncio.Runner) -> None:
    async def main() -> int:
        loop = asyncio.get_running_loop()
        kept = loop.call_later(0.05, lambda: None)
        for _ in range(10_000):
            loop.call_later(3600, lambda: None).cancel()
        assert not kept.cancelled()
        assert isinstance(loop, WindowEventLoop)
        return len(loop._heap)

    assert runner.run(main()) <= 200


def test_qt_has_its_turn_while_callbacks_never_end(runner: asyncio.Runner) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        done = asyncio.Event()
        ticks: list[float] = []
        timer = QTimer()

        def again() -> None:
            if not done.is_set():
                loop.call_soon(again)

        def tick() -> None:
            ticks.append(loop.time())
            if len(ticks) == 5:
                done.set()

        timer.timeout.connect(tick)
        timer.start(1)
        again()
        await asyncio.wait_for(done.wait(), 10)
        timer.stop()

    runner.run(main())


def test_a_qt_loop_inside_a_task_runs_no_other_task(runner: asyncio.Runner, qapp: QApplication) -> None:
    heard: list[dict[str, Any]] = []
    ran: list[str] = []

    async def other() -> None:
        for number in range(3):
            ran.append(f"other {number}")
            await asyncio.sleep(0)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: heard.append(context))
        task = loop.create_task(other())
        loop.call_later(0.001, ran.append, "timer")
        block(0.005)
        for _ in range(5):
            qapp.processEvents()
        assert ran == []
        await task
        await asyncio.sleep(0.005)

    runner.run(main())
    assert sorted(ran) == ["other 0", "other 1", "other 2", "timer"]
    assert heard == []


def test_tasks_go_on_while_a_plain_callback_has_a_qt_loop(runner: asyncio.Runner, qapp: QApplication) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        task = loop.create_task(asyncio.sleep(0.001, "slept"))
        nested: asyncio.Future[bool] = loop.create_future()

        def callback() -> None:
            until = time.monotonic() + 10
            while not task.done() and time.monotonic() < until:
                qapp.processEvents()
            nested.set_result(task.done())

        loop.call_soon(callback)
        assert await nested

    runner.run(main())


def test_nothing_runs_while_the_loop_does_not(qapp: QApplication) -> None:
    loop = make_loop(qapp)
    ran: list[str] = []
    loop.call_soon(ran.append, "waits")
    qapp.processEvents()
    assert ran == []
    loop.run_until_complete(asyncio.sleep(0))
    assert ran == ["waits"]

    def stop() -> None:
        loop.stop()
        loop.call_soon(ran.append, "next run")

    loop.call_soon(stop)
    loop.call_soon(ran.append, "same round")
    loop.run_forever()
    qapp.processEvents()
    assert ran == ["waits", "same round"]
    loop.run_until_complete(asyncio.sleep(0))
    assert ran == ["waits", "same round", "next run"]
    loop.call_soon(ran.append, "never")
    loop.call_later(0.001, ran.append, "never")
    loop.close()
    time.sleep(0.005)
    qapp.processEvents()
    assert ran == ["waits", "same round", "next run"]
    with pytest.raises(RuntimeError):
        loop.call_soon(ran.append, "closed")
    with pytest.raises(RuntimeError):
        loop.call_soon_threadsafe(ran.append, "closed")
    with pytest.raises(RuntimeError):
        loop.call_later(1, ran.append, "closed")


def test_only_what_can_be_called_is_taken(qapp: QApplication) -> None:
    loop = make_loop(qapp)

    async def coroutine() -> None: ...

    for wrong in (coroutine, 7):
        with pytest.raises(TypeError):
            loop.call_soon(wrong)  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            loop.call_later(1, wrong)  # type: ignore[arg-type]
    loop.close()


def test_no_datagram_is_lost_and_none_given_after_closing(runner: asyncio.Runner) -> None:
    class Taker(asyncio.DatagramProtocol):
        def __init__(self) -> None:
            self.taken: list[bytes] = []
            self.done = asyncio.Event()

        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            self.transport = transport

        def datagram_received(self, data: bytes, address: object) -> None:
            if data == b"last":
                self.done.set()
                self.transport.close()  # what comes after is not given
            else:
                self.taken.append(data)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        transport, taker = await loop.create_datagram_endpoint(Taker, local_addr=("127.0.0.1", 0))
        packets = [number.to_bytes(2, "big") for number in range(100)]
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as giver:
            for packet in (*packets, b"last", b"too late"):
                giver.sendto(packet, transport.get_extra_info("sockname"))
        await asyncio.wait_for(taker.done.wait(), 10)
        await asyncio.sleep(0)
        assert taker.taken == packets

    runner.run(main())
