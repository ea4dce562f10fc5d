"""All peers of a room: who dials whom, how signalling travels, and what the rest of the program hears of it."""

from __future__ import annotations

import asyncio
import logging
import math
import random
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import msgspec

from desktop.bridge.transport import PROTOCOL, digest_of
from desktop.errors import (
    AloneError,
    NoNetworkError,
    PeerloomError,
    PeerLostError,
    ProtocolError,
    RoomFullError,
    RoomLostError,
    SignalError,
    UnreachableError,
    VersionError,
)
from desktop.peers import ice
from desktop.peers.direct import Identity
from desktop.peers.link import How, Link, LinkSettings, LinkStats, State
from desktop.peers.packet import Kind, Whole
from desktop.peers.said import (
    Answer,
    Budget,
    Candidate,
    Carried,
    Carry,
    Detour,
    DetourTaken,
    Forward,
    Forwarded,
    Hello,
    Members,
    Offer,
    PeerInfo,
    Poke,
    Said,
    Signal,
    read_any_hello,
    read_hello,
    read_said,
    read_signal,
    say,
)
from desktop.peers.transfer import Progress, Transfer
from desktop.peers.via import ViaLane
from desktop.peers.webrtc import WebRtcLane
from desktop.rooms.rendezvous import Rendezvous

log = logging.getLogger(__name__)

MAX_SIGNAL = 32 * 1024  # bytes of one sealed offer, answer or poke
MAX_ID = 64  # characters of a peer's id
MAX_TEXT = 200  # characters of a name, backend or version that a peer gives
POKE_S = 1.5  # how long the larger id waits for the smaller one's offer
FIRST_RETRY_S = 0.5
LONGEST_RETRY_S = 30.0
CARRIED_BYTES = 2 * 1024 * 1024  # held at most for one member on its way to another
REDIAL_S = 1.0  # pokes are cheap and links are not: no peer can ask for more than one within this
SAME_FAULT_S = 10.0  # the same sentence is not said twice within this


class Moving(msgspec.Struct, frozen=True, kw_only=True):
    """A large message on its way. `left_s` is None as long as nothing has come through."""

    outgoing: bool
    done_bytes: int
    total_bytes: int
    left_s: float | None = None


class Receipt(NamedTuple):
    """Of a trainer's message that has arrived: to be given to `Mesh.taken`."""

    peer: str
    transfer: Transfer
    message: int


