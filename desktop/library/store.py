"""Saved models: safetensors files with a description, written whole or not at all, read without trust."""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import math
import os
import re
import secrets
import struct
import unicodedata
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

import msgspec

from desktop.errors import ModelFileError, PeerloomError, SaveError
from desktop.state import ModelRow
from desktop.tasks.spec import TaskSpec

if TYPE_CHECKING:
    import torch
    from torch import nn

log = logging.getLogger(__name__)

SUFFIX = ".safetensors"
SLICE = 4 << 20  # bytes written or read at once: each call frees the interpreter lock, nothing is copied before it
LARGEST_HEADER = 16 << 20
KEY = "peerloom"  # of the description in the file's metadata
SIZES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1}
TORCH_NAMES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "I64": "int64",
               "I32": "int32", "I16": "int16", "I8": "int8", "U8": "uint8", "BOOL": "bool"}

WHY = {  # why a file cannot be written
    errno.ENOSPC: "the disk is full", errno.EDQUOT: "your share of the disk is full",
    errno.EFBIG: "the disk takes no file of that size", errno.EROFS: "the disk can only be read",
    errno.EACCES: "you may not write there", errno.EPERM: "you may not write there",
    errno.ENOTDIR: "that is not a folder", errno.EEXIST: "that is not a folder",
}


class ModelCard(msgspec.Struct, frozen=True, kw_only=True):
    """The description inside a model's file. `digest` is that of the weights; `date` is ISO 8601."""

    task: TaskSpec
    rounds: int
    members: tuple[str, ...]  # names
    samples: int  # that were trained on, all members together
    date: str
    digest: str
    test_accuracy: float | None = None
    test_samples: int = 0
    test_figures: dict[str, float] = {}  # as in state.SessionState.metrics
    version: int = 1


class Entry(NamedTuple):
    """One tensor in a file: where its bytes start and end within the data."""

    dtype: str
    shape: tuple[int, ...]
    start: int
    end: int


class _Row(msgspec.Struct, frozen=True):
    """An entry of the header as safetensors writes it."""

    dtype: str
    shape: tuple[int, ...]
    data_offsets: tuple[int, int]


# -- saving -------------------------------------------------------------------------------------------


def save_model(folder: Path, tensors: Iterable[tuple[str, torch.Tensor]], card: ModelCard) -> Path:
    """Writes the model into `folder` (made if need be) and returns the file's path; SaveError says why not."""
    slices = saving(folder, tensors, card)
    while True:
        try:
            next(slices)
        except StopIteration as end:
            path: Path = end.value
            return path


def saving(folder: Path, tensors: Iterable[tuple[str, torch.Tensor]], card: ModelCard
           ) -> Generator[float, None, Path]:
    """The same in slices of 4 MiB: yields how much is written, 0..1. The weights must not change meanwhile.

    The file appears under its name only when it is whole and on the disk. On any failure, and when the generator
    is closed, what was written is removed and an older file of that name stays as it was.
    """
    path = folder / file_name(card)
    aside = folder / f".{path.stem}-{secrets.token_hex(4)}.part"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with aside.open("xb") as file:
            yield from _write(file, list(tensors), card)
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
        _sync_folder(folder)
    except OSError as error:
        why = WHY.get(error.errno or 0) or error.strerror or "writing failed"
        raise SaveError(place=str(folder), why=why) from error
    finally:
        with contextlib.suppress(OSError):
            aside.unlink(missing_ok=True)
    return path


def file_name(card: ModelCard) -> str:
    """Title, day and digest in ASCII, for every file system: “wild-flowers-2026-11-30-1a2b3c4d.safetensors”."""
    plain = unicodedata.normalize("NFKD", card.task.title).encode("ascii", "ignore").decode().lower()
    parts = [re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:40] or "model",
             re.sub(r"[^0-9-]", "", card.date[:10]), re.sub(r"[^0-9a-f]", "", card.digest.lower())[:8]]
    return "-".join(part for part in parts if part) + SUFFIX


def _write(file: BinaryIO, named: list[tuple[str, torch.Tensor]], card: ModelCard) -> Generator[float, None, None]:
    """Header and data in the safetensors format, in slices."""
    # Wider numbers first keeps every tensor aligned to its width.
    named = sorted(named, key=lambda pair: -pair[1].element_size())
    header: dict[str, object] = {"__metadata__": {"format": "pt", KEY: msgspec.json.encode(card).decode()}}
    codes = {name: code for code, name in TORCH_NAMES.items()}
    total = 0
    for name, tensor in named:
        size = tensor.numel() * tensor.element_size()
        code = codes[str(tensor.dtype).removeprefix("torch.")]
        header[name] = {"dtype": code, "shape": list(tensor.shape), "data_offsets": [total, total + size]}
        total += size
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    _write_all(file, memoryview(struct.pack("<Q", len(text)) + text))
    written = 0
    for _, tensor in named:
        data = _bytes_of(tensor.detach().cpu().contiguous())
        for start in range(0, len(data), SLICE):
            piece = data[start:start + SLICE]
            _write_all(file, piece)
            written += len(piece)
            yield written / total


def _write_all(file: BinaryIO, data: memoryview) -> None:
    while data:
        data = data[file.write(data):]


def _bytes_of(tensor: torch.Tensor) -> memoryview:
    """The tensor's own memory, for reading and writing, without a copy. It must be contiguous and on the CPU."""
    import torch

    return tensor.view(-1).view(torch.uint8).numpy().data


