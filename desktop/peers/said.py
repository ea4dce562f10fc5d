"""What members say to each other: over their links, and sealed over whatever way there is before there are links."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

SIGNAL_BURST = 600  # signals that may come at once from one side: every member of a full room, twice
SIGNAL_RATE = 50.0  # and per second after that


class PeerInfo(msgspec.Struct, frozen=True):
    """Who a member is, as it says itself."""

    peer: str
    name: str
    backend: str
    version: str


class Said(msgspec.Struct, frozen=True, tag_field="what"):
    """Said over a link, once hello has been said."""


class Hello(msgspec.Struct, frozen=True, tag_field="what", tag="hello"):
    """The first word of each side on a link. `transfer`: whose messages the sender could go on with; "" for none."""

    protocol: int
    session: str
    info: PeerInfo
    transfer: str
    certificate: bytes  # for a direct lane; empty: none is wished


class Members(Said, frozen=True, tag="members"):
    """Everyone to whom the sender has a link of its own."""

    peers: tuple[str, ...]


class Forward(Said, frozen=True, tag="forward"):
    """Please hand this sealed signal on."""

    to: str
    payload: bytes


class Forwarded(Said, frozen=True, tag="forwarded"):
    """Handed on for `sender`."""

    sender: str
    payload: bytes


class Carry(Said, frozen=True, tag="carry"):
    """Please hand this packet of a lane on: see ViaLane."""

    to: str
    attempt: str
    sealed: bytes


class Carried(Said, frozen=True, tag="carried"):
    """Handed on for `sender`."""

    sender: str
    attempt: str
    sealed: bytes


class Signal(msgspec.Struct, frozen=True, tag_field="what"):
    """Travels sealed. `session` is new each time a program starts, `attempt` each time a link is tried."""

    session: str


class Offer(Signal, frozen=True, tag="offer"):
    attempt: str
    sdp: str


class Answer(Signal, frozen=True, tag="answer"):
    attempt: str
    sdp: str


class Candidate(Signal, frozen=True, tag="candidate"):
    """A late candidate. aiortc sends none, other implementations do."""

    attempt: str
    line: str
    mid: str = "0"


class Poke(Signal, frozen=True, tag="poke"):
    """Please offer. `lost` is the last attempt that ended here."""

    lost: str


class Detour(Signal, frozen=True, tag="detour"):
    """Let us talk through this member. `lost` is the last attempt that ended here; `key`: see ViaLane."""

    attempt: str
    through: str
    key: bytes
    lost: str


class DetourTaken(Signal, frozen=True, tag="detour taken"):
    attempt: str
    key: bytes


class AnyHello(msgspec.Struct, frozen=True):
    """What can be read of the hello of any version."""

    what: str
    protocol: int
    info: dict[str, Any] = {}


say = msgspec.msgpack.Encoder()
read_said = msgspec.msgpack.Decoder(Members | Forward | Forwarded | Carry | Carried)
read_hello = msgspec.msgpack.Decoder(Hello)
read_any_hello = msgspec.msgpack.Decoder(AnyHello)
read_signal = msgspec.msgpack.Decoder(Offer | Answer | Candidate | Poke | Detour | DetourTaken)


class Budget:
    """How many signals one side may still send: a bucket of tokens that fills with time."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._left = float(SIGNAL_BURST)
        self._at = clock()

    def take(self) -> bool:
        now = self._clock()
        self._left = min(float(SIGNAL_BURST), self._left + (now - self._at) * SIGNAL_RATE)
        self._at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True
