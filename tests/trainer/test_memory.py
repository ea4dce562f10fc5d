"""Memory that was freed goes back to the system when asked for."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from desktop.trainer import memory

PIECE = 100_000  # bytes; so small that the C library takes it from its heap
MB = 1_000_000


def resident() -> int:
    """Bytes that this process holds."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc is known to keep what is freed")
def test_what_lies_free_below_something_in_use_is_given_back() -> None:
    pieces = [bytearray(b"1") * PIECE for _ in range(1000)]
    last = pieces.pop()
    full = resident()
    pieces.clear()
    memory.trim()
    assert full - resident() > 80 * MB
    assert len(last) == PIECE


def test_elsewhere_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_libc", None)
    memory.trim()