def _sync_folder(folder: Path) -> None:
    """Makes the new name last through a power cut. Not every system can; the file itself is safe by then."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


# -- reading ------------------------------------------------------------------------------------------


def load_model(path: Path) -> tuple[ModelCard, dict[str, torch.Tensor]]:
    """The description and the weights by name. ModelFileError when the file is damaged or is no such model."""
    import torch

    with _opened(path) as file:
        card, entries, start = _read_header(file, path)
        tensors = {}
        for name, entry in entries.items():
            try:
                tensor = torch.empty(entry.shape, dtype=getattr(torch, TORCH_NAMES[entry.dtype]))
            except RuntimeError as error:
                raise ModelFileError(place=path.name, why="it does not fit in the memory") from error
            file.seek(start + entry.start)
            _read_into(file, _bytes_of(tensor), path)
            tensors[name] = tensor
    return card, tensors


def open_model(path: Path) -> tuple[ModelCard, nn.Module]:
    """The description and the task's model with the file's weights, in eval mode. ModelFileError as above."""
    import torch

    from desktop.tasks import models

    card, tensors = load_model(path)
    try:
        shapes = models.weight_shapes(card.task)
    except PeerloomError as error:
        raise ModelFileError(place=path.name, why=error.sentence) from error
    if shapes != {name: tuple(tensor.shape) for name, tensor in tensors.items()}:
        raise ModelFileError(place=path.name, why="its weights do not fit the model that it names")
    if any(tensor.dtype != torch.float32 for tensor in tensors.values()):
        raise ModelFileError(place=path.name, why="its weights are not 32-bit numbers")
    model = models.build_model(card.task, seed=0)
    model.load_state_dict(tensors)
    return card, model.eval()


def list_models(folder: Path) -> tuple[ModelRow, ...]:
    """The models in a folder, newest first. Reads only the headers; files that are damaged are left out and logged."""
    rows = []
    for path in sorted(folder.glob("*" + SUFFIX)):
        try:
            with _opened(path) as file:
                card, _, _ = _read_header(file, path)
                size = os.fstat(file.fileno()).st_size
        except ModelFileError as error:
            log.info("left out of the list: %s", error.sentence)
            continue
        rows.append(ModelRow(path=str(path), title=card.task.title, date=card.date, rounds=card.rounds,
                             members=len(card.members), test_accuracy=card.test_accuracy,
                             metrics=card.test_figures, size_bytes=size))
    return tuple(sorted(rows, key=lambda row: row.date, reverse=True))


@contextlib.contextmanager
def _opened(path: Path) -> Generator[BinaryIO, None, None]:
    """The file, open for reading; errors of the disk become ModelFileError."""
    try:
        if not path.is_file():  # a pipe would be waited for
            raise ModelFileError(place=path.name, why="there is no such file")
        with path.open("rb") as file:
            yield file
    except OSError as error:
        raise ModelFileError(place=path.name, why=error.strerror or "it cannot be read") from error


def _read_header(file: BinaryIO, path: Path) -> tuple[ModelCard, dict[str, Entry], int]:
    """Description, entries, and where the data starts. Nothing in the file is believed before it is checked."""
    size = os.fstat(file.fileno()).st_size
    first = file.read(8)
    length = struct.unpack("<Q", first)[0] if len(first) == 8 else 0
    if not 2 <= length <= min(LARGEST_HEADER, size - 8):
        raise ModelFileError(place=path.name, why="it is not a safetensors file, or its beginning is damaged")
    try:
        rows = msgspec.json.decode(file.read(length), type=dict[str, msgspec.Raw])
        metadata = msgspec.json.decode(rows.pop("__metadata__", msgspec.Raw(b"{}")), type=dict[str, str])
        table = {name: msgspec.json.decode(raw, type=_Row) for name, raw in rows.items()}
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise ModelFileError(place=path.name, why="its beginning is damaged") from error
    entries = _checked(table, size - 8 - length, path)
    return _card(metadata, path), entries, 8 + length


def _checked(table: dict[str, _Row], size: int, path: Path) -> dict[str, Entry]:
    """The entries, if they are tensors that fill the data's `size` bytes one after the other."""
    entries = {}
    expected = 0
    for name, row in sorted(table.items(), key=lambda pair: pair[1].data_offsets):
        start, end = row.data_offsets
        if row.dtype not in SIZES or len(row.shape) > 8 or any(side < 0 for side in row.shape):
            raise ModelFileError(place=path.name, why=f"“{name[:80]}” has a type or shape that no weights have")
        if start != expected or end - start != math.prod(row.shape) * SIZES[row.dtype]:
            raise ModelFileError(place=path.name, why=f"the place of “{name[:80]}” is wrong")
        expected = end
        entries[name] = Entry(row.dtype, row.shape, start, end)
    if expected != size:
        raise ModelFileError(place=path.name, why="it is incomplete" if expected > size else "it is too long")
    return entries


def _card(metadata: dict[str, str], path: Path) -> ModelCard:
    if KEY not in metadata:
        raise ModelFileError(place=path.name, why="it holds no description by Peerloom")
    try:
        card = msgspec.json.decode(metadata[KEY], type=ModelCard)
        card.task.check()
    except (msgspec.DecodeError, RecursionError, PeerloomError) as error:
        raise ModelFileError(place=path.name, why=f"its description is damaged ({error})") from error
    return card


def _read_into(file: BinaryIO, data: memoryview, path: Path) -> None:
    """Fills `data` from the file, in slices."""
    done = 0
    while done < len(data):
        count = file.readinto(data[done:done + SLICE])  # type: ignore[attr-defined]  # missing in BinaryIO only
        if not count:
            raise ModelFileError(place=path.name, why="it is incomplete")
        done += count
