"""Memory that is free goes back to the system, rather than being kept by the C library."""

from __future__ import annotations

import ctypes
import sys

M_MMAP_THRESHOLD = -3  # malloc.h
LARGE = 1_000_000  # bytes: less than a bucket in whatever precision
_libc = ctypes.CDLL(None) if sys.platform == "linux" else None


def keep_large_apart() -> None:
    """Have large blocks go back to the system as soon as they are freed.

    By itself glibc does so only until the first one is freed: then it begins to keep blocks of that size among the
    small ones, and an exchange leaves as much as the model in holes between them.
    """
    if _libc is not None and hasattr(_libc, "mallopt"):
        _libc.mallopt(M_MMAP_THRESHOLD, LARGE)


def trim() -> None:
    """Where the C library can: glibc keeps tens of MB of what was freed, for each thread.

    Takes some ms, in which the interpreter lock is free.
    """
    if _libc is not None and hasattr(_libc, "malloc_trim"):
        _libc.malloc_trim(0)
