"""Framing: one message is cut into packets, and packets become messages again. Pure: no network, no clock of its own.

All packets of a message but the last carry the same number of payload bytes, which the receiver learns from the
first one; so chunk i belongs at i * payload, whatever arrives first.
"""

from __future__ import annotations

import mmap
import struct
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from desktop.bridge.transport import DIGEST_BYTES

VERSION = 1
MAX_MESSAGE = 2**40  # what the format can say; what a receiver accepts is in Limits
MAX_PACKET = 256 * 1024
BYE_BYTES = 512  # the longest reason that a goodbye may carry


class Field(NamedTuple):
    """One header field: big endian, `width` bytes at `place`; `first` ones are in the first packet alone."""

    name: str
    width: int
    place: int
    first: bool = False


FIELDS = (
    Field("version", 1, 0),
    Field("kind", 1, 1),
    Field("message", 4, 2),
    Field("chunk", 4, 6),
    Field("length", 8, 10, first=True),
    Field("count", 4, 18, first=True),
    Field("digest", DIGEST_BYTES, 22, first=True),
)


def _layout(fields: list[Field]) -> struct.Struct:
    return struct.Struct(">" + "".join({1: "B", 4: "I", 8: "Q"}.get(f.width, f"{f.width}s") for f in fields))


HEADER = _layout([f for f in FIELDS if not f.first])
FIRST_HEADER = _layout(list(FIELDS))


class Kind(IntEnum):
    """What a packet is. The first two carry messages in chunks, the others are whole in one packet."""

    TRAINER = 1  # a message of the trainer, opaque here
    ROOM = 2  # a small message of the mesh itself
    ACK = 3  # the message with this id has arrived whole
    PING = 4
    PONG = 5  # answers the ping with this id
    BYE = 6  # payload: the reason, UTF-8


_CHUNKED = frozenset((Kind.TRAINER, Kind.ROOM))
_SHORT = {Kind.ACK: 0, Kind.PING: 0, Kind.PONG: 0, Kind.BYE: BYE_BYTES}  # longest payload


@dataclass(frozen=True, slots=True)
class Whole:
    """A message that has arrived. `digest` is what the sender claims; compare with `digest_of(data)`."""

    kind: Kind
    message: int
    data: memoryview
    digest: bytes


@dataclass(frozen=True, slots=True)
class Short:
    """A one-packet message: acknowledgement, ping, pong or goodbye."""

    kind: Kind
    message: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class Problem:
    """A packet that could not be used. `what` is one word of PROBLEMS, `why` a part of a sentence."""

    what: str
    why: str


PROBLEMS = ("truncated", "oversized", "unknown", "version", "duplicate", "range", "bound", "expired")
Event = Whole | Short | Problem


@dataclass(frozen=True, slots=True)
class Limits:
    """What one peer may have half-received here. Nothing beyond these is ever held.

    `half_bytes` bounds what first packets claim; the memory really used is what has arrived, because large
    messages are laid out in pages that the system hands out when they are first written.
    """

    message_bytes: int = 2**31
    half_bytes: int = 2**32
    half_messages: int = 64
    ahead_chunks: int = 65_536  # chunks received beyond the first gap, all messages together
    early_packets: int = 256  # packets that came before the first packet of their message
    early_bytes: int = 4 * 2**20
    expire_s: float = 60.0  # without one more packet
    finished: int = 1024  # ids remembered to tell a repeated packet from a new one


def short(kind: Kind, message: int = 0, payload: bytes = b"") -> bytes:
    """The packet of a one-packet message."""
    return HEADER.pack(VERSION, kind, message, 0) + payload


