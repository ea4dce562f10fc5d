"""The lanes of a link beside its control lane: how many pay, and how both ends agree on them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from statistics import median
from typing import Any

import msgspec

from desktop.errors import SignalError
from desktop.peers import ice
from desktop.peers.direct import DirectError, DirectLane, Identity, Listener, dial, listen
from desktop.peers.lane import Lane, LaneEvents
from desktop.peers.webrtc import WebRtcLane

log = logging.getLogger(__name__)

MEASURE_S = 1.0  # between two measurements of what the lanes carry
SAMPLES = 3  # measurements that count, after one that is left out because new lanes have to get going
STEPS = (1, 4, 8)  # lanes; far apart, so that what they gain stands out from what a rate varies by itself
PAYS = 1.3  # so much faster a step must be to stay: each lane costs the window some of its time
REST_S = 10.0  # before the next trial after one that did not pay; doubled each time
LONGEST_REST_S = 600.0
SHORT_S, CLEAN = 0.005, 8_000_000.0  # round trip in s, and bytes/s: such a path is busy with one lane
DIAL_S = 3.0  # a firewall that drops silently is not waited for any longer
LISTEN_S = 10.0
AGAIN_S = 30.0  # before another direct lane is tried when one has died


class Growth:
    """How many WebRTC lanes pay: ::

        STEADY --busy--> TRIAL of the next step --faster by 30 %--> STEADY there (and at once the next trial)
            ^                       |
            +------ slower ---------+   (and a rest before the next trial, longer each time)

    SCTP's rate falls with the round trip and with loss, and each lane has a window of its own; on a short clean path
    one lane keeps the processor busy already, and no trial is made.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.lanes = 1
        self._steady = 1  # lanes to go back to
        self._before: float | None = None  # bytes/s with `_steady` lanes, while more are on trial
        self._rates: list[float] = []
        self._rest_s = REST_S
        self._rest_until = float("-inf")

    def measured(self, now: float, rate: float, *, busy: bool, rtt_s: float | None) -> int:
        """`rate` bytes/s since the last call; `busy`: there was always more to send; `rtt_s`: the least seen so far,
        since what waits in buffers is no distance. How many lanes to have."""
        if not busy:
            self._rates.clear()
            return self.lanes
        self._rates.append(rate)
        if len(self._rates) <= SAMPLES:
            return self.lanes
        usual = median(self._rates[1:])
        self._rates.clear()
        if self._before is not None:
            self._judge(now, usual)
        may_help = rtt_s is None or rtt_s > SHORT_S or usual < CLEAN
        if self._before is None and self.lanes < self.most and may_help and now >= self._rest_until:
            self._before, self._steady = usual, self.lanes
            self.lanes = min(next((step for step in STEPS if step > self.lanes), self.most), self.most)
        return self.lanes

    def _judge(self, now: float, usual: float) -> None:
        if self._before is not None and usual < PAYS * self._before:
            self.lanes = self._steady
            self._rest_until = now + self._rest_s
            self._rest_s = min(2 * self._rest_s, LONGEST_REST_S)
        self._before = None


class _Said(msgspec.Struct, frozen=True, tag_field="what"):
    """What both ends of a link say to each other about lanes. `number`: of the lane."""

    number: int


class _Offer(_Said, frozen=True, tag="offer"):
    sdp: str


class _Answer(_Said, frozen=True, tag="answer"):
    sdp: str


class _Listening(_Said, frozen=True, tag="listening"):
    """A direct lane can be opened at this port of the address that the control lane has shown."""

    port: int


_say = msgspec.msgpack.Encoder()
_read = msgspec.msgpack.Decoder(_Offer | _Answer | _Listening)


