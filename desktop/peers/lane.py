"""What every lane of a link is: packets to one peer, in order, by one way."""

from __future__ import annotations

from typing import Protocol


class LaneEvents(Protocol):
    """What a lane tells, on the loop. Nothing here may raise."""

    def lane_opened(self, lane: Lane) -> None: ...

    def lane_packet(self, lane: Lane, packet: bytes | memoryview) -> None:
        """One packet. Its memory is only valid during the call."""

    def lane_writable(self, lane: Lane) -> None:
        """It was full, and takes packets again."""

    def lane_closed(self, lane: Lane, reason: str) -> None:
        """Exactly once, and last."""


class Lane(Protocol):
    """An ordered way for packets, both directions: WebRTC, TLS on the LAN, or through another member.

    What was sent may be lost when it closes, and only then.
    """

    kind: str  # "webrtc" | "tls" | "via"
    number: int  # within its link; 0 is the control lane
    window: int  # bytes that may be on their way over it

    @property
    def writable(self) -> bool:
        """Open, and its own buffer below the high-water mark."""

    def send(self, packet: bytes) -> None:
        """A whole packet. Never blocks; does nothing when the lane is not open."""

    def close(self, reason: str) -> None:
        """At once; may be called in every state. `lane_closed` follows."""

    async def ended(self) -> None:
        """Wait until nothing of it runs any more."""
