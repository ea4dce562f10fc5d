"""Weights as bytes and back, against numpy's own rounding and layout."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from desktop.trainer import wire

FLOATS = arrays.arrays(np.float32, st.integers(0, 50), elements=st.floats(-6e4, 6e4, width=32))


def encoded(numbers: np.ndarray, precision: str) -> bytearray:
    out = bytearray(wire.size(len(numbers), precision))
    wire.encode(torch.from_numpy(numbers), precision, memoryview(out))
    return out


@given(FLOATS)
def test_f32_is_little_endian_and_exact(numbers: np.ndarray) -> None:
    data = encoded(numbers, "f32")
    assert bytes(data) == numbers.astype("<f4").tobytes()
    assert wire.decode(data, len(numbers), "f32").numpy().tobytes() == numbers.tobytes()


def scale_of(numbers: np.ndarray) -> float:
    """By hand: the power of two that brings the largest number into 2^14 .. 2^15."""
    largest = float(np.abs(numbers).max(initial=0.0))
    return 2.0 ** max(-126, int(np.frexp(largest)[1]) - 15) if largest else 1.0


def bfloat16(data: bytes) -> np.ndarray:
    return (np.frombuffer(data, "<u2").astype(np.uint32) << 16).view(np.float32)


@given(FLOATS)
def test_f16_rounds_to_nearest_as_numpy_does_after_its_scale(numbers: np.ndarray) -> None:
    data = encoded(numbers, "f16")
    if not len(numbers):
        assert data == b""
        return
    scale = np.float32(scale_of(numbers))
    halves = (numbers / scale).astype("<f2")
    assert bfloat16(bytes(data[:2])).tolist() == [scale]
    assert bytes(data[2:]) == halves.tobytes()
    back = wire.decode(data, len(numbers), "f16")
    assert back.dtype == torch.float32
    assert back.numpy().tobytes() == (halves.astype(np.float32) * scale).tobytes()


@pytest.mark.parametrize("largest", [65_504.0, 65_520.0, 1e9, 3.4e38, 1e-5, 1e-8, 1e-30])
def test_f16_has_its_eleven_digits_whatever_the_size_of_the_largest_number(largest: float) -> None:
    numbers = np.array([1.0, -1 / 3, 0.01, 0.0], np.float32) * np.float32(largest)
    back = wire.decode(encoded(numbers, "f16"), 4, "f16").numpy()
    assert np.isfinite(back).all()
    np.testing.assert_allclose(back, numbers, rtol=2**-11)


@given(FLOATS.map(lambda few: np.resize(few, len(few) * 17) if len(few) else few), st.sampled_from((1.0, 1e-6, 1e30)))
def test_int8_is_a_127th_of_its_blocks_largest_number_away_at_most_by_half(numbers: np.ndarray, times: float) -> None:
    numbers = numbers * np.float32(times)
    data = encoded(numbers, "int8")
    blocks = -(-len(numbers) // 256)
    steps = bfloat16(bytes(data[: 2 * blocks]))
    whole = np.frombuffer(bytes(data[2 * blocks:]), np.int8)
    back = wire.decode(data, len(numbers), "int8").numpy()
    assert len(whole) == len(numbers)
    for block in range(blocks):
        here = slice(256 * block, 256 * (block + 1))
        largest = np.abs(numbers[here]).max()
        assert largest / 127 * (1 - 1e-6) <= steps[block] <= largest / 127 * (1 + 2**-7) + 1e-40
        assert np.abs(whole[here].astype(int)).max(initial=0) <= 127
        np.testing.assert_array_equal(back[here], whole[here].astype(np.float32) * steps[block])
        assert (np.abs(back[here] - numbers[here]) <= steps[block] * 0.5001 + 1e-44).all()


@pytest.mark.parametrize("precision", ["f16", "int8"])
@given(st.integers(0, 2**32 - 1))
def test_reading_rounds_nothing(precision: str, seed: int) -> None:
    """Else a device that fuses the product with the addition of the weights would end with other weights."""
    numbers = np.random.default_rng(seed).normal(size=300).astype(np.float32)
    data = encoded(numbers, precision)
    many = wire.scales(300, precision)
    steps = bfloat16(bytes(data[: 2 * many])).astype(np.float64)
    body = np.frombuffer(bytes(data[2 * many:]), {"f16": "<f2", "int8": np.int8}[precision]).astype(np.float64)
    exact = body * np.repeat(steps, 256 if precision == "int8" else 300)[:300]
    assert wire.decode(data, 300, precision).numpy().astype(np.float64).tolist() == exact.tolist()


@pytest.mark.parametrize(
    ("count", "precision", "size"),
    [(7, "f32", 28), (7, "f16", 16), (7, "int8", 9), (256, "int8", 258), (257, "int8", 261), (0, "f16", 0),
     (0, "int8", 0), (1_048_576, "f16", 2_097_154), (1_048_576, "int8", 1_056_768)],
)
def test_sizes(count: int, precision: str, size: int) -> None:
    assert wire.size(count, precision) == size
    assert len(encoded(np.ones(count, np.float32), precision)) == size


@pytest.mark.parametrize("precision", ["f32", "f16", "int8"])
@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [1, 270])
def test_a_number_that_is_not_finite_is_refused(precision: str, wrong: float, place: int) -> None:
    numbers = np.ones(300, np.float32)
    numbers[place] = wrong
    with pytest.raises(ValueError, match="not finite"):
        wire.decode(encoded(numbers, precision), 300, precision)
    with pytest.raises(ValueError, match="not finite"):
        wire.rounded(torch.from_numpy(numbers), precision)


@pytest.mark.parametrize("scale", [0x7F80, 0xFF80, 0x7FC0, 0x7F7F, 0xFF7F])
def test_a_scale_that_makes_numbers_infinite_is_refused(scale: int) -> None:
    """bfloat16's infinities, NaN, and its largest, times 127 or 2."""
    head = np.array([scale], "<u2").tobytes()
    with pytest.raises(ValueError, match="not finite"):
        wire.decode(head + np.array([127, -127], np.int8).tobytes(), 2, "int8")
    with pytest.raises(ValueError, match="not finite"):
        wire.decode(head + np.array([2.0, -2.0], "<f2").tobytes(), 2, "f16")


