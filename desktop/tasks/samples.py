"""What training reads, whatever kind of data it is: samples by their number."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

Indices = npt.NDArray[np.int64]


class Samples(Protocol):
    """A fixed number of samples. Their shapes and types are those that the task's form states."""

    def __len__(self) -> int: ...

    def batch(self, indices: Indices | slice, /) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """New arrays x [n, ...] and y [n, ...] of the samples at `indices`, a slice or int64 [n]."""
        ...


@runtime_checkable
class ReadsAhead(Protocol):
    """Samples that are not all in memory."""

    def ahead(self, indices: Indices, /) -> None:
        """These will be asked for next: what is not in memory is read meanwhile."""
        ...
