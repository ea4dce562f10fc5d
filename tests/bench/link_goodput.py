"""How fast one link is, in MB/s: two processes on loopback, against plain aiortc on plain qasync in the same run.

Both carry the same bytes in packets of the same size, and both keep the same number of bytes in aiortc's buffer. The
clock runs from handing over the first message until the other end has said that it has the last. Runs alternate, so
that what else the computer does meets both; medians are given. The lag is that of the sender's loop, which is the
window's loop, in ms.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import qasync
from aiortc import RTCConfiguration, RTCDataChannel, RTCPeerConnection, RTCSessionDescription
from PySide6.QtWidgets import QApplication

from desktop.bridge.transport import digest_of
from desktop.peers import ice
from desktop.peers.eventloop import LoopLag, make_loop
from desktop.peers.link import HIGH_WATER, LOW_WATER, Link
from desktop.peers.packet import Kind
from tests.bench.line import is_quick, print_line
from tests.peers.doubles import LinkRecorder, Watched, make_link

MB = 1_000_000
MESSAGE = 4 * MB
PACKET = 64 * 1024
QUICK, FULL = (3, 6), (7, 15)  # repeats, messages
LIMIT_S = 60.0
ROOT = Path(__file__).resolve().parents[2]

Tell = Callable[[dict[str, Any]], None]
Hear = Callable[[], dict[str, Any]]


class Counter(LinkRecorder):
    """Keeps no data."""

    def link_message(self, link: Link, kind: Kind, data: memoryview, digest: bytes) -> None:
        self._note("message", kind, len(data), digest)


def goodput(size: int, seconds: float, lag: LoopLag) -> dict[str, float]:
    """The sender's result."""
    return {"mb_per_s": size / seconds / MB, "lag_p99": lag.p99, "lag_max": lag.max}


def running_lag() -> LoopLag:
    """Begins to measure the running loop."""
    lag = LoopLag(asyncio.get_running_loop(), time.monotonic)
    lag.start()
    return lag


def end_of_link() -> tuple[Link, Counter]:
    """One end, with the heartbeat of the program."""
    link, heard = make_link(heartbeat_s=2.0, silent_s=8.0, packet_size=PACKET)
    heard = link._events = Counter()
    return link, heard


async def link_sender(messages: int, tell: Tell, hear: Hear) -> dict[str, float]:
    """Sends over a Link, a small message first, which is not counted."""
    link, heard = end_of_link()
    tell(await link.offer())
    await link.accept(hear())
    await heard.until(lambda: bool(heard.of("opened")))
    data = os.urandom(MESSAGE)
    digest = digest_of(data)
    link.send(Kind.TRAINER, data[:MB], digest_of(data[:MB]), bulk=True, token=0)
    await heard.until(lambda: len(heard.of("sent")) == 1, LIMIT_S)
    lag, begun = running_lag(), time.monotonic()
    for number in range(messages):
        link.send(Kind.TRAINER, data, digest, bulk=True, token=number + 1)
    await heard.until(lambda: len(heard.of("sent")) == 1 + messages, LIMIT_S)
    result = goodput(messages * MESSAGE, time.monotonic() - begun, lag)
    lag.stop()
    await link.close("measured")
    return result


async def link_receiver(messages: int, tell: Tell, hear: Hear) -> dict[str, float]:
    """Receives until the sender closes."""
    link, heard = end_of_link()
    tell(await link.answer(hear()))
    await heard.until(lambda: bool(heard.of("closed")), 2 * LIMIT_S)
    assert len(heard.of("message")) == 1 + messages
    await link.close("measured")
    return {}


class PlainEnd(Watched):
    """aiortc as it comes: a peer connection with one channel, and what was received."""

    def __init__(self) -> None:
        super().__init__()
        self.connection = RTCPeerConnection(RTCConfiguration(iceServers=[]))
        self.channel: RTCDataChannel = self.connection.createDataChannel("plain", negotiated=True, id=0)
        ice.allow_loopback(self.connection, only=True)
        self.received = 0
        self.channel.on("open", self.changed)
        self.channel.on("message", self._take)

    def _take(self, data: bytes) -> None:
        self.received += len(data)
        self.changed()

    async def describe(self) -> dict[str, Any]:
        description = await (self.connection.createOffer() if self.connection.remoteDescription is None
                             else self.connection.createAnswer())
        await self.connection.setLocalDescription(description)
        local = self.connection.localDescription
        return {"type": local.type, "sdp": local.sdp}

    async def take(self, description: dict[str, Any]) -> None:
        await self.connection.setRemoteDescription(RTCSessionDescription(**description))

    async def send(self, data: bytes) -> None:
        """In packets, with as many bytes in the buffer as a link has there."""
        writable = asyncio.Event()
        self.channel.bufferedAmountLowThreshold = LOW_WATER
        self.channel.on("bufferedamountlow", writable.set)
        for place in range(0, len(data), PACKET):
            while self.channel.bufferedAmount >= HIGH_WATER:
                writable.clear()
                await writable.wait()
            self.channel.send(data[place:place + PACKET])
            await asyncio.sleep(0)


