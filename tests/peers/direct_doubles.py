"""What tests of direct lanes share: who listens to a lane, a pair of lanes, and somebody who speaks TLS otherwise."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

from desktop.peers.direct import DirectLane, Identity, dial, listen
from desktop.peers.lane import Lane
from tests.peers.doubles import Watched

HOST = "127.0.0.1"


class LaneRecorder(Watched):
    """LaneEvents that keeps everything in order."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []
        self.packets: list[bytes] = []
        self.received = 0
        self.reason = ""

    def lane_opened(self, lane: Lane) -> None:
        self._note("opened")

    def lane_packet(self, lane: Lane, packet: bytes | memoryview) -> None:
        self.packets.append(bytes(packet))
        self.received += len(packet)
        self.changed()

    def lane_writable(self, lane: Lane) -> None:
        self._note("writable")

    def lane_closed(self, lane: Lane, reason: str) -> None:
        self.reason = reason
        self._note("closed")

    def has(self, size: int) -> bool:
        """So many bytes have come."""
        return self.received >= size

    def _note(self, call: str) -> None:
        self.calls.append(call)
        self.changed()

    async def until_closed(self) -> str:
        """The reason."""
        await self.until(lambda: "closed" in self.calls)
        return self.reason


class Pump(LaneRecorder):
    """Sends packets as long as the lane takes them, as a link does."""

    def __init__(self) -> None:
        super().__init__()
        self.to_send: list[bytes] = []  # the next one last

    def send(self, lane: Lane, packets: list[bytes]) -> None:
        self.to_send = [*reversed(packets), *self.to_send]
        self.pump(lane)

    def lane_writable(self, lane: Lane) -> None:
        super().lane_writable(lane)
        self.pump(lane)

    def pump(self, lane: Lane) -> None:
        while self.to_send and lane.writable:
            lane.send(self.to_send.pop())


class Pair:
    """Two ends of a direct lane in one process: `a` has listened, `b` has dialled."""

    def __init__(self, a: DirectLane, heard_a: Pump, b: DirectLane, heard_b: Pump) -> None:
        self.a, self.heard_a, self.b, self.heard_b = a, heard_a, b, heard_b


@contextlib.asynccontextmanager
async def opened_pair(*, make: Callable[[], Pump] = Pump) -> AsyncIterator[Pair]:
    """A pair, of which nothing is left afterwards."""
    mine, theirs = Identity(), Identity()
    heard_a, heard_b = make(), make()
    lanes: list[DirectLane] = []
    listener = await listen(mine, theirs.certificate, HOST, lanes.append, heard_a, 2, 10)
    b = await dial(theirs, mine.certificate, HOST, listener.port, heard_b, 2)
    await heard_a.until(lambda: bool(lanes))
    try:
        yield Pair(lanes[0], heard_a, b, heard_b)
    finally:
        lanes[0].close("the test is over")
        b.close("the test is over")
        await asyncio.gather(lanes[0].ended(), b.ended(), listener.ended())
