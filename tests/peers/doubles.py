"""Recorders, a sealer and a rendezvous in memory for the tests of this folder. The WebRTC below is real."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import random
import time
from collections.abc import Callable
from typing import Any

from desktop.bridge.transport import digest_of
from desktop.errors import PeerloomError
from desktop.peers.direct import Identity
from desktop.peers.ice import Servers
from desktop.peers.link import How, Link, LinkSettings
from desktop.peers.mesh import LinkRow, Mesh, MeshSettings, Receipt
from desktop.peers.packet import Kind, Whole
from desktop.peers.said import PeerInfo
from desktop.peers.transfer import Transfer
from desktop.peers.webrtc import WebRtcLane
from desktop.rooms.rendezvous import RendezvousListener

QUICK: dict[str, Any] = {"heartbeat_s": 0.2, "silent_s": 1.0, "open_s": 8.0, "drain_s": 2.0, "loopback": True}


class Watched:
    """Lets a test wait for a condition: checked whenever an event comes."""

    def __init__(self) -> None:
        self._waiters: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []

    def changed(self) -> None:
        for condition, future in self._waiters:
            if not future.done() and condition():
                future.set_result(None)
        self._waiters = [(c, f) for c, f in self._waiters if not f.done()]

    async def until(self, condition: Callable[[], bool], limit_s: float = 15.0) -> None:
        if condition():
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append((condition, future))
        await asyncio.wait_for(future, limit_s)


async def eventually(condition: Callable[[], bool], limit_s: float = 15.0) -> None:
    """Wait for something of which no event tells: looked at in each turn of the loop."""
    async with asyncio.timeout(limit_s):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0)


class LinkRecorder(Watched):
    """LinkEvents that keeps everything in order."""

    def __init__(self, transfer: Transfer) -> None:
        super().__init__()
        self.transfer = transfer
        self.identity: Identity | None = None
        self.certificate = b""
        self.takes = True
        self.calls: list[tuple[Any, ...]] = []
        self.messages: list[tuple[Kind, bytes]] = []
        self.numbers: list[int] = []  # of these messages

    def _note(self, *call: Any) -> None:
        self.calls.append(call)
        self.changed()

    def of(self, name: str) -> list[tuple[Any, ...]]:
        return [call for call in self.calls if call[0] == name]

    @property
    def sent(self) -> list[int]:
        """Tokens of messages that were acknowledged."""
        return [call[1] for call in self.of("sent")]

    @property
    def endings(self) -> list[tuple[How, str]]:
        """How links ended."""
        return [call[1:] for call in self.of("closed")]

    def link_hello(self, link: Link, hello: bytes) -> None:
        self._note("hello", hello)
        self.greet(link)

    def greet(self, link: Link) -> None:
        """Begin, with messages that go on over the next link when this recorder has several."""
        first = link.peer == "b"
        link.begin(self.transfer, Servers((), ()), first=first, identity=self.identity, certificate=self.certificate)
        self._note("opened")

    def link_closed(self, link: Link, how: How, reason: str) -> None:
        self._note("closed", how, reason)

    def link_message(self, link: Link, message: Whole) -> None:
        self.messages.append((message.kind, bytes(message.data)))
        self.numbers.append(message.message)
        self._note("message", message.kind, len(message.data), message.digest)
        if self.takes:
            link.taken(message.message)

    def link_sent(self, link: Link, token: int) -> None:
        self._note("sent", token)


def make_link(
    peer: str = "peer", recorder: LinkRecorder | None = None, attempt: str = "1", **changes: Any
) -> tuple[Link, LinkRecorder]:
    """A link with a WebRTC lane, not opened yet; `recorder` of an earlier one: its messages go on."""
    settings = LinkSettings(**{**QUICK, **changes})
    if recorder is None:
        recorder = LinkRecorder(Transfer("t", settings.packet_size, settings.limits, time.monotonic))
    link = Link(peer, attempt, recorder, settings, time.monotonic, lambda: b"hello of " + peer.encode())
    link.connect(WebRtcLane(peer, 0, link, Servers((), ()), loopback=settings.loopback))
    return link, recorder


def lane_of(link: Link) -> WebRtcLane:
    """Its control lane."""
    assert isinstance(link.control, WebRtcLane)
    return link.control


async def open_both(a: Link, b: Link) -> None:
    """Connect two links with each other."""
    await lane_of(a).accept(await lane_of(b).answer(await lane_of(a).offer()))


async def opened_pair(**changes: Any) -> tuple[Link, LinkRecorder, Link, LinkRecorder]:
    """Two links, connected with each other on loopback."""
    a, heard_a = make_link("b", **changes)
    b, heard_b = make_link("a", **changes)
    await open_both(a, b)
    await heard_a.until(lambda: bool(heard_a.of("opened")))
    await heard_b.until(lambda: bool(heard_b.of("opened")))
    return a, heard_a, b, heard_b


def hand_over(link: Link, data: bytes, token: int, *, bulk: bool = True) -> None:
    """A message of the trainer."""
    link.send(Kind.TRAINER, data, digest_of(data), bulk=bulk, token=token)


async def moved(link: Link, part: float) -> None:
    """Wait until so much of a large message has been confirmed to its sender."""
    await eventually(lambda: any(it.outgoing and it.done > part * it.total for it in link.stats().progress))


def cut(link: Link) -> None:
    """Kill the sockets below a link, as when a computer vanishes: no goodbye reaches anybody."""
    cut_lane(lane_of(link))


def cut_lane(lane: WebRtcLane) -> None:
    """Kill the sockets below a lane."""
    connection = lane._connection
    assert connection is not None
    assert connection.sctp is not None
    for protocol in connection.sctp.transport.transport._connection._protocols:
        protocol.transport.abort()


async def close_all(*links: Link) -> None:
    await asyncio.gather(*(link.close("test over") for link in links))


class NotAuthentic(PeerloomError):
    """Altered on the way."""


class HashSealer:
    """Authenticates with a key, and hides nothing: enough to see that altered signalling is refused."""

    def __init__(self, me: str, key: bytes = b"room", walls: set[frozenset[str]] | None = None) -> None:
        self.me = me
        self.key = key
        self.walls = walls if walls is not None else set()

    def _tag(self, sender: str, to: str, plain: bytes) -> bytes:
        return hmac.new(self.key, f"{sender}>{to}:".encode() + plain, hashlib.sha256).digest()

    def seal(self, to: str, plain: bytes) -> bytes:
        if frozenset((self.me, to)) in self.walls:
            plain = plain.replace(b"127.0.0.1 ", b"127.0.0.9 ")  # where nobody listens
        return self._tag(self.me, to, plain) + plain

    def open(self, sender: str, sealed: bytes) -> bytes:
        tag, plain = sealed[:32], sealed[32:]
        if not hmac.compare_digest(tag, self._tag(sender, self.me, plain)):
            raise NotAuthentic
        return plain


class Place:
    """A rendezvous in memory. `introduces` says who sees whom; `alter` may change what passes."""

    def __init__(self, introduces: Callable[[str, str], bool] = lambda a, b: True) -> None:
        self.introduces = introduces
        self.alter: Callable[[bytes], bytes] = lambda payload: payload
        self.doors: dict[str, Door] = {}
        self.passed = 0
        self.walls: set[frozenset[str]] = set()  # pairs between which no packet passes, signals do
        self.untold: set[str] = set()  # these can be reached and reach, but are told of nobody

    def door(self, me: str) -> Door:
        door = self.doors[me] = Door(self, me)
        for other in self.doors.values():
            if other is not door and self.introduces(me, other.me) and other.me not in self.untold:
                for listener in other.listeners:
                    listener.peer_seen(me)
        return door

    def end(self) -> None:
        doors, self.doors = list(self.doors.values()), {}
        for door in doors:
            for listener in door.listeners:
                listener.closed("the host left")


class Door:
    """One member's side of a Place."""

    def __init__(self, place: Place, me: str) -> None:
        self.place = place
        self.me = me
        self.listeners: list[RendezvousListener] = []

    @property
    def peers(self) -> frozenset[str]:
        others = self.place.doors.values()
        return frozenset(o.me for o in others if o.me != self.me and self.place.introduces(self.me, o.me))

    def subscribe(self, listener: RendezvousListener) -> None:
        self.listeners.append(listener)
        for peer in sorted(self.peers) if self.me not in self.place.untold else ():
            asyncio.get_running_loop().call_soon(listener.peer_seen, peer)

    def send(self, to: str, payload: bytes) -> bool:
        if to not in self.peers:
            return False
        self.place.passed += 1
        for listener in self.place.doors[to].listeners:
            asyncio.get_running_loop().call_soon(listener.signal, self.me, self.place.alter(payload))
        return True


