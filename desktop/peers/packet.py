"""Framing: one message is cut into packets, and packets become messages again. Pure: no network, no clock of its own.

All packets of a message but the last carry the same number of payload bytes, which the long header says; so chunk i
belongs at i * size, whatever arrives first. Any packet of a message may have the long header, and the first one on
each lane has it: lanes keep order, so no chunk comes before its message is known.
"""

from __future__ import annotations

import mmap
import struct
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from desktop.bridge.transport import DIGEST_BYTES, Buffer

VERSION = 2
OPENS = 0x80  # in the kind byte: this packet has the long header
MAX_MESSAGE = 2**40  # what the format can say; what a receiver accepts is in Limits
MAX_MESSAGE_ID = 2**32 - 1  # ids begin with 1 and are never used again
MAX_PACKET = 256 * 1024
BYE_BYTES = 512  # the longest reason that a goodbye may carry
HELLO_BYTES = 8192


class Field(NamedTuple):
    """One header field: big endian, `width` bytes at `place`; `long` ones are in the long header alone."""

    name: str
    width: int
    place: int
    long: bool = False


FIELDS = (
    Field("version", 1, 0),
    Field("kind", 1, 1),  # a Kind, and OPENS when the header is long
    Field("message", 4, 2),
    Field("chunk", 4, 6),
    Field("length", 8, 10, long=True),  # bytes of the whole message
    Field("count", 4, 18, long=True),  # its chunks
    Field("size", 4, 22, long=True),  # payload bytes of every chunk but the last
    Field("digest", DIGEST_BYTES, 26, long=True),  # of the whole message
)


def _layout(fields: list[Field]) -> struct.Struct:
    return struct.Struct(">" + "".join({1: "B", 4: "I", 8: "Q"}.get(f.width, f"{f.width}s") for f in fields))


HEADER = _layout([f for f in FIELDS if not f.long])
LONG_HEADER = _layout(list(FIELDS))


class Kind(IntEnum):
    """What a packet is. TRAINER, ROOM and LINK carry messages in chunks, the others are whole in one packet."""

    TRAINER = 1  # a message of the trainer, opaque here
    ROOM = 2  # a small message of the mesh itself
    ACK = 3  # the message with this id has been taken
    PING = 4
    PONG = 5  # answers the ping with this id
    BYE = 6  # payload: the reason, UTF-8
    LINK = 7  # a message of the link itself, without meaning on any other link
    GOT = 8  # the message field says how many chunk packets have come over this lane, mod 2^32
    HELLO = 9  # payload: who speaks; the link knows how


CHUNKED = frozenset((Kind.TRAINER, Kind.ROOM, Kind.LINK))
_SHORT = {  # longest payload
    Kind.ACK: 0, Kind.PING: 0, Kind.PONG: 0, Kind.BYE: BYE_BYTES, Kind.GOT: 0, Kind.HELLO: HELLO_BYTES,
}


@dataclass(frozen=True, slots=True)
class Whole:
    """A message that has arrived. `digest` is what the sender claims; compare with `digest_of(data)`."""

    kind: Kind
    message: int
    data: memoryview
    digest: bytes


@dataclass(frozen=True, slots=True)
class Short:
    """A one-packet message: hello, ping, pong or goodbye."""

    kind: Kind
    message: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class Repeated:
    """A chunk that was here before: harmless, since what a dead lane carried is sent again. Says whether its message
    has arrived whole."""

    message: int
    whole: bool


@dataclass(frozen=True, slots=True)
class Problem:
    """A packet that could not be used. `what` is one word of PROBLEMS, `why` a part of a sentence."""

    what: str
    why: str


PROBLEMS = ("truncated", "oversized", "unknown", "version", "changed", "range", "bound", "expired")


class Opening(NamedTuple):
    """What the long header says of a message."""

    length: int
    chunks: int
    size: int
    digest: bytes


class Packet(NamedTuple):
    """A packet whose header makes sense. The payload is a view of the packet's own memory."""

    kind: Kind
    message: int
    chunk: int
    opening: Opening | None
    payload: memoryview


