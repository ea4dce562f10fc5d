"""The messages between the host of a room and its guests on the LAN.

In the open, as JSON in text frames: `Hello` (guest) then `Challenge` (host), or `Refused` (host) at any time until
the guest is in. From then on sealed, as MessagePack in binary frames: `Ready` (guest), `Welcome` (host), then
`Seen`, `Gone` and `Signal` (host) and `Send` (guest). A guest that knows only the short code gets `Given` instead
of `Welcome`, and comes again with what it was given.

    guest                                      host
      Hello(way, room, peer, share)   ->
                                      <-   Challenge(peer, share)
      both: keys = HKDF(secret, both shares, names); the secret is the room's key, or SPAKE2's result for a code
      sealed Ready                    ->   (opens only with the same secret)
                                      <-   sealed Welcome, or sealed Given
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

PROTOCOL = 1  # changes when an older window could not follow
MOST_MESSAGE = 256 * 1024  # bytes of any frame
MOST_PAYLOAD = 64 * 1024  # bytes of what one member sends another

PeerId = Annotated[str, msgspec.Meta(min_length=1, max_length=64, pattern="^[!-~]+$")]
Share = Annotated[bytes, msgspec.Meta(min_length=32, max_length=64)]  # a nonce, or one side's part of SPAKE2
Payload = Annotated[bytes, msgspec.Meta(max_length=MOST_PAYLOAD)]


class RoomInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What a newcomer is told of the room. `task` and `policy` are JSON texts that rooms do not look into."""

    room: str
    host: str  # the host's name
    host_peer: str
    task: str
    policy: str = "{}"
    members: int = 1
    version: str = ""


class Greeting(msgspec.Struct, frozen=True):
    """What the first message of either side has in every version of the protocol, past and future."""

    protocol: int
    version: str


class Hello(msgspec.Struct, frozen=True, kw_only=True, tag="hello"):
    """A guest at the door. `way` says what it knows: the room's key, or the short code."""

    protocol: int
    version: str
    way: Literal["key", "code"]
    room: Annotated[str, msgspec.Meta(max_length=64)]
    peer: PeerId
    share: Share


class Challenge(msgspec.Struct, frozen=True, kw_only=True, tag="challenge"):
    """The host's part of the keys."""

    protocol: int
    version: str
    peer: PeerId
    share: Share


class Refused(msgspec.Struct, frozen=True, kw_only=True, tag="refused"):
    """Why a guest is not let in: one of the reasons of `door.REASONS`. Anyone may have sent it."""

    protocol: int
    version: str
    reason: str
    wait_s: float = 0.0


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    """The guest's proof: it could seal this."""


class Welcome(msgspec.Struct, frozen=True, kw_only=True, tag="welcome"):
    """The guest is in: the room, who else is reachable here (without the guest), the host's clock (s since 1970)."""

    info: RoomInfo
    peers: Annotated[list[PeerId], msgspec.Meta(max_length=1024)]
    time: float


class Given(msgspec.Struct, frozen=True, tag="given"):
    """The room's link, for a guest that proved to know the short code."""

    link: str


class Seen(msgspec.Struct, frozen=True, tag="seen"):
    """`peer` came."""

    peer: PeerId


class Gone(msgspec.Struct, frozen=True, tag="gone"):
    """`peer` left, or its connection broke."""

    peer: PeerId


class Send(msgspec.Struct, frozen=True, tag="send"):
    """Pass `payload` on to `to`."""

    to: PeerId
    payload: Payload


class Signal(msgspec.Struct, frozen=True, tag="signal"):
    """`sender` sent `payload`; the host vouches for the sender's connection, the seal inside for the rest."""

    sender: PeerId
    payload: Payload


Open = Hello | Challenge | Refused
Sealed = Ready | Welcome | Given | Seen | Gone | Send | Signal
