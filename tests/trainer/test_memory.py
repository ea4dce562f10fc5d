"""Memory that was freed goes back to the system: small blocks when asked for, large ones by themselves."""

from __future__ import annotations

import platform
import subprocess
import sys
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


HOLES = """
import numpy
from desktop.trainer import memory
from tests.trainer.test_memory import resident

{first}
before = resident()
blocks = [numpy.ones(500_000) for _ in range(30)]
kept = blocks[1::2]
blocks.clear()
print(resident() - before)
"""


def held(first: str) -> int:
    """Bytes that another process holds for 15 blocks of 4 MB that are in use, and as many that are free between."""
    done = subprocess.run([sys.executable, "-c", HOLES.format(first=first)], cwd=Path(__file__).parents[2],
                          stdout=subprocess.PIPE, text=True, check=True)
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc is known to keep what is freed")
def test_spared_large_blocks_leave_no_holes() -> None:
    assert held("memory.keep()") > 100 * MB
    assert held("memory.keep(); memory.spare()") < 70 * MB


def test_elsewhere_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_libc", None)
    memory.trim()
    memory.spare()
    memory.keep()
