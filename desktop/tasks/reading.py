"""Reads what a person chose, whatever kind of data the task wants: one way in for all kinds."""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path
from typing import NamedTuple

from desktop.errors import PeerloomError
from desktop.state import DataView, Edit
from desktop.tasks import data, table_reading
from desktop.tasks.readers import ScanProgress, scan_folder
from desktop.tasks.spec import TaskSpec

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
    """Folders of pictures, one for each class."""
    scan = yield from scan_folder(paths)
    try:
        if not spec.classes:
            spec = spec.with_classes(scan.classes)
        found = yield from data.load_folder(spec, scan)
    except PeerloomError as error:
        return Reading(spec, None, data.refused(", ".join(map(str, paths)), error.sentence, scan.findings()))
    return Reading(spec, found, data.describe(spec, found))


def read_tables(spec: TaskSpec, paths: tuple[Path, ...], edits: Edits) -> Generator[ScanProgress, None, Reading]:
    """A table, its columns mapped to those of the task."""
    return Reading(*(yield from table_reading.read_table(spec, paths, edits)))


def read_sample(spec: TaskSpec, share: tuple[int, int] = (1, 1)) -> Generator[ScanProgress, None, Reading]:
    """The sample data that ships with a task; `share` (i, n) takes the i-th of n equal parts of it."""
    data.check_share(share)
    if spec.kind == "table" and spec.sample:
        return Reading(*(yield from table_reading.read_sample(spec, share)))
    found = data.load_sample(spec, share)
    return Reading(spec, found, data.describe(spec, found))


READERS: dict[str, Reader] = {"images": read_images, "table": read_tables}
