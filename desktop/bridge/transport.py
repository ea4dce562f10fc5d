"""What the trainer side knows of peers: a transport that sends buffers and reports what comes."""

from __future__ import annotations

import hashlib
from typing import Protocol

Buffer = bytes | bytearray | memoryview
DIGEST_BYTES = 16
# Of all that members say to each other: links, round messages, numbers. Raise it whenever an older window could not
# follow any of them. Who has another one is refused at the hello, and both windows say which side is older.
PROTOCOL = 3


def digest_of(data: Buffer) -> bytes:
    """Digest of a whole message: BLAKE2b. Releases the interpreter lock while it runs."""
    return hashlib.blake2b(data, digest_size=DIGEST_BYTES).digest()


class TransportListener(Protocol):
    """Who is told what comes. Called in the trainer's thread."""

    def peer_connected(self, peer: str, name: str) -> None:
        """A peer can be sent to from now on."""

    def peer_lost(self, peer: str, reason: str) -> None:
        """It cannot any more. Comes once for each `peer_connected`."""

    def received(self, peer: str, data: memoryview) -> None:
        """A whole message whose digest was checked. It belongs to the listener now."""


class PeerTransport(Protocol):
    """Injected into the trainer: the same rounds run over WebRTC, in-process loopback and the simulator."""

    @property
    def me(self) -> str:
        """My own peer id."""

    @property
    def peers(self) -> dict[str, str]:
        """Name by peer id of all that are connected."""

    def listen(self, listener: TransportListener | None) -> None:
        """Tell this listener from now on; None: nobody. What comes meanwhile is dropped."""

    def send(self, peer: str, data: Buffer, *, bulk: bool) -> None:
        """Hand a buffer over; it must not be changed afterwards. To a lost peer nothing is sent."""

    def unsent(self, peer: str) -> int:
        """Bytes handed over that the peer has not acknowledged. Who produces stops above a high-water mark."""

    def measure_uplink(self) -> float:
        """Bytes of bulk per second that the others took in exchanges until now; 0: not known. Call it once a round."""
