"""One peer: a WebRTC connection with one data channel, made a link by queues, acknowledgements and a heartbeat."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import PurePath
from typing import Any, Protocol

import msgspec
from aiortc import (
    RTCDataChannel,
    RTCIceTransportPolicy,
    RTCPeerConnection,
    RTCSessionDescription,
)
from aiortc.sdp import candidate_from_sdp

from desktop.bridge.transport import digest_of
from desktop.errors import SignalError
from desktop.peers import ice
from desktop.peers.packet import (
    BYE_BYTES,
    FIRST_HEADER,
    MAX_PACKET,
    Kind,
    Limits,
    Problem,
    Reassembler,
    Short,
    Whole,
    short,
    split,
)
from desktop.peers.sctp import adjust

log = logging.getLogger(__name__)

LOW_WATER = 64 * 1024  # bytes in aiortc's buffer at which it is filled again
HIGH_WATER = 256 * 1024  # and up to which: no control message waits behind more than this
PACKETS_PER_SLICE = 2  # handed to aiortc before the event loop gets its turn
FAREWELL_S = 1.0  # how long a goodbye may take to be heard
GATHER_S = 2.0  # how long closing waits for candidates that are being gathered
CLOSE_S = 5.0  # how long aiortc may take to close
QUEUED_REPLIES = 10_000  # acknowledgements and pongs waiting for a peer that sends but does not read
EARLY_PACKETS = 64  # packets that overtook the opening of the channel
MIN_PACKET = 2 * FIRST_HEADER.size


class State(Enum):
    """See the diagram at `Link`."""

    NEW = "new"
    CONNECTING = "connecting"
    OPEN = "open"
    CLOSING = "closing"
    CLOSED = "closed"


TRANSITIONS: dict[State, frozenset[State]] = {
    State.NEW: frozenset((State.CONNECTING, State.CLOSED)),
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


class LinkSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a link is made with. Seconds and bytes."""

    heartbeat_s: float = 2.0
    silent_s: float = 8.0
    open_s: float = 15.0
    drain_s: float = 10.0
    packet_size: int = 64 * 1024
    loopback: bool = False  # 127.0.0.1 only
    limits: Limits = Limits()


