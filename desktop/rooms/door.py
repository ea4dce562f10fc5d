"""The first words between a guest and a host, and what each refusal means to a person."""

from __future__ import annotations

import contextlib
import re

import msgspec
from websockets.asyncio.connection import Connection
from websockets.exceptions import ConnectionClosed

from desktop import __version__
from desktop.errors import CodeRefusedError, PeerloomError, RoomRefusedError, VersionError
from desktop.rooms.channel import ChannelError, decode, receive
from desktop.rooms.messages import PROTOCOL, Challenge, Greeting, Hello, Open, Refused

# The sentences are this side's own: a refusal comes from whoever listens there, so its text is not shown.
REASONS = {
    "key": "the link is not of this room, or is of an earlier one; ask the host for a new link",
    "room": "another room is open at that address now; ask the host for a new link",
    "full": "it takes no more connections at the moment; try again later",
    "same-id": "this window is in it already; close the other one first",
    "wait": "somebody tried a code a moment ago; try again in {wait_s:.0f} s",
    "no-code": "its code is switched off after too many wrong tries; ask the host for a new code, or for the link",
    "garbage": "it did not understand this window",
}


class Refusal(Exception):
    """The host does not let this guest in. `reason` is a key of `REASONS`, "code" or "version"."""

    def __init__(self, reason: str, wait_s: float = 0.0) -> None:
        self.reason = reason
        self.wait_s = wait_s
        super().__init__(reason)


# -- the host's side ------------------------------------------------------------------------------------


async def hear(websocket: Connection, room: str) -> Hello:
    """What the guest says first. Raises Refusal, ChannelError, ConnectionClosed."""
    frame = await receive(websocket)
    if not isinstance(frame, str):
        raise ChannelError("it began with a sealed record")
    # First what all versions share: an older or newer guest is to hear that, not that it talks nonsense.
    if decode(msgspec.json.decode, frame, Greeting).protocol != PROTOCOL:
        raise Refusal("version")
    hello = decode(msgspec.json.decode, frame, Open)
    if not isinstance(hello, Hello):
        raise ChannelError("it did not say hello")
    if hello.room != room:
        raise Refusal("room")
    return hello


async def challenge(websocket: Connection, me: str, share: bytes) -> None:
    """Sends the host's share."""
    await _say(websocket, Challenge(protocol=PROTOCOL, version=__version__, peer=me, share=share))


async def refuse(websocket: Connection, reason: str, wait_s: float = 0.0) -> None:
    """Tells the guest why, and closes."""
    with contextlib.suppress(ConnectionClosed):
        await _say(websocket, Refused(protocol=PROTOCOL, version=__version__, reason=reason, wait_s=wait_s))
    await websocket.close()


# -- the guest's side -----------------------------------------------------------------------------------


async def knock(websocket: Connection, hello: Hello) -> Challenge:
    """Says hello; the host's answer. Raises VersionError, RoomRefusedError, CodeRefusedError, ChannelError,
    ConnectionClosed."""
    await _say(websocket, hello)
    frame = await receive(websocket)
    if not isinstance(frame, str):
        raise ChannelError("it answered with a sealed record")
    greeting = decode(msgspec.json.decode, frame, Greeting)
    if greeting.protocol != PROTOCOL:
        raise _version_error(greeting)
    answer = decode(msgspec.json.decode, frame, Open)
    if isinstance(answer, Refused):
        raise refusal_error(answer)
    if not isinstance(answer, Challenge):
        raise ChannelError("it did not answer the hello")
    return answer


def read_refusal(frame: str) -> PeerloomError:
    """The error that a refusal stands for. Raises ChannelError when it is none."""
    refused = decode(msgspec.json.decode, frame, Open)
    if not isinstance(refused, Refused):
        raise ChannelError("it sent something in the open")
    return refusal_error(refused)


def refusal_error(refused: Refused) -> PeerloomError:
    """The error that a person sees."""
    if refused.reason == "code":
        return CodeRefusedError()
    why = REASONS.get(refused.reason, "it gave no reason that is known here")
    return RoomRefusedError(why=why.format(wait_s=min(max(refused.wait_s, 1.0), 3600.0)))


def _version_error(host: Greeting) -> VersionError:
    theirs = host.version if re.fullmatch(r"[0-9A-Za-z.+-]{1,32}", host.version) else "unknown"
    if host.protocol > PROTOCOL:
        return VersionError(older="This window", old=__version__, newer="the host", new=theirs)
    return VersionError(older="The host", old=theirs, newer="this window", new=__version__)


async def _say(websocket: Connection, message: Hello | Challenge | Refused) -> None:
    await websocket.send(msgspec.json.encode(message).decode())
