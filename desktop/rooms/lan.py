"""A room on the local network: the host's window is the place where members find each other.

The host listens on a port. A guest proves that it knows the room's key (see `messages`), learns what the room trains
and who else is there, and from then on host and guests pass each other's sealed payloads on, unread.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import socket
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from typing import Any

from websockets.asyncio.client import ClientConnection
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from desktop import __version__
from desktop.errors import (
    PeerloomError,
    PortInUseError,
    RoomNotFoundError,
    RoomOpenError,
    RoomRefusedError,
    VersionError,
)
from desktop.rooms import door
from desktop.rooms.adapters import local_addresses
from desktop.rooms.channel import PATH, WEBSOCKET, Channel, ChannelError, FullError, TokenBucket, dial, receive
from desktop.rooms.code import CodeDesk, give
from desktop.rooms.door import Refusal
from desktop.rooms.invite import Invite, join_address
from desktop.rooms.messages import (
    MOST_PAYLOAD,
    PROTOCOL,
    Gone,
    Hello,
    Ready,
    RoomInfo,
    Seen,
    Send,
    Signal,
    Welcome,
)
from desktop.rooms.rendezvous import Listeners, RendezvousListener

__all__ = ["LanGuest", "LanHost", "RoomInfo", "join"]

HELLO_S = 5.0  # for all of the first words
JOIN_S = 5.0
STAGGER_S = 0.15  # between the first knock at one address and at the next
MOST_GUESTS = 128
MOST_STRANGERS = 32  # connections that have not proved anything yet
SIGNALS_PER_S, SIGNALS_AT_ONCE = 50.0, 400.0  # of one guest; a newcomer sends one or two to each member at once
BACKLOG = 64

log = logging.getLogger(__name__)


class Limits:
    """What a host allows; tests lower it."""

    def __init__(self, *, guests: int = MOST_GUESTS, strangers: int = MOST_STRANGERS, hello_s: float = HELLO_S,
                 signals_per_s: float = SIGNALS_PER_S, signals_at_once: float = SIGNALS_AT_ONCE) -> None:
        self.guests, self.strangers, self.hello_s = guests, strangers, hello_s
        self.signals_per_s, self.signals_at_once = signals_per_s, signals_at_once


class _Guest:
    """The host's end of one guest."""

    def __init__(self, peer: str, channel: Channel, info: RoomInfo, bucket: TokenBucket) -> None:
        self.peer, self.channel, self.info, self.bucket = peer, channel, info, bucket


