"""Reads what a person chose, whatever kind of data the task wants: one way in for all kinds."""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from desktop.errors import OptionError, PeerloomError, TaskError
from desktop.state import ClassCard, DataView, Edit
from desktop.tasks import data, idx, image_checks, table_reading, texts
from desktop.tasks.readers import ScanProgress, scan_folder
from desktop.tasks.spec import TaskSpec, class_name

Edits = tuple[tuple[Edit, ...], ...]


class Reading(NamedTuple):
    """What was read: the task with what it left open fixed by the data, the data (None: it cannot be used), and the
    view of it, with the reason in `view.error`.
    """

    spec: TaskSpec
    data: data.TaskData | None
    view: DataView


Reader = Callable[[TaskSpec, tuple[Path, ...], Edits], Generator[ScanProgress, None, Reading]]


def read(spec: TaskSpec, paths: tuple[Path, ...], edits: Edits) -> Generator[ScanProgress, None, Reading]:
    """Reads in slices; yields how far it has come. Any PeerloomError is a sentence for the data page."""
    return READERS[spec.kind](spec, paths, edits)


def read_images(spec: TaskSpec, paths: tuple[Path, ...], edits: Edits) -> Generator[ScanProgress, None, Reading]:
    """Folders of pictures, one for each class or with a CSV of labels; or the IDX files of MNIST."""
    if pairs := idx.find_idx(tuple(path for path in paths if path.exists())):
        return (yield from _read_idx(spec, paths, pairs, edits))
    scan = yield from scan_folder(paths, (edit for step in edits for edit in step))
    findings, score, words = image_checks.check(scan, spec.classes or tuple(scan.classes))
    try:
        if not spec.classes:
            spec = spec.with_classes(scan.classes)
        found = yield from data.load_folder(spec, scan)
    except PeerloomError as error:
        return Reading(spec, None, data.refused(", ".join(map(str, paths)), error.sentence,
                                                (*scan.findings(), *findings)))
    view = data.describe(spec, found)
    left_out = tuple(ClassCard(name=name, count=len(files), left_out=True) for name, files in scan.classes.items()
                     if name not in spec.classes)
    return Reading(spec, found, msgspec.structs.replace(
        view, classes=(*view.classes, *left_out), findings=(*view.findings, *findings), score=score, score_text=words))


def _read_idx(spec: TaskSpec, paths: tuple[Path, ...], pairs: list[idx.IdxPair], edits: Edits
              ) -> Generator[ScanProgress, None, Reading]:
    read = []
    for done, pair in enumerate(pairs):
        yield ScanProgress(f"Reading {pair.pictures.name}", done, len(pairs))
        read.append(idx.read_idx(pair))
    names = {str(label): str(label) for _, labels in read for label in np.unique(labels)}  # as the file, as the class
    for edit in (edit for step in edits for edit in step if edit.what == "class"):
        names = {label: class_name(edit.value) if name == edit.name else name for label, name in names.items()}
    source = ", ".join(map(str, paths))
    try:
        if not spec.classes:
            spec = spec.with_classes(filter(None, names.values()))
        found = yield from data.load_arrays(spec, read, names, paths[0].name, source)
    except PeerloomError as error:
        return Reading(spec, None, data.refused(source, error.sentence))
    return Reading(spec, found, data.describe(spec, found))


def read_tables(spec: TaskSpec, paths: tuple[Path, ...], edits: Edits) -> Generator[ScanProgress, None, Reading]:
    """A table, its columns mapped to those of the task."""
    return Reading(*(yield from table_reading.read_table(spec, paths, edits)))


def read_text(spec: TaskSpec, paths: tuple[Path, ...], edits: Edits) -> Generator[ScanProgress, None, Reading]:
    """Files of plain text."""
    return Reading(*(yield from texts.read_text(spec, paths, edits)))


READERS: dict[str, Reader] = {"images": read_images, "table": read_tables, "text": read_text}


# -- the sample data that ships with the program ---------------------------------------------------------


def read_sample(spec: TaskSpec, share: tuple[int, int] = (1, 1)) -> Generator[ScanProgress, None, Reading]:
    """Reads the task's sample data, or the i-th of n equal parts of it, in slices. PeerloomError as with `read`.

    The test part is the same for all parts; what else they hold is disjoint, and follows from the task's seed alone.
    """
    part, parts = share
    if not 1 <= part <= parts:
        raise OptionError(key="share", value=f"{part}/{parts}", allowed="I/N with 1 ≤ I ≤ N, for example 2/3")
    if not spec.sample:
        raise TaskError(why=f"no sample data ships with “{spec.title}”; use your own")
    return SAMPLES[spec.sample](spec, share)


def sample_digits(spec: TaskSpec, share: tuple[int, int]) -> Generator[ScanProgress, None, Reading]:
    """The digits, in one slice."""
    found = data.load_sample(spec, share)
    yield ScanProgress("Reading the digits", 1, 1)
    return Reading(spec, found, data.describe(spec, found))


def sample_text(spec: TaskSpec, share: tuple[int, int]) -> Generator[ScanProgress, None, Reading]:
    """The play."""
    return Reading(*(yield from texts.read_sample(spec, share)))


def sample_table(spec: TaskSpec, share: tuple[int, int]) -> Generator[ScanProgress, None, Reading]:
    """The penguins."""
    return Reading(*(yield from table_reading.read_sample(spec, share)))


SAMPLES: dict[str, Callable[[TaskSpec, tuple[int, int]], Generator[ScanProgress, None, Reading]]] = {
    "digits": sample_digits, "penguins": sample_table, "shakespeare": sample_text,
}
