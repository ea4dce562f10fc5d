"""All peers of a room: who dials whom, how signalling travels, and what the rest of the program hears of it."""

from __future__ import annotations

import asyncio
import logging
import math
import random
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from desktop.bridge.transport import digest_of
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
from desktop.peers.link import How, Link, LinkSettings, LinkStats, State
from desktop.peers.packet import Kind
from desktop.rooms.rendezvous import Rendezvous

log = logging.getLogger(__name__)

PROTOCOL = 1  # of what members say to each other; a mismatch is refused at the hello
MAX_SIGNAL = 32 * 1024  # bytes of one sealed offer, answer or poke
MAX_ID = 64  # characters of a peer's id
MAX_TEXT = 200  # characters of a name, backend or version that a peer gives
POKE_S = 1.5  # how long the larger id waits for the smaller one's offer
FIRST_RETRY_S = 0.5
LONGEST_RETRY_S = 30.0
REDIAL_S = 1.0  # pokes are cheap and links are not: no peer can ask for more than one within this
SAME_FAULT_S = 10.0  # the same sentence is not said twice within this
SIGNAL_BURST = 600  # signals that may come at once from one side: every member of a full room, twice
SIGNAL_RATE = 50.0  # and per second after that


class PeerInfo(msgspec.Struct, frozen=True):
    """Who a member is, as it says itself."""

    peer: str
    name: str
    backend: str
    version: str