@dataclass(frozen=True, slots=True)
class Limits:
    """What one peer may have half-received here. Nothing beyond these is ever held.

    `half_bytes` bounds what long headers claim; the memory really used is what has arrived, because large messages
    are laid out in pages that the system hands out when they are first written.
    """

    message_bytes: int = 2**31
    half_bytes: int = 2**32
    half_messages: int = 64
    ahead_chunks: int = 65_536  # chunks received beyond the first gap, all messages together
    expire_s: float = 60.0  # without one more packet
    spans: int = 4096  # of finished message ids: a peer that uses its ids in order needs few
    lost: int = 1024  # messages given up


def short(kind: Kind, message: int = 0, payload: bytes = b"") -> bytes:
    """The packet of a one-packet message."""
    return HEADER.pack(VERSION, kind, message, 0) + payload


@dataclass(frozen=True, slots=True)
class Cut:
    """A message in `count` chunks of `size` bytes (the last one may be shorter). The data is viewed, not copied."""

    kind: Kind
    message: int
    view: memoryview
    digest: bytes
    size: int
    count: int

    def packet(self, chunk: int, opens: bool) -> bytes:
        """One packet, made now; with the long header when it `opens` the message on its lane."""
        start = chunk * self.size
        payload = self.view[start : start + self.size]
        if not opens:
            return b"".join((HEADER.pack(VERSION, self.kind, self.message, chunk), payload))
        header = LONG_HEADER.pack(
            VERSION, self.kind | OPENS, self.message, chunk, len(self.view), self.count, self.size, self.digest
        )
        return b"".join((header, payload))

    def chunk_bytes(self, chunk: int) -> int:
        """Payload bytes of this chunk."""
        return min(self.size, len(self.view) - chunk * self.size)


