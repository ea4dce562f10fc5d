"""One peer: a control lane and those beside it, made a link by a hello, a heartbeat, and a pump that fills them."""

from __future__ import annotations

import asyncio
import logging
import math
from collections import Counter, deque
from collections.abc import Callable
from enum import Enum
from typing import Any, Protocol

import msgspec

from desktop.bridge.transport import digest_of
from desktop.peers import ice
from desktop.peers.direct import Identity
from desktop.peers.lane import Lane
from desktop.peers.lanes import MEASURE_S, Lanes
from desktop.peers.packet import BYE_BYTES, Kind, Limits, Problem, Short, Whole, read, short
from desktop.peers.transfer import Acknowledged, Progress, Transfer
from desktop.peers.via import ViaLane
from desktop.peers.webrtc import WebRtcLane

log = logging.getLogger(__name__)

PACKETS_PER_SLICE = 2  # handed to lanes before the event loop gets its turn
# Without the control lane no message is acknowledged. But as long as others bring packets it may only be held up: SCTP
# waits 1, 2, 4 ... seconds when the same packet is lost again and again.
CONTROL_PATIENCE = 2  # times the silence after which a peer is lost
FAREWELL_S = 1.0  # how long a goodbye may take to be heard
CONFIRM_S = 0.05  # how long a packet may wait to be confirmed
QUEUED_REPLIES = 10_000  # pongs waiting for a peer that sends but does not read


class State(Enum):
    """See the diagram at `Link`."""

    CONNECTING = "connecting"
    OPEN = "open"
    CLOSING = "closing"
    CLOSED = "closed"


TRANSITIONS: dict[State, frozenset[State]] = {
    State.CONNECTING: frozenset((State.OPEN, State.CLOSED)),
    State.OPEN: frozenset((State.CLOSING, State.CLOSED)),
    State.CLOSING: frozenset((State.CLOSED,)),
    State.CLOSED: frozenset(),
}


class How(Enum):
    """Why a link ended."""

    OURS = "ours"  # this side closed it
    LEFT = "left"  # the peer said goodbye
    LOST = "lost"  # silent, or gone without a goodbye
    UNREACHED = "unreached"  # never opened
    BROKE = "broke"  # the peer broke the protocol
    REPLACED = "replaced"  # a better link to the same peer goes on with its messages


class LinkSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a link is made with. Seconds and bytes."""

    heartbeat_s: float = 2.0
    silent_s: float = 8.0
    open_s: float = 15.0
    drain_s: float = 10.0
    packet_size: int = 64 * 1024
    loopback: bool = False  # 127.0.0.1 only
    direct: bool = True  # try a TLS lane where both ends are in one network
    lanes: int = 8  # WebRTC lanes, at most
    limits: Limits = Limits()


class LinkStats(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about a link at one moment."""

    path: ice.Path = ice.Path()
    lanes: dict[str, int] = {}  # open ones by kind
    rtt_ms: float | None = None
    sent_bytes: int = 0
    received_bytes: int = 0
    last_seen_s: float = 0.0
    unsent_bytes: int = 0
    progress: tuple[Progress, ...] = ()
    gathered: dict[str, int] = {}
    remote_candidates: int = 0


class LinkEvents(Protocol):
    """What a link tells, on the loop. `link_closed` comes exactly once and last."""

    def link_hello(self, link: Link, hello: bytes) -> None:
        """The peer's first word. Answer with `begin` or `drop`."""

    def link_closed(self, link: Link, how: How, reason: str) -> None: ...

    def link_message(self, link: Link, message: Whole) -> None:
        """A whole message. The digest of a ROOM message has been checked, that of a TRAINER message has not:
        for it, `link.taken` is to be called."""

    def link_sent(self, link: Link, token: int) -> None: ...


