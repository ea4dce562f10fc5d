"""Weights and updates as bytes and back: float32 or float16, little endian, one bucket at a time.

Everything here is a call into torch on whole buckets: it releases the interpreter lock, so that the window
goes on. `tobytes`, `torch.save` and their like hold it for hundreds of milliseconds.
"""

from __future__ import annotations

import math
import sys

import torch

if sys.byteorder != "little":  # pragma: no cover - no such machine runs torch
    raise ImportError("Peerloom's wire format is little endian; this computer is not.")

Payload = memoryview | bytearray | bytes
WIRE = {"f32": torch.float32, "f16": torch.float16}
BUCKET_BYTES = 4 * 1024 * 1024  # of float32


def bucket_slices(parameters: int, bucket_bytes: int = BUCKET_BYTES) -> list[slice]:
    """Cut a flat vector of `parameters` float32 into buckets."""
    step = max(1, bucket_bytes // 4)
    return [slice(start, min(start + step, parameters)) for start in range(0, parameters, step)] or [slice(0, 0)]


def size(count: int, precision: str) -> int:
    """Bytes of `count` numbers."""
    return count * WIRE[precision].itemsize


def encode(numbers: torch.Tensor, precision: str, out: memoryview) -> None:
    """Write a flat float32 CPU tensor into `out` (exactly `size` bytes), rounded to nearest."""
    if len(numbers):
        torch.frombuffer(out, dtype=WIRE[precision]).copy_(numbers)


def checked(payload: object, count: int, precision: str) -> Payload:
    """The payload itself. ValueError with the reason when it is not `count` finite numbers."""
    if not isinstance(payload, Payload):
        raise ValueError("it carries no numbers")
    expected = size(count, precision)
    if len(payload) != expected:
        raise ValueError(f"it has {len(payload)} bytes, {expected} were expected")
    only_finite(trusted(payload, precision))
    return payload


def decode(payload: object, count: int, precision: str) -> torch.Tensor:
    """float32 [count] from a payload. ValueError with the reason when it is not `count` finite numbers."""
    return trusted(checked(payload, count, precision), precision)


def only_finite(numbers: torch.Tensor) -> torch.Tensor:
    """The numbers themselves; ValueError when one of them is infinite or NaN."""
    if not finite(numbers):
        raise ValueError("it holds numbers that are not finite")
    return numbers


def finite(numbers: torch.Tensor) -> bool:
    """Whether none of a flat float32 tensor's numbers is infinite or NaN.

    Either makes the sum so too. `isfinite` takes 20 times as long and needs memory; it decides only where finite
    numbers have a sum that is too large.
    """
    if math.isfinite(numbers.sum().item()):
        return True
    return all(bool(torch.isfinite(part).all()) for part in numbers.split(BUCKET_BYTES // 4))


def trusted(payload: Payload, precision: str) -> torch.Tensor:
    """float32 from a payload that `checked` has accepted before, or that `encode` has written."""
    if not len(payload):
        return torch.zeros(0)
    if memoryview(payload).readonly:
        payload = bytearray(payload)  # torch wants a buffer that may be written
    return torch.frombuffer(payload, dtype=WIRE[precision]).to(torch.float32)


def view(numbers: torch.Tensor) -> memoryview:
    """The bytes of a contiguous float32 CPU tensor, not copied."""
    return memoryview(numbers.numpy()).cast("B")  # type: ignore[arg-type]
