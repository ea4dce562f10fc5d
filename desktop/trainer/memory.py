"""Memory that is free but kept by the C library is given back to the system."""

from __future__ import annotations

import ctypes
import sys

_libc = ctypes.CDLL(None) if sys.platform == "linux" else None


def trim() -> None:
    """Where the C library can: glibc keeps tens of MB of what was freed, for each thread.

    Takes some ms, in which the interpreter lock is free.
    """
    if _libc is not None and hasattr(_libc, "malloc_trim"):
        _libc.malloc_trim(0)