class LinkRow(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about one peer for the members table. `state` is "connecting", "open" or "lost"."""

    peer: str
    name: str
    backend: str
    state: str
    path: str = ""  # "direct" | "relay" | "via" | ""
    via: str = ""  # name of the member between
    lanes: dict[str, int] = {}  # open ones: "webrtc", "tls", "via"
    local_type: str = ""
    remote_type: str = ""
    rtt_ms: float | None = None
    sent_bytes: int = 0
    received_bytes: int = 0
    last_seen_s: float = 0.0
    unsent_bytes: int = 0
    moving: tuple[Moving, ...] = ()
    gathered: dict[str, int] = {}
    remote_candidates: int = 0
    tries: int = 0  # failed ones since it was last connected
    next_try_s: float | None = None


class MeshSettings(LinkSettings, frozen=True, kw_only=True):
    """What a mesh is made with: the settings of its links, the ICE servers and the bounds."""

    ice_servers: tuple[str, ...] = ()  # stun:host:port
    turn: tuple[ice.TurnServer, ...] = ()
    relay_only: bool = False
    detour_s: float = 4.0  # without a direct path by then, one through another member is tried beside it
    keep_s: float = 120.0  # how long what a lost peer has not acknowledged waits for it to come back
    max_peers: int = 256


class MeshEvents(Protocol):
    """What a mesh tells, on the loop. Nothing here may raise."""

    def peer_connected(self, peer: str, info: PeerInfo) -> None: ...

    def peer_lost(self, peer: str, reason: str) -> None:
        """Exactly once for each `peer_connected`, whatever the reason."""

    def received(self, peer: str, data: memoryview, digest: bytes, receipt: Receipt) -> None:
        """A whole message of the peer's trainer. The digest is not checked yet. Once the trainer has it, `Mesh.taken`
        is to be called: the peer stops sending when too much is not taken."""

    def sent(self, peer: str, token: int) -> None:
        """The peer has the message whole."""

    def failed(self, peer: str, token: int, reason: str) -> None: ...

    def fault(self, severity: str, text: str, peer: str) -> None:
        """Severity: "info", "care" or "bad"."""


class Sealer(Protocol):
    """Seals signalling so that only members of the room read it and nobody alters it."""

    def seal(self, to: str, plain: bytes) -> bytes: ...

    def open(self, sender: str, sealed: bytes) -> bytes:
        """Raises a PeerloomError when it was altered, is too old, or was seen before."""


@dataclass(slots=True, eq=False)
class _Ear:
    """Listens at one rendezvous for the mesh."""

    mesh: Mesh
    rendezvous: Rendezvous
    budget: Budget

    def peer_seen(self, peer: str) -> None:
        self.mesh._seen_at(self, peer)

    def peer_gone(self, peer: str) -> None:
        pass  # links do not need the rendezvous; `peers` says who can be reached there

    def signal(self, sender: str, payload: bytes) -> None:
        if self in self.mesh._ears and self.budget.take():
            self.mesh._signalled(sender, payload, self)

    def closed(self, reason: str) -> None:
        self.mesh._ended(self, reason)


@dataclass(slots=True, eq=False)
class _Remote:
    """What the mesh knows of one other member."""

    peer: str
    budget: Budget
    info: PeerInfo | None = None
    link: Link | None = None  # in use: hello has been said both ways
    dial: Link | None = None  # a direct one that is being tried
    detour: Link | None = None  # one through another member that is being tried
    transfer: Transfer | None = None  # its messages; kept for a while when the link is lost
    ended: str = ""  # the last attempt that ended
    session: str = ""  # of the peer's program
    barred: str = ""  # the session that broke the protocol
    left: bool = False  # it said goodbye: members that have not heard it yet still list it
    heard_over: _Ear | _Remote | None = None  # where its last signal came from
    listed: frozenset[str] = frozenset()  # to whom it says it has links
    tries: int = 0
    sent_bytes: int = 0  # over links that have ended
    received_bytes: int = 0
    next_try: float | None = None
    dialled_at: float = -math.inf
    timer: asyncio.Handle | None = None
    detour_timer: asyncio.Handle | None = None
    keep_timer: asyncio.Handle | None = None

    @property
    def direct(self) -> Link | None:
        """The link in use when no member is between."""
        return self.link if self.link is not None and not self.link.through else None

    @property
    def attempts(self) -> list[Link]:
        """All links: the one in use, and those that are being tried."""
        return [link for link in (self.link, self.dial, self.detour) if link is not None]

    @property
    def name(self) -> str:
        return self.info.name if self.info else self.peer[:8]


class Mesh:
    """Links to all other members of a room, kept up by itself.

    For each pair the side with the smaller id offers, so that offers never cross; the other one asks for an offer
    ("pokes") when none comes. Offers and answers travel sealed, over a rendezvous that knows the peer or else
    through a member that is connected to it. A peer ::

        heard of --(smaller id) offer / (larger id) poke--> connecting --hello both ways--> connected
            ^                                                |     | not open within 4 s          ^ |
            |                                                |     +-- hello through a member ----+ |
            +----- retry: 0.5 s, 1 s, 2 s ... 30 s, jittered +---------------- lost ----------------+

    and, once it has said goodbye or broken the protocol, is left alone until it shows itself again. While a peer is
    connected through another member, a direct link is tried again and again, and takes over when it opens. Messages
    belong to a `Transfer`, which outlives links: nothing is lost, and nothing comes twice, when one follows another.
    """

    protocol = PROTOCOL

    def __init__(
        self,
        me: PeerInfo,
        events: MeshEvents,
        sealer: Sealer,
        settings: MeshSettings,
        rng: random.Random,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.me = me
        self._events = events
        self._sealer = sealer
        self._settings = settings
        self._rng = rng
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._servers = ice.Servers(settings.ice_servers, settings.turn, relay_only=settings.relay_only)
        self._identity = Identity() if settings.direct else None
        self._session = self._token()
        self._carried: dict[int, tuple[tuple[str, str], int]] = {}  # by token: (from, to), bytes
        self._next_carried = 0
        self._remotes: dict[str, _Remote] = {}
        self._ears: list[_Ear] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._links: set[Link] = set()  # all that may still be taken down
        self._said_faults: dict[str, float] = {}
        self._closing: asyncio.Task[None] | None = None

    # -- what the program calls ---------------------------------------------------------------------

    def add_rendezvous(self, rendezvous: Rendezvous) -> None:
        """Find members through this too. It may end at any time; the mesh does not close it."""
        ear = _Ear(self, rendezvous, Budget(self._clock))
        self._ears.append(ear)
        rendezvous.subscribe(ear)

    def send(
        self, peer: str, data: bytes | bytearray | memoryview, digest: bytes, *, bulk: bool, token: int
    ) -> None:
        """Hand a trainer's message over to a peer; `sent` or `failed` follows. Never blocks. The giver does not
        touch the data again. `digest` is digest_of(data)."""
        remote = self._remotes.get(peer)
        try:
            if remote is None or remote.link is None:
                raise ValueError("not connected")
            remote.link.send(Kind.TRAINER, data, digest, bulk=bulk, token=token)
        except (ValueError, TypeError, OverflowError) as error:
            self._loop.call_soon(self._events.failed, peer, token, str(error))

    def taken(self, receipt: Receipt) -> None:
        """The trainer has this message: acknowledge it."""
        remote = self._remotes.get(receipt.peer)
        if remote is not None and remote.link is not None and remote.link.transfer is receipt.transfer:
            remote.link.taken(receipt.message)
        else:
            receipt.transfer.taken(receipt.message)

    def drop(self, peer: str, reason: str) -> None:
        """Close the link to a peer that broke the protocol, and take no new one from this run of its program."""
        remote = self._remotes.get(peer)
        if remote is not None:
            self._bar(remote, reason)

    def rows(self) -> tuple[LinkRow, ...]:
        """One row for each peer that is here, on its way, or lost; sorted by id."""
        present = (each for each in self._remotes.values() if not each.left and not each.barred)
        return tuple(self._row(each) for each in sorted(present, key=lambda each: each.peer))

    @property
    def connected(self) -> frozenset[str]:
        """Ids of the connected peers."""
        return frozenset(each.peer for each in self._remotes.values() if each.link is not None)

    async def close(self, reason: str) -> None:
        """Say goodbye to everyone, draining for `drain_s` at most. Idempotent."""
        if self._closing is None:
            self._closing = self._loop.create_task(self._close(reason))
        await asyncio.shield(self._closing)

    async def _close(self, reason: str) -> None:
        self._ears.clear()
        for remote in self._remotes.values():
            self._stop_timers(remote)
        await asyncio.gather(*(link.close(reason) for link in self._links))
        for remote in self._remotes.values():
            self._give_up_messages(remote, reason)
        tasks = list(self._tasks)
        for task in tasks:  # after the links: what was cut off in the middle of gathering would leave sockets open
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # -- hearing of peers ---------------------------------------------------------------------------

    def _hear(self, peer: str) -> _Remote | None:
        """The record of a peer, made when it is new. None: not a peer, or one too many."""
        if peer == self.me.peer or not 0 < len(peer) <= MAX_ID or self._closing is not None:
            return None
        remote = self._remotes.get(peer)
        if remote is None:
            if len(self._remotes) >= self._settings.max_peers - 1 and not self._forget_one():
                self._fault("care", RoomFullError(limit=self._settings.max_peers, peer=peer[:8]), peer)
                return None
            remote = self._remotes[peer] = _Remote(peer, Budget(self._clock))
        return remote

    def _forget_one(self) -> bool:
        """Make room: forget somebody who has no link."""
        for remote in self._remotes.values():
            if not remote.attempts and self._route_count(remote) == 0:
                self._stop_timers(remote)
                self._give_up_messages(remote, "it was forgotten")
                del self._remotes[remote.peer]
                return True
        return False

    def _seen_at(self, ear: _Ear, peer: str) -> None:
        if ear not in self._ears:
            return
        remote = self._hear(peer)
        if remote is None:
            return
        remote.left = False
        if not remote.attempts:  # it has just appeared: what failed before says nothing
            self._stop_timers(remote)
            remote.tries = 0
        self._attend(remote)

    def _ended(self, ear: _Ear, reason: str) -> None:
        if ear not in self._ears:
            return
        self._ears.remove(ear)
        if self.connected:
            error = RoomLostError(why=reason, rest="The members who are connected stay connected.")
            self._fault("info", error)
        else:
            error = RoomLostError(why=reason, rest="Nobody else is connected; training alone goes on.")
            self._fault("bad", error)

    def _attend(self, remote: _Remote) -> None:
        """See to it that there will be a link to this peer."""
        if not remote.attempts and remote.timer is None and not remote.barred and not remote.left:
            self._try_in(remote, 0.0 if self._offers(remote) else POKE_S * self._jitter())

    def _offers(self, remote: _Remote) -> bool:
        return self.me.peer < remote.peer

    def _try_in(self, remote: _Remote, delay: float) -> None:
        if self._closing is not None:
            return
        self._stop_timers(remote)
        remote.next_try = self._clock() + delay
        remote.timer = self._loop.call_later(delay, self._try, remote)

    def _try(self, remote: _Remote) -> None:
        self._stop_timers(remote)
        if remote.dial is not None or remote.direct is not None or remote.barred or remote.left:
            return
        if self._route_count(remote) == 0:
            return  # once there is a way again, `_attend` is called
        if self._offers(remote):
            remote.dialled_at = self._clock()
            link, lane = self._new_link(remote, self._token())
            self._spawn(self._dial(remote, link, lane))
            if remote.link is None:
                remote.detour_timer = self._loop.call_later(self._settings.detour_s, self._try_detour, remote)
        elif remote.link is None:
            self._signal(remote, Poke(self._session, remote.ended))
            self._retry(remote, "it does not answer", quiet=remote.tries < 3)

    def _retry(
        self, remote: _Remote, why: str, *, was: bool = False, quiet: bool = False, offline: bool = False
    ) -> None:
        """Plan the next try, later each time, and say what happened."""
        remote.tries += 1
        delay = min(LONGEST_RETRY_S, FIRST_RETRY_S * 2 ** min(remote.tries - 1, 10)) * self._jitter()
        if not self._offers(remote):
            delay = max(delay, POKE_S * self._jitter())  # the other side dials first
        reachable = self._route_count(remote) > 0
        if reachable:
            self._try_in(remote, delay)
        if not quiet:
            again = "It is tried again when somebody hears of it."
            if reachable:
                again = f"Next try in {max(1, round(delay))} s."
            self._say_unreachable(remote, why, again, was=was, offline=offline)

    def _say_unreachable(self, remote: _Remote, why: str, again: str, *, was: bool, offline: bool) -> None:
        others = self._others()
        if was:
            error: PeerloomError = PeerLostError(peer=remote.name, why=why, others=others, next=again)
            self._fault("info" if self.connected else "care", error, remote.peer)
        elif offline:
            self._fault("bad", NoNetworkError(), remote.peer)
        elif self.connected:
            error = UnreachableError(peer=remote.name, why=why, others=others, next=again)
            self._fault("info", error, remote.peer)
        else:
            self._fault("care", AloneError(peer=remote.name, why=why, next=again), remote.peer)

    # -- links --------------------------------------------------------------------------------------

    def _link(self, remote: _Remote, attempt: str) -> Link:
        link = Link(remote.peer, attempt, self, self._settings, self._clock, lambda: self._hello(remote, link))
        self._links.add(link)
        return link

    def _new_link(self, remote: _Remote, attempt: str) -> tuple[Link, WebRtcLane]:
        self._stop_timers(remote)
        link = remote.dial = self._link(remote, attempt)
        lane = WebRtcLane(remote.peer, 0, link, self._servers, loopback=self._settings.loopback)
        link.connect(lane)
        return link, lane

    async def _dial(self, remote: _Remote, link: Link, lane: WebRtcLane) -> None:
        try:
            sdp = await lane.offer()
        except SignalError:
            return  # link_closed has said why
        if remote.dial is link and not self._signal(remote, Offer(self._session, link.attempt, sdp)):
            link.drop("nobody could pass the offer on")

    async def _answer(self, remote: _Remote, link: Link, lane: WebRtcLane, offer: Offer) -> None:
        try:
            sdp = await lane.answer(offer.sdp)
        except SignalError as error:
            self._fault("care", error, remote.peer)
            return
        if remote.dial is link:
            self._signal(remote, Answer(self._session, offer.attempt, sdp))

    async def _accept(self, remote: _Remote, lane: WebRtcLane, answer: Answer) -> None:
        try:
            await lane.accept(answer.sdp)
        except SignalError as error:
            self._fault("care", error, remote.peer)

    def _start_anew(self, remote: _Remote) -> None:
        """The other side has no use for these links any more: end them before the next one begins."""
        for link in remote.attempts:
            link.lose("it started anew")
        self._stop_timers(remote)

    def _hello(self, remote: _Remote, link: Link) -> bytes:
        link.offered = remote.transfer.ident if remote.transfer is not None else ""
        certificate = self._identity.certificate if self._identity is not None else b""
        return say.encode(Hello(self.protocol, self._session, self.me, link.offered, certificate))

    def link_hello(self, link: Link, hello: bytes) -> None:
        """LinkEvents: the peer is connected once its hello has come and is good."""
        remote = self._remotes.get(link.peer)
        if remote is None or link not in (remote.dial, remote.detour):
            link.drop("nobody waits for it")
            return
        try:
            said = read_hello.decode(hello)
        except msgspec.MsgspecError as error:
            self._unreadable(remote, link, hello, str(error))
            return
        if said.protocol != self.protocol:
            self._wrong_version(remote, link, said.info.name[:MAX_TEXT], said.protocol, said.info.version[:MAX_TEXT])
        elif said.info.peer != remote.peer:
            self._bar(remote, f"it says it is {said.info.peer[:8]}", link)
        elif max(len(said.info.name), len(said.info.backend), len(said.info.version)) > MAX_TEXT:
            self._bar(remote, "a name that is too long", link)
        elif link is remote.detour and remote.direct is not None:
            link.replace()
        else:
            self._greeted(remote, link, said)

    def _unreadable(self, remote: _Remote, link: Link, data: bytes, why: str) -> None:
        """A hello that does not decode. That of another version may, in part: then say which one is older."""
        try:
            hello = read_any_hello.decode(data)
        except msgspec.MsgspecError:
            self._bar(remote, why, link)
            return
        if hello.what != "hello" or hello.protocol == self.protocol:
            self._bar(remote, why, link)
        else:
            name = str(hello.info.get("name", ""))[:MAX_TEXT] or remote.name
            self._wrong_version(remote, link, name, hello.protocol, str(hello.info.get("version", "?"))[:MAX_TEXT])

    def _wrong_version(self, remote: _Remote, link: Link, name: str, protocol: int, version: str) -> None:
        mine, theirs = (self.me.name, self.me.version), (name, version)
        older, newer = (theirs, mine) if protocol < self.protocol else (mine, theirs)
        error = VersionError(older=older[0], old=older[1], newer=newer[0], new=newer[1])
        self._fault("bad", error, remote.peer)
        remote.barred = remote.session or "?"
        link.drop(error.sentence)

    def _greeted(self, remote: _Remote, link: Link, hello: Hello) -> None:
        transfer = remote.transfer
        known = transfer.ident if transfer is not None else ""
        if known != link.offered:
            link.lose("another link was faster")  # what this one has offered to go on with is not there any more
            return
        was = remote.link
        if was is not None:
            was.replace()
        if transfer is None or hello.transfer != known:  # one side has begun anew
            self._give_up_messages(remote, "it has begun anew")
            if was is not None:
                self._events.peer_lost(remote.peer, "it has begun anew")
                was = None
            transfer = self._new_transfer(link)
        remote.transfer, remote.link = transfer, link
        remote.info, remote.session, remote.tries, remote.left = hello.info, hello.session, 0, False
        if link is remote.detour:
            remote.detour = None
        else:
            remote.dial = None
            self._stop_timers(remote)
            if remote.detour is not None:
                remote.detour.replace()
        if remote.keep_timer is not None:
            remote.keep_timer.cancel()
        link.begin(transfer, self._servers, first=self._offers(remote), identity=self._identity,
                   certificate=hello.certificate)
        if was is None:
            self._events.peer_connected(remote.peer, hello.info)
        if link.through and remote.dial is None and self._offers(remote):
            self._retry(remote, "", quiet=True)
        self._tell_members()

    def _new_transfer(self, link: Link) -> Transfer:
        takes = link.control.takes if isinstance(link.control, WebRtcLane) else self._settings.packet_size
        size = min(self._settings.packet_size, takes)
        return Transfer(link.attempt, size, self._settings.limits, self._clock)

    def _give_up_messages(self, remote: _Remote, reason: str) -> None:
        """Nothing of what this peer has not acknowledged will be sent any more."""
        if remote.keep_timer is not None:
            remote.keep_timer.cancel()
        transfer, remote.transfer = remote.transfer, None
        for token in transfer.fail() if transfer is not None else ():
            if token < 0:
                self._carried.pop(token, None)
            else:
                self._events.failed(remote.peer, token, reason)

    def link_closed(self, link: Link, how: How, reason: str) -> None:
        """LinkEvents: tell the program, and decide whether to try again."""
        self._spawn(self._forget_link(link))
        remote = self._remotes.get(link.peer)
        if remote is None or link not in remote.attempts:
            return
        was = link is remote.link
        if was:
            remote.link, remote.listed = None, frozenset()
            stats = link.stats()
            remote.sent_bytes += stats.sent_bytes
            remote.received_bytes += stats.received_bytes
        elif link is remote.dial:
            remote.dial = None
        else:
            remote.detour = None
        if how is How.REPLACED:
            return
        remote.ended = link.attempt
        if was:
            self._lost(remote, how, reason)
        if self._closing is not None:
            return
        if how is How.LEFT:
            remote.left = True
            if not was:
                self._say_unreachable(remote, reason, "", was=False, offline=False)
        elif how is How.BROKE:
            self._fault("bad", ProtocolError(peer=remote.name, why=reason), remote.peer)
            remote.barred = remote.session or "?"
        elif not remote.barred and (was or link.control is None or not link.through):
            self._retry(remote, reason, was=was, offline=link.offline, quiet=remote.link is not None)
            if not was and remote.link is None:
                self._try_detour(remote)

    def _lost(self, remote: _Remote, how: How, reason: str) -> None:
        """The link in use has ended. What was on its way waits for the next one, if there may be one."""
        if how is How.LOST and self._closing is None:
            if remote.keep_timer is not None:
                remote.keep_timer.cancel()
            remote.keep_timer = self._loop.call_later(self._settings.keep_s, self._give_up_messages, remote, reason)
        else:
            self._give_up_messages(remote, reason)
        self._events.peer_lost(remote.peer, reason)
        self._end_detours(remote, frozenset())
        self._tell_members()

    async def _forget_link(self, link: Link) -> None:
        await link.close("")
        self._links.discard(link)

    def link_sent(self, link: Link, token: int) -> None:
        """LinkEvents."""
        if token < 0:
            self._carried.pop(token, None)
        else:
            self._events.sent(link.peer, token)

    def link_message(self, link: Link, message: Whole) -> None:
        """LinkEvents: the trainer's messages go on as they are, the mesh's own are read here."""
        remote = self._remotes.get(link.peer)
        if remote is None or remote.link is not link or link.transfer is None:
            return
        if message.kind is Kind.TRAINER:
            receipt = Receipt(remote.peer, link.transfer, message.message)
            self._events.received(remote.peer, message.data, message.digest, receipt)
            return
        try:
            said = read_said.decode(message.data)
        except msgspec.MsgspecError as error:
            self._bar(remote, str(error))
            return
        if isinstance(said, Members):
            self._listed(remote, said.peers)
        elif isinstance(said, Forward):
            self._forward(remote, said)
        elif isinstance(said, Carry):
            self._carry_on(remote, said)
        elif isinstance(said, Carried):
            self._carried_here(remote, said)
        elif remote.budget.take():
            self._signalled(said.sender, said.payload, remote)

    def _bar(self, remote: _Remote, reason: str, link: Link | None = None) -> None:
        """Drop a peer that broke the protocol. It may come back when its program is started anew."""
        self._fault("bad", ProtocolError(peer=remote.name, why=reason), remote.peer)
        remote.barred = remote.session or "?"
        self._stop_timers(remote)
        for each in remote.attempts if link is None else [link]:
            each.drop(f"the protocol was broken: {reason}")

    # -- through another member ---------------------------------------------------------------------

    def _try_detour(self, remote: _Remote) -> None:
        """Ask for a link through a member that has links to both of us."""
        if (remote.attempts and remote.attempts != [remote.dial]) or remote.barred or not self._offers(remote):
            return
        between = [each for each in self._remotes.values() if each.direct is not None and remote.peer in each.listed]
        if not between or self._closing is not None:
            return
        through = between[remote.tries % len(between)]
        lane = self._new_detour(remote, through.peer, self._token())
        if not self._signal(remote, Detour(self._session, lane.attempt, through.peer, lane.public, remote.ended)):
            lane.close("nobody could pass the offer on")

    def _new_detour(self, remote: _Remote, through: str, attempt: str) -> ViaLane:
        link = remote.detour = self._link(remote, attempt)

        def post(sealed: bytes) -> bool:
            return self._post(through, Carry(remote.peer, attempt, sealed))

        lane = ViaLane(remote.peer, through, attempt, link, post, first=self._offers(remote))
        link.connect(lane)
        return lane

    def _post(self, through: str, said: Carry) -> bool:
        between = self._remotes.get(through)
        if between is None or between.direct is None:
            return False
        return self._tell(between.direct, said)

    def _on_detour(self, remote: _Remote, asked: Detour) -> None:
        between = self._remotes.get(asked.through)
        if self._offers(remote) or between is None or between.direct is None or remote.detour is not None:
            return
        if remote.link is not None and remote.link.attempt == asked.lost:
            remote.link.lose("it started anew")
        lane = self._new_detour(remote, asked.through, asked.attempt)
        self._signal(remote, DetourTaken(self._session, asked.attempt, lane.public))
        self._agree(remote, lane, asked.key)

    def _agree(self, remote: _Remote, lane: ViaLane, key: bytes) -> None:
        try:
            lane.agree(key)
        except SignalError as error:
            self._fault("care", error, remote.peer)
            lane.close("its key cannot be used")

    def _carry_on(self, remote: _Remote, said: Carry) -> None:
        """Hand a sealed packet on. What is for nobody, or too much, is not: the lane of the two ends by that."""
        to = self._remotes.get(said.to)
        if to is None or to.direct is None or to is remote:
            return
        pair, size = (remote.peer, to.peer), len(said.sealed)
        if size + sum(held for other, held in self._carried.values() if other == pair) > CARRIED_BYTES:
            return
        self._next_carried -= 1
        if self._tell(to.direct, Carried(remote.peer, said.attempt, said.sealed), self._next_carried):
            self._carried[self._next_carried] = (pair, size)

    def _carried_here(self, through: _Remote, said: Carried) -> None:
        remote = self._remotes.get(said.sender)
        for link in remote.attempts if remote is not None else ():
            if link.attempt == said.attempt and link.through == through.peer and isinstance(link.control, ViaLane):
                link.control.carried(said.sealed)

    def _end_detours(self, through: _Remote, listed: frozenset[str]) -> None:
        """End the links through a member to all to whom it has no link any more."""
        for remote in self._remotes.values():
            for link in remote.attempts:
                if link.through == through.peer and remote.peer not in listed:
                    link.lose(f"{through.name} has lost it")

    # -- lists and forwarding -----------------------------------------------------------------------

    def _tell_members(self) -> None:
        """Tell everyone to whom this member has links of its own."""
        said = Members(tuple(sorted(each.peer for each in self._remotes.values() if each.direct is not None)))
        for remote in self._remotes.values():
            if remote.link is not None:
                self._tell(remote.link, said)

    def _listed(self, remote: _Remote, peers: tuple[str, ...]) -> None:
        if len(peers) > self._settings.max_peers:
            self._bar(remote, f"a list of {len(peers)} members")
            return
        remote.listed = frozenset(peers)
        self._end_detours(remote, remote.listed)
        for peer in peers:
            other = self._hear(peer)
            if other is not None:
                self._attend(other)

    def _forward(self, remote: _Remote, said: Forward) -> None:
        """Hand a sealed signal on. What is too large, too often or for nobody is not; the sender tries again."""
        to = self._remotes.get(said.to)
        if to is None or to.link is None or to is remote:
            return
        if len(said.payload) <= MAX_SIGNAL and remote.budget.take():
            self._tell(to.link, Forwarded(remote.peer, said.payload))

    # -- signalling ---------------------------------------------------------------------------------

    def _routes(self, remote: _Remote) -> list[_Ear | _Remote]:
        """Ways to a peer: where its last signal came from, then rendezvous, then members connected to it."""
        ways: list[_Ear | _Remote] = [ear for ear in self._ears if remote.peer in ear.rendezvous.peers]
        ways += [each for each in self._remotes.values() if each.link is not None and remote.peer in each.listed]
        turn = remote.tries % len(ways) if ways else 0  # a way that does not work is not tried for ever
        ways = ways[turn:] + ways[:turn]
        ways.sort(key=lambda way: way is not remote.heard_over or remote.tries > 0)
        return ways

    def _route_count(self, remote: _Remote) -> int:
        return len(self._routes(remote))

    def _signal(self, remote: _Remote, signal: Signal) -> bool:
        """Send sealed, by the first way that takes it."""
        for way in self._routes(remote):
            sealed = self._sealer.seal(remote.peer, say.encode(signal))
            if isinstance(way, _Ear):
                if way.rendezvous.send(remote.peer, sealed):
                    return True
            elif way.link is not None:
                self._tell(way.link, Forward(remote.peer, sealed))
                return True
        return False

    def _signalled(self, sender: str, payload: bytes, over: _Ear | _Remote) -> None:
        if len(payload) > MAX_SIGNAL or sender == self.me.peer or self._closing is not None:
            return
        try:
            signal = read_signal.decode(self._sealer.open(sender, payload))
        except PeerloomError as error:
            self._fault("care", error, sender)
            return
        except msgspec.MsgspecError as error:
            self._fault("care", SignalError(peer=self._name(sender), why=str(error)), sender)
            return
        remote = self._hear(sender)
        if remote is None or (remote.barred and remote.barred in (signal.session, "?")):
            return
        remote.barred, remote.left, remote.heard_over = "", False, over
        if isinstance(signal, Offer):
            self._on_offer(remote, signal)
        elif isinstance(signal, Poke):
            self._on_poke(remote, signal)
        elif isinstance(signal, Detour):
            self._on_detour(remote, signal)
        else:
            self._on_reply(remote, signal)

    def _on_offer(self, remote: _Remote, offer: Offer) -> None:
        known = {link.attempt for link in remote.attempts}
        if self._offers(remote) or offer.attempt in known or offer.attempt == remote.ended:
            return  # offers go from the smaller id to the larger one; and each once
        for link in (remote.direct, remote.dial):
            if link is not None:
                link.lose("it started anew")
        remote.session = offer.session
        link, lane = self._new_link(remote, offer.attempt)
        self._spawn(self._answer(remote, link, lane, offer))

    def _on_poke(self, remote: _Remote, poke: Poke) -> None:
        if not self._offers(remote):
            return
        restarted = remote.session not in ("", poke.session)
        if restarted:
            self._start_anew(remote)
        for link in remote.attempts:
            if poke.lost == link.attempt:
                link.lose("it started anew")
        if not remote.attempts and self._clock() - remote.dialled_at > REDIAL_S:
            self._try_in(remote, 0.0)  # it is there, whatever failed before

    def _on_reply(self, remote: _Remote, signal: Answer | Candidate | DetourTaken) -> None:
        """To what this side has asked. Late, or of another attempt: nothing."""
        for link in remote.attempts:
            lane = link.control
            if link.attempt != signal.attempt:
                continue
            remote.session = signal.session
            if isinstance(signal, DetourTaken) and isinstance(lane, ViaLane):
                self._agree(remote, lane, signal.key)
            elif isinstance(signal, Answer) and isinstance(lane, WebRtcLane):
                self._spawn(self._accept(remote, lane, signal))
            elif isinstance(signal, Candidate) and isinstance(lane, WebRtcLane):
                self._spawn(lane.add_candidate(signal.line, signal.mid))

    # -- small things -------------------------------------------------------------------------------

    def _row(self, remote: _Remote) -> LinkRow:
        link = remote.link or remote.dial
        stats = link.stats() if link is not None else LinkStats()
        trying = link is not None or remote.info is None
        planned = remote.next_try if remote.direct is None else None
        through = remote.link.through if remote.link is not None else ""
        return LinkRow(
            peer=remote.peer,
            name=remote.name,
            backend=remote.info.backend if remote.info else "",
            state="open" if remote.link is not None else "connecting" if trying else "lost",
            path="via" if through else stats.path.verdict,
            via=self._name(through) if through else "",
            lanes=stats.lanes,
            local_type=stats.path.local_type,
            remote_type=stats.path.remote_type,
            rtt_ms=stats.rtt_ms,
            sent_bytes=remote.sent_bytes + stats.sent_bytes,
            received_bytes=remote.received_bytes + stats.received_bytes,
            last_seen_s=stats.last_seen_s,
            unsent_bytes=stats.unsent_bytes,
            moving=tuple(self._moving(each) for each in stats.progress),
            gathered=stats.gathered,
            remote_candidates=stats.remote_candidates,
            tries=remote.tries,
            next_try_s=None if planned is None else max(0.0, planned - self._clock()),
        )

    def _moving(self, progress: Progress) -> Moving:
        took = self._clock() - progress.since
        left = took * (progress.total - progress.done) / progress.done if progress.done else None
        return Moving(outgoing=progress.outgoing, done_bytes=progress.done, total_bytes=progress.total, left_s=left)

    def _name(self, peer: str) -> str:
        remote = self._remotes.get(peer)
        return remote.name if remote else peer[:8]

    def _others(self) -> str:
        count = len(self.connected)
        if count == 0:
            return "nobody else is connected"
        return f"continuing with {count} connected peer{'' if count == 1 else 's'}"

    def _fault(self, severity: str, error: PeerloomError, peer: str = "") -> None:
        text, now = error.sentence, self._clock()
        self._said_faults = {old: at for old, at in self._said_faults.items() if now - at < SAME_FAULT_S}
        if text not in self._said_faults:
            self._said_faults[text] = now
            self._events.fault(severity, text, peer)

    def _tell(self, link: Link, said: Said, token: int | None = None) -> bool:
        if link.state is not State.OPEN:
            return False
        data = say.encode(said)
        link.send(Kind.ROOM, data, digest_of(data), token=token)
        return True

    def _stop_timers(self, remote: _Remote) -> None:
        for timer in (remote.timer, remote.detour_timer):
            if timer is not None:
                timer.cancel()
        remote.timer = remote.detour_timer = remote.next_try = None

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _jitter(self) -> float:
        return self._rng.uniform(0.75, 1.25)

    def _token(self) -> str:
        return f"{self._rng.getrandbits(64):016x}"
