"""The two ends of a transfer that is measured, each a process of its own: the program's link, or aiortc as it comes.

An end is told what to do in one line of JSON and tells its result in one; between them pass the descriptions of the
connection. The sender sends without an end; the receiver counts what comes in a window of time that begins `warm_s`
after the first byte, so that what has to get going first (SCTP's window, the number of lanes) is not counted.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import msgspec
import qasync
from PySide6.QtWidgets import QApplication

from desktop.bridge.transport import digest_of
from desktop.peers.direct import Identity
from desktop.peers.eventloop import LoopLag, make_loop
from desktop.peers.ice import Servers
from desktop.peers.link import How, Link, LinkSettings
from desktop.peers.packet import Kind, Whole
from desktop.peers.transfer import Transfer
from desktop.peers.webrtc import WebRtcLane
from tests.peers.plain import PACKET, PlainEnd

MB = 1_000_000
MESSAGE = 4 * MB
AHEAD = 3  # messages handed over and not acknowledged
LIMIT_S = 60.0


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What an end does."""

    end: str  # "link-sender", "link-receiver", "plain-sender", "plain-receiver"
    warm_s: float
    measure_s: float
    direct: bool = False  # a TLS lane
    loopback: bool = True


Tell = Callable[[dict[str, Any]], None]
Hear = Callable[[], dict[str, Any]]


class Counted:
    """What came in the window of time, and how late the loop was meanwhile."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._loop = asyncio.get_running_loop()
        self._lag = LoopLag(self._loop, time.monotonic)
        self.received = 0
        self._at_begin = (0.0, 0)
        self.done: asyncio.Future[dict[str, Any]] = self._loop.create_future()
        self._begun = False

    def begin(self) -> None:
        """The first byte has come, or gone."""
        if not self._begun:
            self._begun = True
            self._loop.call_later(self._order.warm_s, self._start)

    def add(self, size: int) -> None:
        """Bytes of payload have come."""
        self.received += size
        self.begin()

    def _start(self) -> None:
        self._at_begin = time.monotonic(), self.received
        self._lag.start()
        self._loop.call_later(self._order.measure_s, self._end)

    def _end(self) -> None:
        since, before = self._at_begin
        self._lag.stop()
        rate = (self.received - before) / (time.monotonic() - since) / MB
        self.done.set_result({"mb_per_s": rate, "lag_p99": self._lag.p99, "lag_max": self._lag.max})


class LinkEnd:
    """The program's link with one WebRTC lane at first."""

    def __init__(self, order: Order, peer: str) -> None:
        self.counted = Counted(order)
        self.identity = Identity() if order.direct else None
        self.certificate = b""
        self.closed = asyncio.Event()
        self.opened = asyncio.Event()
        settings = LinkSettings(packet_size=PACKET, loopback=order.loopback, direct=order.direct)
        self.transfer = Transfer("measured", PACKET, settings.limits, time.monotonic)
        self.link = Link(peer, "1", self, settings, time.monotonic, lambda: b"hello")
        self.lane = WebRtcLane(peer, 0, self.link, Servers((), ()), loopback=order.loopback)
        self.link.connect(self.lane)
        self._first = peer == "b"
        self._data = os.urandom(MESSAGE)
        self._digest = digest_of(self._data)

    def mine(self, sdp: str) -> dict[str, Any]:
        """My half of what must be known to connect."""
        certificate = self.identity.certificate if self.identity else b""
        return {"sdp": sdp, "certificate": base64.b64encode(certificate).decode()}

    def theirs(self, heard: dict[str, Any]) -> str:
        self.certificate = base64.b64decode(heard["certificate"])
        return str(heard["sdp"])

    def link_hello(self, link: Link, hello: bytes) -> None:
        link.begin(self.transfer, Servers((), ()), first=self._first, identity=self.identity,
                   certificate=self.certificate)
        self.opened.set()

    def link_closed(self, link: Link, how: How, reason: str) -> None:
        self.closed.set()

    def link_message(self, link: Link, message: Whole) -> None:
        link.taken(message.message)

    def link_sent(self, link: Link, token: int) -> None:
        self.send()

    def send(self) -> None:
        """One more message."""
        self.link.send(Kind.TRAINER, self._data, self._digest, bulk=True, token=1)