@pytest.mark.parametrize("precision", ["f32", "f16", "int8"])
@given(FLOATS)
def test_what_was_rounded_once_is_what_others_read(precision: str, numbers: np.ndarray) -> None:
    expected = wire.decode(encoded(numbers, precision), len(numbers), precision)
    assert torch.equal(wire.rounded(torch.from_numpy(numbers), precision), expected)


@pytest.mark.parametrize("payload", [b"", b"123", b"1234567", bytes(12), memoryview(bytearray(9))])
def test_another_length_than_expected_is_refused(payload: bytes) -> None:
    with pytest.raises(ValueError, match=f"it has {len(payload)} bytes, 8 were expected"):
        wire.decode(payload, 2, "f32")


@pytest.mark.parametrize("payload", [None, "numbers", 7, [1.0]])
def test_what_carries_no_bytes_is_refused(payload: object) -> None:
    with pytest.raises(ValueError, match="no numbers"):
        wire.decode(payload, 1, "f32")


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, lambda data: memoryview(bytearray(data))])
def test_bytes_of_any_kind_are_read(kind: type) -> None:
    assert wire.decode(kind(np.array([1.5, -2.0], "<f4").tobytes()), 2, "f32").tolist() == [1.5, -2.0]


def test_nothing_is_nothing() -> None:
    assert encoded(np.zeros(0, np.float32), "f16") == encoded(np.zeros(0, np.float32), "int8") == b""
    assert wire.decode(encoded(np.zeros(300, np.float32), "int8"), 300, "int8").tolist() == [0.0] * 300
    assert wire.decode(b"", 0, "f32").tolist() == []
    assert wire.bucket_slices(0) == [slice(0, 0)]


@pytest.mark.parametrize(
    ("parameters", "bytes_", "ends"), [(10, 16, [4, 8, 10]), (8, 16, [4, 8]), (3, 1_000_000, [3]), (3, 1, [1, 2, 3])]
)
def test_buckets_cover_all_weights_once(parameters: int, bytes_: int, ends: list[int]) -> None:
    slices = wire.bucket_slices(parameters, bytes_)
    assert [part.stop for part in slices] == ends
    assert [part.start for part in slices] == [0, *ends[:-1]]


def test_a_view_is_the_tensors_own_bytes() -> None:
    numbers = torch.tensor([1.0, 2.0, 3.0])
    view = wire.view(numbers[1:])
    assert bytes(view) == np.array([2.0, 3.0], "<f4").tobytes()
    numbers[1] = 7.0
    assert bytes(view) == np.array([7.0, 3.0], "<f4").tobytes()


def test_finite_numbers_whose_sum_is_not_are_finite() -> None:
    largest = np.full(3, np.finfo(np.float32).max)
    assert torch.from_numpy(largest).sum().item() == float("inf")
    assert wire.decode(encoded(largest, "f32"), 3, "f32").numpy().tobytes() == largest.tobytes()
    assert not wire.finite(torch.tensor([*largest.tolist(), float("nan")]))
    assert not wire.finite(torch.tensor([float("inf"), -float("inf")]))
    assert wire.finite(torch.zeros(0))