def split(
    kind: Kind, message: int, data: bytes | bytearray | memoryview, digest: bytes, packet_size: int
) -> Iterator[bytes]:
    """Cut a message into packets of at most `packet_size` bytes.

    The data is viewed, not copied: each packet is made when it is asked for, since the channel takes only bytes.
    Raises ValueError (at once, not at the first packet) when the message or the packet size cannot be framed.
    """
    view = memoryview(data)
    view = view.cast("B") if view.nbytes else memoryview(b"")  # an empty one of several dimensions cannot be cast
    payload = packet_size - FIRST_HEADER.size
    if payload < 1 or packet_size > MAX_PACKET:
        raise ValueError(f"packet size {packet_size} is not in {FIRST_HEADER.size + 1}..{MAX_PACKET}")
    if len(digest) != DIGEST_BYTES:
        raise ValueError(f"a digest has {DIGEST_BYTES} bytes, not {len(digest)}")
    count = max(1, -(-len(view) // payload))
    if len(view) > MAX_MESSAGE or count >= 2**32:
        raise ValueError(f"{len(view)} bytes in packets of {packet_size} bytes are too many")
    return _packets(kind, message, view, digest, payload, count)


def _packets(
    kind: Kind, message: int, view: memoryview, digest: bytes, payload: int, count: int
) -> Iterator[bytes]:
    yield b"".join((FIRST_HEADER.pack(VERSION, kind, message, 0, len(view), count, digest), view[:payload]))
    for chunk in range(1, count):
        start = chunk * payload
        yield b"".join((HEADER.pack(VERSION, kind, message, chunk), view[start : start + payload]))


def _room_for(length: int) -> memoryview:
    """Writable memory for a message. Large ones come as untouched pages: bytearray would fill half a gigabyte
    with zeros while the window waits, and a lie about the length would cost that much memory."""
    if length < 256 * 1024:
        return memoryview(bytearray(length))
    return memoryview(mmap.mmap(-1, length))


@dataclass(slots=True)
class _Half:
    """A message of which the first packet has come."""

    kind: int
    data: memoryview
    payload: int
    count: int
    digest: bytes
    touched: float
    upto: int = 0  # chunks 0..upto-1 are there
    ahead: set[int] = field(default_factory=set)  # and these


@dataclass(slots=True)
class _Early:
    """Packets whose first packet has not come yet."""

    touched: float
    packets: list[tuple[int, int, memoryview]] = field(default_factory=list)  # kind, chunk, payload

    @property
    def size(self) -> int:
        return sum(len(payload) for _, _, payload in self.packets)


class Reassembler:
    """Packets of one peer in, events out. Never raises on what a peer sends, never holds more than `limits`.

    A message is laid out once, when its first packet comes, and written in place; chunks may come in any order.
    Packets that come before the first one are held within a small bound: the one ordered channel of today never
    does that, several lanes do. After a problem other than a duplicate the message concerned is given up.
    """

    def __init__(self, limits: Limits, clock: Callable[[], float]) -> None:
        self._limits = limits
        self._clock = clock
        self._half: dict[int, _Half] = {}
        self._early: dict[int, _Early] = {}
        self._finished: OrderedDict[int, None] = OrderedDict()

    @property
    def half_bytes(self) -> int:
        """Bytes claimed by messages that are not whole yet."""
        return sum(len(half.data) for half in self._half.values())

    @property
    def half_messages(self) -> int:
        """Messages that are not whole yet."""
        return len(self._half) + len(self._early)

    def receive(self, packet: bytes | bytearray | memoryview) -> Event | None:
        """Take one packet. None: one more chunk of a message that is not whole yet."""
        view = memoryview(packet)
        if len(view) < HEADER.size:
            return Problem("truncated", f"a packet of {len(view)} bytes is shorter than its header")
        if len(view) > MAX_PACKET:
            return Problem("oversized", f"a packet of {len(view)} bytes is longer than {MAX_PACKET}")
        version, kind, message, chunk = HEADER.unpack_from(view)
        if version != VERSION:
            return Problem("version", f"packet version {version}, here {VERSION}")
        if kind in _SHORT:
            return self._short(Kind(kind), message, chunk, view[HEADER.size :])
        if kind not in _CHUNKED:
            return Problem("unknown", f"packet kind {kind}")
        if message in self._finished:
            return Problem("duplicate", f"chunk {chunk} of message {message}, which is over")
        if chunk == 0:
            return self._first(kind, message, view)
        half = self._half.get(message)
        if half is None:
            return self._hold(kind, message, chunk, view[HEADER.size :])
        return self._add(half, kind, message, chunk, view[HEADER.size :])

    def expire(self) -> list[Problem]:
        """Give up messages that got no packet for `expire_s`; one problem for each."""
        now = self._clock()
        held: list[tuple[int, _Half | _Early]] = [*self._half.items(), *self._early.items()]
        old = [message for message, it in held if now - it.touched > self._limits.expire_s]
        return [self._give_up(message, "expired", f"message {message} stopped half-way") for message in old]

    def clear(self) -> None:
        """Let go of everything half-received."""
        self._half.clear()
        self._early.clear()

    def _short(self, kind: Kind, message: int, chunk: int, payload: memoryview) -> Event:
        if chunk != 0:
            return Problem("range", f"chunk {chunk} of a {kind.name.lower()}")
        if len(payload) > _SHORT[kind]:
            return Problem("oversized", f"{len(payload)} bytes in a {kind.name.lower()}")
        return Short(kind, message, bytes(payload))

    def _first(self, kind: int, message: int, view: memoryview) -> Event | None:
        if message in self._half:
            return Problem("duplicate", f"first packet of message {message}")
        if len(view) < FIRST_HEADER.size:
            return self._give_up(message, "truncated", f"first packet of {len(view)} bytes")
        _, _, _, _, length, count, digest = FIRST_HEADER.unpack_from(view)
        payload = len(view) - FIRST_HEADER.size
        if refused := self._refusal(length, count, payload):
            return self._give_up(message, *refused)
        try:
            data = _room_for(length)
        except (MemoryError, OSError, ValueError, OverflowError) as error:
            return self._give_up(message, "bound", f"no memory for a message of {length} bytes ({error})")
        half = _Half(kind, data, payload, count, digest, self._clock())
        early = self._early.pop(message, None)
        self._half[message] = half
        event = self._add(half, kind, message, 0, view[FIRST_HEADER.size :])
        waiting = early.packets if early is not None else []
        while waiting and event is None:
            early_kind, chunk, early_payload = waiting.pop()
            event = self._add(half, early_kind, message, chunk, early_payload)
        return event

    def _refusal(self, length: int, count: int, payload: int) -> tuple[str, str] | None:
        """Why a first packet that claims this is not taken; None when it is."""
        limits = self._limits
        if length > limits.message_bytes:
            return "bound", f"a message of {length} bytes; at most {limits.message_bytes} are taken"
        if payload > length:
            return "oversized", f"{payload} bytes in a message of {length}"
        if payload == 0 and length > 0:
            return "truncated", "a first packet without payload"
        if count != max(1, -(-length // payload) if payload else 1):
            return "range", f"{length} bytes do not make {count} chunks of {payload}"
        if self.half_bytes + length > limits.half_bytes:
            return "bound", f"more than {limits.half_bytes} bytes half-received"
        if self.half_messages >= limits.half_messages:
            return "bound", f"more than {limits.half_messages} messages half-received"
        return None

    def _hold(self, kind: int, message: int, chunk: int, payload: memoryview) -> Problem | None:
        held = sum(len(early.packets) for early in self._early.values())
        size = sum(early.size for early in self._early.values())
        if (
            held >= self._limits.early_packets
            or size + len(payload) > self._limits.early_bytes
            or (message not in self._early and self.half_messages >= self._limits.half_messages)
        ):
            return self._give_up(message, "bound", f"too many packets before the first one of message {message}")
        early = self._early.setdefault(message, _Early(self._clock()))
        if any(chunk == other for _, other, _ in early.packets):
            return Problem("duplicate", f"chunk {chunk} of message {message}")
        early.touched = self._clock()
        early.packets.append((kind, chunk, payload))
        return None

    def _add(self, half: _Half, kind: int, message: int, chunk: int, payload: memoryview) -> Event | None:
        if chunk >= half.count:
            return self._give_up(message, "range", f"chunk {chunk} of {half.count}")
        if kind != half.kind:
            return self._give_up(message, "unknown", f"message {message} changes its kind")
        start = chunk * half.payload
        want = min(half.payload, len(half.data) - start)
        if len(payload) != want:
            what = "truncated" if len(payload) < want else "oversized"
            return self._give_up(message, what, f"chunk {chunk} has {len(payload)} bytes instead of {want}")
        if chunk < half.upto or chunk in half.ahead:
            return Problem("duplicate", f"chunk {chunk} of message {message}")
        half.data[start : start + want] = payload
        half.touched = self._clock()
        return self._mark(half, message, chunk)

    def _mark(self, half: _Half, message: int, chunk: int) -> Event | None:
        if chunk != half.upto:
            if sum(len(other.ahead) for other in self._half.values()) >= self._limits.ahead_chunks:
                return self._give_up(message, "bound", f"too many chunks of message {message} out of order")
            half.ahead.add(chunk)
            return None
        half.upto += 1
        while half.upto in half.ahead:
            half.ahead.remove(half.upto)
            half.upto += 1
        if half.upto < half.count:
            return None
        self._finish(message)
        return Whole(Kind(half.kind), message, half.data, half.digest)

    def _give_up(self, message: int, what: str, why: str) -> Problem:
        self._finish(message)
        return Problem(what, why)

    def _finish(self, message: int) -> None:
        self._half.pop(message, None)
        self._early.pop(message, None)
        self._finished[message] = None
        if len(self._finished) > self._limits.finished:
            self._finished.popitem(last=False)
