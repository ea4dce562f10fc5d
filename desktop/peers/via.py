"""A lane through a member that reaches both ends: packets sealed end to end, carried as messages of the mesh."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from desktop.errors import SignalError
from desktop.peers.lane import LaneEvents

WINDOW = 512 * 1024  # bytes on their way: what the member between holds for each direction, at most
EARLY_FRAMES = 64  # that overtook the peer's key
KEY_BYTES = 32


class ViaLane:
    """Carried by `through`. ::

        NEW --the peer's key--> OPEN --> CLOSED
         +---------------------------------^

    Each side makes a key pair for this lane (X25519); the public halves travel in sealed signals, so nobody outside
    the room can pose as an end, and a member that only carries cannot read: each direction has its own key
    (HKDF-SHA256 over the shared secret) and numbers its packets (ChaCha20-Poly1305, RFC 8439), so a packet that is
    altered, repeated or left out ends the lane. `post` hands a sealed packet to `through`; False: it cannot.
    """

    kind = "via"
    number = 0
    window = WINDOW

    def __init__(
        self, peer: str, through: str, attempt: str, events: LaneEvents, post: Callable[[bytes], bool], *, first: bool
    ) -> None:
        self.peer = peer
        self.through = through
        self.attempt = attempt
        self._events = events
        self._post = post
        self._first = first  # the side with the smaller id
        self._private = X25519PrivateKey.generate()
        self._seal: ChaCha20Poly1305 | None = None
        self._open: ChaCha20Poly1305 | None = None
        self._sent = self._received = 0
        self._early: list[bytes] = []
        self._closed = False

    @property
    def public(self) -> bytes:
        """My half of the key, for the peer."""
        return self._private.public_key().public_bytes_raw()

    def agree(self, public: bytes) -> None:
        """Take the peer's half: the lane opens. Again, or once closed: nothing. SignalError when it is no key."""
        if self._closed or self._seal is not None:
            return
        try:
            secret = self._private.exchange(X25519PublicKey.from_public_bytes(public))
        except ValueError as error:
            raise SignalError(peer=self.peer, why=f"its key cannot be used ({error})") from error
        keys = HKDF(hashes.SHA256(), 2 * KEY_BYTES, None, f"peerloom via {self.attempt}".encode()).derive(secret)
        mine, theirs = (keys[:KEY_BYTES], keys[KEY_BYTES:])[:: 1 if self._first else -1]
        self._seal, self._open = ChaCha20Poly1305(mine), ChaCha20Poly1305(theirs)
        self._events.lane_opened(self)
        early, self._early = self._early, []
        for frame in early:
            self.carried(frame)

    def carried(self, frame: bytes) -> None:
        """A sealed packet has come through the member between."""
        if self._closed:
            return
        if self._open is None:
            if len(self._early) < EARLY_FRAMES:
                self._early.append(frame)
            return
        try:
            packet = self._open.decrypt(_nonce(self._received), frame, None)
        except InvalidTag:
            self.close("a packet was altered, repeated or lost on its way through another member")
            return
        self._received += 1
        self._events.lane_packet(self, packet)

    @property
    def writable(self) -> bool:
        """Open: how much is on its way is bounded by the window."""
        return self._seal is not None and not self._closed

    def send(self, packet: bytes) -> None:
        """A whole packet."""
        if self._seal is None or self._closed:
            return
        frame = self._seal.encrypt(_nonce(self._sent), packet, None)
        self._sent += 1
        if not self._post(frame):  # later, as whoever sends must not find the lane closed in the middle
            asyncio.get_running_loop().call_soon(self.close, "the member between cannot be reached")

    def close(self, reason: str, *, linger_s: float = 0.0) -> None:
        """At once: what was sent is with the member between already."""
        if not self._closed:
            self._closed = True
            self._early.clear()
            self._events.lane_closed(self, reason)

    async def ended(self) -> None:
        """Nothing runs."""


def _nonce(number: int) -> bytes:
    return number.to_bytes(12, "big")
