"""Pictures within a bound of memory: what does not fit is decoded again, and what comes next is decoded ahead."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

from desktop.errors import DataError
from desktop.tasks.builtin import IMAGES
from desktop.tasks.data import load_folder
from desktop.tasks.pictures import Pixels
from desktop.tasks.readers import scan_folder
from desktop.tasks.store import PictureStore, Stored
from tests.tasks.folders import cats_and_dogs, finish

SHAPE = (1, 2, 2)


class Decoder:
    """Gives each path its number as all its points, and counts who was asked for."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.lock = threading.Lock()

    def __call__(self, path: Path) -> Pixels:
        with self.lock:
            self.asked.append(int(path.name))
        return np.full(SHAPE, int(path.name), np.uint8)


def numbers(*which: int) -> np.ndarray:
    return np.array(which, np.int64)


def store(decoder: Decoder, count: int, room_for: int) -> PictureStore:
    return PictureStore([Path(str(i)) for i in range(count)], SHAPE, decoder, room_for * int(np.prod(SHAPE)))


def test_every_picture_is_itself_whatever_fits() -> None:
    for room_for in (1, 3, 10):
        decoder = Decoder()
        pictures = store(decoder, 10, room_for)
        for order in ([3, 1, 2], [9, 9, 0], list(range(10)), [5]):
            got = pictures.get(numbers(*order))
            assert got[:, 0, 0, 0].tolist() == order


def test_what_fits_is_decoded_once_and_the_rest_each_epoch() -> None:
    decoder = Decoder()
    pictures = store(decoder, 10, 4)
    for _ in range(3):
        pictures.get(np.random.default_rng(0).permutation(10))
    assert len(decoder.asked) == 10 + 6 + 6


def test_what_comes_next_is_decoded_meanwhile_and_not_twice() -> None:
    decoder = Decoder()
    pictures = Stored(store(decoder, 10, 1), numbers(*range(9, -1, -1)))
    pictures.ahead(numbers(2, 3))
    assert pictures[numbers(2, 3)][:, 0, 0, 0].tolist() == [7, 6]
    assert sorted(decoder.asked) == [6, 7]
    assert pictures[0][0, 0, 0] == 9
    assert pictures.only(numbers(4, 5)).shape == (2, *SHAPE)


def test_a_file_that_is_gone_by_then_says_so(tmp_path: Path) -> None:
    spec = IMAGES.changed(height=8, width=8).with_classes(["cat", "dog"])
    data = finish(load_folder(spec, finish(scan_folder(cats_and_dogs(tmp_path, 10))), bound=1))
    for path in tmp_path.rglob("*.png"):
        path.unlink()
    with pytest.raises(DataError, match=r"png.*not readable any more"):
        data.train.batch(slice(0, None))


def test_training_sees_the_same_whatever_the_bound(tmp_path: Path) -> None:
    spec = IMAGES.changed(height=8, width=8).with_classes(["cat", "dog"])
    scan = finish(scan_folder(cats_and_dogs(tmp_path, 20)))
    whole, tight = (finish(load_folder(spec, scan, bound=bound)) for bound in (1 << 30, 8 * 8 * 3 * 5))
    order = np.random.default_rng(1).permutation(len(whole.train))
    for a, b in zip(whole.train.batch(order), tight.train.batch(order), strict=True):
        assert np.array_equal(a, b)
