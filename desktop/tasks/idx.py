"""The IDX files in which MNIST and its kin come: pictures in one file, their labels in another."""

from __future__ import annotations

import gzip
import re
import struct
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from desktop.errors import DataError

NAME = re.compile(r"idx([13])[-.]ubyte(\.gz)?$", re.IGNORECASE)
LARGEST = 4 << 30  # bytes of a file, unpacked
UNSIGNED = 8  # the only type of numbers in these files


class IdxPair(NamedTuple):
    """One file of pictures and the file of their labels."""

    pictures: Path
    labels: Path


def find_idx(roots: tuple[Path, ...]) -> list[IdxPair]:
    """Pairs among the files chosen, or directly in the folders chosen; train and t10k are two pairs."""
    files = [path for root in roots for path in listing(root)]
    kinds: dict[str, dict[str, Path]] = {}
    for path in files:
        if (found := NAME.search(path.name)) and path.is_file():
            stem = re.sub(r"[-_.]?(images|labels)[-_.]?$", "", path.name[: found.start()].rstrip("-_."),
                          flags=re.IGNORECASE)
            kinds.setdefault(stem, {}).setdefault(found[1], path)
    pairs = []
    for pair in kinds.values():
        if len(pair) < 2:
            raise DataError(place=next(iter(pair.values())).name,
                            why=f"its {'labels' if '3' in pair else 'pictures'} are missing",
                            remedy="Put the file with idx1 and the file with idx3 side by side.")
        pairs.append(IdxPair(pair["3"], pair["1"]))
    return pairs


def listing(root: Path) -> list[Path]:
    """The file itself, or what is directly in a folder; nothing of one that stays shut."""
    try:
        return sorted(root.iterdir()) if root.is_dir() else [root]
    except OSError:
        return []


def read_idx(pair: IdxPair) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    """Pictures uint8 [n, height, width] and labels uint8 [n]; DataError says what is wrong with a file."""
    pictures, labels = _read(pair.pictures, 3), _read(pair.labels, 1)
    if len(pictures) != len(labels):
        raise DataError(place=pair.labels.name, why=f"it has {len(labels):,} labels for {len(pictures):,} pictures",
                        remedy="Choose the two files that belong together.")
    return pictures, labels


def _read(path: Path, dimensions: int) -> npt.NDArray[np.uint8]:
    def broken(why: str) -> DataError:
        return DataError(place=path.name, why=why, remedy="Fetch the file anew.")

    try:
        with (gzip.open if path.suffix.lower() == ".gz" else open)(path, "rb") as file:
            head = file.read(4 + 4 * dimensions)
            if len(head) < 4 + 4 * dimensions or head[:2] != b"\0\0" or (head[2], head[3]) != (UNSIGNED, dimensions):
                raise broken(f"it is no IDX file of {dimensions} dimensions")
            shape = struct.unpack(f">{dimensions}I", head[4:])
            size = int(np.prod([int(side) for side in shape], dtype=object))
            if not 0 < size <= LARGEST:
                raise broken(f"it says that it holds {size:,} bytes")
            body = file.read(size + 1)
    except (OSError, EOFError) as error:
        raise broken(getattr(error, "strerror", None) or "the file is damaged") from error
    if len(body) != size:
        raise broken("the file is incomplete" if len(body) < size else "there is more in it than it says")
    return np.frombuffer(body, np.uint8).reshape(shape)