async def link_sender(order: Order, tell: Tell, hear: Hear) -> dict[str, Any]:
    """Sends over a Link until the receiver closes."""
    end = LinkEnd(order, "b")
    tell(end.mine(await end.lane.offer()))
    await end.lane.accept(end.theirs(hear()))
    await asyncio.wait_for(end.opened.wait(), LIMIT_S)
    end.counted.begin()
    for _ in range(AHEAD):
        end.send()
    lag = await end.counted.done
    lanes = end.link.stats().lanes
    await end.closed.wait()
    await end.link.close("measured")
    return {**lag, "lanes": lanes}


async def link_receiver(order: Order, tell: Tell, hear: Hear) -> dict[str, Any]:
    """Counts payload that had not come before."""
    end = LinkEnd(order, "a")
    heard = end.theirs(hear())
    receive = end.transfer.receive

    def counting(lane: int, packet: Any) -> Any:
        repeated = end.transfer.repeated
        event = receive(lane, packet)
        if end.transfer.repeated == repeated:
            end.counted.add(len(packet))
        return event

    end.transfer.receive = counting  # type: ignore[method-assign]
    tell(end.mine(await end.lane.answer(heard)))
    result = await end.counted.done
    end.link.drop("measured")
    await end.link.close("measured")
    return result


async def plain_sender(order: Order, tell: Tell, hear: Hear) -> dict[str, Any]:
    """Sends over plain aiortc until the receiver closes."""
    end, counted = PlainEnd(loopback=order.loopback), Counted(order)
    closed = asyncio.Event()
    end.channel.on("close", closed.set)
    tell(await end.describe())
    await end.take(hear())
    await end.until(lambda: end.channel.readyState == "open", LIMIT_S)
    counted.begin()
    sending = asyncio.get_running_loop().create_task(send_on(end))
    lag = await counted.done
    await closed.wait()
    sending.cancel()
    await end.connection.close()
    return {**lag, "lanes": {"webrtc": 1}}


async def send_on(end: PlainEnd) -> None:
    """Without an end."""
    data = os.urandom(MESSAGE)
    while end.channel.readyState == "open":
        await end.send(data)


async def plain_receiver(order: Order, tell: Tell, hear: Hear) -> dict[str, Any]:
    """Counts what comes."""
    end, counted = PlainEnd(loopback=order.loopback), Counted(order)
    end.channel.on("message", lambda data: counted.add(len(data)))
    await end.take(hear())
    tell(await end.describe())
    result = await counted.done
    await end.connection.close()
    return result


ENDS: dict[str, Any] = {
    "link-sender": (link_sender, make_loop),
    "link-receiver": (link_receiver, make_loop),
    "plain-sender": (plain_sender, qasync.QEventLoop),
    "plain-receiver": (plain_receiver, qasync.QEventLoop),
}


def main(line: str) -> None:
    """The process of one end."""
    def tell(result: dict[str, Any]) -> None:
        print(json.dumps(result), flush=True)

    order = msgspec.json.decode(line, type=Order)
    application = QApplication([])
    application.setQuitOnLastWindowClosed(False)
    job, loop_of = ENDS[order.end]
    with asyncio.Runner(loop_factory=lambda: loop_of(application)) as runner:
        runner.get_loop().set_exception_handler(lambda loop, context: None)  # what aiortc leaves behind
        tell(runner.run(job(order, tell, lambda: json.loads(sys.stdin.readline()))))


if __name__ == "__main__":
    main(sys.argv[1])