class LinkStats(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about a link at one moment."""

    path: ice.Path = ice.Path()
    rtt_ms: float | None = None
    sent_bytes: int = 0
    received_bytes: int = 0
    last_seen_s: float = 0.0
    unsent_bytes: int = 0
    gathered: dict[str, int] = {}
    remote_candidates: int = 0


class LinkEvents(Protocol):
    """What a link tells, on the loop. `link_closed` comes exactly once and last."""

    def link_opened(self, link: Link) -> None: ...

    def link_closed(self, link: Link, how: How, reason: str) -> None: ...

    def link_message(self, link: Link, kind: Kind, data: memoryview, digest: bytes) -> None:
        """A whole message. The digest of a ROOM message has been checked, that of a TRAINER message has not."""

    def link_sent(self, link: Link, token: int) -> None: ...

    def link_failed(self, link: Link, token: int, reason: str) -> None: ...

    def link_unsent(self, link: Link, size: int) -> None: ...


@dataclass(slots=True)
class _Outgoing:
    """A message handed over and not acknowledged yet. The mesh's own have no token and are not counted."""

    token: int | None
    size: int


class Link:
    """One peer. An explicit state machine; every method may be called in every state.

    ::

        NEW --offer/answer--> CONNECTING --channel open--> OPEN --close--> CLOSING
         |                        |                          |                |
         |          15 s, failed, | close     bye, silent 8 s,|   drained and  | 10 s, bye,
         | close                  v           broken packet, v     bye heard, v silent 8 s
         +--------------------> CLOSED <-----------------------------------------+

    On entering CLOSED: what is not acknowledged fails, `link_closed` is emitted, then aiortc is taken down in the
    background; `close()` returns when that is done.
    """

    def __init__(
        self,
        peer: str,
        events: LinkEvents,
        settings: LinkSettings,
        servers: ice.Servers,
        clock: Callable[[], float],
    ) -> None:
        self.peer = peer
        self.state = State.NEW
        self.offline = False  # no candidate that another computer could reach, though one was wanted
        self._events = events
        self._settings = settings
        self._servers = servers
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._connection: RTCPeerConnection | None = None
        self._channel: RTCDataChannel | None = None
        self._candidates: list[tuple[str, str]] = []  # came before the remote description
        self._remote_known = False
        self._relay_only = False
        self._description_lock = asyncio.Lock()
        self._packet_size = settings.packet_size
        self._reassembler = Reassembler(settings.limits, clock)
        self._control: deque[Iterator[bytes]] = deque()
        self._bulk: deque[Iterator[bytes]] = deque()
        self._outgoing: dict[int, _Outgoing] = {}
        self._next_message = 0
        self._early: list[bytes | str] = []
        self._pump_due = False
        self._unsent = 0
        self._unsent_due = False
        self._timers: dict[str, asyncio.Handle] = {}
        self._silence = 0.0  # seconds of a running loop without a packet from the peer
        self._last_tick = self._last_ping = self._last_seen = clock()
        self._pings: tuple[int, float] = (0, 0.0)  # number and time of the last ping
        self._rtt_s: float | None = None
        self._sent_bytes = self._received_bytes = 0
        self._close_reason = ""
        self._channel_closed = asyncio.Event()
        self._ended = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        _keep_transport_errors_quiet(self._loop)

    # -- opening ------------------------------------------------------------------------------------

    async def offer(self) -> str:
        """Begin, and give the description for the peer. Raises SignalError when the link is closed meanwhile."""
        connection = await self._begin()
        async with self._describing("cannot be made"):
            await connection.setLocalDescription()
        return self._local_description(connection)

    async def answer(self, offer: str) -> str:
        """Begin with the peer's offer, and give the answer. Raises SignalError when the offer cannot be used."""
        connection = await self._begin()
        await self._take_description(connection, "offer", offer)
        async with self._describing("cannot be answered"):
            await connection.setLocalDescription()
        return self._local_description(connection)

    async def accept(self, answer: str) -> None:
        """Take the peer's answer; a repeated one is ignored. Raises SignalError when it cannot be used."""
        if self._connection is None or self.state is not State.CONNECTING or self._remote_known:
            return
        await self._take_description(self._connection, "answer", answer)

    async def add_candidate(self, line: str, mid: str = "0") -> None:
        """Take a remote candidate ("candidate:..." or without that word). It waits for the description if that has
        not come; an empty one is skipped; one that cannot be read is logged."""
        line = line.strip().removeprefix("candidate:")
        if not line or self.state not in (State.NEW, State.CONNECTING):
            return
        if not self._remote_known:
            if len(self._candidates) < 100:  # as many as ICE would check
                self._candidates.append((line, mid))
            return
        await self._add_now(line, mid)

    async def _begin(self) -> RTCPeerConnection:
        self._to(State.CONNECTING)
        self._later("open", self._settings.open_s, self._end, How.UNREACHED,
                    f"no answer within {self._settings.open_s:g} s")
        configuration = await self._servers.configuration()
        self._check_alive()
        connection = self._connection = RTCPeerConnection(configuration)
        channel = self._channel = connection.createDataChannel("link", negotiated=True, id=0)
        adjust(connection.sctp)
        self._relay_only = configuration.iceTransportPolicy is RTCIceTransportPolicy.RELAY
        if not self._relay_only:
            ice.allow_loopback(connection, only=self._settings.loopback)
        channel.bufferedAmountLowThreshold = LOW_WATER
        channel.on("open", self._guarded(self._opened))
        channel.on("message", self._guarded(self._received))
        channel.on("bufferedamountlow", self._guarded(self._wake))
        channel.on("close", self._guarded(self._closed_by_transport))
        connection.on("connectionstatechange", self._guarded(self._connection_changed))
        return connection

    async def _take_description(self, connection: RTCPeerConnection, kind: str, sdp: str) -> None:
        plain, named = ice.hold_back_names(sdp)
        takes = ice.max_message_size(sdp) or MAX_PACKET
        self._packet_size = min(self._settings.packet_size, takes, MAX_PACKET)
        async with self._describing("cannot be used"):
            if "\nm=application " not in plain:
                raise ValueError("no data channel in it")
            if not named and "\na=candidate:" not in plain and "\na=end-of-candidates" in plain:
                raise ValueError("no network address in it")
            if self._packet_size < MIN_PACKET:
                raise ValueError(f"packets of {self._packet_size} bytes are too small")
            await connection.setRemoteDescription(RTCSessionDescription(sdp=plain, type=kind))
        self._remote_known = True
        waiting, self._candidates = self._candidates, []
        for line, mid in waiting:
            await self._add_now(line, mid)
        if named:
            self._spawn(self._add_named(connection, named))

    async def _add_named(self, connection: RTCPeerConnection, lines: list[str]) -> None:
        """Candidates whose address must be looked up on the LAN: aside, as each may take a second."""
        await asyncio.gather(*(self._add_now(line, "0") for line in lines))
        with contextlib.suppress(Exception):
            await connection.addIceCandidate(None)

    async def _add_now(self, line: str, mid: str) -> None:
        try:
            candidate = candidate_from_sdp(line)
            candidate.sdpMid = mid
            if self._connection is not None:
                await self._connection.addIceCandidate(candidate)
        except Exception as error:  # aiortc raises whatever its parser meets; one candidate less is no disaster
            log.info("%s: a candidate could not be used: %r", self.peer, error)

    def _local_description(self, connection: RTCPeerConnection) -> str:
        self._check_alive()
        self.offline = ice.is_offline(connection) and not (self._relay_only or self._settings.loopback)
        if not ice.gathered(connection):  # aiortc would stay "new" for ever, without an event
            self._end(How.UNREACHED, "no relay gave an address" if self._relay_only else "no network address")
            self._check_alive()
        return str(connection.localDescription.sdp)

    @contextlib.asynccontextmanager
    async def _describing(self, what: str) -> AsyncIterator[None]:
        """aiortc's parser and state checks raise many kinds of errors on what a peer sends: all become one.

        The lock lets `_take_down` wait: aioice would go on opening sockets on a connection that is closed already.
        """
        async with self._description_lock:
            try:
                yield
            except Exception as error:
                log.info("%s: description %s", self.peer, what, exc_info=True)
                self._end(How.UNREACHED, f"its description {what}")
                raise SignalError(peer=self.peer, why=f"the description {what} ({error})") from error
        self._check_alive()

    def _check_alive(self) -> None:
        if self.state is State.CLOSED:
            raise SignalError(peer=self.peer, why=f"the link was closed ({self._close_reason})")

    def _opened(self) -> None:
        if self.state is not State.CONNECTING:
            return
        self._to(State.OPEN)
        self._cancel("open")
        self._silence = 0.0
        self._last_tick = self._last_ping = self._last_seen = self._clock()
        self._tick()
        self._events.link_opened(self)
        early, self._early = self._early, []
        for data in early:
            self._received(data)

    def _connection_changed(self) -> None:
        if self._connection is not None and self._connection.connectionState in ("failed", "closed"):
            self._closed_by_transport()

    def _closed_by_transport(self) -> None:
        self._channel_closed.set()
        if self.state is State.CONNECTING:
            self._end(How.UNREACHED, "the connection could not be set up")
        elif self.state in (State.OPEN, State.CLOSING):
            self._end(How.LOST, "the connection ended without a goodbye")

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
        """Hand over a message; never blocks. `link_sent` or `link_failed` follows when there is a token.

        Control messages go before bulk ones, also between the packets of a bulk message.
        """
        if self.state is not State.OPEN:
            self._fail_soon(token, f"the link is {self.state.value}")
            return
        message = self._new_message()
        try:
            packets = split(kind, message, data, digest, self._packet_size)
        except (ValueError, TypeError) as error:
            self._fail_soon(token, str(error))
            return
        size = memoryview(data).nbytes if token is not None else 0
        self._outgoing[message] = _Outgoing(token, size)
        (self._bulk if bulk else self._control).append(packets)
        self._count_unsent(size)
        self._wake()

    def _new_message(self) -> int:
        while True:  # ends: far fewer than 2^32 can be on their way
            self._next_message = (self._next_message + 1) % 2**32
            if self._next_message not in self._outgoing:
                return self._next_message

    def _fail_soon(self, token: int | None, reason: str) -> None:
        if token is not None:
            self._loop.call_soon(self._events.link_failed, self, token, reason)

    def _say(self, kind: Kind, message: int = 0, payload: bytes = b"") -> None:
        if len(self._control) > QUEUED_REPLIES:
            self._end(How.BROKE, "it sends without reading")
            return
        self._control.append(iter((short(kind, message, payload),)))
        self._wake()

    def _wake(self) -> None:
        """Let the pump run in the next turn of the loop. Never at once: this is called from within aiortc."""
        if not self._pump_due and self.state in (State.OPEN, State.CLOSING):
            self._pump_due = True
            self._loop.call_soon(self._pump)

    def _pump(self) -> None:
        """Fill aiortc's buffer up to the high-water mark, a slice at a time. `bufferedamountlow` calls again."""
        self._pump_due = False
        channel = self._channel
        for _ in range(PACKETS_PER_SLICE):
            if channel is None or channel.readyState != "open" or channel.bufferedAmount >= HIGH_WATER:
                return
            packet = self._next_packet()
            if packet is None:
                return
            channel.send(packet)
            self._sent_bytes += len(packet)
        self._wake()

    def _next_packet(self) -> bytes | None:
        for queue in (self._control, self._bulk):
            while queue:
                packet = next(queue[0], None)
                if packet is not None:
                    return packet
                queue.popleft()
        return None

    def _count_unsent(self, change: int) -> None:
        self._unsent += change
        if change and not self._unsent_due:
            self._unsent_due = True
            self._loop.call_soon(self._tell_unsent)

    def _tell_unsent(self) -> None:
        self._unsent_due = False
        self._events.link_unsent(self, self._unsent)

    # -- receiving ----------------------------------------------------------------------------------

    def _received(self, data: bytes | str) -> None:
        self._received_bytes += len(data)
        self._silence = 0.0
        self._last_seen = self._clock()
        if self.state is State.CONNECTING and len(self._early) < EARLY_PACKETS:
            self._early.append(data)
        if self.state not in (State.OPEN, State.CLOSING):
            return
        if isinstance(data, str):
            self._broken("text instead of a packet")
            return
        event = self._reassembler.receive(data)
        if isinstance(event, Whole):
            self._whole(event)
        elif isinstance(event, Short):
            self._short(event)
        elif isinstance(event, Problem):
            self._broken(event.why)

    def _whole(self, event: Whole) -> None:
        if event.kind is Kind.ROOM and digest_of(event.data) != event.digest:
            self._broken(f"message {event.message} does not match its digest")
            return
        self._say(Kind.ACK, event.message)
        self._events.link_message(self, event.kind, event.data, event.digest)

    def _short(self, event: Short) -> None:
        if event.kind is Kind.ACK:
            self._acknowledged(event.message)
        elif event.kind is Kind.PING:
            self._say(Kind.PONG, event.message)
        elif event.kind is Kind.PONG:
            number, at = self._pings
            if event.message == number:
                rtt = self._clock() - at
                self._rtt_s = rtt if self._rtt_s is None else 0.75 * self._rtt_s + 0.25 * rtt
        elif event.kind is Kind.BYE:
            self._end(How.LEFT, event.payload.decode("utf-8", "replace") or "goodbye")

    def _acknowledged(self, message: int) -> None:
        outgoing = self._outgoing.pop(message, None)
        if outgoing is None:
            self._broken(f"an acknowledgement for message {message}, which is not on its way")
            return
        self._count_unsent(-outgoing.size)
        if outgoing.token is not None:
            self._events.link_sent(self, outgoing.token)
        self._say_goodbye_when_drained()

    def _broken(self, why: str) -> None:
        self._end(How.BROKE, why, goodbye=f"the protocol was broken: {why}")

    # -- heartbeat ----------------------------------------------------------------------------------

    def _tick(self) -> None:
        """Four times a heartbeat: count the silence, ping, let half-received messages expire.

        A tick that comes late means that this program stood still (a closed lid, a stopped process); that is not the
        peer's silence, and what it sent meanwhile waits to be read. So each tick counts as two at most.
        """
        now, step = self._clock(), self._settings.heartbeat_s / 4
        self._silence += min(now - self._last_tick, 2 * step)
        self._last_tick = now
        if self._silence >= self._settings.silent_s:
            self._end(How.LOST, f"silent for {self._settings.silent_s:g} s")
            return
        if now - self._last_ping >= self._settings.heartbeat_s or self._pings[0] == 0:
            self._last_ping = now
            self._pings = ((self._pings[0] + 1) % 2**32, now)
            self._say(Kind.PING, self._pings[0])
        problems = self._reassembler.expire()
        if problems:
            self._broken(problems[0].why)
            return
        self._later("tick", step, self._tick)

    # -- closing ------------------------------------------------------------------------------------

    async def close(self, reason: str) -> None:
        """Send what is queued (for `drain_s` at most), say goodbye, take everything down. Idempotent."""
        if self.state is State.OPEN:
            self._to(State.CLOSING)
            self._close_reason = reason
            self._later("drain", self._settings.drain_s, self._end, How.OURS, reason)
            self._say_goodbye_when_drained()
        elif self.state in (State.NEW, State.CONNECTING):
            self._end(How.OURS, reason)
        await self._ended.wait()

    def drop(self, reason: str) -> None:
        """Close at once: nothing more is sent but a goodbye, nothing more is taken. `close()` waits for the end."""
        self._end(How.OURS, reason, goodbye=reason)

    def _say_goodbye_when_drained(self) -> None:
        if self.state is not State.CLOSING or self._outgoing or "farewell" in self._timers:
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
        for queue in (self._control, self._bulk, self._early):
            queue.clear()
        self._reassembler.clear()
        outgoing, self._outgoing = self._outgoing, {}
        for each in outgoing.values():
            self._count_unsent(-each.size)
            if each.token is not None:
                self._events.link_failed(self, each.token, reason)
        self._events.link_closed(self, how, reason)
        self._spawn(self._take_down("" if said_goodbye else goodbye))

    async def _take_down(self, goodbye: str) -> None:
        """Close aiortc's side, and wait until nothing of it runs any more."""
        try:
            channel, connection = self._channel, self._connection
            if goodbye and channel is not None and channel.readyState == "open":
                channel.send(short(Kind.BYE, payload=_reason_bytes(goodbye)))
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._channel_closed.wait(), FAREWELL_S)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._description_lock.acquire(), GATHER_S)
            if connection is not None:
                tasks = _tasks_of(connection)
                await asyncio.wait_for(connection.close(), CLOSE_S)
                for task in tasks:
                    task.cancel()
                if tasks:
                    await asyncio.wait(tasks, timeout=CLOSE_S)
        except Exception as error:  # the peer is gone; there is nobody to whom this would matter
            log.info("%s: closing: %r", self.peer, error)
        finally:
            self._ended.set()

    # -- small things -------------------------------------------------------------------------------

    def stats(self) -> LinkStats:
        """Facts for the members table."""
        alive = self._connection is not None and self.state is not State.CLOSED
        return LinkStats(
            path=ice.chosen_path(self._connection) if alive and self._connection else ice.Path(),
            rtt_ms=None if self._rtt_s is None else self._rtt_s * 1000,
            sent_bytes=self._sent_bytes,
            received_bytes=self._received_bytes,
            last_seen_s=max(0.0, self._clock() - self._last_seen),
            unsent_bytes=self._unsent,
            gathered=ice.gathered(self._connection) if alive and self._connection else {},
            remote_candidates=ice.remote_candidates(self._connection) if alive and self._connection else 0,
        )

    @property
    def buffered_bytes(self) -> int:
        """Bytes that wait inside aiortc; at most HIGH_WATER and one packet."""
        return self._channel.bufferedAmount if self._channel is not None else 0

    @property
    def packet_size(self) -> int:
        """The packet size agreed on; before the remote description the one wished for."""
        return self._packet_size

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

    def _spawn(self, work: Any) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _guarded(self, handler: Callable[..., None]) -> Callable[..., None]:
        """An exception in a handler would end aiortc's receiving task, and the link with it, unexplained."""

        def call(*arguments: Any) -> None:
            try:
                handler(*arguments)
            except Exception as error:
                self._loop.call_exception_handler({"message": f"link to {self.peer}", "exception": error})

        return call


