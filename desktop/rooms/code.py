"""Short codes: a few words that a person reads out over the phone become the room's link, without a server.

A code is the room's name and a secret, `maple-otter-amber-falcon-42`. The secret (two of 256 words and a number of two
digits: 22 bits) is far too short to encrypt with, so it goes into SPAKE2: whoever listens learns nothing to try it
against later, and whoever takes part, on either side, has one guess. Each code is good for one try, right or wrong;
wrong tries make the next ones wait, and after `MOST_FAILURES` in a row the code is switched off until the host's
person asks for a new one. Together that leaves an attacker a chance of about `MOST_FAILURES` in four million.
"""

from __future__ import annotations

import asyncio
import difflib
import random
import re
import time
import unicodedata
from collections.abc import Callable
from typing import Literal

import spake2
from websockets.asyncio.connection import Connection
from websockets.exceptions import ConnectionClosed

from desktop import __version__
from desktop.errors import CodeFormError, CodeRefusedError, LinkError, RoomNotFoundError, RoomRefusedError
from desktop.rooms import door
from desktop.rooms.channel import Channel, ChannelError, FullError, dial, receive
from desktop.rooms.door import Refusal
from desktop.rooms.invite import Invite, check_room
from desktop.rooms.messages import PROTOCOL, Given, Hello, Ready
from desktop.rooms.names import CODE_WORDS

MOST_FAILURES = 10
TRY_S = 5.0


def new_secret(rng: random.Random) -> str:
    """The secret half of a code, such as `amber-falcon-42`."""
    return f"{rng.choice(CODE_WORDS)}-{rng.choice(CODE_WORDS)}-{rng.randrange(10, 100)}"


def split_code(text: str) -> tuple[str, str]:
    """("maple-otter", "amber-falcon-42") of a code as a person typed it: capitals, spaces, other dashes.

    Raises CodeFormError, with the likely word for one that is misspelt: a slip of the finger costs no try.
    """
    plain = unicodedata.normalize("NFKC", text).lower()
    plain = re.sub(r"(?<=[a-z])(?=[0-9]+\W*$)", "-", plain[:200])
    parts = [part for part in re.split(r"[\W_]+", plain) if part]
    shown = text.strip()[:80]
    if len(parts) < 4:
        raise CodeFormError(code=shown, why="some of it is missing")
    *room, first, second, number = parts
    if not re.fullmatch("[1-9][0-9]", number):
        raise CodeFormError(code=shown, why="it does not end in a number of two digits")
    for word in (first, second):
        if word not in CODE_WORDS:
            likely = difflib.get_close_matches(word, CODE_WORDS, 1)
            hint = f"; is it “{likely[0]}”?" if likely else ""
            raise CodeFormError(code=shown, why=f"“{word}” is not a word that codes have{hint}")
    try:
        check_room("-".join(room))
    except LinkError:
        raise CodeFormError(code=shown, why="it does not begin with the name of a room") from None
    return "-".join(room), f"{first}-{second}-{number}"


class CodeDesk:
    """The host's side of codes: which one is good now, and how many were tried.

    `changed(code)` is called with each new code, "" when codes are switched off. `clock` counts seconds, from anywhere.
    """

    def __init__(self, room: str, changed: Callable[[str], None], rng: random.Random | None = None,
                 clock: Callable[[], float] = time.monotonic) -> None:
        self._room, self._changed, self._clock = room, changed, clock
        self._rng = rng or random.SystemRandom()
        self._secret = new_secret(self._rng)
        self._failures = 0
        self._open_at = clock()
        self._busy = False

    @property
    def code(self) -> str:
        """The code to read out; "" when codes are switched off."""
        return f"{self._room}-{self._secret}" if self._secret else ""

    def renew(self) -> None:
        """A new code, because the host's person asks for it: earlier failures are forgiven."""
        self._failures = 0
        self._open_at = self._clock()
        self._draw()

    def take(self) -> str:
        """The secret for one try, which must be followed by `settle`. Raises Refusal: one at a time, and not too soon.

        The code is replaced here and not in `settle`, so that a try that is broken off has used it up as well.
        """
        if not self._secret:
            raise Refusal("no-code")
        wait_s = 1.0 if self._busy else self._open_at - self._clock()
        if wait_s > 0:
            raise Refusal("wait", wait_s)
        self._busy = True
        secret = self._secret
        self._draw()
        return secret

    def settle(self, right: bool) -> None:
        """Ends the try that `take` began."""
        self._busy = False
        self._failures = 0 if right else self._failures + 1
        if self._failures:
            self._open_at = self._clock() + 2.0 ** (self._failures - 1)
        if self._failures >= MOST_FAILURES and self._secret:
            self._secret = ""
            self._changed("")

    def _draw(self) -> None:
        self._secret = new_secret(self._rng)
        self._changed(self.code)


