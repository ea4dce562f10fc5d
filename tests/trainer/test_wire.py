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


@given(FLOATS)
def test_f16_rounds_to_nearest_as_numpy_does(numbers: np.ndarray) -> None:
    data = encoded(numbers, "f16")
    assert bytes(data) == numbers.astype("<f2").tobytes()
    back = wire.decode(data, len(numbers), "f16")
    assert back.dtype == torch.float32
    assert back.numpy().tobytes() == numbers.astype("<f2").astype(np.float32).tobytes()


@pytest.mark.parametrize(("number", "half"), [(1 / 3, 0.333251953125), (2049.0, 2048.0), (2051.0, 2052.0), (1e-9, 0.0)])
def test_f16_by_hand(number: float, half: float) -> None:
    data = encoded(np.array([number], np.float32), "f16")
    assert wire.decode(data, 1, "f16").tolist() == [half]


@pytest.mark.parametrize(("precision", "size"), [("f32", 28), ("f16", 14)])
def test_sizes(precision: str, size: int) -> None:
    assert wire.size(7, precision) == size


@pytest.mark.parametrize("precision", ["f32", "f16"])
@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_a_number_that_is_not_finite_is_refused(precision: str, wrong: float) -> None:
    data = encoded(np.array([1.0, wrong, 2.0], np.float32), precision)
    with pytest.raises(ValueError, match="not finite"):
        wire.decode(data, 3, precision)


def test_what_does_not_fit_into_f16_is_refused() -> None:
    with pytest.raises(ValueError, match="not finite"):
        wire.decode(encoded(np.array([65_520.0], np.float32), "f16"), 1, "f16")
    assert wire.decode(encoded(np.array([65_504.0], np.float32), "f16"), 1, "f16").tolist() == [65_504.0]


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
    assert encoded(np.zeros(0, np.float32), "f16") == b""
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