async def plain_sender(messages: int, tell: Tell, hear: Hear) -> dict[str, float]:
    """Sends over plain aiortc; the other end answers with one byte for each message."""
    end = PlainEnd()
    tell(await end.describe())
    await end.take(hear())
    await end.until(lambda: end.channel.readyState == "open")
    data = os.urandom(MESSAGE)
    await end.send(data[:MB])
    await end.until(lambda: end.received == 1, LIMIT_S)
    lag, begun = running_lag(), time.monotonic()
    for _ in range(messages):
        await end.send(data)
    await end.until(lambda: end.received == 2, LIMIT_S)
    result = goodput(messages * MESSAGE, time.monotonic() - begun, lag)
    lag.stop()
    await end.connection.close()
    return result


async def plain_receiver(messages: int, tell: Tell, hear: Hear) -> dict[str, float]:
    """Receives, and says when it has the first message and when the last."""
    end = PlainEnd()
    closed = asyncio.Event()
    end.channel.on("close", closed.set)
    await end.take(hear())
    tell(await end.describe())
    for expected in (MB, MB + messages * MESSAGE):
        await end.until(lambda expected=expected: end.received == expected, 2 * LIMIT_S)
        end.channel.send(b"!")
    await asyncio.wait_for(closed.wait(), LIMIT_S)
    await end.connection.close()
    return {}


Work = Callable[[int, Tell, Hear], Coroutine[Any, Any, dict[str, float]]]
ENDS: dict[str, tuple[Work, Callable[[Any], asyncio.AbstractEventLoop]]] = {
    "link-sender": (link_sender, make_loop),
    "link-receiver": (link_receiver, make_loop),
    "plain-sender": (plain_sender, qasync.QEventLoop),
    "plain-receiver": (plain_receiver, qasync.QEventLoop),
}


def work(end: str, messages: int) -> None:
    """The process of one end: it speaks with its parent in lines of JSON."""
    def tell(line: dict[str, Any]) -> None:
        print(json.dumps(line), flush=True)

    application = QApplication([])
    application.setQuitOnLastWindowClosed(False)
    job, loop_of = ENDS[end]
    with asyncio.Runner(loop_factory=lambda: loop_of(application)) as runner:
        runner.get_loop().set_exception_handler(lambda loop, context: None)  # what aiortc leaves behind
        tell(runner.run(job(messages, tell, lambda: json.loads(sys.stdin.readline()))))


def transfer(sender_kind: str, receiver_kind: str, messages: int) -> dict[str, float]:
    """One transfer between two new processes: the sender's result."""
    def start(end: str) -> subprocess.Popen[str]:
        return subprocess.Popen([sys.executable, "-m", "tests.bench.link_goodput", end,
                                 str(messages)], cwd=ROOT, env={**os.environ, "QT_QPA_PLATFORM": "offscreen"},
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    with start(f"{sender_kind}-sender") as sender, start(f"{receiver_kind}-receiver") as receiver:
        try:
            for giver, taker in ((sender, receiver), (receiver, sender)):
                assert giver.stdout is not None
                assert taker.stdin is not None
                taker.stdin.write(giver.stdout.readline())
                taker.stdin.flush()
            assert sender.stdout is not None
            result: dict[str, float] = json.loads(sender.stdout.readline())
            sender.wait(LIMIT_S)
            receiver.wait(LIMIT_S)
        finally:
            sender.kill()
            receiver.kill()
    return result


def summary(results: list[dict[str, float]]) -> dict[str, Any]:
    """Medians; of the lag the largest too."""
    return {
        "unit": "MB/s", "mb_per_s": round(statistics.median(each["mb_per_s"] for each in results), 2),
        "each": [round(each["mb_per_s"], 2) for each in results],
        "lag_p99_ms": round(statistics.median(each["lag_p99"] for each in results), 2),
        "lag_max_ms": round(max(each["lag_max"] for each in results), 2),
    }


def measure(repeats: int, messages: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Figures and baseline."""
    links, plains = [], []
    for _ in range(repeats):
        plains.append(transfer("plain", "plain", messages))
        links.append(transfer("link", "link", messages))
    about = {"bytes": messages * MESSAGE, "packet": PACKET, "rtt_ms": 0, "loss": 0, "cores": os.cpu_count()}
    return {**summary(links), **about}, {"what": "plain aiortc on plain qasync", **summary(plains)}


def main() -> None:
    """Prints the line; or, with the name of an end, is that end."""
    if len(sys.argv) > 2 and sys.argv[1] in ENDS:
        work(sys.argv[1], int(sys.argv[2]))
        return
    figures, baseline = measure(*(QUICK if is_quick(__doc__ or "") else FULL))
    print_line("link_goodput", figures, baseline, round(figures["mb_per_s"] / baseline["mb_per_s"], 2))


if __name__ == "__main__":
    main()
