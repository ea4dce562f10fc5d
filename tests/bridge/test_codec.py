"""Round messages as bytes and back: every kind, every rubbish, and the layout by hand."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from desktop.bridge import codec
from desktop.errors import MessageError
from desktop.rounds.messages import ALL, Contribution, Leave, Ready, RoundMessage, Stamp
from tests.rounds.rubbish import KINDS, MESSAGES

BY_HAND = (
    b"\x48\0\0\0"  # 72 bytes of head, little endian
    b"\x94\x03\xa2ab\xa5Ready"  # array of 4: protocol 3, schema "ab", kind "Ready", and the message:
    b"\x83\xa5stamp\x84\xa5round\x03\xa4term\x01\xa4view\x02\xa7attempt\x00\xa7samples\x28"
    b"\xa6uplink\xcb\x3f\xf8\0\0\0\0\0\0"  # float64 1.5, big endian
    b"\0\0\0\0"  # padding to 80
)


def in_range(message: RoundMessage) -> bool:
    """Whether every number fits into 64 bits, as all do that a member sends."""
    try:
        codec.encode(message, "")
    except OverflowError:
        return False
    return True


def test_the_layout_is_as_written_down() -> None:
    message = Ready(Stamp(3, 1, 2), 40, 1.5)
    assert bytes(codec.encode(message, "ab")) == BY_HAND
    assert codec.decode(BY_HAND)[:2] == ("ab", message)


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
@given(data=st.data())
@settings(max_examples=40)
def test_every_kind_comes_back_as_it_was(kind: type[RoundMessage], data: st.DataObject) -> None:
    message = data.draw(KINDS[kind].filter(in_range))
    schema, back, payload = codec.decode(codec.encode(message, "schema"))
    assert schema == "schema"
    # By repr: a number that is not a number is not equal to itself.
    assert (type(back), repr(back)) == (kind, repr(message))
    assert len(payload) == 0


@given(schema=st.text(max_size=70), size=st.integers(0, 100))
def test_the_payload_lies_at_a_multiple_of_16_and_is_not_copied(schema: str, size: int) -> None:
    buffer, hole = codec.reserve(Contribution(Stamp(1, 1, 1), 2), schema, size)
    assert len(hole) == size
    hole[:] = bytes(range(size))
    assert (len(buffer) - size) % 16 == 0
    _, _, payload = codec.decode(buffer)
    assert bytes(payload) == bytes(range(size))
    if size:
        buffer[-1] = 255
        assert payload[-1] == 255


@given(MESSAGES.filter(in_range), st.data())
@settings(max_examples=300)
def test_what_is_cut_short_or_has_wrong_bits_is_a_message_or_a_message_error(
    message: RoundMessage, data: st.DataObject
) -> None:
    whole = codec.encode(message, "schema")
    cut = data.draw(st.integers(0, len(whole)))
    broken = bytearray(whole[:cut])
    for at in data.draw(st.lists(st.integers(0, max(0, len(broken) * 8 - 1)), max_size=6)):
        if broken:
            broken[at // 8] ^= 1 << at % 8
    try:
        _, back, _ = codec.decode(broken)
    except MessageError:
        return
    assert type(back) in ALL


@given(st.binary(max_size=300))
def test_any_bytes_are_a_message_or_a_message_error(data: bytes) -> None:
    for head in (data, len(data).to_bytes(4, "little") + data):
        with contextlib.suppress(MessageError):
            codec.decode(head)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "too short"),
        (b"\x01\0\0", "too short"),
        (b"\xff\xff\xff\xff", "its head claims 4294967295 bytes"),
        (b"\x10\0\0\0\x94", "its head claims 16 bytes"),
        (BY_HAND.replace(b"\x94\x03", b"\x94\x02"), "its sender uses an older version of Peerloom than this window"),
        (BY_HAND.replace(b"\x94\x03", b"\x94\x04"), "its sender uses a newer version of Peerloom than this window"),
        (BY_HAND.replace(b"Ready", b"Steal"), "nothing is known of “Steal”"),
        (BY_HAND.replace(b"\x03\xa4term", b"\xc3\xa4term"), "Expected `int`, got `bool`"),
        (BY_HAND.replace(b"samples", b"simples"), "missing required field `samples`"),
        (BY_HAND.replace(b"\x94\x03", b"\x93\x03"), "Expected `array` of length 4"),
        (BY_HAND.replace(b"\xa2ab", b"\xa2\xff\xff"), "Invalid UTF-8"),
    ],
)
def test_what_is_wrong_is_said(data: bytes, why: str) -> None:
    with pytest.raises(MessageError) as caught:
        codec.decode(data)
    assert why in caught.value.sentence


def test_a_head_that_is_nested_without_end_is_refused() -> None:
    head = b"\x94\x03\xa0\xa5Leave" + b"\x91" * 100_000 + b"\x90"
    with pytest.raises(MessageError):
        codec.decode(len(head).to_bytes(4, "little") + head)


def test_a_later_version_may_add_fields() -> None:
    head = b"\x94\x03\xa0\xa5Leave\x81\xa3why\xa4done"
    assert codec.decode(len(head).to_bytes(4, "little") + head)[1] == Leave()


def test_a_plan_for_very_many_buckets_is_read() -> None:
    from desktop.rounds.messages import Plan, Share

    plan = Plan(Stamp(1, 1, 1), (Share("a" * 26, 1.0),), ("a" * 26,) * 100_000, "f32")
    assert codec.decode(codec.encode(plan, "schema"))[1] == plan