class LanHost:
    """The host's side; a Rendezvous for the host's own mesh. Made by `open`."""

    def __init__(self, room: str, key: bytes, me: str, info: Callable[[], RoomInfo], addresses: tuple[str, ...],
                 options: Mapping[str, str], code_changed: Callable[[str], None], limits: Limits,
                 clock: Callable[[], float]) -> None:
        self.room, self.me = room, me
        self.addresses = addresses  # "ip:port", where guests may knock
        self._key, self._info, self._options, self._limits, self._clock = key, info, dict(options), limits, clock
        self._desk = CodeDesk(room, code_changed)
        self._listeners = Listeners()
        self._guests: dict[str, _Guest] = {}
        self._strangers: set[ServerConnection] = set()
        self._servers: list[Server] = []
        self._closing: asyncio.Task[None] | None = None

    @classmethod
    async def open(cls, room: str, key: bytes, me: str, info: Callable[[], RoomInfo], *, port: int = 0,
                   loopback: bool = False, options: Mapping[str, str] | None = None,
                   code_changed: Callable[[str], None] = lambda code: None, limits: Limits | None = None,
                   clock: Callable[[], float] = time.time) -> LanHost:
        """Opens the room on `port` (0: any free one), on all addresses or on 127.0.0.1 alone.

        `me` is the host's peer id; `info()` is asked for each newcomer; `options` go into the link;
        `code_changed(code)` hears each new short code; `clock` gives the room's time, seconds since 1970.
        Raises PortInUseError, RoomOpenError, LinkError (room, key or options).
        """
        sockets = _listen(port, loopback)
        try:
            port = sockets[0].getsockname()[1]
            addresses = tuple(join_address(ip, port) for ip in local_addresses(loopback))
            Invite(room, key, addresses, dict(options or {}))  # what cannot be said in a link is refused at once
            host = cls(room, key, me, info, addresses, options or {}, code_changed, limits or Limits(), clock)
            for each in sockets:
                host._servers.append(await serve(
                    host._attend, sock=each, origins=[None], process_request=host._admit_request, server_header=None,
                    open_timeout=host._limits.hello_s, create_connection=host._connection_class(), **WEBSOCKET))
        except BaseException:
            for each in sockets:
                each.close()
            raise
        return host

    # -- what the window shows

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.addresses[0].rpartition(":")[2])

    @property
    def invite(self) -> Invite:
        """The invitation, with its link."""
        return Invite(self.room, self._key, self.addresses, self._options)

    @property
    def code(self) -> str:
        """The short code that is good now; "" when codes are switched off after too many wrong tries."""
        return self._desk.code

    def renew_code(self) -> None:
        """Another short code, also after they were switched off."""
        self._desk.renew()

    # -- Rendezvous

    @property
    def peers(self) -> frozenset[str]:
        return self._listeners.peers

    def subscribe(self, listener: RendezvousListener) -> None:
        self._listeners.subscribe(listener)

    def send(self, to: str, payload: bytes) -> bool:
        guest = self._guests.get(to)
        if guest is None or len(payload) > MOST_PAYLOAD:
            return False
        return guest.channel.post(Signal(self.me, bytes(payload)))

    async def close(self, reason: str = "this window closed the room") -> None:
        """Closes the room to newcomers. Links between members are not touched."""
        self._listeners.closed(reason)
        if self._closing is None:
            self._closing = asyncio.create_task(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        for server in self._servers:
            server.close()
        for stranger in list(self._strangers):
            stranger.transport.abort()  # websockets would wait for what they have to say
        await asyncio.gather(*(server.wait_closed() for server in self._servers))

    # -- one connection

    def _connection_class(self) -> type[ServerConnection]:
        """Connections that count as strangers from the first byte on, before they have said anything."""
        host = self

        class Counted(ServerConnection):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                super().connection_made(transport)
                host._strangers.add(self)
                if len(host._strangers) > 2 * host._limits.strangers:
                    self.transport.abort()  # too many even to be told so

            def connection_lost(self, exc: Exception | None) -> None:
                host._strangers.discard(self)
                super().connection_lost(exc)

        return Counted

    def _admit_request(self, websocket: ServerConnection, request: Request) -> Response | None:
        if request.path != PATH:
            return websocket.respond(HTTPStatus.NOT_FOUND, "Nothing here.\n")
        if len(self._strangers) > self._limits.strangers:
            return websocket.respond(HTTPStatus.SERVICE_UNAVAILABLE, "Too many at the door.\n")
        return None

    async def _attend(self, websocket: ServerConnection) -> None:
        """All of one connection; never raises."""
        try:
            async with asyncio.timeout(self._limits.hello_s):
                guest = await self._let_in(websocket)
        except Refusal as refusal:
            await door.refuse(websocket, refusal.reason, refusal.wait_s)
        except ChannelError as error:
            log.info("somebody at the door was not understood: %s", error)
            await door.refuse(websocket, "garbage")
        except (ConnectionClosed, TimeoutError):
            websocket.transport.abort()
        except Exception:  # a fault of ours: it must be seen, and must not take the room with it
            log.exception("a newcomer could not be let in")
            websocket.transport.abort()
        else:
            if guest is not None:
                self._strangers.discard(websocket)
                await self._host(guest)

    async def _let_in(self, websocket: ServerConnection) -> _Guest | None:
        """The first words. None: it was given the invitation and has gone. Raises Refusal, ChannelError."""
        hello = await door.hear(websocket, self.room)
        if hello.way == "code":
            await give(websocket, hello, self.me, self._desk, self.invite)
            return None
        share = os.urandom(32)
        await door.challenge(websocket, self.me, share)
        channel = Channel(websocket, "host", self._key, (hello.share, share), ("key", self.room, hello.peer, self.me))
        try:
            proof = await channel.receive()
        except ChannelError:
            raise Refusal("key") from None
        if not isinstance(proof, Ready):
            raise ChannelError("it did not prove itself")
        await self._make_room(hello.peer)
        bucket = TokenBucket(self._limits.signals_per_s, self._limits.signals_at_once)
        return _Guest(hello.peer, channel, self._info(), bucket)

    async def _make_room(self, peer: str) -> None:
        """Raises Refusal when there is no room for `peer`; sees off a guest of the same id that has gone silent."""
        if peer == self.me:
            raise Refusal("same-id")
        earlier = self._guests.get(peer)
        if earlier is not None:
            # A window that lost its connection comes back before this side has noticed; a live one answers at once.
            with contextlib.suppress(TimeoutError, ConnectionClosed):
                async with asyncio.timeout(min(1.0, self._limits.hello_s / 2)):
                    await (await earlier.channel.websocket.ping())
                    raise Refusal("same-id")
            self._see_off(earlier, "its window came back")
        if len(self._guests) >= self._limits.guests:
            raise Refusal("full")
        if peer in self._guests:  # another one was quicker while this one waited
            raise Refusal("same-id")

    async def _host(self, guest: _Guest) -> None:
        """A guest's stay, from the welcome to the end of its connection."""
        channel = guest.channel
        welcome = Welcome(info=guest.info, peers=[self.me, *self._guests], time=self._clock())
        self._guests[guest.peer] = guest
        channel.post(welcome)
        self._tell_others(Seen(guest.peer), guest.peer)
        self._listeners.seen(guest.peer)
        pump = asyncio.create_task(channel.pump())
        try:
            await self._pass_on(guest)
        except ChannelError as error:
            log.info("guest %s was dropped: %s", guest.peer, error)
            self._see_off(guest, str(error))
        except ConnectionClosed:
            pass
        finally:
            self._see_off(guest, "its connection ended")
            pump.cancel()
            await asyncio.wait([pump])

    async def _pass_on(self, guest: _Guest) -> None:
        while True:
            message = await guest.channel.receive()
            if not isinstance(message, Send):
                raise ChannelError(f"it sent {type(message).__name__}, which is not for guests")
            if not guest.bucket.take():
                raise ChannelError("it sent too many messages")
            if message.to == self.me:
                self._listeners.signal(guest.peer, message.payload)
            elif message.to in self._guests:
                self._guests[message.to].channel.post(Signal(guest.peer, message.payload))

    def _see_off(self, guest: _Guest, why: str) -> None:
        guest.channel.fail(why)
        if self._guests.get(guest.peer) is guest:
            del self._guests[guest.peer]
            self._tell_others(Gone(guest.peer), guest.peer)
            self._listeners.gone(guest.peer)

    def _tell_others(self, message: Seen | Gone, but: str) -> None:
        for peer, guest in list(self._guests.items()):
            if peer != but:
                guest.channel.post(message)


def _listen(port: int, loopback: bool) -> list[socket.socket]:
    """Listening sockets on one port, IPv4 and, if the computer has it, IPv6. Raises PortInUseError, RoomOpenError."""
    if not 0 <= port <= 65535:
        raise RoomOpenError(why=f"there is no port {port}")
    four = _bound(socket.AF_INET, "127.0.0.1" if loopback else "0.0.0.0", port)
    sockets = [four]
    if not loopback and socket.has_ipv6:
        # Of a free port only IPv4 is sure to be free; IPv6 is a second way in and not worth an error.
        with contextlib.suppress(PeerloomError):
            sockets.append(_bound(socket.AF_INET6, "::", four.getsockname()[1]))
    return sockets


def _bound(family: int, host: str, port: int) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        if sys.platform == "win32":  # there the other option would let two programs share the port
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
        else:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.setblocking(False)
        sock.bind((host, port))
        sock.listen(BACKLOG)  # on Linux two may bind with the option above; only one of them may listen
    except OSError as error:
        sock.close()
        if error.errno == errno.EADDRINUSE:
            raise PortInUseError(port=port) from None
        raise RoomOpenError(why=f"port {port}: {error.strerror or error}") from None
    return sock


# -- the guest's side -----------------------------------------------------------------------------------


class LanGuest:
    """A guest's side; a Rendezvous. Made by `join`. Does not come back by itself once its host has gone: members
    who are linked pass signalling on for each other."""

    def __init__(self, me: str, host: str, channel: Channel, welcome: Welcome, address: str) -> None:
        self.me = me
        self.info = welcome.info
        self.host = host  # the host's peer id
        self.address = address  # where the host answered
        self.clock_ahead_s = welcome.time - time.time()  # of the host's clock, to the round trip's time
        self._channel = channel
        self._listeners = Listeners()
        for peer in welcome.peers:
            if peer != me:
                self._listeners.seen(peer)
        self._task = asyncio.create_task(self._run())

    def clock(self) -> float:
        """The room's time, which is the host's: seconds since 1970, however wrong this computer's clock is."""
        return time.time() + self.clock_ahead_s

    @property
    def peers(self) -> frozenset[str]:
        return self._listeners.peers

    def subscribe(self, listener: RendezvousListener) -> None:
        self._listeners.subscribe(listener)

    def send(self, to: str, payload: bytes) -> bool:
        if to not in self._listeners.peers or len(payload) > MOST_PAYLOAD:
            return False
        return self._channel.post(Send(to, bytes(payload)))

    async def close(self) -> None:
        """Leaves the rendezvous. Links between members are not touched."""
        self._listeners.closed("this window left")
        await self._channel.websocket.close()
        await asyncio.wait([self._task])

    async def _run(self) -> None:
        pump = asyncio.create_task(self._channel.pump())
        try:
            while True:
                self._take(await self._channel.receive())
        except ChannelError as error:
            self._channel.fail(f"the host was not understood: {error}")
        except ConnectionClosed:
            pass
        finally:
            self._listeners.closed(self._why())
            pump.cancel()
            await asyncio.wait([pump])

    def _take(self, message: object) -> None:
        match message:
            case Seen(peer=peer) if peer != self.me:
                if len(self._listeners.peers) >= 1024:
                    raise ChannelError("it names too many members")
                self._listeners.seen(peer)
            case Gone(peer=peer):
                self._listeners.gone(peer)
            case Signal(sender=sender, payload=payload):
                self._listeners.signal(sender, payload)
            case _:
                raise ChannelError(f"it sent {type(message).__name__}, which is not for members")

    def _why(self) -> str:
        if self._channel.failure:
            return self._channel.failure
        closed = self._channel.websocket.close_code
        return "the host closed its window" if closed == 1001 else "the connection to the host was lost"


async def join(invite: Invite, me: str, *, timeout_s: float = JOIN_S) -> tuple[LanGuest, RoomInfo]:
    """Enters the room, knocking at all addresses of the invitation, each a little after the one before.

    `me` is this window's peer id. Raises RoomNotFoundError, RoomRefusedError, VersionError, in `timeout_s` at most.
    """
    attempts = [asyncio.create_task(_enter(address, invite, me, number * STAGGER_S, timeout_s))
                for number, address in enumerate(invite.addresses)]
    guest: LanGuest | None = None
    errors: list[PeerloomError] = []
    try:
        async with asyncio.timeout(timeout_s):
            for attempt in asyncio.as_completed(attempts):
                try:
                    guest = await attempt
                    break
                except PeerloomError as error:
                    errors.append(error)
    except TimeoutError:
        pass
    finally:
        await _clear_up(attempts, guest)
    if guest is not None:
        return guest, guest.info
    for each in errors:  # a host that answered tells more than addresses where nobody is
        if isinstance(each, (RoomRefusedError, VersionError)):
            raise each
    raise RoomNotFoundError(address=" or ".join(invite.addresses))


async def _clear_up(attempts: Iterable[asyncio.Task[LanGuest]], winner: LanGuest | None) -> None:
    for attempt in attempts:
        attempt.cancel()
    try:
        results = await asyncio.gather(*attempts, return_exceptions=True)
    except asyncio.CancelledError:
        if winner is not None:
            await winner.close()
        raise
    for result in results:
        if isinstance(result, LanGuest) and result is not winner:
            await result.close()


async def _enter(address: str, invite: Invite, me: str, delay_s: float, timeout_s: float) -> LanGuest:
    await asyncio.sleep(delay_s)
    try:
        websocket = await dial(address, timeout_s)
    except FullError:
        raise RoomRefusedError(why=door.REASONS["full"]) from None
    try:
        return await _introduce(websocket, address, invite, me)
    except BaseException as error:
        websocket.transport.abort()
        if isinstance(error, (ChannelError, ConnectionClosed)):
            raise RoomNotFoundError(address=address) from None
        raise


async def _introduce(websocket: ClientConnection, address: str, invite: Invite, me: str) -> LanGuest:
    share = os.urandom(32)
    hello = Hello(protocol=PROTOCOL, version=__version__, way="key", room=invite.room, peer=me, share=share)
    answer = await door.knock(websocket, hello)
    channel = Channel(websocket, "guest", invite.key, (share, answer.share), ("key", invite.room, me, answer.peer))
    await channel.send(Ready())
    frame = await receive(websocket)
    if isinstance(frame, str):
        raise door.read_refusal(frame)
    try:
        welcome: Any = channel.open(frame)
    except ChannelError:
        raise RoomRefusedError(why=door.REASONS["key"]) from None
    if not isinstance(welcome, Welcome):
        raise ChannelError("it did not welcome")
    return LanGuest(me, answer.peer, channel, welcome, address)