class MeshRecorder(Watched):
    """MeshEvents that keeps everything in order."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Any, ...]] = []
        self.faults: list[tuple[str, str, str]] = []
        self.messages: list[tuple[str, bytes, bytes]] = []
        self.receipts: list[Receipt] = []
        self.takes: Callable[[Receipt], None] | None = None

    def _note(self, *call: Any) -> None:
        self.calls.append(call)
        self.changed()

    def of(self, name: str) -> list[tuple[Any, ...]]:
        return [call for call in self.calls if call[0] == name]

    def peer_connected(self, peer: str, info: PeerInfo) -> None:
        self._note("connected", peer, info)

    def peer_lost(self, peer: str, reason: str) -> None:
        self._note("lost", peer, reason)

    def received(self, peer: str, data: memoryview, digest: bytes, receipt: Receipt) -> None:
        self.messages.append((peer, bytes(data), digest))
        self.receipts.append(receipt)
        if self.takes is not None:
            self.takes(receipt)
        self._note("received", peer)

    def sent(self, peer: str, token: int) -> None:
        self._note("sent", peer, token)

    def failed(self, peer: str, token: int, reason: str) -> None:
        self._note("failed", peer, token, reason)

    def fault(self, severity: str, text: str, peer: str) -> None:
        self.faults.append((severity, text, peer))
        self.changed()


class Member:
    """A mesh with its recorder."""

    def __init__(self, peer: str, place: Place | None = None, key: bytes = b"room", **changes: Any) -> None:
        self.peer = peer
        self.heard = MeshRecorder()
        info = PeerInfo(peer, f"Member {peer.upper()}", "cpu", "0.1")
        settings = MeshSettings(**{**QUICK, **changes})
        sealer = HashSealer(peer, key, place.walls if place is not None else None)
        self.mesh = Mesh(info, self.heard, sealer, settings, random.Random(peer))
        self.heard.takes = self.mesh.taken
        if place is not None:
            self.mesh.add_rendezvous(place.door(peer))

    async def connected_to(self, *peers: str) -> None:
        await self.heard.until(lambda: self.mesh.connected == set(peers))

    def row(self, peer: str) -> LinkRow:
        return next(row for row in self.mesh.rows() if row.peer == peer)


async def close_members(*members: Member) -> None:
    await asyncio.gather(*(member.mesh.close("test over") for member in members))