class Link:
    """One peer. An explicit state machine; every method may be called in every state.

    ::

        CONNECTING --lane open, hello both ways, begin--> OPEN --close--> CLOSING
            |                                              |                |
            | 15 s, failed, close    bye, silent 8 s, lane |    drained and | 10 s, bye,
            v                        gone, broken packet   v      bye heard v silent 8 s
            +------------------------------------------> CLOSED <-----------+

    Its messages are in a `Transfer`, which it is given at `begin` and does not own: when the link ends, what is not
    acknowledged waits there for the next link to this peer. On entering CLOSED `link_closed` is emitted, then the
    lanes are taken down in the background; `close()` returns when that is done.
    """

    def __init__(
        self,
        peer: str,
        attempt: str,
        events: LinkEvents,
        settings: LinkSettings,
        clock: Callable[[], float],
        hello: Callable[[], bytes],
    ) -> None:
        self.peer = peer
        self.attempt = attempt
        self.state = State.CONNECTING
        self.control: WebRtcLane | ViaLane | None = None
        self.transfer: Transfer | None = None
        self.offered = ""  # the transfer that my hello has offered to go on with
        self._events = events
        self._settings = settings
        self._clock = clock
        self._hello = hello
        self._loop = asyncio.get_running_loop()
        self._lanes: Lanes | None = None
        self._turn = 0  # which bulk lane is next
        self._own: deque[bytes] = deque()  # hello, pings, pongs, goodbye: before everything else
        self._heard_hello = False
        self._pump_due = False
        self._timers: dict[str, asyncio.Handle] = {}
        self._silence = self._control_silence = 0.0  # seconds of a running loop without a packet from the peer
        self._last_tick = self._last_ping = self._last_seen = clock()
        self._pings: tuple[int, float] = (0, 0.0)  # number and time of the last ping
        self._rtt_s: float | None = None
        self._least_rtt_s: float | None = None  # that of the path, without what waits in buffers
        self._sent_bytes = self._received_bytes = 0
        self._measured: tuple[float, int] = (0.0, 0)  # when, and the bytes confirmed by then
        self._busy = False  # there was always bulk to send since then
        self._confirmed: dict[int, tuple[int, float]] = {}  # by lane: bytes confirmed, since when no more
        self._close_reason = ""
        self._ended = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    def connect(self, control: WebRtcLane | ViaLane) -> None:
        """Have this lane for the control lane; it is opened by whoever signals. Its events come here."""
        self.control = control
        self._later("open", self._settings.open_s, self._end, How.UNREACHED,
                    f"no answer within {self._settings.open_s:g} s")

    # -- opening ------------------------------------------------------------------------------------

    def lane_opened(self, lane: Lane) -> None:
        """LaneEvents."""
        if self.state is State.CLOSED:
            lane.close(self._close_reason)
        elif lane is self.control:
            self._own.append(short(Kind.HELLO, payload=self._hello()))
            self._wake()
        elif self.transfer is not None and self._lanes is not None:
            self.transfer.attach(lane.number, lane.window)
            self._lanes.opened(lane)
            self._wake()

    def begin(
        self, transfer: Transfer, servers: ice.Servers, *, first: bool, identity: Identity | None, certificate: bytes
    ) -> None:
        """The hello was good: messages may pass. `first`: this side has the smaller id. `certificate`: the peer's."""
        if self.state is not State.CONNECTING or self.control is None:
            return
        self._to(State.OPEN)
        self._cancel("open")
        self.transfer = transfer
        transfer.attach(self.control.number, self.control.window)
        settings = self._settings
        self._lanes = Lanes(
            self.peer, self, servers, self._say_of_lanes, self.control, first=first, most=settings.lanes,
            open_s=settings.open_s, loopback=settings.loopback,
            identity=identity if settings.direct else None, certificate=certificate,
        )
        self._silence = self._control_silence = 0.0
        self._last_tick = self._last_ping = self._last_seen = self._clock()
        self._measured = (self._last_tick, transfer.confirmed_bytes)
        self._tick()
        self._lanes.start()
        self._wake()

    def _say_of_lanes(self, data: bytes) -> None:
        if self.transfer is not None:
            self.transfer.send(Kind.LINK, data, digest_of(data))
            self._wake()

    def lane_closed(self, lane: Lane, reason: str) -> None:
        """LaneEvents."""
        if lane is self.control:
            self._end(How.UNREACHED if self.state is State.CONNECTING else How.LOST, reason)
            return
        if self._lanes is not None:
            self._lanes.closed(lane)
        if self.transfer is not None:
            self.transfer.detach(lane.number)
            self._confirmed.pop(lane.number, None)
        self._wake()

    # -- sending ------------------------------------------------------------------------------------

    def send(
        self,
        kind: Kind,
        data: bytes | bytearray | memoryview,
        digest: bytes,
        *,
        bulk: bool = False,
        token: int | None = None,
    ) -> None:
        """Hand over a message; never blocks. `link_sent` follows when there is a token, over this link or a later one.

        Control messages go before bulk ones, also between the packets of a bulk message. ValueError when it cannot be
        sent at all.
        """
        if self.transfer is None or self.state is not State.OPEN:
            raise ValueError(f"the link is {self.state.value}")
        self.transfer.send(kind, data, digest, bulk=bulk, token=token)
        self._wake()

    def taken(self, message: int) -> None:
        """This program has taken a whole message: acknowledge it."""
        if self.transfer is not None:
            self.transfer.taken(message)
            self._wake()

    def _say(self, kind: Kind, message: int = 0, payload: bytes = b"") -> None:
        if len(self._own) > QUEUED_REPLIES:
            self._end(How.BROKE, "it sends without reading")
            return
        self._own.append(short(kind, message, payload))
        self._wake()

    def _wake(self) -> None:
        """Let the pump run in the next turn of the loop. Never at once: this is called from within aiortc."""
        if not self._pump_due and self.state is not State.CLOSED:
            self._pump_due = True
            self._loop.call_soon(self._pump)

    def lane_writable(self, lane: Lane) -> None:
        """LaneEvents."""
        self._wake()

    def _pump(self) -> None:
        """Fill the lanes up to their high-water marks, a slice at a time; `lane_writable` calls again."""
        self._pump_due = False
        for _ in range(PACKETS_PER_SLICE):
            if self.state is State.CLOSED or not self._send_one():
                return
        self._wake()

    def _send_one(self) -> bool:
        """One packet on its way: control first, then bulk, the lanes in turn."""
        control, transfer = self.control, self.transfer
        if control is not None and control.writable:
            packet = self._own.popleft() if self._own else None
            if packet is None and transfer is not None:
                packet = transfer.next_packet(control.number, control=True, bulk=False)
            if packet is not None:
                self._put(control, packet)
                return True
        if transfer is None or self._lanes is None:
            return False
        bulk = self._lanes.bulk
        lanes = [*self._lanes.open.values(), *([control] if control is not None else [])]
        for step in range(len(lanes)):
            lane = lanes[(self._turn + step) % len(lanes)]
            if not lane.writable:
                continue
            packet = transfer.next_packet(lane.number, control=False, bulk=lane in bulk)
            if packet is not None:
                self._turn = (self._turn + step + 1) % len(lanes)
                self._put(lane, packet)
                return True
        return False

    def _put(self, lane: Lane, packet: bytes) -> None:
        lane.send(packet)
        self._sent_bytes += len(packet)

    # -- receiving ----------------------------------------------------------------------------------

    def lane_packet(self, lane: Lane, packet: bytes | memoryview) -> None:
        """LaneEvents."""
        self._received_bytes += len(packet)
        self._last_seen = self._clock()
        self._silence = 0.0
        if lane is self.control:
            self._control_silence = 0.0
        if self.state is State.CLOSED:
            return
        if not self._heard_hello:
            self._take_hello(packet)
        elif self.transfer is not None:
            self._take(self.transfer.receive(lane.number, packet))

    def _take_hello(self, packet: bytes | memoryview) -> None:
        """The first packet must be a hello; nothing else is looked at before."""
        it = read(packet)
        if isinstance(it, Problem):
            self._broken(it.why)
        elif it.kind is Kind.HELLO:
            self._heard_hello = True
            self._tell(self._events.link_hello, self, bytes(it.payload))
        elif it.kind is Kind.BYE:
            self._short(Short(it.kind, it.message, bytes(it.payload)))
        else:
            self._broken("a message before the hello")

    def _take(self, event: object) -> None:
        if isinstance(event, Whole):
            self._whole(event)
        elif isinstance(event, Short):
            self._short(event)
        elif isinstance(event, Acknowledged):
            if event.token is not None:
                self._tell(self._events.link_sent, self, event.token)
            self._say_goodbye_when_drained()
        elif isinstance(event, Problem):
            self._broken(event.why)
        if self.transfer is not None and self.transfer.owes_got and "confirm" not in self._timers:
            self._later("confirm", CONFIRM_S, self._confirm)
        self._wake()  # a packet may have confirmed others, or wait to be confirmed

    def _confirm(self) -> None:
        del self._timers["confirm"]
        if self.transfer is not None:
            self.transfer.hurry()
            self._wake()

    def _whole(self, message: Whole) -> None:
        if message.kind is Kind.TRAINER:
            self._tell(self._events.link_message, self, message)
            return
        if digest_of(message.data) != message.digest:
            self._broken(f"message {message.message} does not match its digest")
            return
        self.taken(message.message)
        if message.kind is Kind.LINK:
            if self._lanes is not None and (wrong := self._lanes.heard(message.data)):
                self._broken(wrong)
        else:
            self._tell(self._events.link_message, self, message)

    def _short(self, event: Short) -> None:
        if event.kind is Kind.PING:
            self._say(Kind.PONG, event.message)
        elif event.kind is Kind.PONG:
            number, at = self._pings
            if event.message == number:
                rtt = self._clock() - at
                self._rtt_s = rtt if self._rtt_s is None else 0.75 * self._rtt_s + 0.25 * rtt
                self._least_rtt_s = rtt if self._least_rtt_s is None else min(rtt, self._least_rtt_s)
        elif event.kind is Kind.BYE:
            self._end(How.LEFT, event.payload.decode("utf-8", "replace") or "goodbye")
        elif event.kind is Kind.HELLO:
            self._broken("a second hello")

    def _broken(self, why: str) -> None:
        self._end(How.BROKE, why, goodbye=f"the protocol was broken: {why}")

    # -- heartbeat ----------------------------------------------------------------------------------

    def _tick(self) -> None:
        """Four times a heartbeat: count the silence, ping, let half-received messages expire.

        A tick that comes late means that this program stood still (a closed lid, a stopped process); that is not the
        peer's silence, and what it sent meanwhile waits to be read. So each tick counts as two at most. But a peer that
        heard nothing for so long has given this link up, most likely: it has only `heartbeat_s` to show itself.
        """
        now, step = self._clock(), self._settings.heartbeat_s / 4
        assert self.transfer is not None
        passed = now - self._last_tick
        self._silence += min(passed, 2 * step)
        self._control_silence += min(passed, 2 * step)
        self.transfer.excuse(max(0.0, passed - 2 * step))
        self._last_tick = now
        if passed > self._settings.silent_s:
            self._silence = max(self._silence, self._settings.silent_s - self._settings.heartbeat_s)
            self._last_ping = -math.inf
        if self._silence >= self._settings.silent_s:
            self._end(How.LOST, f"silent for {self._settings.silent_s:g} s")
            return
        if self._control_silence >= CONTROL_PATIENCE * self._settings.silent_s:
            self._end(How.LOST, "its control lane carries nothing any more")
            return
        if now - self._last_ping >= self._settings.heartbeat_s or self._pings[0] == 0:
            self._last_ping = now
            self._pings = ((self._pings[0] + 1) % 2**32, now)
            self._say(Kind.PING, self._pings[0])
        if problems := self.transfer.expire():
            self._broken(problems[0].why)
            return
        self._measure(now)
        self._later("tick", step, self._tick)

    def _measure(self, now: float) -> None:
        """What the lanes carry: how many pay is decided by it, and one that carries nothing any more is closed."""
        transfer, lanes = self.transfer, self._lanes
        assert transfer is not None
        assert lanes is not None
        self._busy = self._busy and transfer.has_bulk()
        since, before = self._measured
        if now - since < MEASURE_S:
            return
        confirmed = transfer.confirmed_bytes
        lanes.measured(now, (confirmed - before) / (now - since), busy=self._busy, rtt_s=self._least_rtt_s)
        self._measured, self._busy = (now, confirmed), transfer.has_bulk()
        for lane in list(lanes.open.values()):
            count = transfer.confirmed(lane.number)
            known, at = self._confirmed.get(lane.number, (-1, now))
            if count != known or not transfer.unconfirmed(lane.number):
                self._confirmed[lane.number] = (count, now)
            elif now - at > self._settings.silent_s:
                lane.close(f"it carried nothing for {self._settings.silent_s:g} s")

    # -- closing ------------------------------------------------------------------------------------

    async def close(self, reason: str) -> None:
        """Send what is queued (for `drain_s` at most), say goodbye, take everything down. Idempotent."""
        if self.state is State.OPEN:
            self._to(State.CLOSING)
            self._close_reason = reason
            self._later("drain", self._settings.drain_s, self._end, How.OURS, reason)
            self._say_goodbye_when_drained()
        elif self.state is State.CONNECTING:
            self._end(How.OURS, reason)
        await self._ended.wait()

    def drop(self, reason: str) -> None:
        """Close at once: nothing more is sent but a goodbye, nothing more is taken. `close()` waits for the end."""
        self._end(How.OURS, reason, goodbye=reason)

    def lose(self, reason: str) -> None:
        """Close at once as lost: the peer has no use for this link any more, but its messages wait for another."""
        self._end(How.LOST if self.transfer is not None else How.UNREACHED, reason, goodbye="")

    def replace(self) -> None:
        """Close at once and without a word: another link to this peer goes on with the messages."""
        self._end(How.REPLACED, "a better way was found")

    def _say_goodbye_when_drained(self) -> None:
        transfer = self.transfer
        if self.state is not State.CLOSING or transfer is None or transfer.outstanding or "farewell" in self._timers:
            return
        # The peer closes its end when it hears this, which ends ours; it may also have gone by now.
        self._say(Kind.BYE, payload=_reason_bytes(self._close_reason))
        self._later("farewell", FAREWELL_S, self._end, How.OURS, self._close_reason)

    def _end(self, how: How, reason: str, goodbye: str = "") -> None:
        if self.state is State.CLOSED:
            return
        if self.state is State.CLOSING:
            how, reason = How.OURS, self._close_reason
        said_goodbye = "farewell" in self._timers or how is How.LEFT
        self._to(State.CLOSED)
        self._close_reason = reason
        for name in list(self._timers):
            self._cancel(name)
        self._own.clear()
        control, lanes, transfer = self.control, self._lanes, self.transfer
        linger_s = 0.0
        if goodbye and not said_goodbye and control is not None:
            control.send(short(Kind.BYE, payload=_reason_bytes(goodbye)))
            linger_s = FAREWELL_S
        if transfer is not None and lanes is not None and control is not None:
            for number in (*lanes.open, control.number):
                transfer.detach(number)
        self.transfer = None
        if lanes is not None:
            lanes.close(reason)
        if control is not None:
            control.close(reason, linger_s=linger_s)
        self._tell(self._events.link_closed, self, how, reason)
        self._spawn(self._take_down())

    async def _take_down(self) -> None:
        try:
            if self._lanes is not None:
                await self._lanes.ended()
            if self.control is not None:
                await self.control.ended()
        finally:
            self._ended.set()

    # -- small things -------------------------------------------------------------------------------

    @property
    def through(self) -> str:
        """The member between; "" when there is none."""
        return self.control.through if isinstance(self.control, ViaLane) else ""

    @property
    def offline(self) -> bool:
        """No candidate that another computer could reach, though one was wanted."""
        return isinstance(self.control, WebRtcLane) and self.control.offline

    def stats(self) -> LinkStats:
        """Facts for the members table."""
        webrtc = self.control if isinstance(self.control, WebRtcLane) else None
        transfer = self.transfer
        kinds = Counter(lane.kind for lane in self._lanes.open.values()) if self._lanes is not None else Counter()
        if self.control is not None and self.transfer is not None:
            kinds[self.control.kind] += 1
        return LinkStats(
            path=webrtc.path if webrtc else ice.Path(),
            lanes=dict(kinds),
            rtt_ms=None if self._rtt_s is None else self._rtt_s * 1000,
            sent_bytes=self._sent_bytes,
            received_bytes=self._received_bytes,
            last_seen_s=max(0.0, self._clock() - self._last_seen),
            unsent_bytes=transfer.unsent if transfer else 0,
            progress=transfer.progress() if transfer else (),
            gathered=webrtc.gathered if webrtc else {},
            remote_candidates=webrtc.remote_candidates if webrtc else 0,
        )

    def _to(self, state: State) -> None:
        if state not in TRANSITIONS[self.state]:
            raise RuntimeError(f"link to {self.peer}: {self.state.value} -> {state.value}")
        log.debug("link to %s: %s -> %s", self.peer, self.state.value, state.value)
        self.state = state

    def _later(self, name: str, delay: float, call: Callable[..., None], *arguments: object) -> None:
        self._cancel(name)
        self._timers[name] = self._loop.call_later(delay, call, *arguments)

    def _cancel(self, name: str) -> None:
        if (timer := self._timers.pop(name, None)) is not None:
            timer.cancel()

    def _tell(self, call: Callable[..., None], *arguments: object) -> None:
        """An exception in a handler is not the lane's that was just reading, nor this link's."""
        try:
            call(*arguments)
        except Exception as error:
            self._loop.call_exception_handler({"message": f"link to {self.peer}", "exception": error})

    def _spawn(self, work: Any) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _reason_bytes(reason: str) -> bytes:
    return reason.encode()[:BYE_BYTES]
