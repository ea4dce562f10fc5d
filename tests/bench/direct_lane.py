"""How fast one direct lane is, in MB/s: two processes on loopback, each on the window's event loop.

The sender joins each packet from a header and a slice, the receiver copies each into place, as a link does. The clock
runs from the first packet until the other end has said that it has the last. Both ends give the lag of their loop.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from PySide6.QtWidgets import QApplication

from desktop.peers.direct import DirectLane, Identity, dial, listen
from desktop.peers.eventloop import LoopLag, make_loop
from desktop.peers.lane import Lane

MB = 1_000_000
MESSAGE = 4 * MB
PACKET = 64 * 1024
HEADER = bytes(10)
LIMIT_S = 60.0
HOST = "127.0.0.1"
ROOT = Path(__file__).resolve().parents[2]

Tell = Callable[[dict[str, Any]], None]
Hear = Callable[[], dict[str, Any]]


class End:
    """LaneEvents of both ends: sends so many bytes, and copies what comes into one buffer again and again."""

    def __init__(self) -> None:
        self.lane: Lane | None = None
        self.received = 0
        self._room = memoryview(bytearray(MESSAGE + PACKET))
        self._data = memoryview(os.urandom(MESSAGE))
        self._to_send = 0
        self._changed = asyncio.Event()

    def lane_opened(self, lane: Lane) -> None:
        self.lane = lane
        self._changed.set()

    def lane_packet(self, lane: Lane, packet: bytes | memoryview) -> None:
        payload = memoryview(packet)[len(HEADER):]
        place = self.received % MESSAGE
        self._room[place:place + len(payload)] = payload
        self.received += len(payload)
        self._changed.set()

    def lane_writable(self, lane: Lane) -> None:
        while self._to_send and lane.writable:
            place = self._to_send % MESSAGE
            payload = self._data[place:place + min(PACKET - len(HEADER), self._to_send)]
            lane.send(b"".join((HEADER, payload)))
            self._to_send -= len(payload)

    def lane_closed(self, lane: Lane, reason: str) -> None:
        self._changed.set()

    def send(self, size: int) -> None:
        assert self.lane is not None
        self._to_send += size
        self.lane_writable(self.lane)

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(LIMIT_S):
            while not condition():
                self._changed.clear()
                await self._changed.wait()


def lag_of(lag: LoopLag) -> dict[str, float]:
    """p99 and max, ms."""
    return {"lag_p99": lag.p99, "lag_max": lag.max}


async def direct_sender(messages: int, tell: Tell, hear: Hear) -> dict[str, float]:
    """Dials, sends one message that is not counted, then the others. The last answer of the receiver ends it."""
    identity, end = Identity(), End()
    tell({"certificate": base64.b64encode(identity.certificate).decode()})
    heard = hear()
    lane = await dial(identity, base64.b64decode(heard["certificate"]), HOST, heard["port"], end, 2)
    end.send(MESSAGE)
    await end.until(lambda: end.received == 1)
    lag, begun = LoopLag(asyncio.get_running_loop(), time.monotonic), time.monotonic()
    lag.start()
    end.send(messages * MESSAGE)
    await end.until(lambda: end.received == 2)
    result = {"mb_per_s": messages * MESSAGE / (time.monotonic() - begun) / MB, **lag_of(lag)}
    lag.stop()
    lane.close("measured")
    await lane.ended()
    return result


async def direct_receiver(messages: int, tell: Tell, hear: Hear) -> dict[str, float]:
    """Listens, and says when it has the first message and when the last. Its result is the lag of its own loop."""
    identity, end = Identity(), End()
    opened: list[DirectLane] = []
    peer = base64.b64decode(hear()["certificate"])
    listener = await listen(identity, peer, HOST, opened.append, end, 2, LIMIT_S)
    tell({"certificate": base64.b64encode(identity.certificate).decode(), "port": listener.port})
    await end.until(lambda: end.received == MESSAGE)
    lag = LoopLag(asyncio.get_running_loop(), time.monotonic)
    lag.start()
    opened[0].send(HEADER + b"!")
    await end.until(lambda: end.received == MESSAGE + messages * MESSAGE)
    lag.stop()
    opened[0].send(HEADER + b"!")
    await asyncio.gather(opened[0].ended(), listener.ended())
    return lag_of(lag)


ENDS = {"direct-sender": direct_sender, "direct-receiver": direct_receiver}


def work(end: str, messages: int) -> None:
    """The process of one end: it speaks with its parent in lines of JSON."""
    def tell(line: dict[str, Any]) -> None:
        print(json.dumps(line), flush=True)

    application = QApplication([])
    application.setQuitOnLastWindowClosed(False)
    with asyncio.Runner(loop_factory=lambda: make_loop(application)) as runner:
        tell(runner.run(ENDS[end](messages, tell, lambda: json.loads(sys.stdin.readline()))))


def transfer(messages: int) -> tuple[dict[str, float], dict[str, float]]:
    """One transfer between two new processes: the sender's result and the receiver's."""
    def start(end: str) -> subprocess.Popen[str]:
        return subprocess.Popen([sys.executable, "-m", "tests.bench.direct_lane", end, str(messages)], cwd=ROOT,
                                env={**os.environ, "QT_QPA_PLATFORM": "offscreen"},
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    with start("direct-sender") as sender, start("direct-receiver") as receiver:
        try:
            for giver, taker in ((sender, receiver), (receiver, sender)):
                assert giver.stdout is not None
                assert taker.stdin is not None
                taker.stdin.write(giver.stdout.readline())
                taker.stdin.flush()
            assert sender.stdout is not None
            assert receiver.stdout is not None
            results = json.loads(sender.stdout.readline()), json.loads(receiver.stdout.readline())
            sender.wait(LIMIT_S)
            receiver.wait(LIMIT_S)
        finally:
            sender.kill()
            receiver.kill()
    return results


def main() -> None:
    """Prints a line of figures; or, with the name of an end, is that end."""
    if len(sys.argv) > 2 and sys.argv[1] in ENDS:
        work(sys.argv[1], int(sys.argv[2]))
        return
    results = [transfer(messages=150) for _ in range(5)]
    rates = [sender["mb_per_s"] for sender, _ in results]
    figures: dict[str, Any] = {"unit": "MB/s", "mb_per_s": round(statistics.median(rates), 1),
                               "each": [round(rate, 1) for rate in rates]}
    for place, end in enumerate(("sender", "receiver")):
        figures[f"{end}_lag_p99_ms"] = round(statistics.median(each[place]["lag_p99"] for each in results), 2)
        figures[f"{end}_lag_max_ms"] = round(max(each[place]["lag_max"] for each in results), 2)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
