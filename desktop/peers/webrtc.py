"""A WebRTC lane: one RTCPeerConnection with one data channel, from the offer to the end of its last task."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from enum import Enum
from pathlib import PurePath
from typing import Any

from aiortc import (
    RTCDataChannel,
    RTCIceTransportPolicy,
    RTCPeerConnection,
    RTCSessionDescription,
)
from aiortc.sdp import candidate_from_sdp

from desktop.errors import SignalError
from desktop.peers import ice
from desktop.peers.lane import LaneEvents
from desktop.peers.packet import MAX_PACKET
from desktop.peers.sctp import adjust

log = logging.getLogger(__name__)

LOW_WATER = 64 * 1024  # bytes in aiortc's buffer at which it is filled again
HIGH_WATER = 256 * 1024  # and up to which: no control message waits behind more than this
WINDOW = 4 * 1024 * 1024  # more than any such lane carries in a round trip
GATHER_S = 2.0  # how long closing waits for candidates that are being gathered
CLOSE_S = 5.0  # how long aiortc may take to close
CLOSINGS = 3  # times that its tasks are looked for
EARLY_PACKETS = 64  # packets that overtook the opening of the channel


class State(Enum):
    """NEW --offer/answer--> CONNECTING --channel open--> OPEN; from each of them to CLOSED, for good."""

    NEW = "new"
    CONNECTING = "connecting"
    OPEN = "open"
    CLOSED = "closed"


class WebRtcLane:
    """One connection to `peer`. Every method may be called in every state."""

    kind = "webrtc"
    window = WINDOW

    def __init__(self, peer: str, number: int, events: LaneEvents, servers: ice.Servers, *, loopback: bool) -> None:
        self.peer = peer
        self.number = number
        self.state = State.NEW
        self.offline = False  # no candidate that another computer could reach, though one was wanted
        self.takes = MAX_PACKET  # the largest packet that the peer's description allows, in bytes
        self._events = events
        self._servers = servers
        self._loopback = loopback
        self._loop = asyncio.get_running_loop()
        self._connection: RTCPeerConnection | None = None
        self._channel: RTCDataChannel | None = None
        self._candidates: list[tuple[str, str]] = []  # came before the remote description
        self._remote_known = False
        self._relay_only = False
        self._description_lock = asyncio.Lock()
        self._early: list[bytes] = []
        self._reason = ""
        self._channel_closed = asyncio.Event()
        self._ended = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        _keep_transport_errors_quiet(self._loop)

    # -- opening ------------------------------------------------------------------------------------

    async def offer(self) -> str:
        """Begin, and give the description for the peer. Raises SignalError when the lane is closed meanwhile."""
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
        self._check_alive()
        self.state = State.CONNECTING
        configuration = await self._servers.configuration()
        self._check_alive()
        connection = self._connection = RTCPeerConnection(configuration)
        channel = self._channel = connection.createDataChannel("link", negotiated=True, id=0)
        adjust(connection.sctp)
        self._relay_only = configuration.iceTransportPolicy is RTCIceTransportPolicy.RELAY
        if not self._relay_only:
            ice.allow_loopback(connection, only=self._loopback)
        channel.bufferedAmountLowThreshold = LOW_WATER
        channel.on("open", self._guarded(self._opened))
        channel.on("message", self._guarded(self._received))
        channel.on("bufferedamountlow", self._guarded(self._drained))
        channel.on("close", self._guarded(self._closed_by_transport))
        connection.on("connectionstatechange", self._guarded(self._connection_changed))
        return connection

    async def _take_description(self, connection: RTCPeerConnection, kind: str, sdp: str) -> None:
        plain, named = ice.hold_back_names(sdp)
        self.takes = min(ice.max_message_size(sdp) or MAX_PACKET, MAX_PACKET)
        async with self._describing("cannot be used"):
            if "\nm=application " not in plain:
                raise ValueError("no data channel in it")
            if not named and "\na=candidate:" not in plain and "\na=end-of-candidates" in plain:
                raise ValueError("no network address in it")
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
        self.offline = ice.is_offline(connection) and not (self._relay_only or self._loopback)
        if not ice.gathered(connection):  # aiortc would stay "new" for ever, without an event
            self.close("no relay gave an address" if self._relay_only else "no network address")
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
                self.close(f"its description {what}")
                raise SignalError(peer=self.peer, why=f"the description {what} ({error})") from error
        self._check_alive()

    def _check_alive(self) -> None:
        if self.state is State.CLOSED:
            raise SignalError(peer=self.peer, why=f"the link was closed ({self._reason})")

    # -- aiortc's events ----------------------------------------------------------------------------

    def _opened(self) -> None:
        if self.state is not State.CONNECTING:
            return
        self.state = State.OPEN
        self._events.lane_opened(self)
        early, self._early = self._early, []
        for packet in early:
            self._received(packet)

    def _received(self, packet: bytes | str) -> None:
        data = packet.encode() if isinstance(packet, str) else packet  # text is no packet, and is refused as such
        if self.state is State.CONNECTING and len(self._early) < EARLY_PACKETS:
            self._early.append(data)
        elif self.state is State.OPEN:
            self._events.lane_packet(self, data)

    def _drained(self) -> None:
        if self.state is State.OPEN:
            self._events.lane_writable(self)

    def _connection_changed(self) -> None:
        if self._connection is not None and self._connection.connectionState in ("failed", "closed"):
            self._closed_by_transport()

    def _closed_by_transport(self) -> None:
        self._channel_closed.set()
        opened = self.state is State.OPEN
        self.close("the connection ended without a goodbye" if opened else "the connection could not be set up")

    # -- a lane -------------------------------------------------------------------------------------

    @property
    def writable(self) -> bool:
        """Open, and aiortc's buffer below the high-water mark."""
        return self.state is State.OPEN and self.buffered_bytes < HIGH_WATER

    def send(self, packet: bytes) -> None:
        """A whole packet."""
        if self.state is State.OPEN and self._channel is not None and self._channel.readyState == "open":
            self._channel.send(packet)

    def close(self, reason: str, *, linger_s: float = 0.0) -> None:
        """Close. With `linger_s`, what was sent last has so long to be heard: the peer closes its end then."""
        if self.state is State.CLOSED:
            return
        self.state, self._reason = State.CLOSED, reason
        self._early.clear()
        self._events.lane_closed(self, reason)
        self._spawn(self._take_down(linger_s))

    async def ended(self) -> None:
        """Wait until nothing of aiortc's runs any more."""
        await self._ended.wait()

    async def _take_down(self, linger_s: float) -> None:
        """Close aiortc's side, and wait until nothing of it runs any more."""
        try:
            channel, connection = self._channel, self._connection
            if linger_s and channel is not None and channel.readyState == "open":
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._channel_closed.wait(), linger_s)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._description_lock.acquire(), GATHER_S)
            if connection is not None:
                tasks = _tasks_of(connection)
                await asyncio.wait_for(connection.close(), CLOSE_S)
                for _ in range(CLOSINGS):
                    tasks += _tasks_of(connection)  # aioice may have begun one while it was being closed
                    for task in tasks:
                        task.cancel()
                    if not tasks:
                        break
                    await asyncio.wait(tasks, timeout=CLOSE_S)
                    tasks = []
        except Exception as error:  # the peer is gone; there is nobody to whom this would matter
            log.info("%s: closing: %r", self.peer, error)
        finally:
            self._ended.set()

    # -- facts --------------------------------------------------------------------------------------

    @property
    def buffered_bytes(self) -> int:
        """Bytes that wait inside aiortc; at most HIGH_WATER and one packet."""
        return self._channel.bufferedAmount if self._channel is not None else 0

    @property
    def _alive(self) -> RTCPeerConnection | None:
        return self._connection if self.state is not State.CLOSED else None

    @property
    def path(self) -> ice.Path:
        """The path in use."""
        return ice.chosen_path(self._alive) if self._alive is not None else ice.Path()

    @property
    def gathered(self) -> dict[str, int]:
        """This side's candidates by type."""
        return ice.gathered(self._alive) if self._alive is not None else {}

    @property
    def remote_candidates(self) -> int:
        """How many candidates the other side has."""
        return ice.remote_candidates(self._alive) if self._alive is not None else 0

    def near(self) -> tuple[str, str] | None:
        """See `ice.near`."""
        return ice.near(self._alive) if self._alive is not None else None

    # -- small things -------------------------------------------------------------------------------

    def _spawn(self, work: Any) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _guarded(self, handler: Callable[..., None]) -> Callable[..., None]:
        """An exception in a handler would end aiortc's receiving task, and the lane with it, unexplained."""

        def call(*arguments: Any) -> None:
            try:
                handler(*arguments)
            except Exception as error:
                self._loop.call_exception_handler({"message": f"lane to {self.peer}", "exception": error})

        return call


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
