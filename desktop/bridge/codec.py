"""Round messages as bytes and back: an envelope of protocol, schema and message, then the payload if there is one.

    u32 length of the head (little endian) | head: MessagePack [protocol, schema, kind, message] | padding | payload

The payload starts at a multiple of 16, so that numbers in it can be read in place.
"""

from __future__ import annotations

import struct
from typing import Any

import msgspec
import numpy as np

from desktop.bridge.transport import PROTOCOL
from desktop.errors import MessageError
from desktop.rounds.messages import ALL, RoundMessage

ALIGN = 16
LARGEST_HEAD = 4 * 1024 * 1024  # a plan for 10^5 buckets and the roster of a full room fit several times
_LENGTH = struct.Struct("<I")
_KINDS: dict[str, type[RoundMessage]] = {kind.__name__: kind for kind in ALL}
_ENCODER = msgspec.msgpack.Encoder()
_ENVELOPE = msgspec.msgpack.Decoder(tuple[int, str, str, msgspec.Raw])
_DECODERS: dict[str, msgspec.msgpack.Decoder[Any]] = {name: msgspec.msgpack.Decoder(k) for name, k in _KINDS.items()}


def reserve(message: RoundMessage, schema: str, size: int) -> tuple[memoryview, memoryview]:
    """The whole buffer with room for a payload of `size` bytes, and the view to write the payload into, all of it.

    The room holds anything: filling it with zeros, as a bytearray does, would hold the interpreter lock.
    """
    head = _ENCODER.encode((PROTOCOL, schema, type(message).__name__, message))
    start = -(-(_LENGTH.size + len(head)) // ALIGN) * ALIGN
    buffer = np.empty(start + size, np.uint8).data
    buffer[:start] = (_LENGTH.pack(len(head)) + head).ljust(start, b"\0")
    return buffer, buffer[start:]


def encode(message: RoundMessage, schema: str) -> memoryview:
    """A message without payload."""
    return reserve(message, schema, 0)[0]


def decode(data: bytes | bytearray | memoryview) -> tuple[str, RoundMessage, memoryview]:
    """(schema, message, payload); the payload is a view of `data`. MessageError for whatever does not fit."""
    view = memoryview(data).cast("B")
    if len(view) < _LENGTH.size:
        raise MessageError(why="it is too short")
    (length,) = _LENGTH.unpack_from(view)
    if length > LARGEST_HEAD or _LENGTH.size + length > len(view):
        raise MessageError(why=f"its head claims {length} bytes")
    try:
        protocol, schema, kind, raw = _ENVELOPE.decode(view[_LENGTH.size : _LENGTH.size + length])
        if protocol != PROTOCOL:
            age = "an older" if protocol < PROTOCOL else "a newer"
            raise MessageError(why=f"its sender uses {age} version of Peerloom than this window")
        if kind not in _DECODERS:
            raise MessageError(why=f"nothing is known of “{kind[:40]}”")
        message: RoundMessage = _DECODERS[kind].decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise MessageError(why=str(error)) from error
    start = -(-(_LENGTH.size + length) // ALIGN) * ALIGN
    return schema, message, view[start:]