async def give(websocket: Connection, hello: Hello, me: str, desk: CodeDesk, invite: Invite) -> None:
    """The host's side of one try. Raises Refusal, ChannelError, ConnectionClosed."""
    secret = desk.take()
    right = False
    try:
        spake = spake2.SPAKE2_B(secret.encode(), idA=b"guest", idB=invite.room.encode())
        share: bytes = spake.start()
        await door.challenge(websocket, me, share)
        channel = _channel(websocket, "host", _finish(spake, hello.share), (hello.share, share),
                           (invite.room, hello.peer, me))
        # The guest proves first: if the host did, a guess could be checked without using the code up.
        try:
            right = isinstance(await channel.receive(), Ready)
        except ChannelError:
            raise Refusal("code") from None
    finally:
        desk.settle(right)
    await channel.send(Given(invite.link()))
    await websocket.close()


async def redeem(address: str, code: str, me: str, *, timeout_s: float = TRY_S) -> Invite:
    """The invitation to the room that a short code stands for, from the host at "host:port".

    Uses the code up. Raises CodeFormError and AddressError (nothing was tried), RoomNotFoundError, RoomRefusedError,
    CodeRefusedError, VersionError.
    """
    room, secret = split_code(code)
    end = asyncio.get_running_loop().time() + timeout_s
    try:
        websocket = await dial(address, timeout_s)
    except FullError:
        raise RoomRefusedError(why=door.REASONS["full"]) from None
    try:
        async with asyncio.timeout_at(end):
            invite = await _ask(websocket, room, secret, me)
    except (ChannelError, ConnectionClosed, TimeoutError, LinkError):
        raise RoomNotFoundError(address=address) from None
    finally:
        websocket.transport.abort()
        await websocket.wait_closed()
    # Where it answered just now is the best place to knock.
    addresses = tuple(dict.fromkeys((address, *invite.addresses)))
    return Invite(invite.room, invite.key, addresses[:16], invite.options)


async def _ask(websocket: Connection, room: str, secret: str, me: str) -> Invite:
    spake = spake2.SPAKE2_A(secret.encode(), idA=b"guest", idB=room.encode())
    share: bytes = spake.start()
    hello = Hello(protocol=PROTOCOL, version=__version__, way="code", room=room, peer=me, share=share)
    answer = await door.knock(websocket, hello)
    channel = _channel(websocket, "guest", _finish(spake, answer.share), (share, answer.share), (room, me, answer.peer))
    await channel.send(Ready())
    frame = await receive(websocket)
    if isinstance(frame, str):
        raise door.read_refusal(frame)
    try:
        given = channel.open(frame)
    except ChannelError:
        raise CodeRefusedError from None  # it does not know the code: not the host that gave it
    if not isinstance(given, Given):
        raise ChannelError("it did not give the invitation")
    return Invite.parse(given.link)


def _finish(spake: spake2.SPAKE2_A | spake2.SPAKE2_B, share: bytes) -> bytes:
    try:
        key: bytes = spake.finish(share)
    except Exception:  # spake2 has no common error for shares that are no points of its group, or its own
        raise ChannelError("its share is none of SPAKE2") from None
    return key


def _channel(websocket: Connection, side: Literal["guest", "host"], key: bytes, shares: tuple[bytes, bytes],
             names: tuple[str, str, str]) -> Channel:
    return Channel(websocket, side, key, shares, ("code", *names))
