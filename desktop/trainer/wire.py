"""Weights and updates as bytes and back, one bucket at a time, in one of three precisions, little endian.

    f32   float32 [count]
    f16   bfloat16 [1] scale, float16 [count]: a number is half * scale
    int8  bfloat16 [blocks] scales, int8 [count]: a number is whole * scale of its block of `BLOCK`

The scale of f16 is a power of two for the bucket's largest number, so nothing that is finite is too large for it,
and small updates keep their digits. bfloat16 has 8 significant bits: its products with 7 or 11 others are exact in
float32. So reading rounds nothing, on whatever device, and fused with an addition it rounds as the addition alone.

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
WIRE = {"f32": torch.float32, "f16": torch.float16, "int8": torch.int8}
BLOCK = 256  # numbers that share a scale in int8: 2 bytes more for 256
SCALE_BYTES = 2
HALF_EXPONENT = 15  # the scale of f16 brings the largest number into 2^14 .. 2^15
BUCKET_BYTES = 4 * 1024 * 1024  # of float32


def bucket_slices(parameters: int, bucket_bytes: int = BUCKET_BYTES) -> list[slice]:
    """Cut a flat vector of `parameters` float32 into buckets."""
    step = max(1, bucket_bytes // 4)
    return [slice(start, min(start + step, parameters)) for start in range(0, parameters, step)] or [slice(0, 0)]


def scales(count: int, precision: str) -> int:
    """How many scales come before `count` numbers."""
    if precision == "int8":
        return -(-count // BLOCK)
    return int(precision == "f16" and count > 0)


def size(count: int, precision: str) -> int:
    """Bytes of `count` numbers with their scales."""
    return count * WIRE[precision].itemsize + SCALE_BYTES * scales(count, precision)


def encode(numbers: torch.Tensor, precision: str, out: memoryview) -> None:
    """Write a flat float32 CPU tensor into `out` (exactly `size` bytes), rounded to nearest.

    Where a number is not finite, what is written is not either: whoever reads it refuses it.
    """
    count = len(numbers)
    if not count:
        return
    if precision == "f32":
        torch.frombuffer(out, dtype=torch.float32).copy_(numbers)
        return
    many = scales(count, precision)
    scale = torch.frombuffer(out, dtype=torch.bfloat16, count=many)
    body = torch.frombuffer(out, dtype=WIRE[precision], offset=SCALE_BYTES * many)
    if precision == "f16":
        scale.copy_(_power_of_two(numbers))
        body.copy_(numbers / scale.to(torch.float32))
        return
    for part, block in _blocks(count):
        rows = numbers[part].view(-1, block)
        here = slice(part.start // BLOCK, part.start // BLOCK + len(rows))
        scale[here] = _step(rows)
        step = scale[here].to(torch.float32).unsqueeze(1)
        step[step == 0] = 1.0
        body[part] = (rows / step).round_().clamp_(-127, 127).to(torch.int8).view(-1)


def _blocks(count: int) -> list[tuple[slice, int]]:
    """(numbers, how many share a scale): whole blocks, and what is left as a shorter one."""
    whole = count // BLOCK * BLOCK
    return [(part, block) for part, block in ((slice(0, whole), BLOCK), (slice(whole, count), count - whole))
            if part.stop > part.start]


def _power_of_two(numbers: torch.Tensor) -> torch.Tensor:
    """float32 [1]: the power of two to divide by; 1 for zeros, NaN where a number is not finite."""
    largest = numbers.abs().max()
    _, exponent = torch.frexp(largest)
    power = torch.ldexp(torch.ones(()), (exponent - HALF_EXPONENT).clamp(-126, 127))
    power = torch.where(largest > 0, power, torch.ones(()))
    return torch.where(torch.isfinite(largest), power, torch.nan).view(1)


def _step(rows: torch.Tensor) -> torch.Tensor:
    """bfloat16 [rows]: a 127th of each row's largest number, rounded up; NaN where one is not finite."""
    exact = rows.abs().amax(dim=1) / 127
    bits = (exact.view(torch.int32) + 0xFFFF) & -0x10000  # the bits that bfloat16 keeps, next larger number
    return torch.where(torch.isfinite(exact), bits.view(torch.float32), torch.nan).to(torch.bfloat16)


def rounded(numbers: torch.Tensor, precision: str) -> torch.Tensor:
    """float32: what others read of these numbers; ValueError when one of them is not finite."""
    if precision == "f32":
        return only_finite(numbers)
    out = bytearray(size(len(numbers), precision))
    encode(numbers, precision, memoryview(out))
    return decode(out, len(numbers), precision)


def checked(payload: object, count: int, precision: str) -> Payload:
    """The payload itself. ValueError with the reason when it is not `count` finite numbers."""
    if not isinstance(payload, Payload):
        raise ValueError("it carries no numbers")
    expected = size(count, precision)
    if len(payload) != expected:
        raise ValueError(f"it has {len(payload)} bytes, {expected} were expected")
    if precision == "int8" and count:
        scale = torch.frombuffer(_writable(payload), dtype=torch.bfloat16, count=scales(count, precision))
        only_finite(scale.to(torch.float32) * 128)  # the largest that a whole number of 8 bits can make of them
    else:
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
    payload = _writable(payload)
    if precision == "f32":
        return torch.frombuffer(payload, dtype=torch.float32)
    count, many = _count(len(payload), precision)
    scale = torch.frombuffer(payload, dtype=torch.bfloat16, count=many).to(torch.float32)
    numbers = torch.frombuffer(payload, dtype=WIRE[precision], offset=SCALE_BYTES * many).to(torch.float32)
    if precision == "f16":
        return numbers.mul_(scale)
    for part, block in _blocks(count):
        rows = numbers[part].view(-1, block)
        rows.mul_(scale[part.start // BLOCK:part.start // BLOCK + len(rows)].unsqueeze(1))
    return numbers


def _count(length: int, precision: str) -> tuple[int, int]:
    """(numbers, scales) of a payload of so many bytes."""
    if precision == "f16":
        return (length - SCALE_BYTES) // 2, 1
    many = -(-length // (BLOCK + SCALE_BYTES))
    return length - SCALE_BYTES * many, many


def _writable(payload: Payload) -> Payload:
    """torch wants a buffer that may be written."""
    return bytearray(payload) if memoryview(payload).readonly else payload


def view(numbers: torch.Tensor) -> memoryview:
    """The bytes of a contiguous float32 CPU tensor, not copied."""
    return memoryview(numbers.numpy()).cast("B")  # type: ignore[arg-type]
