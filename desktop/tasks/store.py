"""Decoded pictures: as many as a bound allows stay in memory, the others are decoded again when they are needed."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import numpy.typing as npt

from desktop.errors import BrokenImageError, DataError
from desktop.tasks import ahead
from desktop.tasks.pictures import Pixels

Indices = npt.NDArray[np.int64]

AHEAD_BYTES = 64 << 20  # of pictures decoded before they are asked for


def bound_bytes() -> int:
    """How much of this computer's memory decoded pictures may take: a quarter, and 2 GiB at most."""
    try:
        whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not there on Windows
        whole = 8 << 30
    return min(2 << 30, whole // 4)


class PictureStore:
    """The pictures of a data set, by number. Use from one thread.

    Those that come first stay for good. An epoch asks for each picture once, in a new order: throwing out what was
    used longest ago would throw out each just before it is needed again, and keeping any fixed part saves that part.
    """

    def __init__(
        self, paths: Sequence[Path], shape: tuple[int, int, int], decode: Callable[[Path], Pixels],
        bound: int,
    ) -> None:
        self.paths, self.shape, self._decode = paths, shape, decode
        size = int(np.prod(shape))
        self._kept = np.empty((min(len(paths), max(1, bound // size)), *shape), np.uint8)
        self._place = np.full(len(paths), -1, np.int64)  # in `_kept`
        self._used = 0
        self._most_ahead = max(1, AHEAD_BYTES // size)
        self._threads: ThreadPoolExecutor | None = None
        self._coming: dict[int, Future[Pixels]] = {}

    def __len__(self) -> int:
        return len(self.paths)

    def put(self, number: int, points: Pixels) -> None:
        """Keep a picture that was decoded already, if there is room."""
        if self._used < len(self._kept) and self._place[number] < 0:
            self._kept[self._used] = points
            self._place[number] = self._used
            self._used += 1

    def decode(self, number: int) -> Pixels:
        """A picture from its file; from any thread. BrokenImageError, OSError."""
        return self._decode(self.paths[number])

    def get(self, numbers: Indices) -> Pixels:
        """uint8 [n, C, H, W]; DataError when a file is not as it was any more."""
        out = np.empty((len(numbers), *self.shape), np.uint8)
        places = self._place[numbers]
        here = places >= 0
        out[here] = self._kept[places[here]]
        missing = numbers[~here]
        self.ahead(missing)
        for row, number in zip(np.flatnonzero(~here), missing.tolist(), strict=True):
            points = self._take(number)
            out[row] = points
            self.put(number, points)
        return out

    def _take(self, number: int) -> Pixels:
        future = self._coming.pop(number, None)
        try:
            return future.result() if future is not None else self.decode(number)
        except (BrokenImageError, OSError) as error:
            self._coming.clear()  # their errors know this store: a circle that would keep it and its threads
            raise DataError(place=self.paths[number].name, why="it was there and is not readable any more",
                            remedy="Put it back, or choose the data anew.") from error
        finally:
            del future  # the same for its error, which knows this frame

    def ahead(self, numbers: Indices) -> None:
        """Begin to decode those that are not here: they will be asked for soon. What was hinted at before, and was not
        asked for, is forgotten when there is no room.
        """
        for number in numbers[self._place[numbers] < 0].tolist():
            if number not in self._coming:
                if len(self._coming) >= self._most_ahead:
                    self._coming.pop(next(iter(self._coming))).cancel()
                if self._threads is None:
                    self._threads = ahead.pool()
                self._coming[number] = self._threads.submit(self.decode, number)

    def __del__(self) -> None:
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)


class Stored:
    """Some of a store's pictures, indexed as an array uint8 [n, C, H, W] is."""

    def __init__(self, store: PictureStore, numbers: Indices) -> None:
        self._store, self._numbers = store, numbers

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def shape(self) -> tuple[int, ...]:
        """As numpy has it."""
        return (len(self), *self._store.shape)

    @property
    def dtype(self) -> np.dtype[np.uint8]:
        """As numpy has it."""
        return np.dtype(np.uint8)

    def __getitem__(self, which: Indices | slice | int) -> Pixels:
        if isinstance(which, int | np.integer):
            return self._store.get(self._numbers[[int(which)]])[0]
        return self._store.get(self._numbers[which])

    def only(self, which: Indices) -> Stored:
        """Some of these."""
        return Stored(self._store, self._numbers[which])

    def ahead(self, which: Indices) -> None:
        """These will be asked for soon."""
        self._store.ahead(self._numbers[which])
