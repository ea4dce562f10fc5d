"""Framing: header bytes by hand, every boundary, any damage, and bounds."""

from __future__ import annotations

import hashlib
import os
import random
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from desktop.bridge.transport import digest_of
from desktop.peers import packet
from desktop.peers.packet import (
    FIELDS,
    HEADER,
    LONG_HEADER,
    OPENS,
    PROBLEMS,
    VERSION,
    Kind,
    Limits,
    Packet,
    Problem,
    Reassembler,
    Repeated,
    Spans,
    Whole,
    cut,
    read,
    short,
)

LONG = 42  # bytes of the long header: 1+1+4+4 and 8+4+4+16
Event = Whole | Repeated | Problem | None


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def reassembler(**limits: float) -> Reassembler:
    return Reassembler(Limits(**limits), Clock())  # type: ignore[arg-type]


def packets(
    data: bytes, size: int, message: int = 7, kind: Kind = Kind.TRAINER, long: frozenset[int] = frozenset((0,))
) -> list[bytes]:
    """All packets of a message, with the long header on these chunks."""
    made = cut(kind, message, data, blake(data), LONG + size)
    return [made.packet(chunk, chunk in long) for chunk in range(made.count)]


def blake(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()


def take(target: Reassembler, each: bytes) -> Event:
    it = read(each)
    return target.take(it) if isinstance(it, Packet) else it


def feed(target: Reassembler, each: list[bytes]) -> list[Event]:
    return [event for event in (take(target, one) for one in each) if event is not None]


def opening(message: int, length: int, count: int, size: int, kind: int = Kind.TRAINER, chunk: int = 0) -> bytes:
    return LONG_HEADER.pack(VERSION, kind | OPENS, message, chunk, length, count, size, bytes(16))


# -- the header, byte by byte -----------------------------------------------------------------------


def test_header_bytes_by_hand() -> None:
    made = cut(Kind.TRAINER, 0x01020304, b"abcdefgh", bytes.fromhex("000102030405060708090a0b0c0d0e0f"), LONG + 3)
    assert [made.packet(0, True).hex(), made.packet(1, False).hex(), made.packet(2, True).hex()] == [
        "02" "81" "01020304" "00000000" "0000000000000008" "00000003" "00000003" "000102030405060708090a0b0c0d0e0f"
        "616263",
        "02" "01" "01020304" "00000001" "646566",
        "02" "81" "01020304" "00000002" "0000000000000008" "00000003" "00000003" "000102030405060708090a0b0c0d0e0f"
        "6768",
    ]
    assert [made.chunk_bytes(chunk) for chunk in range(3)] == [3, 3, 2]


@pytest.mark.parametrize(
    ("made", "by_hand"),
    [
        (short(Kind.ACK, 0xFFFFFFFE), "02" "03" "fffffffe" "00000000"),
        (short(Kind.PING, 1), "02" "04" "00000001" "00000000"),
        (short(Kind.PONG, 256), "02" "05" "00000100" "00000000"),
        (short(Kind.BYE, payload=b"Ciao"), "02" "06" "00000000" "00000000" "4369616f"),
        (short(Kind.GOT, 7600), "02" "08" "00001db0" "00000000"),
        (short(Kind.HELLO, payload=b"{}"), "02" "09" "00000000" "00000000" "7b7d"),
    ],
)
def test_short_packets_by_hand(made: bytes, by_hand: str) -> None:
    assert made.hex() == by_hand
    it = read(made)
    assert isinstance(it, Packet)
    assert (it.kind, it.message, it.opening) == (made[1], int.from_bytes(made[2:6], "big"), None)
    assert it.payload == made[10:]


def test_table_of_fields_is_the_layout() -> None:
    place = 0
    for field in FIELDS:
        assert field.place == place, field
        place += field.width
    assert place == LONG_HEADER.size == LONG
    assert HEADER.size == 10 == next(f.place for f in FIELDS if f.long)
    widths = [f.width for f in FIELDS if f.name in ("message", "chunk", "length", "count", "size")]
    assert widths == [4, 4, 8, 4, 4]


# -- whole messages ---------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 7, 1024, 65_536 - LONG])
@pytest.mark.parametrize("chunks", [1, 2, 3])
@pytest.mark.parametrize("beside", [-1, 0, 1, 2, 3, 4, 5, 6, 7, 8])
def test_lengths_around_every_packet_boundary(size: int, chunks: int, beside: int) -> None:
    data = random.Random(size).randbytes(size * chunks + beside)
    made = packets(data, size)
    assert len(made) == max(1, -(-len(data) // size))
    assert max(map(len, made)) <= LONG + size
    (event,) = feed(reassembler(), made)
    assert isinstance(event, Whole)
    assert bytes(event.data) == data
    assert event.digest == digest_of(event.data) == blake(data)


def test_message_of_zero_bytes() -> None:
    (event,) = feed(reassembler(), packets(b"", 100))
    assert event == Whole(Kind.TRAINER, 7, memoryview(b""), blake(b""))


def test_empty_array_of_two_dimensions() -> None:
    made = cut(Kind.ROOM, 1, memoryview(np.empty((0, 3))), blake(b""), 100)  # memoryview.cast would refuse it
    assert made.count == 1


def test_numbers_of_more_bytes_each() -> None:
    data = memoryview(bytes(range(16))).cast("I", (2, 2))
    made = cut(Kind.TRAINER, 1, data, blake(bytes(range(16))), LONG + 10)
    assert b"".join((made.packet(0, False)[10:], made.packet(1, False)[10:])) == bytes(range(16))


def test_more_chunks_than_sixteen_bits_count() -> None:
    data = os.urandom(70_000)
    made = packets(data, 1)
    assert len(made) == 70_000
    (event,) = feed(reassembler(), made)
    assert isinstance(event, Whole)
    assert bytes(event.data) == data


def test_large_message_in_small_packets_is_writable_memory_of_its_own() -> None:
    data = os.urandom(10 * 2**20)
    made = packets(data, 1024 - LONG)
    assert len(made) > 10_000
    received = [bytearray(each) for each in made]
    target = reassembler()
    event: Event = None
    for each in received:
        event = take(target, each)  # type: ignore[arg-type]
        each[:] = bytes(len(each))  # the memory of a packet is only valid during the call
    assert isinstance(event, Whole)
    assert event.data == data
    event.data[0:1] = b"x"


def test_packets_are_made_when_asked_for() -> None:
    data = bytearray(b"before")
    made = cut(Kind.TRAINER, 1, data, blake(b"before"), LONG + 3)
    made.packet(0, True)
    data[3:] = b"AFT"
    assert made.packet(1, False)[10:] == b"AFT"


def test_interleaved_messages() -> None:
    one, two = os.urandom(1000), os.urandom(2000)
    first, second = packets(one, 100, message=1), packets(two, 100, message=2)
    mixed = [each for pair in zip(first, second[: len(first)], strict=True) for each in pair] + second[len(first) :]
    events = feed(reassembler(), mixed)
    assert [(bytes(e.data), e.message) for e in events if isinstance(e, Whole)] == [(one, 1), (two, 2)]


@pytest.mark.parametrize("size", [0, 42, 262_145])
def test_packet_sizes_that_cannot_be(size: int) -> None:
    with pytest.raises(ValueError, match="packet size"):
        cut(Kind.TRAINER, 1, b"x", blake(b"x"), size)


def test_what_cannot_be_cut() -> None:
    with pytest.raises(ValueError, match="16 bytes"):
        cut(Kind.TRAINER, 1, b"x", b"short", 100)
    with pytest.raises(ValueError, match="one piece"):
        cut(Kind.TRAINER, 1, memoryview(b"abcdef")[::2], bytes(16), 100)
    with pytest.raises(ValueError, match="a ping is not cut"):
        cut(Kind.PING, 1, b"x", bytes(16), 100)


# -- any order, more than once ----------------------------------------------------------------------

messages = st.binary(max_size=400)
sizes = st.integers(1, 80)


@given(data=messages, size=sizes, shuffle=st.randoms(use_true_random=False), twice=st.sets(st.integers(0, 400)))
def test_any_order_with_repetitions_gives_the_message_once(
    data: bytes, size: int, shuffle: random.Random, twice: set[int]
) -> None:
    """The order is any after the first packet, which is long-headered, as others may be."""
    count = max(1, -(-len(data) // size))
    order = list(range(count)) + [chunk for chunk in range(count) if chunk in twice]
    shuffle.shuffle(order)
    long = frozenset((order[0], *(chunk for chunk in order if shuffle.random() < 0.2)))
    made = packets(data, size, long=long)
    events = feed(reassembler(), [made[chunk] for chunk in order])
    assert [bytes(event.data) for event in events if isinstance(event, Whole)] == [data]
    others = [event for event in events if not isinstance(event, Whole)]
    assert all(isinstance(event, Repeated) for event in others)
    assert len(others) == len(order) - count


def test_repetitions_say_whether_the_message_is_whole() -> None:
    target = reassembler()
    first, second = packets(b"abcdef", 3, long=frozenset((0, 1)))
    assert feed(target, [first, first]) == [Repeated(7, False)]
    assert isinstance(take(target, second), Whole)
    assert feed(target, [first, second, packets(b"abcdef", 3)[1]]) == [Repeated(7, True)] * 3


def test_a_message_that_was_given_up_is_never_whole() -> None:
    target = reassembler()
    first, second = packets(b"abcdef", 3)
    take(target, first)
    assert isinstance(take(target, second[:-1]), Problem)
    assert feed(target, [first, second]) == [Repeated(7, False)] * 2


# -- damage -----------------------------------------------------------------------------------------

damage = st.lists(
    st.tuples(st.sampled_from(["flip", "cut", "longer", "drop", "swap", "repeat"]), st.integers(0, 500),
              st.integers(0, 4000)),
    min_size=1, max_size=5,
)


@settings(max_examples=400)
@given(data=messages, size=sizes, harm=damage)
def test_damage_gives_the_message_or_an_error_never_a_wrong_message(
    data: bytes, size: int, harm: list[tuple[str, int, int]]
) -> None:
    made = packets(data, size, long=frozenset(range(0, 400, 3)))
    for how, which, where in harm:
        if not made:
            break
        made = harmed(made, how, which % len(made), where)
    clock = Clock()
    target = Reassembler(Limits(), clock)
    events = [event for each in made if isinstance(event := read(each), Problem) or (event := target.take(event))]
    sound = [event for event in events if isinstance(event, Whole) and digest_of(event.data) == event.digest]
    for event in sound:
        assert bytes(event.data) == data
    assert all(event.what in PROBLEMS for event in events if isinstance(event, Problem))
    clock.now += 61  # whatever is missing says so in time
    assert sound or events or not made or target.half_messages == len(target.expire()) > 0
    target.expire()
    assert (target.half_messages, target.half_bytes) == (0, 0)


def harmed(made: list[bytes], how: str, which: int, where: int) -> list[bytes]:
    each = made[which]
    if how == "flip" and each:
        place, bit = where // 8 % len(each), where % 8
        made[which] = each[:place] + bytes([each[place] ^ (1 << bit)]) + each[place + 1 :]
    elif how == "cut":
        made[which] = each[: where % (len(each) + 1)]
    elif how == "longer":
        made[which] = each + b"x" * (where % 50 + 1)
    elif how == "drop":
        return made[:which] + made[which + 1 :]
    elif how == "swap":
        other = where % len(made)
        made[which], made[other] = made[other], made[which]
    elif how == "repeat":
        return [*made[: which + 1], each, *made[which + 1 :]]
    return made


long_like = st.builds(
    lambda kind, message, chunk, length, count, size, rest: LONG_HEADER.pack(
        VERSION, kind | OPENS, message, chunk, length, count, size, bytes(16)) + rest,
    st.sampled_from([1, 2, 7, 8, 9]), st.integers(0, 9), st.integers(0, 5), st.integers(0, 300), st.integers(0, 4),
    st.integers(0, 100), st.binary(max_size=60),
)
short_like = st.builds(
    lambda version, kind, message, chunk, rest: HEADER.pack(version, kind, message, chunk) + rest,
    st.sampled_from([2, 2, 2, 0, 1, 255]), st.integers(0, 255), st.integers(0, 9), st.integers(0, 5),
    st.binary(max_size=60),
)


@settings(max_examples=300)
@given(st.lists(st.one_of(long_like, short_like, st.binary(max_size=60)), max_size=60))
def test_garbage_never_raises_and_never_grows(garbage: list[bytes]) -> None:
    target = reassembler(half_messages=4, message_bytes=200, half_bytes=500, ahead_chunks=3, spans=6, lost=5)
    for each in garbage:
        it = read(each)
        if isinstance(it, Packet) and it.kind in (Kind.TRAINER, Kind.ROOM, Kind.LINK):
            target.take(it)
        assert target.half_messages <= 4
        assert target.half_bytes <= 500
        assert sum(len(half.ahead) for half in target.halves().values()) == target._ahead <= 3
        assert len(target._over) <= 6
        assert len(target._lost) <= 5 + 4  # and those that were half


@pytest.mark.parametrize(
    ("made", "what"),
    [
        (b"", "truncated"),
        (b"\x02\x01\x00", "truncated"),
        (packets(b"abc", 3)[0][:30], "truncated"),
        (b"\x01" + packets(b"abc", 3)[0][1:], "version"),
        (HEADER.pack(VERSION, 99, 1, 0), "unknown"),
        (HEADER.pack(VERSION, Kind.ACK | OPENS, 1, 0) + bytes(40), "unknown"),
        (HEADER.pack(VERSION, Kind.ACK, 1, 0) + b"x", "oversized"),
        (HEADER.pack(VERSION, Kind.GOT, 1, 0) + b"x", "oversized"),
        (HEADER.pack(VERSION, Kind.PING, 1, 3), "range"),
        (HEADER.pack(VERSION, Kind.BYE, 0, 0) + b"x" * 513, "oversized"),
        (HEADER.pack(VERSION, Kind.HELLO, 0, 0) + b"x" * 8193, "oversized"),
        (bytes(256 * 1024 + 1), "oversized"),
        (opening(1, 2**40, 2**24, 65_536) + bytes(65_536), "bound"),
        (opening(1, 3, 1, 3) + b"abcd", "oversized"),
        (opening(1, 3, 1, 3) + b"ab", "truncated"),
        (opening(1, 9, 2, 4) + b"abcd", "range"),
        (opening(1, 9, 1, 0), "range"),
        (opening(1, 0, 0, 9), "range"),
        (opening(0, 3, 1, 3) + b"abc", "range"),
        (opening(1, 3, 1, 3, chunk=1) + b"abc", "range"),
        (HEADER.pack(VERSION, Kind.TRAINER, 1, 0) + b"abc", "unknown"),  # not opened
    ],
)
def test_packets_that_cannot_be_used(made: bytes, what: str) -> None:
    event = take(reassembler(), made)
    assert isinstance(event, Problem)
    assert event.what == what


def test_chunks_that_do_not_fit_their_message() -> None:
    for bad, what in (
        (HEADER.pack(VERSION, Kind.TRAINER, 7, 3) + b"xyz", "range"),
        (HEADER.pack(VERSION, Kind.TRAINER, 7, 1) + b"xy", "truncated"),
        (HEADER.pack(VERSION, Kind.TRAINER, 7, 1) + b"wxyz", "oversized"),
        (HEADER.pack(VERSION, Kind.ROOM, 7, 1) + b"xyz", "changed"),
        (opening(7, 9, 3, 3, chunk=1) + b"xyz", "changed"),
    ):
        target = reassembler()
        first, *rest = packets(b"abcdefgh", 3)
        take(target, first)
        event = take(target, bad)
        assert isinstance(event, Problem)
        assert event.what == what
        assert target.half_messages == 0
        assert feed(target, rest) == [Repeated(7, False)] * 2  # given up: nothing of it is held


# -- bounds -----------------------------------------------------------------------------------------


def test_claims_cost_no_memory() -> None:
    resource = pytest.importorskip("resource")
    target = Reassembler(Limits(), Clock())
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    count = -(-(2**31) // 65_500)
    assert take(target, opening(1, 2**31, count, 65_500) + bytes(65_500)) is None
    assert target.half_bytes == 2**31
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < (20_000_000 if sys.platform == "darwin" else 20_000)  # bytes there, kilobytes elsewhere
    for message in range(2, 300):
        take(target, opening(message, 2**31, count, 65_500) + bytes(65_500))
    assert target.half_bytes <= 2**32
    target.clear()
    assert target.half_bytes == 0


def test_number_of_half_messages_is_bounded() -> None:
    target = reassembler(half_messages=5)
    events = [take(target, packets(b"abcdef", 3, message=n)[0]) for n in range(1, 21)]
    assert events[:5] == [None] * 5
    assert all(isinstance(event, Problem) and event.what == "bound" for event in events[5:])
    assert target.half_messages == 5


def test_chunks_out_of_order_are_bounded() -> None:
    target = reassembler(ahead_chunks=10)
    made = packets(bytes(100), 1)
    take(target, made[0])
    events = feed(target, made[2:50])
    assert isinstance(events[0], Problem)
    assert events[0].what == "bound"
    assert target.half_messages == 0
    again = packets(bytes(12), 1, message=8)  # what the lost one held is free again
    assert isinstance(feed(target, [again[0], *again[:1:-1], again[1]])[-1], Whole)


def test_chunks_out_of_order_count_until_the_gap_is_closed() -> None:
    target = reassembler(ahead_chunks=10)
    for message in range(1, 5):
        made = packets(bytes(12), 1, message=message)
        assert isinstance(feed(target, [made[0], *made[:1:-1], made[1]])[-1], Whole)


def test_half_a_message_expires() -> None:
    clock = Clock()
    target = Reassembler(Limits(expire_s=60), clock)
    made = packets(bytes(40), 10)
    take(target, made[0])
    clock.now += 59
    take(target, made[1])  # it moves: not late
    clock.now += 59
    assert target.expire() == []
    target.excuse(10)
    clock.now += 10
    assert target.expire() == []
    clock.now += 2
    assert [problem.what for problem in target.expire()] == ["expired"]
    assert (target.half_bytes, target.half_messages) == (0, 0)
    assert target.expire() == []


def test_half_messages_of_one_kind_can_be_let_go() -> None:
    target = reassembler()
    take(target, packets(b"abcdef", 3, message=1)[0])
    first, second = packets(b"abcdef", 3, message=2, kind=Kind.LINK)
    take(target, first)
    target.drop(Kind.LINK)
    assert list(target.halves()) == [1]
    assert isinstance(take(target, second), Repeated)


def test_ids_are_remembered_for_ever_when_they_are_used_in_order() -> None:
    target = reassembler(spans=4)
    for message in range(1, 5000):
        assert isinstance(take(target, packets(b"x", 1, message=message)[0]), Whole)
    assert all(take(target, packets(b"x", 1, message=message)[0]) == Repeated(message, True)
               for message in (1, 2, 2500, 4999))


def test_a_peer_that_jumps_about_among_the_ids_is_refused() -> None:
    target = reassembler(spans=10)
    events = [take(target, packets(b"x", 1, message=message)[0]) for message in range(1, 100, 2)]
    assert [isinstance(event, Whole) for event in events] == [True] * 10 + [False] * 40
    assert all(isinstance(event, Problem) and "jumps about" in event.why for event in events[10:])


@given(st.lists(st.integers(0, 40), max_size=60))
def test_spans_are_a_set(numbers: list[int]) -> None:
    spans, known = Spans(), set()
    for number in numbers:
        spans.add(number)
        known.add(number)
    assert [number in spans for number in range(-1, 42)] == [number in known for number in range(-1, 42)]
    assert len(spans) == sum(number - 1 not in known for number in known)


def test_no_memory_is_a_problem_not_an_exception(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(length: int) -> memoryview:
        raise MemoryError

    monkeypatch.setattr(packet, "_room_for", none_left)
    event = take(reassembler(), packets(b"abc", 3)[0])
    assert isinstance(event, Problem)
    assert event.what == "bound"