def _reason_bytes(reason: str) -> bytes:
    return reason.encode()[:BYE_BYTES]


def _tasks_of(connection: RTCPeerConnection) -> list[asyncio.Task[Any]]:
    """What runs in the background for this connection: aiortc and aioice end some of their tasks late, or never."""
    sctp = connection.sctp
    parts: list[Any] = [connection]
    if sctp is not None:
        transport = sctp.transport.transport
        parts += [sctp, sctp.transport, transport, transport.iceGatherer, getattr(transport, "_connection", None)]
    owners = {id(part) for part in parts}
    found = []
    for task in asyncio.all_tasks():
        frame = getattr(task.get_coro(), "cr_frame", None)
        names = frame.f_locals if frame is not None else {}
        if not owners.isdisjoint((id(names.get("self")), id(getattr(names.get("protocol"), "receiver", None)))):
            found.append(task)
    return found


def _keep_transport_errors_quiet(loop: asyncio.AbstractEventLoop) -> None:
    """Errors in the background tasks of aiortc and aioice go to the log alone.

    After a peer's death these tasks fail with ConnectionError and the like; nobody awaits them, so asyncio would
    report each to the loop's handler, which shows errors to people. The link itself learns of the death by its
    heartbeat and by the channel's events. All else goes to the handler that was there before.
    """
    before = loop.get_exception_handler()
    if getattr(before, "of_links", False):
        return

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if _is_of_transport(context.get("task") or context.get("future")):
            log.info("in the transport: %s: %r", context.get("message"), context.get("exception"))
        elif before is not None:
            before(loop, context)
        else:
            loop.default_exception_handler(context)

    handle.of_links = True  # type: ignore[attr-defined]
    loop.set_exception_handler(handle)


def _is_of_transport(task: object) -> bool:
    code = getattr(task.get_coro(), "cr_code", None) if isinstance(task, asyncio.Task) else None
    return code is not None and not {"aiortc", "aioice"}.isdisjoint(PurePath(code.co_filename).parts)
