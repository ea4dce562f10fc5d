"""What the columns of a table hold, and the part that each could play in a task."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Generator
from typing import NamedTuple

from desktop.state import ColumnView
from desktop.tasks.readers import ScanProgress
from desktop.tasks.spec import MOST_VALUES
from desktop.tasks.tables import RawTable, is_missing, number, number_text, value_text

WATCHED = 20_000  # different values of a column that are remembered, to see whether they come again
FEW = 20  # different values that a column of categories may always have
LABELS = frozenset(("label", "class", "target", "species", "category", "outcome", "survived", "diagnosis", "y"))
MANY_ROWS = 20  # from which on it says something that all values of a column differ
MOSTLY = 0.8  # of the values: then the others are odd ones

_MAIL = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+")
_DATE = re.compile(r"(?:\d{4}-\d{1,2}-\d{1,2}|\d{1,2}[./-]\d{1,2}[./-]\d{2,4})(?:[T ]\d{1,2}:\d{2}\S*)?", re.ASCII)
_PERSONAL = re.compile(r"(?:e-?mail|(?:first|last|full|sur)[ _-]?name|name|phone|telephone|address|passport|ssn|iban)")


class Profile:
    """What was seen of one column."""

    def __init__(self, name: str, decimal: str) -> None:
        self.name, self._decimal = name, decimal
        self.rows = self.missing = self.numbers = self.whole = self.mails = self.dates = self.characters = 0
        self.low, self.high = float("inf"), float("-inf")
        self.counts: Counter[str] = Counter()  # of the first WATCHED different values
        self.unwatched = 0  # rows with others
        self.odd: dict[str, None] = {}  # values that are no number, a few

    def add(self, cells: list[str]) -> None:
        """Take further cells of the column in."""
        self.rows += len(cells)
        for text, times in Counter(cells).items():
            if is_missing(text):
                self.missing += times
                continue
            text = text.strip()
            if text in self.counts or len(self.counts) < WATCHED:
                self.counts[text] += times
            else:
                self.unwatched += times
            self.characters += len(text) * times
            found = number(text, self._decimal)
            if found is not None:
                self.numbers += times
                self.whole += times * (found == int(found))
                self.low, self.high = min(self.low, found), max(self.high, found)
                continue
            if len(self.odd) < FEW:
                self.odd[text] = None
            self.mails += times * bool(_MAIL.fullmatch(text))
            self.dates += times * bool(_DATE.fullmatch(text))

    @property
    def present(self) -> int:
        """Rows that hold something."""
        return self.rows - self.missing

    @property
    def different(self) -> int:
        """How many different values there are, as far as they were watched."""
        return len(self.counts)

    @property
    def all_differ(self) -> bool:
        """Whether nearly no value comes twice, in enough rows to say so."""
        watched = self.present - self.unwatched
        return watched >= MANY_ROWS and self.different >= 0.95 * watched

    @property
    def numeric(self) -> bool:
        """Whether it holds numbers, but for a few odd values."""
        return self.numbers > 0 and self.numbers >= MOSTLY * self.present

    @property
    def in_classes(self) -> bool:
        """Whether its values can be classes or categories: they come again and again."""
        few = self.different <= FEW or self.different <= min(MOST_VALUES, self.present / 20)
        return self.different >= 2 and few and not self.unwatched and not self.all_differ

    def values(self, least: int = 1) -> dict[str, int]:
        """Its values in their one form with how often they come, the most frequent ones, sorted.

        `least`: rarer ones are left out.
        """
        found: Counter[str] = Counter()
        for text, times in self.counts.items():
            found[value_text(text, self._decimal)] += times
        frequent = [pair for pair in found.most_common(MOST_VALUES) if pair[1] >= least and pair[0]]
        return dict(sorted(frequent))


class Detected(NamedTuple):
    """What a column's values look like, in words; the part it could play; whether it tells who somebody is."""

    words: str
    role: str  # "number" | "category" | "ignore"
    identifying: bool = False


def detect(column: Profile) -> Detected:
    """The first that fits."""
    different = column.different
    if not column.present:
        return Detected("empty", "ignore")
    if column.mails > column.present / 2:
        return Detected("e-mail addresses", "ignore", True)
    if column.all_differ and _PERSONAL.search(column.name.lower()):
        return Detected("different in each row", "ignore", True)
    if column.numeric and column.different > 1:
        whole = column.whole == column.numbers
        in_a_row = column.high - column.low + 1 == column.present
        if whole and column.all_differ and (in_a_row or column.low >= 1_000_000):
            return Detected("numbers that are different in each row", "ignore", True)
        return Detected("whole numbers" if whole else "numbers", "number")
    if different == 1:
        return Detected("the same everywhere", "ignore")
    if column.dates > column.present / 2:
        return Detected("dates", "ignore")
    if column.in_classes:
        return Detected(f"{different} categories", "category")
    if column.all_differ and column.characters / column.present <= 60:
        return Detected("different in each row", "ignore", True)
    return Detected("text", "ignore")


def detail(column: Profile) -> str:
    """Range or values, and how many are missing, in a few words."""
    parts = []
    if column.numeric:
        parts.append(f"{number_text(column.low)} to {number_text(column.high)}")
    elif column.in_classes:
        parts.append(", ".join(list(column.values())[:3]) + (", …" if column.different > 3 else ""))
    if column.missing:
        parts.append(f"{column.missing} missing")
    return ", ".join(parts)


def shown(column: Profile, role: str) -> ColumnView:
    """The column as the window shows it."""
    return ColumnView(name=column.name, role=role, detected=detect(column).words, detail=detail(column))


def profiles(table: RawTable) -> Generator[ScanProgress, None, tuple[list[Profile], list[int]]]:
    """Goes through all rows once; the columns, and the numbers of rows with too few or too many cells."""
    columns = [Profile(name, table.decimal or ".") for name in table.names]
    uneven: list[int] = []
    done = 0
    for rows in table.slices():
        for column, cells in zip(columns, zip(*(row.cells for row in rows), strict=True), strict=True):
            column.add(list(cells))
        uneven += [row.number for row in rows if not row.even]
        done += len(rows)
        yield ScanProgress(f"Looking at {done:,} rows", done, 0)
    return columns, uneven


def likely_label(columns: list[Profile]) -> str:
    """The column that is most likely meant to be predicted; "" when that is not clear.

    One that is called so; else the only one with categories; else the last one, if it has classes.
    """
    named = [column for column in columns if column.name.lower() in LABELS and not detect(column).identifying
             and detect(column).role != "ignore"]
    if named:
        return named[-1].name
    categories = [column for column in columns if detect(column).role == "category"]
    if len(categories) == 1:
        return categories[0].name
    return columns[-1].name if columns and columns[-1].in_classes else ""


def predicts_number(column: Profile) -> bool:
    """Whether a label is a number to be met, and not a class."""
    return column.numeric and (column.different > FEW or column.whole < column.numbers)
