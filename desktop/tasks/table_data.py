"""A member's table as numbers: mapped by name to the columns and classes that a room has fixed, and split in parts."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Generator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from desktop.tasks.readers import ScanProgress
from desktop.tasks.samples import Indices
from desktop.tasks.spec import Column, Table
from desktop.tasks.tables import SLICE, RawTable, Row, is_missing, number, value_text

Floats = npt.NDArray[np.float32]
Codes = npt.NDArray[np.int16]
TOGETHER = 4
LABEL = -1  # the key of the label among columns of the form


class TableSet:
    """Rows of a table in the form's columns.

    `numbers` float32 [N, number columns], NaN where missing; `codes` int16 [N, category columns], the place of the
    value among the column's, or one more for others; `labels` int64 or float32 [N].
    """

    def __init__(self, form: Table, numbers: Floats, codes: Codes, labels: npt.NDArray[Any]) -> None:
        self.form, self.numbers, self.codes, self.labels = form, numbers, codes, labels
        places = list(zip(form.columns, form.places, strict=True))
        self._number_at = np.array([at for column, at in places if column.role == "number"], np.int64)
        self._category_at = np.array([at for column, at in places if column.role == "category"], np.int64)

    def __len__(self) -> int:
        return len(self.labels)

    def batch(self, indices: Indices | slice, /) -> tuple[Floats, npt.NDArray[Any]]:
        """New arrays: x float32 [n, inputs] with a missing number as 0 and its flag as 1, y [n]."""
        values, codes = self.numbers[indices], self.codes[indices]
        x = np.zeros((len(values), self.form.inputs), np.float32)
        x[:, self._number_at] = np.nan_to_num(values, nan=0.0)
        x[:, self._number_at + 1] = np.isnan(values)
        x[np.arange(len(values))[:, None], self._category_at + codes] = 1
        return x, self.labels[indices].copy()

    def only(self, indices: Indices) -> TableSet:
        """A set of these rows alone."""
        return TableSet(self.form, self.numbers[indices], self.codes[indices], self.labels[indices])


class LeftOut:
    """What of a table did not fit, counted."""

    def __init__(self) -> None:
        self.rows = 0  # that were looked at
        self.unlabelled: list[int] = []  # numbers of rows
        self.labels: Counter[str] = Counter()  # that the room does not know: rows left out
        self.dropped: Counter[str] = Counter()  # that the person leaves out: rows
        self.categories: dict[str, Counter[str]] = {}  # by column: taken as "other"
        self.odd: dict[str, Counter[str]] = {}  # by column of numbers: no number, taken as missing


def matched(form: Table, names: tuple[str, ...], label: str = "") -> dict[int, int]:
    """For each column of the form (by its place; the label is LABEL) that the table has, its place in the table.

    By name; one that differs only in upper and lower case will do. `label`: the name that it has here.
    """
    exact = {name: place for place, name in enumerate(names)}
    lower: dict[str, list[int]] = {}
    for place, name in enumerate(names):
        lower.setdefault(name.casefold(), []).append(place)
    found = {}
    for key, wanted in [(LABEL, label or form.label), *((i, column.name) for i, column in enumerate(form.columns))]:
        similar = lower.get(wanted.casefold(), [])
        if wanted in exact:
            found[key] = exact[wanted]
        elif len(similar) == 1:
            found[key] = similar[0]
    return found


class Mapper:
    """Maps cells to the numbers of a form."""

    def __init__(self, form: Table, decimal: str, where: Mapping[int, int], renamed: Callable[[str], str]) -> None:
        self._form, self._decimal, self._where, self._renamed = form, decimal, where, renamed
        self.left_out = LeftOut()
        self._classes = _by_name(form.classes)
        self._values = [_by_name(column.values) for column in form.columns]

    def map(self, rows: list[Row]) -> TableSet:
        """These rows without those that have no label."""
        columns = list(zip(*(row.cells for row in rows), strict=True))
        labels = self._labels(columns[self._where[LABEL]])
        kept = np.array([label is not None for label in labels], np.bool_)
        self.left_out.rows += len(rows)
        numbers = [self._numbers(column, columns[self._where[i]])
                   for i, column in enumerate(self._form.columns) if column.role == "number"]
        codes = [self._codes(column, self._values[i], columns[self._where[i]])
                 for i, column in enumerate(self._form.columns) if column.role == "category"]
        self._note_unlabelled(rows, columns[self._where[LABEL]])
        number_type = np.float32 if self._form.goal == "number" else np.int64
        return TableSet(self._form, _side_by_side(numbers, len(rows), np.float32)[kept],
                        _side_by_side(codes, len(rows), np.int16)[kept],
                        np.array([label for label in labels if label is not None], number_type))

    def _labels(self, cells: tuple[str, ...]) -> list[float | None]:
        known = {text: self._label(text) for text in set(cells)}
        for text, times in Counter(cells).items():
            value = value_text(text, self._decimal)
            if known[text] is None and value and self._form.goal == "classes":
                wanted = self._renamed(value)
                (self.left_out.labels if wanted else self.left_out.dropped)[value] += times
        return [known[text] for text in cells]

    def _label(self, text: str) -> float | None:
        if self._form.goal == "number":
            return None if is_missing(text) else number(text, self._decimal)
        value = value_text(text, self._decimal)
        return _find(self._classes, self._renamed(value))

    def _note_unlabelled(self, rows: list[Row], cells: tuple[str, ...]) -> None:
        for row, text in zip(rows, cells, strict=True):
            if is_missing(text) or (self._form.goal == "number" and number(text, self._decimal) is None):
                self.left_out.unlabelled.append(row.number)

    def _numbers(self, column: Column, cells: tuple[str, ...]) -> Floats:
        known: dict[str, float] = {}
        for text, times in Counter(cells).items():
            found = None if is_missing(text) else number(text, self._decimal)
            if found is None and not is_missing(text):
                self.left_out.odd.setdefault(column.name, Counter())[text.strip()] += times
            known[text] = float("nan") if found is None else found + 0.0  # no negative zero
        return np.array([known[text] for text in cells], np.float32)

    def _codes(self, column: Column, values: dict[str, int], cells: tuple[str, ...]) -> Codes:
        known: dict[str, int] = {}
        for text, times in Counter(cells).items():
            value = value_text(text, self._decimal)
            found = _find(values, value)
            if found is None and value:
                self.left_out.categories.setdefault(column.name, Counter())[value] += times
            known[text] = len(column.values) if found is None else found
        return np.array([known[text] for text in cells], np.int16)


def _by_name(names: tuple[str, ...]) -> dict[str, int]:
    """Places by name, and by the name in lower case where that means one alone."""
    lower = Counter(name.casefold() for name in names)
    folded = {name.casefold(): place for place, name in enumerate(names) if lower[name.casefold()] == 1}
    return folded | {name: place for place, name in enumerate(names)}


def _find(places: Mapping[str, int], name: str) -> int | None:
    found = places.get(name)
    return places.get(name.casefold()) if found is None else found


def _side_by_side(columns: list[npt.NDArray[Any]], rows: int, kind: type) -> npt.NDArray[Any]:
    return np.stack(columns, axis=1) if columns else np.zeros((rows, 0), kind)


def load(table: RawTable, form: Table, where: Mapping[int, int], renamed: Callable[[str], str]
         ) -> Generator[ScanProgress, None, tuple[TableSet, LeftOut]]:
    """Goes through all rows and maps them; `where` is what `matched` found, for every column."""
    mapper = Mapper(form, table.decimal or ".", where, renamed)
    parts: list[TableSet] = []
    for rows in table.slices():
        parts.append(mapper.map(rows))
        yield ScanProgress(f"Reading {mapper.left_out.rows:,} rows", mapper.left_out.rows, 0)
    return joined(form, parts), mapper.left_out


def joined(form: Table, parts: list[TableSet]) -> TableSet:
    """All parts as one."""
    kinds = [column.role for column in form.columns]
    empty = TableSet(form, np.zeros((0, kinds.count("number")), np.float32),
                     np.zeros((0, kinds.count("category")), np.int16),
                     np.zeros(0, np.float32 if form.goal == "number" else np.int64))
    every = [empty, *parts]
    return TableSet(form, np.concatenate([part.numbers for part in every]),
                    np.concatenate([part.codes for part in every]), np.concatenate([part.labels for part in every]))


def places(rows: TableSet, seed: int) -> Generator[ScanProgress, None, tuple[npt.NDArray[np.float64], int]]:
    """For each row a number in 0..1 that follows from what it says and the seed, the same at every member.

    So a copy of a row lies in the same part of the data at all of them. Up to TOGETHER rows that say the same share a
    number; of a table with few columns many rows may say the same, and then they are spread as any others. Also how
    many rows say what an earlier one says.
    """
    content = np.concatenate([np.ascontiguousarray(array).view(np.uint8).reshape(len(rows), -1)
                              for array in (rows.numbers, rows.codes, rows.labels[:, None]) if array.size], axis=1)
    found = np.empty(len(rows), np.float64)
    seen: dict[bytes, int] = {}
    for done in range(0, len(rows), SLICE):
        for place, row in enumerate(content[done:done + SLICE], start=done):
            said = hashlib.blake2b(row.tobytes(), digest_size=12).digest()
            copy = seen[said] = seen.get(said, -1) + 1
            digest = hashlib.blake2b(said + f"{copy // TOGETHER} {seed}".encode(), digest_size=7).digest()
            found[place] = int.from_bytes(digest) / 256**7
        yield ScanProgress("Splitting the rows", done, len(rows))
    return found, len(rows) - len(seen)
