"""What to look at in a table before anyone trains on it, what can be done about each, and a score."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from difflib import get_close_matches

import numpy as np

from desktop.state import Edit, Finding
from desktop.tasks.readers import listed
from desktop.tasks.spec import Table
from desktop.tasks.table_columns import Profile, detect
from desktop.tasks.table_data import LeftOut
from desktop.tasks.tables import RawTable

MUCH_MISSING = 0.3  # of a column's rows
UNEVEN_CLASSES = 4  # the largest class is so many times the smallest
GOOD, FAIR = 80, 50
MOST_OFFERS = 5  # labels that are offered to be renamed


def of_the_file(table: RawTable, uneven: list[int]) -> list[Finding]:
    """Remarks on how the file is written."""
    found = [Finding(severity="info", title="Names of columns", text=text) for text in table.remarks]
    if uneven:
        found.append(Finding(severity="care", title=f"{_rows(len(uneven))} with too few or too many cells",
                             text="Missing cells are taken as empty, further ones are left out. If there are many, "
                                  "the separator may be another one.", files=_numbers(uneven)))
    return found


def of_columns(columns: Iterable[Profile], roles: Mapping[str, str]) -> list[Finding]:
    """Columns that identify people, hold one value alone, or miss values."""
    found = []
    missing = []
    for column in columns:
        used, seen = roles[column.name] in ("number", "category"), detect(column)
        leave_out = (Edit(what="role", name=column.name, value="ignore"),)
        if seen.identifying and used:
            found.append(Finding(
                severity="care", title=f"“{column.name}” may tell who somebody is", fix=leave_out,
                text="Its values differ in each row, so nothing can be learned from it that holds for others. "
                     "Leave this out?", fix_text="Leave this column out"))
        elif seen.identifying and roles[column.name] == "ignore":
            found.append(Finding(severity="info", title=f"“{column.name}” is left out",
                                 text=f"It looks like names or identifiers: {seen.words}."))
        elif used and column.present and column.different == 1:
            found.append(Finding(severity="info", title=f"“{column.name}” is the same everywhere", fix=leave_out,
                                 text="Nothing can be learned from it.", fix_text="Leave this column out"))
        if used and column.missing:
            missing.append(column)
    if missing:
        worst = max(column.missing / column.rows for column in missing)
        found.append(Finding(
            severity="care" if worst > MUCH_MISSING else "info", title="Missing values",
            text="Where a number is missing, the room's mean is taken and the model is told so.",
            files=listed(f"{column.name}: {column.missing} of {column.rows}" for column in missing)))
    return found


def of_mapping(form: Table, left_out: LeftOut, extra: Iterable[str]) -> list[Finding]:
    """What does not fit the columns and classes of the task."""
    found = []
    for name, odd in left_out.odd.items():
        found.append(Finding(severity="care", title=f"“{name}” holds values that are no numbers",
                             text="They are taken as missing. If there are many, the decimal mark may be another one.",
                             files=_counted(odd)))
    for name, others in left_out.categories.items():
        found.append(Finding(severity="info", title=f"“{name}” has values that the task does not know",
                             text="They are taken together as “other”.", files=_counted(others)))
    for label, times in left_out.labels.most_common(MOST_OFFERS):
        close = get_close_matches(label.casefold(), [name.casefold() for name in form.classes], n=1)
        like = next((name for name in form.classes if close and name.casefold() == close[0]), "")
        found.append(Finding(
            severity="care", title=f"“{label}” is not a class of the task",
            text=f"{_rows(times)} left out. The classes are: {', '.join(form.classes[:12])}.",
            fix=(Edit(what="class", name=label, value=like),) if like else (), fix_text=f"Take it as “{like}”"))
    if rest := left_out.labels.most_common()[MOST_OFFERS:]:
        found.append(Finding(severity="care", title=f"{len(rest)} further labels are not classes of the task",
                             text="Their rows are left out.", files=_counted(Counter(dict(rest)))))
    if left_out.unlabelled:
        found.append(Finding(severity="info", title=f"{_rows(len(left_out.unlabelled))} without “{form.label}”",
                             text="Left out: there is nothing to learn from them.",
                             files=_numbers(left_out.unlabelled)))
    names = list(extra)
    if names:
        found.append(Finding(severity="info", title="Columns that the task does not use", text="They are left out.",
                             files=listed(names)))
    return found


def of_rows(form: Table, counts: Mapping[str, int], few: Mapping[str, int], least: int, duplicates: int, rows: int
            ) -> list[Finding]:
    """Classes that are small, missing or uneven, and rows that come twice."""
    found = []
    if few:
        found.append(Finding(severity="care", title="Classes with too few rows",
                             text=f"Left out: at least {least} rows of a class are needed.", files=_counted(few)))
    if missing := [name for name in form.classes if not counts.get(name) and name not in few]:
        found.append(Finding(severity="info", title="Classes that you have no rows of",
                             text="Others in the room can bring them.", files=listed(missing)))
    present = [count for count in counts.values() if count]
    if present and max(present) > UNEVEN_CLASSES * min(present):
        found.append(Finding(severity="info", title="Some classes are much larger than others",
                             text="A model learns the large ones first.", files=_counted(counts)))
    if duplicates:
        severity = "care" if duplicates > rows / 10 else "info"
        found.append(Finding(severity=severity, title=f"{_rows(duplicates)} the same as another one",
                             text="In the columns that are used. They are kept."))
    return found


def score(columns: Iterable[Profile], roles: Mapping[str, str], counts: Mapping[str, int], kept: int,
          left_out: int, duplicates: int) -> tuple[int, str]:
    """How good the data is, 0..100, and the same in a sentence that names what costs most."""
    used = [column for column in columns if roles[column.name] in ("number", "category")]
    missing = float(np.mean([column.missing / max(1, column.rows) for column in used])) if used else 0.0
    present = [count for count in counts.values() if count]
    uneven = max(present) / min(present) if present else 1.0
    costs = {
        "more rows would help most": 35 if kept < 50 else 15 if kept < 200 else 0,
        "many values are missing": min(25, round(60 * missing)),
        "many rows are left out": min(30, round(60 * left_out / max(1, kept + left_out))),
        "many rows are the same as others": min(15, round(30 * duplicates / max(1, kept))),
        "the classes differ much in size": 15 if uneven > 10 else 8 if uneven > UNEVEN_CLASSES else 0,
        "a column may tell who somebody is": 20 * any(detect(column).identifying for column in used),
    }
    total = max(0, 100 - sum(costs.values()))
    word = "Good" if total >= GOOD else "Usable" if total >= FAIR else "Weak"
    worst = max(costs, key=costs.__getitem__)
    return total, f"{word}: {worst}." if costs[worst] else f"{word}: nothing to complain about."


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count:,} rows"


def _numbers(rows: list[int]) -> tuple[str, ...]:
    return listed(f"row {number}" for number in rows)


def _counted(counts: Mapping[str, int]) -> tuple[str, ...]:
    return listed(f"{name}: {_rows(times)}" for name, times in sorted(counts.items(), key=lambda pair: -pair[1]))