class LinkRow(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about one peer for the members table. `state` is "connecting", "open" or "lost"."""

    peer: str
    name: str
    backend: str
    state: str
    path: str = ""  # "direct" | "relay" | ""
    local_type: str = ""
    remote_type: str = ""
    rtt_ms: float | None = None
    sent_bytes: int = 0
    received_bytes: int = 0
    last_seen_s: float = 0.0
    unsent_bytes: int = 0
    gathered: dict[str, int] = {}
    remote_candidates: int = 0
    tries: int = 0  # failed ones since it was last connected
    next_try_s: float | None = None


class MeshSettings(LinkSettings, frozen=True, kw_only=True):
    """What a mesh is made with: the settings of its links, the ICE servers and the bounds."""

    ice_servers: tuple[str, ...] = ()  # stun:host:port
    turn: tuple[ice.TurnServer, ...] = ()
    relay_only: bool = False
    max_peers: int = 256


class MeshEvents(Protocol):
    """What a mesh tells, on the loop. Nothing here may raise."""

    def peer_connected(self, peer: str, info: PeerInfo) -> None: ...

    def peer_lost(self, peer: str, reason: str) -> None:
        """Exactly once for each `peer_connected`, whatever the reason."""

    def received(self, peer: str, data: memoryview, digest: bytes) -> None:
        """A whole message of the peer's trainer. The digest is not checked yet."""

    def sent(self, peer: str, token: int) -> None:
        """The peer has the message whole."""

    def failed(self, peer: str, token: int, reason: str) -> None: ...

    def unsent(self, peer: str, size: int) -> None:
        """Bytes handed over and not acknowledged."""

    def fault(self, severity: str, text: str, peer: str) -> None:
        """Severity: "info", "care" or "bad"."""


class Sealer(Protocol):
    """Seals signalling so that only members of the room read it and nobody alters it."""

    def seal(self, to: str, plain: bytes) -> bytes: ...

    def open(self, sender: str, sealed: bytes) -> bytes:
        """Raises a PeerloomError when it was altered, is too old, or was seen before."""


# -- what members say to each other -------------------------------------------------------------------


class _Said(msgspec.Struct, frozen=True, tag_field="what"):
    pass


class _Hello(_Said, frozen=True, tag="hello"):
    """The first message of each side."""

    protocol: int
    session: str
    info: PeerInfo


class _Members(_Said, frozen=True, tag="members"):
    """Everyone the sender is connected to."""

    peers: tuple[str, ...]


class _Forward(_Said, frozen=True, tag="forward"):
    """Please hand this sealed signal on."""

    to: str
    payload: bytes


class _Forwarded(_Said, frozen=True, tag="forwarded"):
    """Handed on for `sender`."""

    sender: str
    payload: bytes


class _Signal(msgspec.Struct, frozen=True, tag_field="what"):
    """Travels sealed. `session` is new each time a program starts, `attempt` each time a link is tried."""

    session: str


class _Offer(_Signal, frozen=True, tag="offer"):
    attempt: str
    sdp: str


class _Answer(_Signal, frozen=True, tag="answer"):
    attempt: str
    sdp: str


class _Candidate(_Signal, frozen=True, tag="candidate"):
    """A late candidate. aiortc sends none, other implementations do."""

    attempt: str
    line: str
    mid: str = "0"


class _Poke(_Signal, frozen=True, tag="poke"):
    """Please offer. `lost` is the last attempt that ended here."""

    lost: str


class _AnyHello(msgspec.Struct, frozen=True):
    """What can be read of the hello of any version."""

    what: str
    protocol: int
    info: dict[str, Any] = {}


_say = msgspec.msgpack.Encoder()
_read_said = msgspec.msgpack.Decoder(_Hello | _Members | _Forward | _Forwarded)
_read_hello = msgspec.msgpack.Decoder(_AnyHello)
_read_signal = msgspec.msgpack.Decoder(_Offer | _Answer | _Candidate | _Poke)


class _Budget:
    """How many signals one side may still send: a bucket of tokens that fills with time."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._left = float(SIGNAL_BURST)
        self._at = clock()

    def take(self) -> bool:
        now = self._clock()
        self._left = min(float(SIGNAL_BURST), self._left + (now - self._at) * SIGNAL_RATE)
        self._at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True


@dataclass(slots=True, eq=False)
class _Ear:
    """Listens at one rendezvous for the mesh."""

    mesh: Mesh
    rendezvous: Rendezvous
    budget: _Budget

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
    budget: _Budget
    info: PeerInfo | None = None
    link: Link | None = None  # being tried, or open
    connected: bool = False  # the rest of the program has been told
    attempt: str = ""  # of `link`
    ended: str = ""  # the last attempt that ended
    session: str = ""  # of the peer's program
    barred: str = ""  # the session that broke the protocol
    left: bool = False  # it said goodbye: members that have not heard it yet still list it
    via: _Ear | _Remote | None = None  # where its last signal came from
    listed: frozenset[str] = frozenset()  # who it says it is connected to
    tries: int = 0
    next_try: float | None = None
    dialled_at: float = -math.inf
    timer: asyncio.Handle | None = None
    hello_timer: asyncio.Handle | None = None

    @property
    def name(self) -> str:
        return self.info.name if self.info else self.peer[:8]


class Mesh:
    """Links to all other members of a room, kept up by itself.

    For each pair the side with the smaller id offers, so that offers never cross; the other one asks for an offer
    ("pokes") when none comes. Offers and answers travel sealed, over a rendezvous that knows the peer or else
    through a member that is connected to it. A peer ::

        heard of --(smaller id) offer / (larger id) poke--> connecting --hello both ways--> connected
            ^                                                   | failed                        |
            +----- retry: 0.5 s, 1 s, 2 s ... 30 s, jittered ---+------ lost -------------------+

    and, once it has said goodbye or broken the protocol, is left alone until it shows itself again.
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
        self._session = self._token()
        self._remotes: dict[str, _Remote] = {}
        self._ears: list[_Ear] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._links: set[Link] = set()  # all that may still be taken down
        self._said_faults: dict[str, float] = {}
        self._closing: asyncio.Task[None] | None = None

    # -- what the program calls ---------------------------------------------------------------------

    def add_rendezvous(self, rendezvous: Rendezvous) -> None:
        """Find members through this too. It may end at any time; the mesh does not close it."""
        ear = _Ear(self, rendezvous, _Budget(self._clock))
        self._ears.append(ear)
        rendezvous.subscribe(ear)

    def send(
        self, peer: str, data: bytes | bytearray | memoryview, digest: bytes, *, bulk: bool, token: int
    ) -> None:
        """Hand a trainer's message over to a peer; `sent` or `failed` follows. Never blocks. The giver does not
        touch the data again. `digest` is digest_of(data)."""
        remote = self._remotes.get(peer)
        if remote is None or remote.link is None or not remote.connected:
            self._loop.call_soon(self._events.failed, peer, token, "not connected")
            return
        remote.link.send(Kind.TRAINER, data, digest, bulk=bulk, token=token)

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
        return frozenset(each.peer for each in self._remotes.values() if each.connected)

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
            remote = self._remotes[peer] = _Remote(peer, _Budget(self._clock))
        return remote

    def _forget_one(self) -> bool:
        """Make room: forget somebody who has no link."""
        for remote in self._remotes.values():
            if remote.link is None and self._route_count(remote) == 0:
                self._stop_timers(remote)
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
        if remote.link is None:  # it has just appeared: what failed before says nothing
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
        if remote.link is None and remote.timer is None and not remote.barred and not remote.left:
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
        if remote.link is not None or remote.barred or remote.left or self._route_count(remote) == 0:
            return  # once there is a way again, `_attend` is called
        if self._offers(remote):
            remote.dialled_at = self._clock()
            self._spawn(self._dial(remote, self._new_link(remote, self._token())))
            return
        self._signal(remote, _Poke(self._session, remote.ended))
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

    def _new_link(self, remote: _Remote, attempt: str) -> Link:
        self._stop_timers(remote)
        remote.attempt = attempt
        link = remote.link = Link(remote.peer, self, self._settings, self._servers, self._clock)
        self._links.add(link)
        return link

    async def _dial(self, remote: _Remote, link: Link) -> None:
        try:
            sdp = await link.offer()
        except SignalError:
            return  # link_closed has said why
        if remote.link is link and not self._signal(remote, _Offer(self._session, remote.attempt, sdp)):
            link.drop("nobody could pass the offer on")

    async def _answer(self, remote: _Remote, link: Link, offer: _Offer) -> None:
        try:
            sdp = await link.answer(offer.sdp)
        except SignalError as error:
            self._fault("care", error, remote.peer)
            return
        if remote.link is link:
            self._signal(remote, _Answer(self._session, offer.attempt, sdp))

    async def _accept(self, remote: _Remote, link: Link, answer: _Answer) -> None:
        try:
            await link.accept(answer.sdp)
        except SignalError as error:
            self._fault("care", error, remote.peer)

    def _replace(self, remote: _Remote) -> None:
        """The other side has no use for this link any more: end it before the next one begins."""
        link = remote.link
        if link is not None and not remote.connected:  # nobody has heard of it: no loss, no retry
            remote.link, remote.ended = None, remote.attempt
        if link is not None:
            link.drop("it started anew")
        self._stop_timers(remote)

    def link_opened(self, link: Link) -> None:
        """LinkEvents: say hello; the peer is connected once its own has come."""
        remote = self._remotes[link.peer]
        self._tell(link, _Hello(self.protocol, self._session, self.me))
        remote.hello_timer = self._loop.call_later(self._settings.open_s, self._no_hello, remote, link)

    def _no_hello(self, remote: _Remote, link: Link) -> None:
        if remote.link is link and not remote.connected:
            link.drop("no hello")

    def link_closed(self, link: Link, how: How, reason: str) -> None:
        """LinkEvents: tell the program, and decide whether to try again."""
        self._spawn(self._forget_link(link))
        remote = self._remotes.get(link.peer)
        if remote is None or remote.link is not link:
            return
        was, remote.connected = remote.connected, False
        remote.link, remote.listed, remote.ended = None, frozenset(), remote.attempt
        self._stop_timers(remote)
        if was:
            self._events.peer_lost(remote.peer, reason)
            self._tell_members()
        if self._closing is not None:
            return
        if how is How.LEFT:
            remote.left = True
            if not was:
                self._say_unreachable(remote, reason, "", was=False, offline=False)
        elif how is How.BROKE:
            self._fault("bad", ProtocolError(peer=remote.name, why=reason), remote.peer)
            remote.barred = remote.session or "?"
        elif not remote.barred:
            self._retry(remote, reason, was=was, offline=link.offline)

    async def _forget_link(self, link: Link) -> None:
        await link.close("")
        self._links.discard(link)

    def link_sent(self, link: Link, token: int) -> None:
        """LinkEvents."""
        self._events.sent(link.peer, token)

    def link_failed(self, link: Link, token: int, reason: str) -> None:
        """LinkEvents."""
        self._events.failed(link.peer, token, reason)

    def link_unsent(self, link: Link, size: int) -> None:
        """LinkEvents."""
        remote = self._remotes.get(link.peer)
        if remote is not None and remote.link in (link, None):
            self._events.unsent(link.peer, size)

    def link_message(self, link: Link, kind: Kind, data: memoryview, digest: bytes) -> None:
        """LinkEvents: the trainer's messages go on as they are, the mesh's own are read here."""
        remote = self._remotes.get(link.peer)
        if remote is None or remote.link is not link:
            return
        if kind is Kind.TRAINER:
            if remote.connected:
                self._events.received(remote.peer, data, digest)
            else:
                self._bar(remote, "a message before the hello")
            return
        try:
            said = _read_said.decode(data)
        except msgspec.MsgspecError as error:
            self._unreadable(remote, data, str(error))
            return
        if isinstance(said, _Hello) != (not remote.connected):
            self._bar(remote, "a message before the hello, or a second hello")
        elif isinstance(said, _Hello):
            self._greeted(remote, said)
        elif isinstance(said, _Members):
            self._listed(remote, said.peers)
        elif isinstance(said, _Forward):
            self._forward(remote, said)
        elif remote.budget.take():
            self._signalled(said.sender, said.payload, remote)

    def _unreadable(self, remote: _Remote, data: memoryview, why: str) -> None:
        """A message that does not decode. The hello of another version may, in part: then say which one is older."""
        try:
            hello = _read_hello.decode(data)
        except msgspec.MsgspecError:
            self._bar(remote, why)
            return
        if remote.connected or hello.what != "hello" or hello.protocol == self.protocol:
            self._bar(remote, why)
        else:
            name = str(hello.info.get("name", ""))[:MAX_TEXT] or remote.name
            self._wrong_version(remote, name, hello.protocol, str(hello.info.get("version", "?"))[:MAX_TEXT])

    def _wrong_version(self, remote: _Remote, name: str, protocol: int, version: str) -> None:
        mine, theirs = (self.me.name, self.me.version), (name, version)
        older, newer = (theirs, mine) if protocol < self.protocol else (mine, theirs)
        error = VersionError(older=older[0], old=older[1], newer=newer[0], new=newer[1])
        self._fault("bad", error, remote.peer)
        remote.barred = remote.session or "?"
        if remote.link is not None:
            remote.link.drop(error.sentence)

    def _greeted(self, remote: _Remote, hello: _Hello) -> None:
        info = hello.info
        if hello.protocol != self.protocol:
            self._wrong_version(remote, info.name[:MAX_TEXT], hello.protocol, info.version[:MAX_TEXT])
            return
        if info.peer != remote.peer:
            self._bar(remote, f"it says it is {info.peer[:8]}")
            return
        if max(len(info.name), len(info.backend), len(info.version)) > MAX_TEXT:
            self._bar(remote, "a name that is too long")
            return
        if remote.hello_timer is not None:
            remote.hello_timer.cancel()
            remote.hello_timer = None
        remote.info, remote.session, remote.tries = info, hello.session, 0
        remote.connected, remote.left = True, False
        self._events.peer_connected(remote.peer, info)
        self._tell_members()

    def _bar(self, remote: _Remote, reason: str) -> None:
        """Drop a peer that broke the protocol. It may come back when its program is started anew."""
        self._fault("bad", ProtocolError(peer=remote.name, why=reason), remote.peer)
        remote.barred = remote.session or "?"
        self._stop_timers(remote)
        if remote.link is not None:
            remote.link.drop(f"the protocol was broken: {reason}")

    # -- lists and forwarding -----------------------------------------------------------------------

    def _tell_members(self) -> None:
        """Tell everyone whom this member is connected to."""
        said = _Members(tuple(sorted(self.connected)))
        for remote in self._remotes.values():
            if remote.connected and remote.link is not None:
                self._tell(remote.link, said)

    def _listed(self, remote: _Remote, peers: tuple[str, ...]) -> None:
        if len(peers) > self._settings.max_peers:
            self._bar(remote, f"a list of {len(peers)} members")
            return
        remote.listed = frozenset(peers)
        for peer in peers:
            other = self._hear(peer)
            if other is not None:
                self._attend(other)

    def _forward(self, remote: _Remote, said: _Forward) -> None:
        """Hand a sealed signal on. What is too large, too often or for nobody is not; the sender tries again."""
        to = self._remotes.get(said.to)
        if to is None or not to.connected or to.link is None or to is remote:
            return
        if len(said.payload) <= MAX_SIGNAL and remote.budget.take():
            self._tell(to.link, _Forwarded(remote.peer, said.payload))

    # -- signalling ---------------------------------------------------------------------------------

    def _routes(self, remote: _Remote) -> list[_Ear | _Remote]:
        """Ways to a peer: where its last signal came from, then rendezvous, then members connected to it."""
        ways: list[_Ear | _Remote] = [ear for ear in self._ears if remote.peer in ear.rendezvous.peers]
        ways += [each for each in self._remotes.values() if each.connected and remote.peer in each.listed]
        turn = remote.tries % len(ways) if ways else 0  # a way that does not work is not tried for ever
        ways = ways[turn:] + ways[:turn]
        ways.sort(key=lambda way: way is not remote.via or remote.tries > 0)
        return ways

    def _route_count(self, remote: _Remote) -> int:
        return len(self._routes(remote))

    def _signal(self, remote: _Remote, signal: _Signal) -> bool:
        """Send sealed, by the first way that takes it."""
        for way in self._routes(remote):
            sealed = self._sealer.seal(remote.peer, _say.encode(signal))
            if isinstance(way, _Ear):
                if way.rendezvous.send(remote.peer, sealed):
                    return True
            elif way.link is not None:
                self._tell(way.link, _Forward(remote.peer, sealed))
                return True
        return False

    def _signalled(self, sender: str, payload: bytes, via: _Ear | _Remote) -> None:
        if len(payload) > MAX_SIGNAL or sender == self.me.peer or self._closing is not None:
            return
        try:
            signal = _read_signal.decode(self._sealer.open(sender, payload))
        except PeerloomError as error:
            self._fault("care", error, sender)
            return
        except msgspec.MsgspecError as error:
            self._fault("care", SignalError(peer=self._name(sender), why=str(error)), sender)
            return
        remote = self._hear(sender)
        if remote is None or (remote.barred and remote.barred in (signal.session, "?")):
            return
        remote.barred, remote.left, remote.via = "", False, via
        if isinstance(signal, _Offer):
            self._on_offer(remote, signal)
        elif isinstance(signal, _Poke):
            self._on_poke(remote, signal)
        elif remote.link is not None and signal.attempt == remote.attempt:
            remote.session = signal.session
            if isinstance(signal, _Answer):
                self._spawn(self._accept(remote, remote.link, signal))
            else:
                self._spawn(remote.link.add_candidate(signal.line, signal.mid))

    def _on_offer(self, remote: _Remote, offer: _Offer) -> None:
        if self._offers(remote) or offer.attempt in (remote.attempt, remote.ended):
            return  # offers go from the smaller id to the larger one; and each once
        self._replace(remote)
        remote.session = offer.session
        self._spawn(self._answer(remote, self._new_link(remote, offer.attempt), offer))

    def _on_poke(self, remote: _Remote, poke: _Poke) -> None:
        if not self._offers(remote):
            return
        restarted = remote.session not in ("", poke.session)
        if remote.link is not None and (restarted or (poke.lost and poke.lost == remote.attempt)):
            self._replace(remote)
        if remote.link is None and self._clock() - remote.dialled_at > REDIAL_S:
            self._try_in(remote, 0.0)  # it is there, whatever failed before

    # -- small things -------------------------------------------------------------------------------

    def _row(self, remote: _Remote) -> LinkRow:
        stats = remote.link.stats() if remote.link is not None else LinkStats()
        trying = remote.link is not None or remote.info is None
        planned = remote.next_try if remote.link is None else None
        return LinkRow(
            peer=remote.peer,
            name=remote.name,
            backend=remote.info.backend if remote.info else "",
            state="open" if remote.connected else "connecting" if trying else "lost",
            path=stats.path.verdict,
            local_type=stats.path.local_type,
            remote_type=stats.path.remote_type,
            rtt_ms=stats.rtt_ms,
            sent_bytes=stats.sent_bytes,
            received_bytes=stats.received_bytes,
            last_seen_s=stats.last_seen_s,
            unsent_bytes=stats.unsent_bytes,
            gathered=stats.gathered,
            remote_candidates=stats.remote_candidates,
            tries=remote.tries,
            next_try_s=None if planned is None else max(0.0, planned - self._clock()),
        )

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

    def _tell(self, link: Link, said: _Said) -> None:
        if link.state is State.OPEN:
            data = _say.encode(said)
            link.send(Kind.ROOM, data, digest_of(data))

    def _stop_timers(self, remote: _Remote) -> None:
        for timer in (remote.timer, remote.hello_timer):
            if timer is not None:
                timer.cancel()
        remote.timer = remote.hello_timer = remote.next_try = None

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _jitter(self) -> float:
        return self._rng.uniform(0.75, 1.25)

    def _token(self) -> str:
        return f"{self._rng.getrandbits(64):016x}"
