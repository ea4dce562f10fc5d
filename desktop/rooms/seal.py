"""Seals what members send each other through others: only members of the room can read it, none can alter it.

Sealed bytes: format (1 byte, 1) · time sealed (8 bytes, ms since 1970, big endian) · nonce (12 random bytes) ·
ciphertext and tag of ChaCha20-Poly1305. The key is HKDF-SHA256 of the room's key, separate for each room, sender
and receiver; the associated data bind all three once more, and the format and the time.

Time: what was sealed more than `WINDOW_S` ago by the receiver's clock is refused, and so is what is dated more than
`WINDOW_S` ahead of it. Two clocks may thus differ by nearly that much. Clocks that are wrong by more do no harm if all
members use the clock of the room's host, which each newcomer learns at joining (`LanGuest.clock`, to be given as
`clock` here). Nonces are remembered as long as their message would be accepted, so nothing is accepted twice.

What the room's key proves is membership, not who of the members it is: a member can seal in another's name.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from desktop.errors import SealError

FORMAT = 1
WINDOW_S = 120.0
REMEMBERED = 4096  # nonces per sender; a sender with more within the window loses the oldest, as too old
HEADER = 1 + 8 + 12
OVERHEAD = HEADER + 16  # bytes that sealing adds


def derive(key: bytes, salt: bytes, info: bytes, length: int) -> bytes:
    """HKDF-SHA256 (RFC 5869) of `key`."""
    return HKDF(algorithm=SHA256(), length=length, salt=salt, info=info).derive(key)


def bind(*parts: str | bytes) -> bytes:
    """Joins parts so that no two different lists of parts give the same bytes: each with its length (4 bytes)."""
    encoded = [part.encode() if isinstance(part, str) else part for part in parts]
    return b"".join(len(part).to_bytes(4, "big") + part for part in encoded)


class Sealer:
    """Seals and opens for one member of one room.

    `me` is this member's peer id, `key` the room's key (16 bytes or more), `clock` gives seconds since 1970 as the
    whole room counts them.
    """

    def __init__(self, me: str, key: bytes, room: str, clock: Callable[[], float] = time.time) -> None:
        self.me = me
        self.room = room
        self._key = key
        self._clock = clock
        self._seen: dict[str, _Seen] = {}

    def seal(self, to: str, plain: bytes) -> bytes:
        """Seals `plain` for the peer `to` alone; the result is `OVERHEAD` bytes longer."""
        header = bytes([FORMAT]) + round(self._clock() * 1000).to_bytes(8, "big")
        nonce = os.urandom(12)
        cipher, bound = self._cipher(self.me, to, header)
        return header + nonce + cipher.encrypt(nonce, plain, bound)

    def open(self, sender: str, sealed: bytes) -> bytes:
        """What `sender` sealed for this member. Raises SealError: not authentic, too old, or seen before."""
        sealed = bytes(sealed)
        if len(sealed) < OVERHEAD:
            raise SealError(why="it is too short")
        if sealed[0] != FORMAT:
            raise SealError(why=f"its format is {sealed[0]}, and only {FORMAT} is known here")
        header, nonce = sealed[:9], sealed[9:HEADER]
        cipher, bound = self._cipher(sender, self.me, header)
        try:
            plain = cipher.decrypt(nonce, sealed[HEADER:], bound)
        except InvalidTag:
            why = "it was altered, or sealed with another key, in another room, or by or for someone else"
            raise SealError(why=why) from None
        # Only now is the time worth anything: it has been authenticated.
        self._check_fresh(sender, int.from_bytes(header[1:], "big") / 1000, nonce)
        return plain

    def _cipher(self, sender: str, to: str, header: bytes) -> tuple[ChaCha20Poly1305, bytes]:
        parties = bind(self.room, sender, to)
        return ChaCha20Poly1305(derive(self._key, b"peerloom seal", parties, 32)), header + parties

    def _check_fresh(self, sender: str, sealed_at: float, nonce: bytes) -> None:
        now = self._clock()
        age = now - sealed_at
        if age > WINDOW_S:
            raise SealError(why=f"it is too old ({age:.0f} s), or a clock is wrong")
        if -age > WINDOW_S:
            raise SealError(why=f"it is dated {-age:.0f} s ahead, so a clock is wrong")
        seen = self._seen.setdefault(sender, _Seen())
        if nonce in seen.nonces:
            raise SealError(why="it has been received before")
        if sealed_at <= seen.floor:
            raise SealError(why="it is too old to tell whether it has been received before")
        seen.add(nonce, sealed_at)


class _Seen:
    """The nonces of one sender that could still be accepted again, with their times."""

    def __init__(self) -> None:
        self.nonces: dict[bytes, float] = {}
        self.floor = -math.inf  # nothing dated at or before this is accepted, as its nonce may be forgotten

    def add(self, nonce: bytes, sealed_at: float) -> None:
        self.nonces[nonce] = sealed_at
        if len(self.nonces) > REMEMBERED:
            # For most the window passed long ago. If not, the price of a flood is paid by its sender alone.
            ordered = sorted((at, each) for each, at in self.nonces.items())
            forgotten, kept = ordered[: -REMEMBERED // 2], ordered[-REMEMBERED // 2 :]
            self.floor = forgotten[-1][0]
            self.nonces = {each: at for at, each in kept}
