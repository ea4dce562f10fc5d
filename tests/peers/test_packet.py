"""Framing: header bytes by hand, every boundary, any damage, and bounds."""

from __future__ import annotations

import hashlib
import os
import random
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from desktop.bridge.transport import digest_of
from desktop.peers import packet
from desktop.peers.packet import (
    FIELDS,
    FIRST_HEADER,
    HEADER,
    PROBLEMS,
    Event,
    Kind,
    Limits,
    Problem,
    Reassembler,
    Short,
    Whole,
    short,
    split,
)

FIRST = 38  # bytes of the first packet's header, by the table in the design: 1+1+4+4+8+4+16


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def reassembler(**limits: float) -> Reassembler:
    return Reassembler(Limits(**limits), Clock())  # type: ignore[arg-type]


def packets(data: bytes, payload: int, message: int = 7, kind: Kind = Kind.TRAINER) -> list[bytes]:
    return list(split(kind, message, data, blake(data), FIRST + payload))


def blake(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()


def feed(target: Reassembler, each: list[bytes]) -> list[Event]:
    return [event for event in map(target.receive, each) if event is not None]


# -- the header, byte by byte -----------------------------------------------------------------------


def test_header_bytes_by_hand() -> None:
    digest = bytes.fromhex("000102030405060708090a0b0c0d0e0f")
    made = list(split(Kind.TRAINER, 0x01020304, b"abcdefgh", digest, FIRST + 3))
    assert [each.hex() for each in made] == [
        "01" "01" "01020304" "00000000" "0000000000000008" "00000003" "000102030405060708090a0b0c0d0e0f" "616263",
        "01" "01" "01020304" "00000001" "646566",
        "01" "01" "01020304" "00000002" "6768",
    ]


@pytest.mark.parametrize(
    ("made", "by_hand"),
    [
        (short(Kind.ACK, 0xFFFFFFFE), "01" "03" "fffffffe" "00000000"),
        (short(Kind.PING, 1), "01" "04" "00000001" "00000000"),
        (short(Kind.PONG, 256), "01" "05" "00000100" "00000000"),
        (short(Kind.BYE, payload=b"Ciao"), "01" "06" "00000000" "00000000" "4369616f"),
    ],
)
def test_short_packets_by_hand(made: bytes, by_hand: str) -> None:
    assert made.hex() == by_hand


def test_table_of_fields_is_the_layout() -> None:
    place = 0
    for field in FIELDS:
        assert field.place == place, field
        place += field.width
    assert place == FIRST_HEADER.size == FIRST
    assert HEADER.size == 10 == next(f.place for f in FIELDS if f.first)
    assert [f.width for f in FIELDS if f.name in ("message", "chunk", "length", "count")] == [4, 4, 8, 4]


# -- whole messages ---------------------------------------------------------------------------------


@pytest.mark.parametrize("payload", [1, 7, 1024, 65_536 - FIRST])
@pytest.mark.parametrize("chunks", [1, 2, 3])
@pytest.mark.parametrize("beside", [-1, 0, 1, 2, 3, 4, 5, 6, 7, 8])
def test_lengths_around_every_packet_boundary(payload: int, chunks: int, beside: int) -> None:
    data = random.Random(payload).randbytes(payload * chunks + beside)
    made = packets(data, payload)
    assert len(made) == max(1, -(-len(data) // payload))
    assert max(map(len, made)) <= FIRST + payload
    (event,) = feed(reassembler(), made)
    assert isinstance(event, Whole)
    assert bytes(event.data) == data
    assert event.digest == digest_of(event.data) == blake(data)


def test_message_of_zero_bytes() -> None:
    (event,) = feed(reassembler(), packets(b"", 100))
    assert event == Whole(Kind.TRAINER, 7, memoryview(b""), blake(b""))


def test_empty_array_of_two_dimensions() -> None:
    empty = memoryview(b"").cast("B")
    assert len(list(split(Kind.ROOM, 1, empty, blake(b""), 100))) == 1


def test_more_chunks_than_sixteen_bits_count() -> None:
    data = os.urandom(70_000)
    made = packets(data, 1)
    assert len(made) == 70_000
    (event,) = feed(reassembler(), made)
    assert isinstance(event, Whole)
    assert bytes(event.data) == data


def test_large_message_in_small_packets_is_writable_memory_of_its_own() -> None:
    data = os.urandom(10 * 2**20)
    (event,) = feed(reassembler(), list(split(Kind.TRAINER, 1, data, blake(data), 1024)))
    assert isinstance(event, Whole)
    assert event.data == data
    event.data[0:1] = b"x"


def test_packets_are_made_when_asked_for() -> None:
    data = bytearray(b"before")
    made = split(Kind.TRAINER, 1, data, blake(b"before"), FIRST + 3)
    next(made)
    data[3:] = b"AFT"
    assert next(made)[10:] == b"AFT"


def test_interleaved_messages() -> None:
    one, two = os.urandom(1000), os.urandom(2000)
    first, second = packets(one, 100, message=1), packets(two, 100, message=2)
    mixed = [each for pair in zip(first, second[: len(first)], strict=True) for each in pair] + second[len(first) :]
    events = feed(reassembler(), mixed)
    assert [(bytes(e.data), e.message) for e in events if isinstance(e, Whole)] == [(one, 1), (two, 2)]


@pytest.mark.parametrize("size", [0, 38, 262_145])
def test_packet_sizes_that_cannot_be(size: int) -> None:
    with pytest.raises(ValueError, match="packet size"):
        split(Kind.TRAINER, 1, b"x", blake(b"x"), size)


def test_digest_of_the_wrong_width() -> None:
    with pytest.raises(ValueError, match="16 bytes"):
        split(Kind.TRAINER, 1, b"x", b"short", 100)


# -- damage -----------------------------------------------------------------------------------------

messages = st.binary(max_size=400)
payloads = st.integers(1, 80)


@given(data=messages, payload=payloads, shuffle=st.randoms(use_true_random=False), twice=st.sets(st.integers(0, 400)))
def test_any_order_with_duplicates_gives_the_message_once(
    data: bytes, payload: int, shuffle: random.Random, twice: set[int]
) -> None:
    made = packets(data, payload)
    repeated = [each for index, each in enumerate(made) if index in twice]
    mixed = made + repeated
    shuffle.shuffle(mixed)
    events = feed(reassembler(early_packets=1000), mixed)
    whole = [event for event in events if isinstance(event, Whole)]
    assert [bytes(event.data) for event in whole] == [data]
    others = [event for event in events if not isinstance(event, Whole)]
    assert all(isinstance(event, Problem) and event.what == "duplicate" for event in others)
    assert len(others) == len(repeated)


damage = st.lists(
    st.tuples(st.sampled_from(["flip", "cut", "longer", "drop", "swap", "repeat"]), st.integers(0, 500),
              st.integers(0, 4000)),
    min_size=1, max_size=5,
)


@settings(max_examples=400)
@given(data=messages, payload=payloads, harm=damage)
def test_damage_gives_the_message_or_an_error_never_a_wrong_message(
    data: bytes, payload: int, harm: list[tuple[str, int, int]]
) -> None:
    made = packets(data, payload)
    for how, which, where in harm:
        if not made:
            break
        made = harmed(made, how, which % len(made), where)
    target = reassembler()
    events = feed(target, made)
    sound = [event for event in events if isinstance(event, Whole) and digest_of(event.data) == event.digest]
    for event in sound:
        assert bytes(event.data) == data
    assert all(event.what in PROBLEMS for event in events if isinstance(event, Problem))
    clock = target._clock
    assert isinstance(clock, Clock)
    clock.now += 61  # whatever is missing says so in time
    assert sound or events or target.half_messages == len(target.expire())
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


header_like = st.builds(
    lambda version, kind, message, chunk, rest: HEADER.pack(version, kind, message, chunk) + rest,
    st.sampled_from([1, 1, 1, 0, 2, 255]), st.integers(0, 9), st.integers(0, 3), st.integers(0, 5),
    st.binary(max_size=60),
)


@settings(max_examples=300)
@given(st.lists(st.one_of(header_like, st.binary(max_size=60)), max_size=60))
def test_garbage_never_raises_and_never_grows(garbage: list[bytes]) -> None:
    target = reassembler(half_messages=4, early_packets=8, early_bytes=200, message_bytes=1000, half_bytes=2000)
    for each in garbage:
        event = target.receive(each)
        assert event is None or isinstance(event, (Whole, Short, Problem))
        assert target.half_messages <= 4
        assert target.half_bytes <= 2000


@pytest.mark.parametrize(
    ("made", "what"),
    [
        (b"", "truncated"),
        (b"\x01\x01\x00", "truncated"),
        (packets(b"abc", 3)[0][:30], "truncated"),
        (b"\x02" + packets(b"abc", 3)[0][1:], "version"),
        (HEADER.pack(1, 99, 1, 0), "unknown"),
        (HEADER.pack(1, Kind.ACK, 1, 0) + b"x", "oversized"),
        (HEADER.pack(1, Kind.PING, 1, 3), "range"),
        (HEADER.pack(1, Kind.BYE, 0, 0) + b"x" * 513, "oversized"),
        (bytes(256 * 1024 + 1), "oversized"),
        (FIRST_HEADER.pack(1, 1, 1, 0, 2**40, 2**24, bytes(16)) + bytes(65_536), "bound"),
        (FIRST_HEADER.pack(1, 1, 1, 0, 3, 1, bytes(16)) + b"abcd", "oversized"),
        (FIRST_HEADER.pack(1, 1, 1, 0, 9, 2, bytes(16)) + b"abcd", "range"),
        (FIRST_HEADER.pack(1, 1, 1, 0, 9, 1, bytes(16)), "truncated"),
        (FIRST_HEADER.pack(1, 1, 1, 0, 0, 0, bytes(16)), "range"),
    ],
)
def test_packets_that_cannot_be_used(made: bytes, what: str) -> None:
    event = reassembler().receive(made)
    assert isinstance(event, Problem)
    assert event.what == what


def test_chunk_out_of_range_and_of_the_wrong_size_and_kind() -> None:
    for bad, what in (
        (HEADER.pack(1, Kind.TRAINER, 7, 3) + b"xyz", "range"),
        (HEADER.pack(1, Kind.TRAINER, 7, 1) + b"xy", "truncated"),
        (HEADER.pack(1, Kind.TRAINER, 7, 1) + b"wxyz", "oversized"),
        (HEADER.pack(1, Kind.ROOM, 7, 1) + b"xyz", "unknown"),
    ):
        target = reassembler()
        first, *rest = packets(b"abcdefgh", 3)
        target.receive(first)
        event = target.receive(bad)
        assert isinstance(event, Problem)
        assert event.what == what
        assert target.half_messages == 0
        again = target.receive(rest[0])  # the message is given up: nothing of it is held
        assert isinstance(again, Problem)
        assert target.half_messages == 0


# -- bounds -----------------------------------------------------------------------------------------


def test_claims_cost_no_memory() -> None:
    resource = pytest.importorskip("resource")
    target = Reassembler(Limits(), Clock())
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    first = FIRST_HEADER.pack(1, 1, 1, 0, 2**31, 2**31 // 65_500 + 1, bytes(16)) + bytes(65_500)
    assert target.receive(first) is None
    assert target.half_bytes == 2**31
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < (20_000_000 if sys.platform == "darwin" else 20_000)  # bytes there, kilobytes elsewhere
    for message in range(2, 300):
        target.receive(FIRST_HEADER.pack(1, 1, message, 0, 2**31, 2**31 // 65_500 + 1, bytes(16)) + bytes(65_500))
    assert target.half_bytes <= 2**32
    target.clear()
    assert target.half_bytes == 0


def test_number_of_half_messages_is_bounded() -> None:
    target = reassembler(half_messages=5)
    events = [target.receive(packets(b"abcdef", 3, message=n)[0]) for n in range(20)]
    assert events[:5] == [None] * 5
    assert all(isinstance(event, Problem) and event.what == "bound" for event in events[5:])
    assert target.half_messages == 5


def test_chunks_out_of_order_are_bounded() -> None:
    target = reassembler(ahead_chunks=10)
    made = packets(bytes(100), 1)
    target.receive(made[0])
    events = feed(target, made[2:50])
    assert isinstance(events[0], Problem)
    assert events[0].what == "bound"
    assert target.half_messages == 0


def test_packets_before_the_first_are_held_and_bounded() -> None:
    made = packets(os.urandom(50), 10)
    target = reassembler()
    events = feed(target, made[::-1])
    assert [type(event) for event in events] == [Whole]
    target = reassembler(early_packets=2)
    events = feed(target, made[:0:-1])
    assert isinstance(events[0], Problem)
    assert events[0].what == "bound"


def test_half_a_message_expires() -> None:
    clock = Clock()
    target = Reassembler(Limits(expire_s=60), clock)
    made = packets(bytes(30), 10)
    target.receive(made[0])
    clock.now += 59
    target.receive(made[1])  # it moves: not late
    clock.now += 59
    assert target.expire() == []
    clock.now += 2
    assert [problem.what for problem in target.expire()] == ["expired"]
    assert (target.half_bytes, target.half_messages) == (0, 0)
    assert target.expire() == []


def test_repeated_packets_of_a_finished_message_are_told_for_a_while() -> None:
    target = reassembler(finished=3)
    for message in range(5):
        target.receive(packets(b"x", 1, message=message)[0])
    assert isinstance(target.receive(packets(b"x", 1, message=4)[0]), Problem)
    assert isinstance(target.receive(packets(b"x", 1, message=0)[0]), Whole)  # forgotten: three are remembered


def test_no_memory_is_a_problem_not_an_exception(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(length: int) -> memoryview:
        raise MemoryError

    monkeypatch.setattr(packet, "_room_for", none_left)
    event = reassembler().receive(packets(b"abc", 3)[0])
    assert isinstance(event, Problem)
    assert event.what == "bound"