def cut(kind: Kind, message: int, data: Buffer, digest: bytes, packet_size: int) -> Cut:
    """Cut a message into packets of at most `packet_size` bytes.

    Raises ValueError when the message or the packet size cannot be framed.
    """
    view = memoryview(data)
    if kind not in CHUNKED:
        raise ValueError(f"a {kind.name.lower()} is not cut into chunks")
    if not view.c_contiguous:
        raise ValueError("the message is not one piece of memory")
    view = view.cast("B") if view.nbytes else memoryview(b"")  # an empty one of several dimensions cannot be cast
    size = packet_size - LONG_HEADER.size
    if size < 1 or packet_size > MAX_PACKET:
        raise ValueError(f"packet size {packet_size} is not in {LONG_HEADER.size + 1}..{MAX_PACKET}")
    if len(digest) != DIGEST_BYTES:
        raise ValueError(f"a digest has {DIGEST_BYTES} bytes, not {len(digest)}")
    count = max(1, -(-len(view) // size))
    if len(view) > MAX_MESSAGE or count >= 2**32:
        raise ValueError(f"{len(view)} bytes in packets of {packet_size} bytes are too many")
    return Cut(kind, message, view, digest, size, count)


def read(packet: Buffer) -> Packet | Problem:
    """Read the header of a packet. Never raises on what a peer sends."""
    view = memoryview(packet)
    if len(view) < HEADER.size:
        return Problem("truncated", f"a packet of {len(view)} bytes is shorter than its header")
    if len(view) > MAX_PACKET:
        return Problem("oversized", f"a packet of {len(view)} bytes is longer than {MAX_PACKET}")
    version, kind, message, chunk = HEADER.unpack_from(view)
    if version != VERSION:
        return Problem("version", f"packet version {version}, here {VERSION}")
    if kind in CHUNKED:
        return Packet(Kind(kind), message, chunk, None, view[HEADER.size :])
    if kind & ~OPENS in CHUNKED:
        if len(view) < LONG_HEADER.size:
            return Problem("truncated", f"a packet of {len(view)} bytes is shorter than its long header")
        opening = Opening(*LONG_HEADER.unpack_from(view)[4:])
        return Packet(Kind(kind & ~OPENS), message, chunk, opening, view[LONG_HEADER.size :])
    if kind not in _SHORT:
        return Problem("unknown", f"packet kind {kind}")
    if chunk != 0:
        return Problem("range", f"chunk {chunk} of a {Kind(kind).name.lower()}")
    if len(view) - HEADER.size > _SHORT[kind]:
        return Problem("oversized", f"{len(view) - HEADER.size} bytes in a {Kind(kind).name.lower()}")
    return Packet(Kind(kind), message, 0, None, view[HEADER.size :])


def _room_for(length: int) -> memoryview:
    """Writable memory for a message. Large ones come as untouched pages: bytearray would fill half a gigabyte
    with zeros while the window waits, and a lie about the length would cost that much memory."""
    if length < 256 * 1024:
        return memoryview(bytearray(length))
    return memoryview(mmap.mmap(-1, length))


class Spans:
    """A set of integers that grows one by one, kept exactly as the spans it consists of."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []  # one beyond the last

    def __len__(self) -> int:
        """How many spans."""
        return len(self._starts)

    def __contains__(self, number: int) -> bool:
        place = bisect_right(self._starts, number)
        return place > 0 and number < self._ends[place - 1]

    def add(self, number: int) -> None:
        """Does nothing when it is there."""
        if number in self:
            return
        place = bisect_right(self._starts, number)
        joins_left = place > 0 and self._ends[place - 1] == number
        joins_right = place < len(self._starts) and self._starts[place] == number + 1
        if joins_left and joins_right:
            self._ends[place - 1] = self._ends.pop(place)
            del self._starts[place]
        elif joins_left:
            self._ends[place - 1] += 1
        elif joins_right:
            self._starts[place] = number
        else:
            self._starts.insert(place, number)
            self._ends.insert(place, number + 1)


@dataclass(slots=True)
class Half:
    """A message that is known and not whole yet."""

    kind: Kind
    opening: Opening
    data: memoryview
    since: float  # time of its first packet
    touched: float
    arrived: int = 0  # bytes
    upto: int = 0  # chunks 0..upto-1 are there
    ahead: set[int] = field(default_factory=set)  # and these


class Reassembler:
    """Packets of one peer in, events out. Never raises on what a peer sends, never holds more than `limits`.

    ::

        unknown --long header--> half --last chunk that was missing--> whole, once; its id is kept for ever
                                   \\--damage, expired--> lost: its id is kept too, nothing else

    A message is laid out once, when it becomes known, and written in place; chunks may come in any order and more
    than once. After a problem the message concerned is lost.
    """

    def __init__(self, limits: Limits, clock: Callable[[], float]) -> None:
        self._limits = limits
        self._clock = clock
        self._half: dict[int, Half] = {}
        self._ahead = 0  # chunks beyond the first gap, all messages together
        self._over = Spans()  # messages that are whole or lost
        self._lost: set[int] = set()

    @property
    def half_bytes(self) -> int:
        """Bytes claimed by messages that are not whole yet."""
        return sum(len(half.data) for half in self._half.values())

    @property
    def half_messages(self) -> int:
        """Messages that are not whole yet."""
        return len(self._half)

    def halves(self) -> dict[int, Half]:
        """The messages that are not whole yet, by id; to look at."""
        return self._half

    def take(self, packet: Packet) -> Whole | Repeated | Problem | None:
        """Take one chunk packet. None: one more chunk of a message that is not whole yet."""
        message = packet.message
        half = self._half.get(message)
        if half is None:
            if message in self._over:
                return Repeated(message, message not in self._lost)
            if packet.opening is None:
                return Problem("unknown", f"chunk {packet.chunk} of message {message}, which was not opened")
            made = self._open(packet, packet.opening)
            if isinstance(made, Problem):
                return made
            half = made
        elif packet.opening is not None and packet.opening != half.opening:
            return self._lose(message, "changed", f"message {message} changes its shape")
        return self._add(half, packet)

    def expire(self) -> list[Problem]:
        """Give up messages that got no packet for `expire_s`; one problem for each."""
        now = self._clock()
        old = [message for message, half in self._half.items() if now - half.touched > self._limits.expire_s]
        return [self._lose(message, "expired", f"message {message} stopped half-way") for message in old]

    def excuse(self, seconds: float) -> None:
        """This much time does not count towards `expire_s`."""
        for half in self._half.values():
            half.touched += seconds

    def drop(self, kind: Kind) -> None:
        """Let go of half-received messages of this kind: what is missing will not come."""
        for message in [message for message, half in self._half.items() if half.kind is kind]:
            self._finish(message)

    def clear(self) -> None:
        """Let go of everything half-received."""
        self._half.clear()
        self._ahead = 0

    def _open(self, packet: Packet, opening: Opening) -> Half | Problem:
        refused = self._refusal(packet.message, opening)
        if refused is not None:
            return self._lose(packet.message, *refused)
        try:
            data = _room_for(opening.length)
        except (MemoryError, OSError, ValueError, OverflowError) as error:
            return self._lose(packet.message, "bound", f"no memory for a message of {opening.length} bytes ({error})")
        now = self._clock()
        half = self._half[packet.message] = Half(packet.kind, opening, data, now, now)
        return half

    def _refusal(self, message: int, opening: Opening) -> tuple[str, str] | None:
        """Why a message of which this is claimed is not taken; None when it is."""
        limits, (length, count, size, _) = self._limits, opening
        if message == 0:
            return "range", "message 0: the first one is 1"
        if length > limits.message_bytes:
            return "bound", f"a message of {length} bytes; at most {limits.message_bytes} are taken"
        if size == 0 or count != max(1, -(-length // size)):
            return "range", f"{length} bytes do not make {count} chunks of {size}"
        if self.half_bytes + length > limits.half_bytes:
            return "bound", f"more than {limits.half_bytes} bytes half-received"
        if self.half_messages >= limits.half_messages:
            return "bound", f"more than {limits.half_messages} messages half-received"
        if len(self._over) + self.half_messages >= limits.spans:
            return "bound", "it jumps about among the message numbers"
        if len(self._lost) >= limits.lost:
            return "bound", f"more than {limits.lost} messages were given up"
        return None

    def _add(self, half: Half, packet: Packet) -> Whole | Repeated | Problem | None:
        message, chunk, payload = packet.message, packet.chunk, packet.payload
        _, count, size, _ = half.opening
        if chunk >= count:
            return self._lose(message, "range", f"chunk {chunk} of {count}")
        if packet.kind is not half.kind:
            return self._lose(message, "changed", f"message {message} changes its kind")
        start = chunk * size
        want = min(size, len(half.data) - start)
        if len(payload) != want:
            what = "truncated" if len(payload) < want else "oversized"
            return self._lose(message, what, f"chunk {chunk} has {len(payload)} bytes instead of {want}")
        half.touched = self._clock()
        if chunk < half.upto or chunk in half.ahead:
            return Repeated(message, False)
        half.data[start : start + want] = payload
        half.arrived += want
        return self._mark(half, message, chunk)

    def _mark(self, half: Half, message: int, chunk: int) -> Whole | Problem | None:
        if chunk != half.upto:
            if self._ahead >= self._limits.ahead_chunks:
                return self._lose(message, "bound", f"too many chunks of message {message} out of order")
            half.ahead.add(chunk)
            self._ahead += 1
            return None
        half.upto += 1
        while half.upto in half.ahead:
            half.ahead.remove(half.upto)
            self._ahead -= 1
            half.upto += 1
        if half.upto < half.opening.chunks:
            return None
        self._finish(message)
        return Whole(half.kind, message, half.data, half.opening.digest)

    def _lose(self, message: int, what: str, why: str) -> Problem:
        # One that was refused is not remembered when that would grow without end; it is then refused again.
        if message in self._half or (len(self._lost) < self._limits.lost and len(self._over) < self._limits.spans):
            self._finish(message)
            self._lost.add(message)
        return Problem(what, why)

    def _finish(self, message: int) -> None:
        half = self._half.pop(message, None)
        if half is not None:
            self._ahead -= len(half.ahead)
        self._over.add(message)
