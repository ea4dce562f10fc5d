"""What the tests of rooms share: a listener that remembers, and rooms on 127.0.0.1."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import ServerConnection, serve

from desktop.rooms.channel import PATH
from desktop.rooms.invite import Invite
from desktop.rooms.lan import LanHost, RoomInfo

ROOM = "maple-otter"
KEY = bytes(range(16))
INFO = RoomInfo(room=ROOM, host="Quiet Heron", host_peer="host", task='{"id":"digits"}', policy='{"quorum":1}',
                members=1, version="0.1.0")


class Recorder:
    """A RendezvousListener that remembers each call and lets a test wait for one."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self._changed = asyncio.Event()

    def _note(self, *call: Any) -> None:
        self.calls.append(call)
        self._changed.set()

    def peer_seen(self, peer: str) -> None:
        self._note("seen", peer)

    def peer_gone(self, peer: str) -> None:
        self._note("gone", peer)

    def signal(self, sender: str, payload: bytes) -> None:
        self._note("signal", sender, payload)

    def closed(self, reason: str) -> None:
        self._note("closed", reason)

    async def until(self, *call: Any) -> None:
        await self.until_true(lambda: any(each[: len(call)] == call for each in self.calls), call)

    async def until_true(self, condition: Callable[[], bool], what: object = "") -> None:
        try:
            async with asyncio.timeout(5):
                while not condition():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise AssertionError(f"waited for {what}, got {self.calls}") from None


@contextlib.asynccontextmanager
async def room(me: str = "host", **options: Any) -> AsyncIterator[LanHost]:
    """An open room on 127.0.0.1."""
    host = await LanHost.open(options.pop("name", ROOM), KEY, me, options.pop("info", lambda: INFO), loopback=True,
                              **options)
    try:
        yield host
    finally:
        await host.close()


def invite_with(invite: Invite, **changes: Any) -> Invite:
    """The invitation with some of its fields replaced."""
    fields = {name: getattr(invite, name) for name in ("room", "key", "addresses", "options")}
    return Invite(**{**fields, **changes})


async def eventually(condition: Callable[[], bool]) -> None:
    """Waits until something is so that nobody announces, for 5 s at most."""
    async with asyncio.timeout(5):
        while True:
            if condition():
                return
            await asyncio.sleep(0.01)


def closed_port() -> int:
    """A port at which nobody listens."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def json(message: dict[str, Any]) -> str:
    return msgspec.json.encode(message).decode()


@contextlib.asynccontextmanager
async def stranger(host: LanHost) -> AsyncIterator[ClientConnection]:
    """A connection to the host on which nothing has been said."""
    async with connect(f"ws://127.0.0.1:{host.port}{PATH}", proxy=None, close_timeout=0.2, max_size=None) as websocket:
        yield websocket


@contextlib.asynccontextmanager
async def server(handler: Callable[[ServerConnection], Awaitable[None]]) -> AsyncIterator[str]:
    """A host that does what `handler` does; its address."""
    async with serve(handler, "127.0.0.1", 0, close_timeout=0.2) as running:
        yield f"127.0.0.1:{running.sockets[0].getsockname()[1]}"
