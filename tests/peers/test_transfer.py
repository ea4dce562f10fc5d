"""Messages over lanes that come and go: each arrives once, and whatever a peer sends is borne."""

from __future__ import annotations

import hashlib
import os
import random
from collections import Counter, deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from desktop.peers.packet import (
    HEADER,
    LONG_HEADER,
    OPENS,
    PROBLEMS,
    VERSION,
    Kind,
    Limits,
    Problem,
    Short,
    Whole,
    short,
)
from desktop.peers.transfer import Acknowledged, Event, Progress, Transfer

LONG = 42  # bytes of the long header
SIZE = 8  # payload bytes of a packet in most tests
MIB = 2**20


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def blake(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()


def one(size: int = SIZE, clock: Clock | None = None, lanes: int = 1, window: int = 1000, **limits: float) -> Transfer:
    made = Transfer("me", LONG + size, Limits(**limits), clock or Clock())  # type: ignore[arg-type]
    for lane in range(lanes):
        made.attach(lane, window)
    return made


def all_of(it: Transfer, lane: int = 0) -> list[bytes]:
    """Every packet that this lane is to send now."""
    return list(iter(lambda: it.next_packet(lane, control=lane == 0, bulk=True), None))


def give(it: Transfer, packets: list[bytes], lane: int = 0) -> list[Event]:
    return [event for packet in packets if (event := it.receive(lane, packet)) is not None]


def put(it: Transfer, data: bytes, kind: Kind = Kind.TRAINER, bulk: bool = True, token: int | None = None) -> int:
    return it.send(kind, data, blake(data), bulk=bulk, token=token)


def headers(packets: list[bytes]) -> list[tuple[int, int, int]]:
    """Kind byte, message and chunk of each."""
    return [HEADER.unpack_from(packet)[1:] for packet in packets]


# -- two ends, with lanes and links that die --------------------------------------------------------


class End:
    """One member: a Transfer, what it sent, and what it has taken."""

    def __init__(self) -> None:
        self.transfer = Transfer("x", LONG + SIZE, Limits(half_messages=4, spans=100), Clock())
        self.link = 0  # the number of the link it knows
        self.lanes: dict[int, int] = {}  # that it has attached on this link: their windows
        self.closed: set[int] = set()
        self.sent: dict[int, tuple[Kind, bytes]] = {}
        self.got: list[Whole] = []
        self.untaken: list[int] = []
        self.acknowledged: list[int | None] = []

    def heard(self, event: Event | None) -> None:
        if isinstance(event, Whole):
            self.got.append(event)
            self.untaken.append(event.message)
        elif isinstance(event, Acknowledged):
            self.acknowledged.append(event.token)
        else:
            assert event is None, event

    def join(self, link: int, window: int) -> None:
        self.link, self.lanes, self.closed = link, {0: window}, set()
        self.transfer.attach(0, window)


class World:
    """Two ends and the packets between them. The ends learn of dead lanes and new links at different times."""

    def __init__(self) -> None:
        self.ends = (End(), End())
        self.link = 0
        self.wires: dict[tuple[int, int, int], deque[bytes]] = {}  # link, lane, sender

    def do(self, what: str, side: int, number: int, more: int) -> None:
        getattr(self, what)(self.ends[side], self.ends[1 - side], side, number, more)
        for end in self.ends:
            for lane, window in end.lanes.items():
                assert end.transfer.unconfirmed(lane) <= window + SIZE or lane == 0

    def send(self, end: End, other: End, side: int, number: int, more: int) -> None:
        kind = (Kind.TRAINER, Kind.TRAINER, Kind.ROOM, Kind.LINK)[number % 4]
        data = random.Random(more).randbytes(more % 60)
        token = len(end.sent) if kind is Kind.TRAINER else None
        message = put(end.transfer, data, kind, kind is Kind.TRAINER, token)
        assert message not in end.sent
        end.sent[message] = (kind, data)

    def pump(self, end: End, other: End, side: int, number: int, more: int) -> None:
        if not end.lanes:
            assert end.transfer.next_packet(number, control=True, bulk=True) is None
            return
        lane = sorted(end.lanes)[number % len(end.lanes)]
        for _ in range(more % 7 + 1):
            packet = end.transfer.next_packet(lane, control=lane == 0, bulk=True)
            if packet is not None:
                self.wires.setdefault((end.link, lane, side), deque()).append(packet)

    def deliver(self, end: End, other: End, side: int, number: int, more: int) -> None:
        """Packets of a lane reach the other end, if it has opened this lane; if it has closed it they are lost."""
        wires = sorted(key for key, wire in self.wires.items() if wire and key[2] == side)
        if not wires:
            return
        link, lane, _ = key = wires[number % len(wires)]
        for _ in range(min(more % 9 + 1, len(self.wires[key]))):
            if link < other.link or (link == other.link and lane in other.closed):
                self.wires[key].popleft()
            elif link == other.link and lane in other.lanes:
                other.heard(other.transfer.receive(lane, self.wires[key].popleft()))

    def open(self, end: End, other: End, side: int, number: int, more: int) -> None:
        lane = number % 8 + 1
        if 0 in end.lanes and lane not in end.lanes and lane not in end.closed:
            end.lanes[lane] = more % 100
            end.transfer.attach(lane, more % 100)

    def die(self, end: End, other: End, side: int, number: int, more: int) -> None:
        """A lane dies, or the whole link; the other end has yet to notice. Some of what was on its way is lost."""
        lane = number if more % 4 else 0
        if lane in end.lanes:
            for each in set(end.lanes) if lane == 0 else {lane}:
                del end.lanes[each]
                end.closed.add(each)
                wire = self.wires.get((end.link, each, side), deque())
                for _ in range(min(more % 8, len(wire))):
                    wire.pop()
            end.transfer.detach(lane)

    def relink(self, end: End, other: End, side: int, number: int, more: int) -> None:
        """To the newest link; to a new one when that is dead here, or sometimes though it lives."""
        if end.link == self.link and 0 in end.lanes and more % 10:
            return
        if end.link == self.link:
            self.link += 1
        end.join(self.link, more % 100)

    def take(self, end: End, other: End, side: int, number: int, more: int) -> None:
        if end.untaken:
            end.transfer.taken(end.untaken.pop(number % len(end.untaken)))
        end.transfer.taken(more)  # any number is borne

    def hurry(self, end: End, other: End, side: int, number: int, more: int) -> None:
        end.transfer.hurry()
        assert end.transfer.owes_got == any(it.due for it in end.transfer._lanes.values())

    def settle(self, lanes: int) -> None:
        """A new link that lives: everything gets through."""
        self.link += 1
        for end in self.ends:
            end.join(self.link, 99)
            for lane in range(1, lanes):
                end.lanes[lane] = 20
                end.transfer.attach(lane, 20)
        moved = True
        while moved:
            moved = False
            for side, end in enumerate(self.ends):
                while end.untaken:
                    end.transfer.taken(end.untaken.pop())
                end.transfer.hurry()
                for lane in range(lanes):
                    packet = end.transfer.next_packet(lane, control=lane == 0, bulk=True)
                    if packet is not None:
                        moved = True
                        self.ends[1 - side].heard(self.ends[1 - side].transfer.receive(lane, packet))

    def check(self) -> None:
        for end, other in (self.ends, self.ends[::-1]):
            arrived = Counter(event.message for event in other.got)
            assert all(times == 1 for times in arrived.values())
            for event in other.got:
                assert (event.kind, bytes(event.data)) == end.sent[event.message]
            assert all(arrived[message] for message, (kind, _) in end.sent.items() if kind is not Kind.LINK)
            tokens = [token for token in end.acknowledged if token is not None]
            assert sorted(tokens) == sorted(
                token for token, (kind, _) in enumerate(end.sent.values()) if kind is Kind.TRAINER)
            it = end.transfer
            assert (it.outstanding, it.unsent, it.has_bulk(), it.owes_got) == (0, 0, False, False)
            assert all(it.unconfirmed(lane) == 0 for lane in range(9))
            assert it._begun == {}
            assert it._reassembler.half_messages == 0


NAMES = ["send"] * 4 + ["pump"] * 12 + ["deliver"] * 12 + ["take"] * 5 + ["open"] * 2 + ["hurry", "die", "relink"]
actions = st.lists(
    st.tuples(st.sampled_from(NAMES), st.integers(0, 1), st.integers(0, 8), st.integers(0, 1000)), max_size=120,
)


@settings(max_examples=1000)
@given(done=actions, lanes=st.integers(1, 8))
def test_every_message_arrives_once_whatever_dies(done: list[tuple[str, int, int, int]], lanes: int) -> None:
    world = World()
    for each in done:
        world.do(*each)
    world.settle(lanes)
    world.check()


@pytest.mark.parametrize("seed", range(40))
def test_long_lives_of_many_links(seed: int) -> None:
    dice = random.Random(seed)
    world = World()
    for _ in range(4000):
        world.do(dice.choice(NAMES), dice.randrange(2), dice.randrange(9), dice.randrange(1000))
    assert all(len(end.acknowledged) > 5 and end.transfer.repeated > 5 for end in world.ends)  # worth checking
    world.settle(1 + seed % 8)
    world.check()


# -- lengths, and any damage ------------------------------------------------------------------------


def exchange(a: Transfer, b: Transfer, lanes: int) -> list[Whole]:
    """Everything of `a` gets to `b` over these lanes in turn; `b` takes it at once."""
    arrived = []
    moved = True
    while moved:
        moved = False
        b.hurry()
        for lane in range(lanes):
            for end, other in ((a, b), (b, a)):
                packet = end.next_packet(lane, control=lane == 0, bulk=True)
                if packet is None:
                    continue
                moved = True
                event = other.receive(lane, packet)
                assert not isinstance(event, Problem)
                if isinstance(event, Whole):
                    arrived.append(event)
                    other.taken(event.message)
    return arrived


@pytest.mark.parametrize("size", [1, 7, 1024, 65_536 - LONG])
@pytest.mark.parametrize("chunks", [1, 2, 3])
def test_lengths_around_every_packet_boundary(size: int, chunks: int) -> None:
    sent = {}
    a, b = one(size, lanes=2, window=5 * size), one(size, lanes=2, window=5 * size)
    for beside in (-1, 0, 1, 2, 3, 4, 5, 6, 7, 8):
        data = random.Random(beside).randbytes(size * chunks + beside)
        sent[put(a, data)] = data
    arrived = exchange(a, b, 2)
    assert {event.message: bytes(event.data) for event in arrived} == sent
    assert len(arrived) == 10
    assert a.outstanding == 0
    assert a.confirmed_bytes == a.confirmed(0) + a.confirmed(1) == sum(map(len, sent.values()))


def test_ten_mebibytes_in_packets_of_one_kibibyte() -> None:
    data = os.urandom(10 * MIB)
    a, b = one(1024 - LONG, lanes=5, window=MIB), one(1024 - LONG, lanes=5, window=MIB)
    put(a, data, token=77)
    assert (a.unsent, a.has_bulk()) == (10 * MIB, True)
    (event,) = exchange(a, b, 5)
    assert event.data == data
    assert event.digest == blake(data)
    assert (a.unsent, a.outstanding, a.has_bulk(), a.confirmed_bytes) == (0, 0, False, 10 * MIB)


def test_other_limits_of_lengths() -> None:
    it = one(message_bytes=100)
    with pytest.raises(ValueError, match="at most 100"):
        put(it, bytes(101))
    with pytest.raises(ValueError, match="digest"):
        it.send(Kind.ROOM, b"x", b"short")
    assert put(it, bytes(100)) == 1  # what could not be sent took no number
    assert put(it, b"") == 2


def test_numbers_end(monkeypatch: pytest.MonkeyPatch) -> None:
    it = one()
    it._last_message = 2**32 - 2
    assert put(it, b"last") == 2**32 - 1
    with pytest.raises(OverflowError, match="no message numbers"):
        put(it, b"one more")


harm = st.tuples(st.sampled_from(["flip", "cut", "longer", "drop", "repeat", "swap"]), st.integers(0, 200),
                 st.integers(0, 3000))


@settings(max_examples=400)
@given(data=st.lists(st.binary(max_size=60), min_size=1, max_size=4), lanes=st.integers(1, 4),
       harms=st.lists(harm, max_size=3), order=st.randoms(use_true_random=False))
def test_damage_gives_the_message_or_an_error_never_a_wrong_message(
    data: list[bytes], lanes: int, harms: list[tuple[str, int, int]], order: random.Random
) -> None:
    """Both directions of the lanes are damaged, whatever their order."""
    a, b = one(lanes=lanes), one(lanes=lanes)
    sent = {put(a, each): each for each in data}
    events: list[Event] = []
    turn = 0
    while any([step(a, b, lane, turn, harms, events) for lane in order.sample(range(lanes), lanes)]):
        turn += 1
        b.hurry()
        assert turn < 100
    sound = [event for event in events if isinstance(event, Whole) and blake(event.data) == event.digest]
    assert len({event.message for event in sound}) == len(sound)
    for event in sound:
        # A number that was damaged on its way may be another's, but a message that matches its digest is right.
        assert bytes(event.data) in sent.values()
    assert all(event.what in PROBLEMS for event in events if isinstance(event, Problem))
    if not harms:
        assert {event.message: bytes(event.data) for event in sound} == sent
        assert a.outstanding == 0


def step(
    a: Transfer, b: Transfer, lane: int, turn: int, harms: list[tuple[str, int, int]], events: list[Event]
) -> int:
    """Some packets both ways over a lane, damaged; how many."""
    moved = 0
    for end, other in ((a, b), (b, a)):
        packets = [packet for _ in range(4) if (packet := end.next_packet(lane, control=lane == 0, bulk=True))]
        moved += len(packets)
        for how, which, where in harms:
            if packets and which % 3 == turn and which // 3 % 2 == (end is a):
                packets = harmed(packets, how, which % len(packets), where)
        for event in give(other, packets, lane):
            events.append(event)
            if isinstance(event, Whole):
                other.taken(event.message)
    return moved


def harmed(packets: list[bytes], how: str, which: int, where: int) -> list[bytes]:
    each = packets[which]
    before, after = packets[:which], packets[which + 1 :]
    if not each:
        return [*before, b"x", *after]  # what an earlier harm has cut to nothing
    place = where // 8 % len(each)
    return {
        "flip": [*before, each[:place] + bytes([each[place] ^ (1 << where % 8)]) + each[place + 1 :], *after],
        "cut": [*before, each[:place], *after],
        "longer": [*before, each + b"x" * (place + 1), *after],
        "drop": [*before, *after],
        "repeat": [*before, each, each, *after],
        "swap": [*after, each, *before],
    }[how]


garbage = st.one_of(
    st.binary(max_size=60),
    st.builds(lambda kind, message, chunk, rest: HEADER.pack(VERSION, kind, message, chunk) + rest,
              st.integers(0, 12), st.integers(0, 9), st.integers(0, 5), st.binary(max_size=20)),
    st.builds(lambda kind, message, chunk, length, count, rest: LONG_HEADER.pack(
                  VERSION, kind | OPENS, message, chunk, length, count, SIZE, bytes(16)) + rest,
              st.sampled_from([1, 2, 7]), st.integers(0, 9), st.integers(0, 3), st.integers(0, 30), st.integers(0, 4),
              st.binary(max_size=SIZE)),
)


@settings(max_examples=300)
@given(st.lists(st.tuples(st.integers(0, 2), garbage), max_size=60))
def test_garbage_never_raises_and_never_grows(packets: list[tuple[int, bytes]]) -> None:
    it = one(lanes=2, half_messages=3, half_bytes=60, message_bytes=29, spans=6, lost=4)
    put(it, bytes(30 - 1))
    all_of(it, 1)
    for lane, packet in packets:
        event = it.receive(lane, packet)
        assert event is None or isinstance(event, (Whole, Short, Acknowledged, Problem))
        inner = it._reassembler
        assert inner.half_messages <= 3
        assert inner.half_bytes <= 60
        assert len(it._untaken) + len(it._acks) + len(inner._over) <= 20
    it.fail()
    assert (it.outstanding, it.unsent, it._reassembler.half_bytes, len(it._untaken)) == (0, 0, 0, 0)


# -- what a lane sends ------------------------------------------------------------------------------


def test_the_first_packet_on_each_lane_opens_the_message() -> None:
    it = one(lanes=2)
    put(it, bytes(5 * SIZE))
    packets = [it.next_packet(lane, control=False, bulk=True) for lane in (0, 1, 1, 0, 0)]
    assert headers([packet for packet in packets if packet]) == [
        (1 | OPENS, 1, 0), (1 | OPENS, 1, 1), (1, 1, 2), (1, 1, 3), (1, 1, 4)]
    it.detach(1)
    it.attach(1, 1000)  # a new lane with the number of the old one
    assert headers(all_of(it, 1)) == [(1 | OPENS, 1, 1), (1, 1, 2)]


def test_order_of_what_is_sent() -> None:
    a, b = one(), one()
    put(b, b"theirs", Kind.ROOM, bulk=False)
    (theirs,) = give(a, all_of(b))
    assert isinstance(theirs, Whole)
    a.taken(theirs.message)
    put(a, bytes(2 * SIZE))
    put(a, bytes(2 * SIZE), Kind.ROOM, bulk=False)
    assert [kind & ~OPENS for kind, _, _ in headers(all_of(a))] == [
        Kind.GOT, Kind.ACK, Kind.ROOM, Kind.ROOM, Kind.TRAINER, Kind.TRAINER]


def test_lanes_send_only_what_they_are_for() -> None:
    it = one(lanes=2)
    put(it, bytes(SIZE))
    put(it, bytes(SIZE), Kind.ROOM, bulk=False)
    assert it.next_packet(1, control=False, bulk=False) is None
    assert it.next_packet(9, control=True, bulk=True) is None  # not attached
    assert headers([it.next_packet(1, control=False, bulk=True) or b""]) == [(Kind.TRAINER | OPENS, 1, 0)]
    assert it.next_packet(1, control=False, bulk=True) is None
    assert headers([it.next_packet(0, control=True, bulk=False) or b""]) == [(Kind.ROOM | OPENS, 2, 0)]


def test_the_window_bounds_bulk_and_not_control() -> None:
    a, b = one(lanes=2, window=3 * SIZE), one(lanes=2, window=1000)
    put(a, bytes(10 * SIZE))
    packets = all_of(a, 1)
    assert len(packets) == 3
    assert a.unconfirmed(1) == 3 * SIZE
    put(a, bytes(5 * SIZE), Kind.ROOM, bulk=False)
    assert len(all_of(a, 0)) == 5  # more than the window, in which nothing is left for bulk
    give(b, packets[:2], 1)
    assert b.next_packet(1, control=False, bulk=True) is None  # little has come
    b.hurry()
    give(a, all_of(b, 1), 1)
    assert (a.unconfirmed(1), a.confirmed(1), a.confirmed_bytes) == (SIZE, 2 * SIZE, 2 * SIZE)
    assert len(all_of(a, 1)) == 2


def test_a_window_smaller_than_a_packet_lets_one_pass() -> None:
    it = one(window=1)
    put(it, bytes(3 * SIZE))
    assert len(all_of(it)) == 1


def test_a_got_falls_due_after_a_quarter_of_the_window_and_with_a_whole_message() -> None:
    a, b = one(), one(window=12 * SIZE)
    put(a, bytes(7 * SIZE))
    packets = all_of(a)
    for count, packet in enumerate(packets, 1):
        assert b.owes_got == (count in (2, 3, 5, 6))
        give(b, [packet])
        told = b.next_packet(0, control=True, bulk=True)
        assert told == (short(Kind.GOT, count) if count in (3, 6, 7) else None)
    assert not b.owes_got


def test_a_got_is_hurried() -> None:
    a, b = one(), one()
    put(a, bytes(3 * SIZE))
    give(b, all_of(a)[:2])
    assert b.owes_got
    assert b.next_packet(0, control=True, bulk=True) is None
    b.hurry()
    assert all_of(b) == [short(Kind.GOT, 2)]
    b.hurry()
    assert (b.owes_got, all_of(b)) == (False, [])


def test_counts_of_packets_wrap() -> None:
    a, b = one(), one()
    a._lanes[0].confirmed_count = b._lanes[0].got_count = b._lanes[0].told_count = 2**32 - 1
    put(a, bytes(2 * SIZE))
    give(b, all_of(a))
    assert all_of(b) == [short(Kind.GOT, 1)]
    assert a.receive(0, short(Kind.GOT, 1)) is None
    assert (a.unconfirmed(0), a.confirmed(0)) == (0, 2 * SIZE)


def test_so_many_messages_are_begun_as_the_peer_may_have_half() -> None:
    a, b = one(lanes=3, half_messages=8), one(lanes=3, half_messages=8)
    for _ in range(30):
        put(a, bytes(2 * SIZE))
    halves: dict[int, list[bytes]] = {1: [], 2: []}
    for _ in range(30):
        for lane, packets in halves.items():
            packet = a.next_packet(lane, control=False, bulk=True)
            if packet is not None:
                packets.append(packet)
    assert len(halves[1]) == len(halves[2]) == 4  # half of eight
    assert give(b, halves[1], 1) == []
    assert len(give(b, halves[2], 2)) == 4
    assert len(exchange(a, b, 3)) == 26
    a, b = one(half_messages=8, half_bytes=50), one(half_messages=8, half_bytes=50)
    for _ in range(3):
        put(a, bytes(3 * SIZE))
    assert len(all_of(a)) == 6  # more than two would be more than 50 bytes


# -- lanes and links that end -----------------------------------------------------------------------


def test_what_a_dead_lane_did_not_confirm_goes_first() -> None:
    a, b = one(lanes=3), one(lanes=3)
    put(a, bytes(6 * SIZE))
    put(a, bytes(SIZE))
    first = [a.next_packet(lane, control=False, bulk=True) or b"" for lane in (1, 2, 1, 2)]
    give(b, [first[0]], 1)
    b.hurry()
    give(a, all_of(b, 1), 1)  # of chunks 0 and 2 on lane 1, the first is confirmed
    b.detach(1)
    a.detach(1)
    a.detach(1)
    assert a.unconfirmed(1) == a.confirmed(1) == 0
    assert headers(all_of(a, 0)) == [(1 | OPENS, 1, 2), (1, 1, 4), (1, 1, 5), (1 | OPENS, 2, 0)]


def test_an_acknowledged_message_is_not_sent_again() -> None:
    a = one(lanes=2)
    put(a, bytes(3 * SIZE), token=5)
    put(a, bytes(SIZE))
    all_of(a, 1)
    a.detach(1)
    assert a.has_bulk()
    assert a.receive(0, short(Kind.ACK, 1)) == Acknowledged(5, 1)
    assert headers(all_of(a)) == [(1 | OPENS, 2, 0)]
    assert not a.has_bulk()


def test_a_lost_acknowledgement_is_asked_for_over_the_next_link() -> None:
    a, b = one(), one()
    put(a, bytes(3 * SIZE), token=5)
    (whole,) = give(b, all_of(a))
    assert isinstance(whole, Whole)
    give(a, [short(Kind.GOT, 3)])
    assert (a.outstanding, a.has_bulk(), all_of(a)) == (1, False, [])
    b.taken(whole.message)
    assert headers(all_of(b)) == [(Kind.GOT, 3, 0), (Kind.ACK, 1, 0)]  # and lost
    for _ in range(3):  # links on which nothing gets through
        for end in (a, b):
            end.detach(0)
            end.attach(0, 1000)
        probe = all_of(a)
        assert headers(probe) == [(1 | OPENS, 1, 0)]  # once
    assert give(b, probe) == []  # not a second time whole
    assert give(a, all_of(b)[::-1]) == [Acknowledged(5, 1)]
    assert (a.outstanding, a.unsent) == (0, 0)


def test_acknowledgements_owed_to_a_dead_link_are_not_held_against_the_next() -> None:
    a, b = one(), one()
    for _ in range(10_000):
        put(a, b"")
    arrived = give(b, all_of(a))
    assert len(arrived) == 10_000
    for end in (a, b):
        end.detach(0)
    for message in range(1, 10_001):
        b.taken(message)
    for end in (a, b):
        end.attach(0, 1000)
    assert give(a, all_of(b)) == []
    give(b, all_of(a)[:100])
    assert len(give(a, all_of(b))) == 100


def test_a_repeated_message_that_is_not_taken_is_not_acknowledged() -> None:
    a, b = one(), one()
    put(a, bytes(SIZE))
    give(b, all_of(a) * 2)
    assert headers(all_of(b)) == [(Kind.GOT, 2, 0)]
    b.taken(1)
    b.taken(1)
    b.taken(2)
    assert headers(all_of(b)) == [(Kind.ACK, 1, 0)]
    assert b.repeated == 1


def test_messages_of_the_link_end_with_it() -> None:
    a, b = one(), one()
    put(a, bytes(2 * SIZE), Kind.LINK, bulk=False)
    put(a, b"stays", Kind.ROOM, bulk=False)
    put(a, bytes(SIZE), Kind.LINK, bulk=False)
    give(b, all_of(a)[:1])
    for end in (a, b):
        end.detach(0)
        assert end.outstanding == (end is a)
        assert end._reassembler.half_messages == 0
        end.attach(0, 1000)
    packets = all_of(a)
    assert headers(packets) == [(Kind.ROOM | OPENS, 2, 0)]
    (whole,) = give(b, packets)
    assert isinstance(whole, Whole)
    assert a.receive(0, short(Kind.ACK, 1)) is None  # harmless, though it is gone


def test_the_control_lane_ends_the_others_and_a_new_one_begins_anew() -> None:
    it = one(lanes=3)
    put(it, bytes(4 * SIZE))
    for lane in (1, 2, 2, 1):
        it.next_packet(lane, control=False, bulk=True)
    it.detach(0)
    assert [all_of(it, lane) for lane in (0, 1, 2)] == [[], [], []]
    assert it.has_bulk()
    it.attach(2, 1000)
    it.next_packet(2, control=False, bulk=True)
    it.attach(0, 1000)
    assert all_of(it, 2) == []
    assert sorted(chunk for _, _, chunk in headers(all_of(it, 0))) == [0, 1, 2, 3]


def test_failing_gives_back_the_tokens_in_order() -> None:
    it = one()
    for token in (7, None, 3, 5):
        put(it, bytes(SIZE), token=token)
    packets = all_of(it)
    assert len(packets) == 4
    it.receive(0, short(Kind.ACK, 3))
    give(it, [LONG_HEADER.pack(VERSION, 1 | OPENS, 1, 0, 2 * SIZE, 2, SIZE, bytes(16)) + bytes(SIZE)])
    assert it.fail() == [7, 5]
    assert (it.outstanding, it.unsent, it.has_bulk(), it.progress(), it.fail()) == (0, 0, False, (), [])
    assert it._reassembler.half_messages == 0
    assert it.receive(0, short(Kind.GOT, 4)) is None  # the lane itself goes on


def test_buffers_are_viewed_and_let_go_of() -> None:
    data = bytearray(b"before")
    it = one()
    put(it, data)
    data[:] = b"beside"
    assert all_of(it)[0].endswith(b"beside")
    with pytest.raises(BufferError):
        data.clear()
    it.receive(0, short(Kind.ACK, 1))
    data.clear()


# -- a peer that breaks the rules -------------------------------------------------------------------


@pytest.mark.parametrize(
    "packet",
    [
        short(Kind.GOT, 3),  # two packets were sent
        short(Kind.GOT, 2**32 - 1),
        short(Kind.ACK, 0),
        short(Kind.ACK, 4),  # three messages were handed over
        short(Kind.ACK, 2),  # of which only a part was sent
        short(Kind.ACK, 3),  # of which nothing was sent
    ],
    ids=repr,
)
def test_lies_about_what_arrived(packet: bytes) -> None:
    it = one(window=2 * SIZE)
    put(it, b"x" * SIZE)
    put(it, b"x" * SIZE * 3)
    put(it, b"x" * SIZE)
    assert len(all_of(it)) == 2
    event = it.receive(0, packet)
    assert isinstance(event, Problem)
    assert event.what == "range"
    assert it.outstanding == 3


def test_claims_of_a_tebibyte() -> None:
    it = one()
    event = it.receive(0, LONG_HEADER.pack(VERSION, 1 | OPENS, 1, 0, 2**40, 2**24, 2**16, bytes(16)) + bytes(SIZE))
    assert isinstance(event, Problem)
    assert event.what == "bound"
    assert it._reassembler.half_bytes == 0


def test_a_peer_that_sends_without_reading() -> None:
    a, b = one(), one()
    for message in range(10_000):
        put(a, b"")
        (whole,) = give(b, all_of(a))
        assert isinstance(whole, Whole)
        b.taken(message + 1)
        assert headers([b.next_packet(0, control=False, bulk=False) or b""]) == [(Kind.GOT, message + 1, 0)]
    put(a, b"")
    (event,) = give(b, all_of(a))
    assert event == Problem("bound", "it sends without reading")
    assert b.next_packet(0, control=False, bulk=False) is None


def test_half_a_message_that_never_ends() -> None:
    clock = Clock()
    a, b = one(), one(clock=clock, expire_s=60.0)
    put(a, bytes(3 * SIZE))
    packets = all_of(a)
    give(b, packets[:1])
    clock.now += 50
    b.detach(0)
    clock.now += 1000  # without a link, nothing can come
    assert b.expire() == []
    b.attach(0, 1000)
    clock.now += 9
    assert b.expire() == []
    b.excuse(100)
    clock.now += 100
    assert b.expire() == []
    clock.now += 2
    (problem,) = b.expire()
    assert problem.what == "expired"
    assert b._reassembler.half_bytes == 0
    assert give(b, packets[1:]) == []  # harmless, and never acknowledged
    assert b._acks == {}


def test_hello_ping_pong_and_goodbye_count_on_any_lane() -> None:
    it = Transfer("me", 100, Limits(), Clock())
    for packet, kind in ((short(Kind.HELLO, payload=b"{}"), Kind.HELLO), (short(Kind.PING, 3), Kind.PING),
                         (short(Kind.PONG, 3), Kind.PONG), (short(Kind.BYE, payload=b"off"), Kind.BYE)):
        event = it.receive(0, packet)
        assert isinstance(event, Short)
        assert event.kind is kind
    for packet in (short(Kind.GOT, 3), short(Kind.ACK, 3), LONG_HEADER.pack(2, 0x81, 1, 0, 0, 1, SIZE, bytes(16))):
        assert it.receive(0, packet) is None


# -- progress ---------------------------------------------------------------------------------------


def test_progress_of_large_messages_both_ways() -> None:
    clock = Clock()
    a, b = (one(65_536, clock, window=10 * MIB) for _ in range(2))
    put(a, bytes(MIB))
    put(a, bytes(256 * 1024 - 1))
    clock.now = 105.0
    assert a.progress() == (Progress(1, True, 0, MIB, 100.0),)
    packets = all_of(a)
    clock.now = 107.0
    give(b, packets[:4])
    assert a.progress() == (Progress(1, True, 0, MIB, 105.0),)
    assert b.progress() == (Progress(1, False, MIB // 4, MIB, 107.0),)
    give(a, [packet for packet in all_of(b) if packet[1] == Kind.GOT])
    assert a.progress() == (Progress(1, True, MIB // 4, MIB, 105.0),)
    for _ in range(2):  # what is confirmed twice is done once
        for end in (a, b):
            end.attach(0, 10 * MIB)
        exchange_without_taking(a, b)
        assert a.progress() == (Progress(1, True, MIB, MIB, 105.0),)
        assert b.progress() == ()


def exchange_without_taking(a: Transfer, b: Transfer) -> None:
    while packets := all_of(a):
        give(b, packets)
        b.hurry()
        give(a, all_of(b))
