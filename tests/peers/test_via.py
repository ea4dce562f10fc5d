"""A lane through another member, by itself: sealed end to end, in order, and closed by whatever happens on the way."""

from __future__ import annotations

import asyncio
import os
from collections import deque

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from desktop.errors import SignalError
from desktop.peers.via import EARLY_FRAMES, WINDOW, ViaLane
from tests.peers.direct_doubles import LaneRecorder

DAMAGED = "a packet was altered, repeated or lost on its way through another member"


class End:
    """One end, and the frames that it has given to the member between."""

    def __init__(self, name: str, peer: str, attempt: str = "7") -> None:
        self.heard = LaneRecorder()
        self.posted: deque[bytes] = deque()
        self.carries = True
        self.lane = ViaLane(peer, "c", attempt, self.heard, self._post, first=name < peer)

    def _post(self, frame: bytes) -> bool:
        if self.carries:
            self.posted.append(frame)
        return self.carries

    def carry(self, frame: bytes) -> None:
        self.lane.carried(frame)


def made(attempt_b: str = "7") -> tuple[End, End]:
    return End("a", "b"), End("b", "a", attempt_b)


def opened() -> tuple[End, End]:
    a, b = made()
    a.lane.agree(b.lane.public)
    b.lane.agree(a.lane.public)
    return a, b


def is_closed(end: End, reason: str = DAMAGED) -> bool:
    return not end.lane.writable and end.heard.calls.count("closed") == 1 and end.heard.reason == reason


def test_packets_both_ways() -> None:
    a, b = opened()
    assert (a.lane.kind, a.lane.number, a.lane.window) == ("via", 0, WINDOW)
    assert a.heard.calls == b.heard.calls == ["opened"]
    there, back = [os.urandom(n) for n in (0, 1, 65_536)], [os.urandom(n) for n in (500, 0)]
    for giver, taker, packets in ((a, b, there), (b, a, back)):
        for packet in packets:
            assert giver.lane.writable
            giver.lane.send(packet)
        for frame in giver.posted:
            taker.carry(frame)
        assert taker.heard.packets == packets


def test_the_member_between_sees_no_packet() -> None:
    a, b = opened()
    packet = b"the weights of somebody's model " * 10
    a.lane.send(packet)
    b.lane.send(packet)
    assert a.posted[0] != b.posted[0]
    for frame in (a.posted[0], b.posted[0]):
        assert len(frame) == len(packet) + 16  # the tag of RFC 8439
        assert all(packet[i : i + 8] not in frame for i in range(0, len(packet), 8))


def test_the_first_frame_is_as_documented() -> None:
    """Computed here from what the class says, with the library alone."""
    a, b = made()
    key = X25519PrivateKey.generate()
    a.lane.agree(key.public_key().public_bytes_raw())
    secret = key.exchange(X25519PublicKey.from_public_bytes(a.lane.public))
    keys = HKDF(hashes.SHA256(), 64, None, b"peerloom via 7").derive(secret)
    a.lane.send(b"zero")
    a.lane.send(b"one")
    theirs = ChaCha20Poly1305(keys[:32])  # of the side with the smaller id
    assert theirs.decrypt(bytes(12), a.posted[0], None) == b"zero"
    assert theirs.decrypt(bytes(11) + b"\x01", a.posted[1], None) == b"one"
    a.carry(ChaCha20Poly1305(keys[32:]).encrypt(bytes(12), b"back", None))
    assert a.heard.packets == [b"back"]
    assert not b.lane.writable


def sent(count: int) -> tuple[End, End, list[bytes]]:
    a, b = opened()
    for number in range(count):
        a.lane.send(b"packet %d" % number)
    return a, b, list(a.posted)


@pytest.mark.parametrize("place", [0, 5, -1])
def test_altered_frame_closes(place: int) -> None:
    _, b, (frame,) = sent(1)
    changed = bytearray(frame)
    changed[place] ^= 1
    b.carry(bytes(changed))
    assert b.heard.packets == []
    assert is_closed(b)
    b.carry(frame)  # the real one comes too late
    assert b.heard.packets == []


@pytest.mark.parametrize(
    ("order", "through"),
    [([0, 0], 1), ([1], 0), ([0, 2], 1), ([1, 0], 0), ([0, 1, 0], 2), ([0, 1, 2], 3)],
    ids=["repeated", "first dropped", "dropped", "reordered", "an old one", "as it should be"],
)
def test_frames_out_of_their_order_close(order: list[int], through: int) -> None:
    _, b, frames = sent(3)
    for number in order:
        b.carry(frames[number])
    assert b.heard.packets == [b"packet %d" % number for number in range(through)]
    assert is_closed(b) is (through < 3)


