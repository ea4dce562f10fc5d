"""A connection between a guest and a host: sealed records in order, bounded in memory both ways."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Literal, TypeVar

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.connection import Connection
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

from desktop.errors import RoomNotFoundError
from desktop.rooms.invite import join_address, split_address
from desktop.rooms.messages import MOST_MESSAGE, Sealed
from desktop.rooms.seal import bind, derive

PATH = "/peerloom/room"
MOST_UNSENT = 1024 * 1024  # bytes waiting for a peer that reads slowly; with more it is dropped
PING_S = 5.0  # how often a silent connection is probed; without an answer for as long again it is over
CLOSE_S = 1.0
EACH_ADDRESS_S = 2.0  # for one of several addresses of one name

log = logging.getLogger("desktop.rooms.websockets")
log.addFilter(lambda record: _demote(record))


def _demote(record: logging.LogRecord) -> bool:
    """Port scanners and broken guests are no errors of ours: what websockets says of them is for debugging."""
    record.levelno, record.levelname = logging.DEBUG, "DEBUG"
    return log.isEnabledFor(logging.DEBUG)


# Of both ends. Compression would cost memory and time; what travels is sealed and does not compress.
WEBSOCKET: dict[str, Any] = {
    "compression": None, "ping_interval": PING_S, "ping_timeout": PING_S, "close_timeout": CLOSE_S,
    "max_size": MOST_MESSAGE, "max_queue": 4, "logger": log,
}


class ChannelError(Exception):
    """The other side broke the protocol; the text says how."""


class Channel:
    """Both ends of a connection after they agreed on keys.

    Each direction has a key of its own; the number of the record is its nonce, so a record that is altered, repeated,
    left out or moved does not open. `secret` is what both sides know; the shares are fresh for each connection.
    """

    def __init__(self, websocket: Connection, side: Literal["guest", "host"], secret: bytes,
                 shares: tuple[bytes, bytes], names: tuple[str, ...]) -> None:
        keys = derive(secret, bind(*shares), bind("peerloom channel 1", *names), 64)
        mine, theirs = (keys[:32], keys[32:]) if side == "guest" else (keys[32:], keys[:32])
        self.websocket = websocket
        self.failure = ""  # why this side gave the connection up
        self._out, self._in = ChaCha20Poly1305(mine), ChaCha20Poly1305(theirs)
        self._sealed = self._opened = 0
        self._unsent: deque[bytes] = deque()
        self._unsent_bytes = 0
        self._wake = asyncio.Event()

    def _seal(self, message: Sealed) -> bytes:
        record = self._out.encrypt(self._sealed.to_bytes(12, "big"), msgspec.msgpack.encode(message), None)
        self._sealed += 1
        return record

    async def send(self, message: Sealed) -> None:
        """Sends before `pump` runs. Raises ConnectionClosed."""
        await self.websocket.send(self._seal(message))

    def post(self, message: Sealed) -> bool:
        """Hands over for `pump`. False when the connection has failed, or now fails because too much is waiting."""
        if self.failure:
            return False
        record = self._seal(message)
        if self._unsent_bytes + len(record) > MOST_UNSENT:
            self.fail("the other side reads too slowly")
            return False
        self._unsent.append(record)
        self._unsent_bytes += len(record)
        self._wake.set()
        return True

    async def pump(self) -> None:
        """Sends what is posted until the connection ends."""
        with contextlib.suppress(ConnectionClosed):
            while True:
                await self._wake.wait()
                self._wake.clear()
                while self._unsent:
                    record = self._unsent.popleft()
                    await self.websocket.send(record)
                    self._unsent_bytes -= len(record)

    def open(self, frame: str | bytes) -> Sealed:
        """What a frame says. Raises ChannelError: not sealed by the other side as its next record, or not a message."""
        if isinstance(frame, str):
            raise ChannelError("it sent text")
        try:
            plain = self._in.decrypt(self._opened.to_bytes(12, "big"), frame, None)
        except InvalidTag:
            raise ChannelError("it sent what its key does not open") from None
        self._opened += 1
        return decode(msgspec.msgpack.decode, plain, Sealed)

    async def receive(self) -> Sealed:
        """The next message. Raises ChannelError, ConnectionClosed."""
        return self.open(await receive(self.websocket))

    def fail(self, why: str) -> None:
        """Gives the connection up at once, without a farewell."""
        if not self.failure:
            self.failure = why
            self._unsent.clear()
            self.websocket.transport.abort()


async def receive(websocket: Connection) -> str | bytes:
    """The next frame. Raises ConnectionClosed, also for text that is not UTF-8."""
    try:
        return await websocket.recv()
    except UnicodeDecodeError:
        raise ChannelError("it sent text that is none") from None


Decoded = TypeVar("Decoded")


def decode(decoder: Callable[..., Any], data: str | bytes, kind: Any) -> Any:
    """`data` as one of `kind`. Raises ChannelError."""
    try:
        return decoder(data, type=kind)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise ChannelError(f"it sent what is no message: {error}") from None


class TokenBucket:
    """Allows `rate` a second on average, `burst` at once."""

    def __init__(self, rate: float, burst: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._burst, self._clock = rate, burst, clock
        self._left, self._at = burst, clock()

    def take(self) -> bool:
        now = self._clock()
        self._left = min(self._burst, self._left + (now - self._at) * self._rate)
        self._at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True


# -- reaching a host ------------------------------------------------------------------------------------


class FullError(Exception):
    """The host takes no more connections at the moment."""


async def dial(address: str, timeout_s: float) -> ClientConnection:
    """A connection to whoever listens at "host:port". Raises RoomNotFoundError, AddressError, FullError."""
    host, port = split_address(address)
    try:
        async with asyncio.timeout(timeout_s):
            ips = await resolve(host)
            for ip in ips:
                with contextlib.suppress(OSError, TimeoutError, WebSocketException, EOFError, ValueError):
                    limit = timeout_s if len(ips) == 1 else EACH_ADDRESS_S
                    return await _connect(ip, port, limit)
    except TimeoutError:
        pass
    raise RoomNotFoundError(address=address)


async def _connect(ip: str, port: int, timeout_s: float) -> ClientConnection:
    uri = f"ws://{join_address(ip, port)}{PATH}"
    try:
        # A proxy of the system knows nothing of the LAN.
        return await connect(uri, host=ip, port=port, proxy=None, open_timeout=timeout_s, user_agent_header=None,
                             **WEBSOCKET)
    except InvalidStatus as error:
        if error.response.status_code == 503:
            raise FullError from None
        raise


async def resolve(host: str) -> list[str]:
    """The IP addresses of a name; an IP address stands for itself, without asking anybody.

    On a thread of its own: those of the loop's pool are waited for when the program ends, and a name server that does
    not answer would hold the closing window for half a minute.
    """
    with contextlib.suppress(ValueError):
        return [str(ipaddress.ip_address(host))]
    loop = asyncio.get_running_loop()
    found: asyncio.Future[list[str]] = loop.create_future()

    def settle(addresses: list[str]) -> None:
        if not found.done():
            found.set_result(addresses)

    def look_up() -> None:
        try:
            addresses = [str(row[4][0]) for row in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)]
        except (OSError, UnicodeError):
            addresses = []
        with contextlib.suppress(RuntimeError):  # the loop has gone meanwhile
            loop.call_soon_threadsafe(settle, list(dict.fromkeys(addresses)))

    threading.Thread(target=look_up, name=f"resolve {host}", daemon=True).start()
    return await found
