"""From a file to a member's data of a table task: read, understood, mapped, checked, split and shown."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from desktop.errors import DataError, PeerloomError, TooLittleDataError
from desktop.resources import resource
from desktop.state import ClassCard, DataView, Edit, Finding, TableView
from desktop.tasks import table_checks as checks
from desktop.tasks import table_data
from desktop.tasks.data import LEAST_PER_CLASS, TaskData, stratified, three_parts
from desktop.tasks.readers import ScanProgress
from desktop.tasks.spec import Column, Table, TaskSpec, class_name
from desktop.tasks.table_columns import Profile, detect, likely_label, predicts_number, profiles, shown
from desktop.tasks.table_data import LABEL, TableSet, joined, matched
from desktop.tasks.tables import SEPARATORS, RawTable, open_table

LEAST_ROWS = 10
PREVIEW_ROWS = 8
MOST_CARDS = 50  # of labels that are left out
LONGEST_CELL = 100  # characters of it in the preview
READINGS = {"separator": SEPARATORS, "decimal": (".", ",")}
ROLES = ("number", "category", "label", "ignore")


class Wishes(NamedTuple):
    """What a person changed: how the file is read, parts of columns, names of classes."""

    reading: dict[str, str]
    roles: dict[str, str]
    classes: list[tuple[str, str]]

    @classmethod
    def of(cls, edits: tuple[tuple[Edit, ...], ...]) -> Wishes:
        """All steps in their order; the later one counts."""
        found = cls({}, {}, [])
        for edit in itertools.chain.from_iterable(edits):
            if edit.what == "reading" and edit.value in READINGS.get(edit.name, (edit.value,)):
                found.reading[edit.name] = edit.value
            elif edit.what == "role" and edit.value in ROLES:
                if edit.value == "label":  # there is one
                    for name in [name for name, role in found.roles.items() if role == "label"]:
                        del found.roles[name]
                found.roles[edit.name] = edit.value
            elif edit.what == "class":
                found.classes.append((edit.name, class_name(edit.value)))
        return found

    def renamed(self, label: str) -> str:
        """What a label is called after all renames, one after the other; "" when it is left out."""
        name = label
        for before, after in self.classes:
            if name == before or (not name and label == before):  # what was left out comes back by its first name
                name = after
        return name

    @property
    def label(self) -> str:
        """The column that is to be predicted; "" if nothing was said."""
        return next((name for name, role in self.roles.items() if role == "label"), "")


def read_table(spec: TaskSpec, paths: tuple[Path, ...], edits: tuple[tuple[Edit, ...], ...]
               ) -> Generator[ScanProgress, None, tuple[TaskSpec, TaskData | None, DataView]]:
    """Reads a table in slices. What cannot be used is shown all the same, with the reason in the view.

    PeerloomError when it cannot even be opened.
    """
    wishes = Wishes.of(edits)
    table = yield from open_table(paths, wishes.reading)
    columns, uneven = yield from profiles(table)
    roles = _roles(_form(spec), table, columns, wishes)
    view = DataView(title=table.path.name, source=", ".join(map(str, paths)), table=_shown(table, columns, roles, spec))
    findings = checks.of_the_file(table, uneven) + checks.of_columns(columns, roles)
    try:
        spec, rare = _fixed(spec, table, columns, roles, wishes)
        where = _where(_form(spec), table, wishes)
        view = msgspec.structs.replace(view, table=_shown(table, columns, roles, spec))
        rows, left_out = yield from table_data.load(table, _form(spec), where, wishes.renamed)
        for label in [raw for raw in left_out.labels if wishes.renamed(raw) in rare]:
            del left_out.labels[label]  # said with the classes
        findings += checks.of_mapping(_form(spec), left_out, _unused(table, columns, roles))
        data, counts, more = yield from _data(spec, rows, rare, view)
    except PeerloomError as error:
        return spec, None, msgspec.structs.replace(view, error=error.sentence, findings=tuple(findings))
    data = msgspec.structs.replace(data, findings=(*findings, *more.findings))
    kept = len(data.train) + len(data.validation) + len(data.test)
    points, words = checks.score(columns, roles, counts, kept, left_out.rows - kept, more.duplicates)
    view = described(spec, data, counts, msgspec.structs.replace(view, score=points, score_text=words))
    others = (left_out.labels + left_out.dropped).most_common(MOST_CARDS)
    cards = tuple(ClassCard(name=name, count=count, left_out=True) for name, count in others)
    return spec, data, msgspec.structs.replace(view, classes=view.classes + cards)


def read_sample(spec: TaskSpec, share: tuple[int, int]
                ) -> Generator[ScanProgress, None, tuple[TaskSpec, TaskData | None, DataView]]:
    """The penguins that ship with the program; `share` (i, n) takes the i-th of n equal parts of them.

    As with the digits, the test part is the same for all shares, which hold each class alike.
    """
    part, parts = share
    table = yield from open_table((Path(resource(f"demo/{spec.sample}.csv")),), {})
    columns, _ = yield from profiles(table)
    wishes = Wishes.of(())
    roles = _roles(_form(spec), table, columns, wishes)
    where = _where(_form(spec), table, wishes)
    rows, _ = yield from table_data.load(table, _form(spec), where, wishes.renamed)
    test, rest = stratified(rows.labels, spec.test, f"{spec.seed} test")
    mine = rest[np.argsort(rows.labels[rest], kind="stable")][part - 1::parts]
    validation, train = stratified(rows.labels[mine], spec.validation, f"{spec.seed} validation {part}/{parts}")
    if not len(train):
        raise TooLittleDataError(place="the sample data", have=f"{len(rest)} rows for {parts} shares",
                                 need="one for each")
    title = f"Sample {spec.sample}" + ("" if parts == 1 else f", part {part} of {parts}")
    data = TaskData(train=rows.only(mine[train]), validation=rows.only(mine[validation]), test=rows.only(test),
                    title=title, source="sample", findings=tuple(checks.of_columns(columns, roles)))
    counts = _counts(spec, joined(_form(spec), [rows.only(mine), rows.only(test)]))
    view = DataView(title=title, source="sample", table=_shown(table, columns, roles, spec))
    return spec, data, described(spec, data, counts, view)


def _form(spec: TaskSpec) -> Table:
    assert isinstance(spec.form, Table)
    return spec.form


# -- what the columns are -------------------------------------------------------------------------------


def _roles(form: Table, table: RawTable, columns: list[Profile], wishes: Wishes) -> dict[str, str]:
    """The part of each column: the task's where that has columns, else the person's wish, else the likely one."""
    found = matched(form, table.names, wishes.label)
    label = table.names[found[LABEL]] if LABEL in found else ""
    if form.columns:
        roles = dict.fromkeys(table.names, "ignore")
        roles |= {table.names[place]: form.columns[key].role for key, place in found.items() if key != LABEL}
    else:
        label = label or ("" if form.label else likely_label(columns))
        roles = {column.name: wishes.roles.get(column.name, detect(column).role) for column in columns}
    if label and wishes.roles.get(label, "label") == "label":
        roles[label] = "label"
    return roles


def _fixed(spec: TaskSpec, table: RawTable, columns: list[Profile], roles: dict[str, str], wishes: Wishes
           ) -> tuple[TaskSpec, dict[str, int]]:
    """The task with what it leaves open decided by this table, and the classes that are left out as too rare."""
    form, place = _form(spec), table.path.name
    if columns[0].rows < LEAST_ROWS:
        raise TooLittleDataError(place=place, have=_rows(columns[0].rows), need=str(LEAST_ROWS))
    by_name = {column.name: column for column in columns}
    label = next((name for name, role in roles.items() if role == "label"), "")
    if not label:
        why = f"it has no column “{form.label}”" if form.label else "it is not clear which column is to be predicted"
        raise DataError(place=place, why=why, remedy="Choose “what to predict” for one of the columns.")
    if not form.columns:
        inputs = [_column(by_name[name], role) for name, role in roles.items() if role in ("number", "category")]
        if not inputs:
            raise DataError(place=place, why="no column is left to learn from",
                            remedy="Make at least one column a number or a category.")
        goal = form.goal if label == form.label else "number" if predicts_number(by_name[label]) else "classes"
        spec = spec.changed(label=label, goal=goal, columns=tuple(inputs),
                            classes=form.classes if goal == "classes" else ())
    if _form(spec).classes or _form(spec).goal == "number":
        return spec, {}
    counts: Counter[str] = Counter()
    for value, times in by_name[label].values().items():
        counts[wishes.renamed(value)] += times
    del counts[""]
    classes = sorted(name for name, times in counts.items() if times >= LEAST_PER_CLASS)
    if len(classes) < 2:
        raise TooLittleDataError(place=f"column “{label}” of {place}", need="2 classes",
                                 have=f"{len(classes)} with at least {LEAST_PER_CLASS} rows")
    rare = {name: times for name, times in counts.items() if name not in classes}
    return spec.changed(classes=classes), rare


def _column(column: Profile, role: str) -> Column:
    if role == "number":
        return Column(name=column.name, role="number")
    # The room learns these values: what occurs once may tell who somebody is.
    return Column(name=column.name, role="category", values=tuple(column.values(least=2)))


def _where(form: Table, table: RawTable, wishes: Wishes) -> dict[int, int]:
    """Where the table has the columns of the form; DataError names those that it has not."""
    found = matched(form, table.names, wishes.label)
    missing = [column.name for i, column in enumerate(form.columns) if i not in found]
    missing += [form.label] if LABEL not in found else []
    if missing:
        names = ", ".join(f"“{name}”" for name in missing)
        raise DataError(place=table.path.name, why=f"the task needs columns that it does not have: {names}",
                        remedy="Rename columns, or choose another file.")
    return found


def _unused(table: RawTable, columns: list[Profile], roles: dict[str, str]) -> list[str]:
    """Columns that are left out and were not spoken of before."""
    return [column.name for column in columns if roles[column.name] == "ignore" and not detect(column).identifying]


# -- data ---------------------------------------------------------------------------------------------------


class More(NamedTuple):
    """What was found while the rows were split."""

    findings: list[Finding]
    duplicates: int


def _data(spec: TaskSpec, rows: TableSet, rare: dict[str, int], view: DataView
          ) -> Generator[ScanProgress, None, tuple[TaskData, dict[str, int], More]]:
    """The rows in three parts, without those of classes that are too small to be split; how many each class has."""
    form = _form(spec)
    counts = _counts(spec, rows)
    few = {name: times for name, times in counts.items() if 0 < times < LEAST_PER_CLASS}
    if few:
        rows = rows.only(np.flatnonzero(~np.isin(rows.labels, [form.classes.index(name) for name in few])))
    counts = {name: 0 if name in few else times for name, times in counts.items()}
    if len(rows) < LEAST_ROWS:
        raise TooLittleDataError(place=view.title, have=f"{_rows(len(rows))} that can be used", need=str(LEAST_ROWS))
    where, duplicates = yield from table_data.places(rows, spec.seed)
    labels = rows.labels if form.goal == "classes" else np.zeros(len(rows), np.int64)
    train, validation, test = three_parts(labels, where, spec)
    data = TaskData(train=rows.only(train), validation=rows.only(validation), test=rows.only(test),
                    title=view.title, source=view.source)
    findings = checks.of_rows(form, counts, few | rare, LEAST_PER_CLASS, duplicates, len(rows))
    return data, counts, More(findings, duplicates)


def _counts(spec: TaskSpec, rows: TableSet) -> dict[str, int]:
    """Rows of each class; nothing where a number is predicted."""
    return {name: int(np.sum(rows.labels == label)) for label, name in enumerate(spec.classes)}


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count:,} rows"


# -- what the window shows ------------------------------------------------------------------------------------


def _shown(table: RawTable, columns: list[Profile], roles: dict[str, str], spec: TaskSpec) -> TableView:
    preview = tuple(tuple(cell.strip()[:LONGEST_CELL] for cell in row.cells)
                    for row in itertools.islice(table.rows(), PREVIEW_ROWS))
    return TableView(columns=tuple(shown(column, roles[column.name]) for column in columns), rows=columns[0].rows,
                     preview=preview, goal=_form(spec).goal, separator=table.separator, decimal=table.decimal,
                     encoding=table.encoding, sheet=table.sheet, sheets=table.sheets)


def described(spec: TaskSpec, data: TaskData, counts: dict[str, int], view: DataView) -> DataView:
    """The view of data that can be used."""
    form = _form(spec)
    columns = "1 column" if len(form.columns) == 1 else f"{len(form.columns)} columns"
    return msgspec.structs.replace(
        view, classes=tuple(ClassCard(name=name, count=count) for name, count in counts.items()),
        training=len(data.train), validation=len(data.validation), test=len(data.test),
        shape=f"{columns} → {form.inputs} numbers", findings=data.findings, usable=True)