@pytest.mark.parametrize("frame", [b"", b"x", bytes(16), bytes(100)])
def test_frame_that_is_none_closes(frame: bytes) -> None:
    _, b = opened()
    b.carry(frame)
    assert is_closed(b)
    assert b.heard.packets == []


def test_frame_reflected_to_its_sender_is_refused() -> None:
    a, _, (frame,) = sent(1)
    a.carry(frame)
    assert is_closed(a)
    assert a.heard.packets == []


def test_frame_of_another_lane_is_refused() -> None:
    _, b = opened()
    _, _, (frame,) = sent(1)
    b.carry(frame)
    assert is_closed(b)


def test_another_attempt_has_other_keys() -> None:
    a, b = made(attempt_b="8")
    a.lane.agree(b.lane.public)
    b.lane.agree(a.lane.public)
    a.lane.send(b"x")
    b.carry(a.posted[0])
    assert is_closed(b)


@pytest.mark.parametrize("public", [b"", os.urandom(31), os.urandom(33), bytes(32)], ids=["none", "31", "33", "zero"])
def test_key_that_is_none(public: bytes) -> None:
    a, b = made()
    with pytest.raises(SignalError, match="its key cannot be used"):
        a.lane.agree(public)
    assert a.heard.calls == []
    assert not a.lane.writable
    a.lane.agree(b.lane.public)  # the real one
    assert a.heard.calls == ["opened"]


def test_another_key_later_changes_nothing() -> None:
    a, b, frames = sent(1)
    b.lane.agree(X25519PrivateKey.generate().public_key().public_bytes_raw())
    b.carry(frames[0])
    assert b.heard.packets == [b"packet 0"]
    assert a.heard.calls == b.heard.calls == ["opened"]


def test_frames_before_the_key_wait() -> None:
    a, b = made()
    a.lane.agree(b.lane.public)
    for number in range(3):
        a.lane.send(b"packet %d" % number)
    for frame in a.posted:
        b.carry(frame)
    assert b.heard.calls == b.heard.packets == []
    b.lane.agree(a.lane.public)
    assert b.heard.calls == ["opened"]
    assert b.heard.packets == [b"packet 0", b"packet 1", b"packet 2"]


def test_only_some_frames_wait_for_the_key() -> None:
    a, b = made()
    a.lane.agree(b.lane.public)
    for number in range(EARLY_FRAMES + 2):
        a.lane.send(b"packet %d" % number)
    last = a.posted.pop()
    for frame in a.posted:
        b.carry(frame)
    assert len(b.lane._early) == EARLY_FRAMES
    b.lane.agree(a.lane.public)
    assert len(b.heard.packets) == EARLY_FRAMES
    b.carry(last)  # the one before it was too many
    assert is_closed(b)


def test_early_frames_end_with_a_lane_that_is_closed_by_one_of_them() -> None:
    a, b = made()
    a.lane.agree(b.lane.public)
    for number in range(3):
        a.lane.send(b"packet %d" % number)
    for frame in a.posted:
        b.carry(frame)
    b.heard.lane_packet = lambda lane, packet: lane.close(bytes(packet).decode())  # type: ignore[method-assign]
    b.lane.agree(a.lane.public)
    assert is_closed(b, "packet 0")


@pytest.mark.parametrize("opens", [True, False])
async def test_closing(opens: bool) -> None:
    a, b = opened() if opens else made()
    a.lane.close("one", linger_s=5)
    a.lane.close("two")
    await asyncio.wait_for(a.lane.ended(), 1)
    assert is_closed(a, "one")
    a.lane.agree(b.lane.public)
    a.lane.send(b"x")
    a.carry(b"x")
    assert list(a.posted) == []
    assert a.heard.calls == [*(["opened"] if opens else []), "closed"]


def test_nothing_is_sent_before_the_key() -> None:
    a, _ = made()
    assert not a.lane.writable
    a.lane.send(b"x")
    assert list(a.posted) == []


async def test_member_between_that_is_gone_closes() -> None:
    a, _ = opened()
    a.carries = False
    a.lane.send(b"x")
    assert a.lane.writable  # who sends does not find it closed in the middle
    await a.heard.until_closed()
    assert is_closed(a, "the member between cannot be reached")
