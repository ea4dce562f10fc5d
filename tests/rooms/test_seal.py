"""Seals: only the right member opens them, once, in time; checked against constructions of their own."""

from __future__ import annotations

import hashlib
import hmac

import pytest
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from hypothesis import given
from hypothesis import strategies as st

from desktop.errors import SealError
from desktop.rooms import seal
from desktop.rooms.seal import OVERHEAD, Sealer, bind, derive

KEY = bytes(range(16))
ROOM = "maple-otter"


class Clock:
    def __init__(self, now: float = 1_700_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def pair(clock: Clock, key: bytes = KEY, room: str = ROOM) -> tuple[Sealer, Sealer]:
    return Sealer("ann", KEY, ROOM, clock), Sealer("bob", key, room, clock)


def hkdf(key: bytes, salt: bytes, info: bytes, length: int) -> bytes:
    """RFC 5869 section 2, from HMAC alone."""
    secret = hmac.digest(salt, key, "sha256")
    block, out, n = b"", b"", 0
    while len(out) < length:
        n += 1
        block = hmac.digest(secret, block + info + bytes([n]), "sha256")
        out += block
    return out[:length]


def test_derive_gives_the_vector_of_rfc_5869() -> None:
    out = derive(bytes.fromhex("0b" * 22), bytes.fromhex("000102030405060708090a0b0c"),
                 bytes.fromhex("f0f1f2f3f4f5f6f7f8f9"), 42)
    assert out.hex() == ("3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf"
                         "34007208d5b887185865")


def test_sealed_bytes_are_what_the_format_says() -> None:
    clock = Clock(1_700_000_000.25)
    sealed = Sealer("ann", KEY, ROOM, clock).seal("bob", b"offer")
    parties = b"\0\0\0\x0bmaple-otter" + b"\0\0\0\x03ann" + b"\0\0\0\x03bob"
    header = b"\x01" + (1_700_000_000_250).to_bytes(8, "big")
    key = hkdf(KEY, b"peerloom seal", parties, 32)
    assert sealed[:9] == header
    assert ChaCha20Poly1305(key).decrypt(sealed[9:21], sealed[21:], header + parties) == b"offer"
    assert len(sealed) == len(b"offer") + OVERHEAD


def test_bytes_made_by_the_format_alone_are_opened() -> None:
    parties = b"\0\0\0\x0bmaple-otter" + b"\0\0\0\x03ann" + b"\0\0\0\x03bob"
    header = b"\x01" + (1_700_000_000_000).to_bytes(8, "big")
    nonce = hashlib.sha256(b"any").digest()[:12]
    body = ChaCha20Poly1305(hkdf(KEY, b"peerloom seal", parties, 32)).encrypt(nonce, b"answer", header + parties)
    assert Sealer("bob", KEY, ROOM, Clock()).open("ann", header + nonce + body) == b"answer"


@given(st.binary(max_size=2000))
def test_round_trip(plain: bytes) -> None:
    ann, bob = pair(Clock())
    assert bob.open("ann", memoryview(ann.seal("bob", plain))) == plain


@given(st.binary(max_size=200), st.data())
def test_one_changed_bit_is_refused(plain: bytes, data: st.DataObject) -> None:
    ann, bob = pair(Clock())
    sealed = bytearray(ann.seal("bob", plain))
    bit = data.draw(st.integers(0, len(sealed) * 8 - 1))
    sealed[bit // 8] ^= 1 << bit % 8
    with pytest.raises(SealError):
        bob.open("ann", bytes(sealed))


@given(st.binary(max_size=300))
def test_garbage_gives_only_seal_errors(garbage: bytes) -> None:
    with pytest.raises(SealError):
        Sealer("bob", KEY, ROOM, Clock()).open("ann", garbage)


def test_replayed() -> None:
    ann, bob = pair(Clock())
    sealed = ann.seal("bob", b"offer")
    bob.open("ann", sealed)
    with pytest.raises(SealError, match="received before"):
        bob.open("ann", sealed)


@pytest.mark.parametrize(("sealed_at", "reason"), [(-120.5, "too old"), (120.5, "dated 120 s ahead"),
                                                   (-86_400, "too old"), (86_400, "ahead")])
def test_outside_the_window(sealed_at: float, reason: str) -> None:
    clock = Clock()
    ann, bob = pair(clock)
    clock.now += sealed_at
    sealed = ann.seal("bob", b"offer")
    clock.now -= sealed_at
    with pytest.raises(SealError, match=reason):
        bob.open("ann", sealed)


@pytest.mark.parametrize("skew", [-119.0, 119.0])
def test_clocks_may_differ_by_the_window(skew: float) -> None:
    clock = Clock()
    ahead = Clock(clock.now + skew)
    sealed = Sealer("ann", KEY, ROOM, ahead).seal("bob", b"offer")
    assert Sealer("bob", KEY, ROOM, clock).open("ann", sealed) == b"offer"


def test_a_replay_is_refused_at_every_age() -> None:
    clock = Clock()
    ann, bob = pair(clock)
    clock.now += 119  # dated ahead: it stays acceptable for longest
    sealed = ann.seal("bob", b"offer")
    clock.now -= 119
    bob.open("ann", sealed)
    for _ in range(250):
        clock.now += 1
        with pytest.raises(SealError):
            bob.open("ann", sealed)


@pytest.mark.parametrize(("me", "sender", "key", "room"), [
    ("eve", "ann", KEY, ROOM), ("bob", "eve", KEY, ROOM), ("bob", "ann", bytes(16), ROOM),
    ("bob", "ann", KEY, "oak-yak"),
])
def test_wrong_receiver_sender_key_or_room(me: str, sender: str, key: bytes, room: str) -> None:
    sealed = Sealer("ann", KEY, ROOM, Clock()).seal("bob", b"offer")
    with pytest.raises(SealError, match="another key, in another room, or by or for someone else"):
        Sealer(me, key, room, Clock()).open(sender, sealed)


def test_parts_cannot_be_shifted_between_names() -> None:
    assert bind("ab", "c") != bind("a", "bc")
    sealed = Sealer("annb", KEY, ROOM, Clock()).seal("ob", b"offer")
    with pytest.raises(SealError):
        Sealer("bob", KEY, ROOM, Clock()).open("ann", sealed)


def test_a_flood_of_one_sender_is_bounded_and_never_replayable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seal, "REMEMBERED", 8)
    clock = Clock()
    ann, bob = pair(clock)
    kept = []
    for _ in range(40):
        clock.now += 0.01
        kept.append(ann.seal("bob", b"x"))
        bob.open("ann", kept[-1])
        assert len(bob._seen["ann"].nonces) <= 8
    for sealed in kept:
        with pytest.raises(SealError):
            bob.open("ann", sealed)
    other = Sealer("cat", KEY, ROOM, clock)
    assert bob.open("cat", other.seal("bob", b"hello")) == b"hello"


def test_sentence_is_whole() -> None:
    with pytest.raises(SealError) as caught:
        Sealer("bob", KEY, ROOM, Clock()).open("ann", b"")
    assert caught.value.sentence.endswith("dropped: it is too short.")
