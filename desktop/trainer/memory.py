"""Memory that is free goes back to the system, rather than being kept by the C library, where that matters."""

from __future__ import annotations

import ctypes
import sys

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # malloc.h
LARGE = 1_000_000  # bytes: less than a bucket in whatever precision
LEAST_KEPT = 128 * 1024  # glibc's own value before anything was freed
MOST_KEPT = 32 * 1024 * 1024  # the largest block that glibc can be told to keep
_libc = ctypes.CDLL(None) if sys.platform == "linux" else None


def trim() -> None:
    """Where the C library can: glibc keeps tens of MB of what was freed, for each thread.

    Takes some ms, in which the interpreter lock is free.
    """
    if _libc is not None and hasattr(_libc, "malloc_trim"):
        _libc.malloc_trim(0)


def spare() -> None:
    """All that is free goes now, and from now on what is as large as a bucket goes as soon as it is freed.

    By itself glibc soon keeps such blocks among the small ones, and an exchange leaves as much as the model in holes.
    """
    _set(M_MMAP_THRESHOLD, LARGE)
    _set(M_TRIM_THRESHOLD, LEAST_KEPT)
    bytearray(LEAST_KEPT)  # freed at once: that trims the end of this thread's heap, which trim() leaves out
    trim()


def keep() -> None:
    """What is freed is kept from now on: each step of training needs the same again, and new memory costs time."""
    _set(M_MMAP_THRESHOLD, MOST_KEPT)
    _set(M_TRIM_THRESHOLD, 2 * MOST_KEPT)


def _set(what: int, value: int) -> None:
    if _libc is not None and hasattr(_libc, "mallopt"):
        _libc.mallopt(what, value)