class Lanes:
    """Opens and closes the further lanes of one open link. Lanes that open or close tell `events`, the link.

    The first side (smaller id) numbers its lanes 2, 4, 6 ..., the other one 1, 3, 5 ...
    """

    def __init__(
        self,
        peer: str,
        events: LaneEvents,
        servers: ice.Servers,
        say: Callable[[bytes], None],
        control: Lane,
        *,
        first: bool,
        most: int,
        open_s: float,
        loopback: bool,
        identity: Identity | None,
        certificate: bytes,
    ) -> None:
        self.open: dict[int, Lane] = {}
        self._peer, self._events, self._servers, self._say_bytes = peer, events, servers, say
        self._control, self._first, self._open_s, self._loopback = control, first, open_s, loopback
        self._identity, self._certificate = identity, certificate
        self._growth = Growth(most)
        self._next = 2 if first else 1
        self._opening: dict[int, WebRtcLane] = {}
        self._dialling: set[int] = set()
        self._all: set[Lane] = set()  # that may still be taken down
        self._listener: Listener | None = None
        self._timer: asyncio.Handle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()
        self._closed = False

    def start(self) -> None:
        """Try the direct lane, in the background."""
        if self._first:
            self._spawn(self._listen())

    @property
    def bulk(self) -> list[Lane]:
        """The lanes for bulk: where a direct one is open, packets over WebRTC would only cost time."""
        direct = [lane for lane in self.open.values() if lane.kind == "tls"]
        return direct or [self._control, *self.open.values()]

    def measured(self, now: float, rate: float, *, busy: bool, rtt_s: float | None) -> None:
        """Each `MEASURE_S`: have as many lanes as pay."""
        webrtc = [lane for lane in self.open.values() if lane.kind == "webrtc"]
        if self._control.kind != "webrtc" or len(webrtc) < len(self.open):
            return  # through a member it is the member's links that count; beside a direct lane none is needed
        wanted = self._growth.measured(now, rate, busy=busy, rtt_s=rtt_s) - 1
        for _ in range(wanted - len(webrtc) - len(self._opening)):
            self._spawn(self._offer(self._begin(self._number())))
        # The peer's own are its to judge, and do not count here: two ends that have opened some at the same moment
        # would close them at the same moment, too.
        mine = [lane for lane in webrtc if lane.number % 2 == self._next % 2]
        for lane in mine[: max(0, len(mine) - wanted)]:
            lane.close("it did not pay")

    def heard(self, data: memoryview) -> str:
        """What the peer says about lanes: "" or what is wrong with it."""
        try:
            said = _read.decode(data)
        except msgspec.MsgspecError as error:
            return f"words about lanes that cannot be read ({error})"
        if isinstance(said, _Answer):
            if (lane := self._opening.get(said.number)) is not None:
                self._spawn(self._accept(lane, said.sdp))
            return ""
        known = self._opening.keys() | self.open.keys() | self._dialling
        if said.number < 1 or said.number in known or said.number % 2 != (self._next + 1) % 2:
            return f"a lane of the number {said.number}"
        if len(known) >= 2 * self._growth.most + 2:
            return "too many lanes"
        if isinstance(said, _Offer):
            self._spawn(self._answer(self._begin(said.number), said.sdp))
        else:
            self._dialling.add(said.number)
            self._spawn(self._dial(said.number, said.port))
        return ""

    def opened(self, lane: Lane) -> None:
        """The link was told that this lane is open."""
        self._opening.pop(lane.number, None)
        self.open[lane.number] = lane
        self._all.add(lane)
        if any(each.kind == "tls" for each in self.open.values()):  # beside it these are of no use
            for other in [*self._opening.values(), *self.open.values()]:
                if other.kind == "webrtc":
                    other.close("a direct lane is open")

    def closed(self, lane: Lane) -> None:
        """The link was told that this lane is closed."""
        self._opening.pop(lane.number, None)
        self._spawn(self._forget(lane))
        if self.open.pop(lane.number, None) is not None and lane.kind == "tls" and self._first and not self._closed:
            self._timer = self._loop.call_later(AGAIN_S, self.start)

    def close(self, reason: str) -> None:
        """Close them all."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._listener is not None:
            self._listener.close()
        for lane in [*self._opening.values(), *self.open.values()]:
            lane.close(reason)

    async def _forget(self, lane: Lane) -> None:
        await lane.ended()
        self._all.discard(lane)

    async def ended(self) -> None:
        """Wait until nothing of them runs any more."""
        await asyncio.gather(*(lane.ended() for lane in self._all))
        for task in self._tasks:  # after the lanes: what is cut off while it gathers would leave sockets open
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._listener is not None:
            await self._listener.ended()

    # -- WebRTC -------------------------------------------------------------------------------------

    async def _offer(self, lane: WebRtcLane) -> None:
        try:
            self._say(_Offer(lane.number, await lane.offer()))
        except SignalError as error:
            log.info("lane %d to %s: %s", lane.number, self._peer, error)

    async def _answer(self, lane: WebRtcLane, sdp: str) -> None:
        try:
            self._say(_Answer(lane.number, await lane.answer(sdp)))
        except SignalError as error:
            log.info("lane %d to %s: %s", lane.number, self._peer, error)

    async def _accept(self, lane: WebRtcLane, sdp: str) -> None:
        try:
            await lane.accept(sdp)
        except SignalError as error:
            log.info("lane %d to %s: %s", lane.number, self._peer, error)

    def _begin(self, number: int) -> WebRtcLane:
        """Known at once, so that `close` closes it however soon it comes."""
        lane = WebRtcLane(self._peer, number, self._events, self._servers, loopback=self._loopback)
        self._opening[number] = lane
        self._all.add(lane)
        self._loop.call_later(self._open_s, self._give_up, lane)
        return lane

    def _give_up(self, lane: WebRtcLane) -> None:
        if self._opening.get(lane.number) is lane:
            lane.close(f"not open within {self._open_s:g} s")

    # -- direct -------------------------------------------------------------------------------------

    def _near(self) -> tuple[str, str] | None:
        return self._control.near() if isinstance(self._control, WebRtcLane) else None

    async def _listen(self) -> None:
        """Let the peer dial. Where its connection does not get through, it listens and this side dials."""
        near = self._near()
        if self._identity is None or not self._certificate or near is None or self._closed:
            return
        if self._listener is not None:
            self._listener.close()
        number = self._number()
        try:
            self._listener = await listen(
                self._identity, self._certificate, near[0], self._direct, self._events, number, LISTEN_S
            )
        except DirectError as error:
            log.info("no direct lane from %s: %s", self._peer, error)
            return
        if self._closed:
            self._listener.close()
        self._say(_Listening(number, self._listener.port))

    async def _dial(self, number: int, port: int) -> None:
        near = self._near()
        try:
            if self._identity is None or not self._certificate or near is None:
                return
            self._direct(await dial(self._identity, self._certificate, near[1], port, self._events, number, DIAL_S))
        except DirectError as error:
            log.info("no direct lane to %s: %s", self._peer, error)
            if not self._first:
                await self._listen()
        finally:
            self._dialling.discard(number)

    def _direct(self, lane: DirectLane) -> None:
        self._all.add(lane)
        if self._closed:
            lane.close("the link was closed")

    # -- small things -------------------------------------------------------------------------------

    def _number(self) -> int:
        self._next += 2
        return self._next - 2

    def _say(self, said: _Said) -> None:
        if not self._closed:
            self._say_bytes(_say.encode(said))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
