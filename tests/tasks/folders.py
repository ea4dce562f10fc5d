"""Small folders of pictures for tests, and running a generator to its end."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from PIL import Image

Result = TypeVar("Result")


def finish(slices: Generator[Any, None, Result]) -> Result:
    """What the generator returns."""
    while True:
        try:
            next(slices)
        except StopIteration as end:
            return end.value


def fill(folder: Path, count: int, seed: int = 0, size: tuple[int, int] = (12, 8)) -> Path:
    """Makes `count` PNGs of noise, width × height `size`, each different."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    for i in range(count):
        noise = rng.integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
        Image.fromarray(noise).save(folder / f"{i:03}.png")
    return folder


def cats_and_dogs(root: Path, count: int = 12) -> Path:
    """A folder with `cat` and `dog`."""
    fill(root / "cat", count, seed=1)
    fill(root / "dog", count, seed=2)
    return root
