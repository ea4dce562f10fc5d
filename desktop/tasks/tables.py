"""Opens tables as rows of texts: CSV and its kin, with whatever encoding and separator they have, and spreadsheets."""

from __future__ import annotations

import codecs
import csv
import datetime
import itertools
import re
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from desktop.errors import DataError
from desktop.tasks.readers import ScanProgress
from desktop.tasks.spec import LONGEST_NAME, class_name

SEPARATORS = (",", ";", "\t", "|")
TEXTS = (".csv", ".tsv", ".tab")
SPREADSHEETS = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")
SLICE = 2000  # rows between two looks at what else there is to do
HEAD = 64 * 1024  # bytes from which is guessed how a file is written
MOST_CELLS = 20_000  # of a row: more columns than any table has

MISSING = frozenset(("", "na", "n/a", "nan", "null", "#n/a", "?", "-", "–", "\\n"))
LARGEST = 1e15  # numbers beyond it are taken for missing: their squares must fit a float32


class RawTable(msgspec.Struct, frozen=True, kw_only=True):
    """A table that can be gone through again and again. `lines` gives all of it anew, its header included.

    `skip`: lines before the first row. Each of `separator`, `decimal`, `encoding` is "" where a spreadsheet has none.
    """

    path: Path
    names: tuple[str, ...]
    lines: Callable[[], Iterator[list[str]]]
    skip: int = 1
    remarks: tuple[str, ...] = ()
    separator: str = ""
    decimal: str = ""
    encoding: str = ""
    sheet: str = ""
    sheets: tuple[str, ...] = ()

    def rows(self) -> Iterator[Row]:
        """All rows but blank ones, each with as many cells as there are names; DataError where it cannot be read."""
        width = len(self.names)
        try:
            for number, cells in enumerate(itertools.islice(self.lines(), self.skip, None), start=self.skip + 1):
                if any(map(str.strip, cells)):
                    fits = len(cells) == width or not any(map(str.strip, cells[width:]))
                    yield Row(number, (cells + [""] * (width - len(cells)))[:width], fits and len(cells) >= width)
        except csv.Error as error:
            raise _unreadable(self.path, str(error)) from error
        except OSError as error:
            raise _unreadable(self.path, error.strerror or "it cannot be opened") from error

    def slices(self) -> Iterator[list[Row]]:
        """The rows, SLICE at a time."""
        rows = self.rows()
        while part := list(itertools.islice(rows, SLICE)):
            yield part


class Row(NamedTuple):
    """A row with its number as a spreadsheet counts; `even`: it had neither more nor fewer cells than the header."""

    number: int
    cells: list[str]
    even: bool


def is_table(path: Path) -> bool:
    """Whether a file is one by its name."""
    return path.suffix.lower() in (*TEXTS, *SPREADSHEETS)


def open_table(paths: tuple[Path, ...], given: Mapping[str, str]) -> Generator[ScanProgress, None, RawTable]:
    """Finds out how a table is written; `given` says it instead for "separator", "decimal", "encoding" or "sheet".

    DataError when there is not one table.
    """
    path = _the_one(paths)
    try:
        with path.open("rb") as file:
            head = file.read(HEAD)
        if head.startswith((b"PK\x03\x04", b"\xd0\xcf\x11\xe0")):
            yield ScanProgress(f"Opening {path.name}", 0, 0)
            return _open_spreadsheet(path, given)
        encoding = given.get("encoding") or (yield from _sniff_encoding(path, head))
    except OSError as error:
        raise _unreadable(path, error.strerror or "it cannot be opened") from error
    return _open_text(path, encoding, given)


def _the_one(paths: tuple[Path, ...]) -> Path:
    """The file that was chosen, or the only table of a folder."""
    if len(paths) == 1 and paths[0].is_dir():
        paths = tuple(sorted(path for path in paths[0].iterdir() if is_table(path) and not path.name.startswith(".")))
    if len(paths) != 1:
        raise DataError(place="The table", why=f"{len(paths)} files were chosen" if paths else "no table was found",
                        remedy="Choose one CSV file or spreadsheet.")
    if not paths[0].is_file():
        raise DataError(place=paths[0].name, why="it is no longer there", remedy="Choose another file.")
    return paths[0]


def _unreadable(path: Path, why: str) -> DataError:
    return DataError(place=path.name, why=f"it cannot be read as a table ({why})",
                     remedy="Choose a CSV file or a spreadsheet.")


# -- text -----------------------------------------------------------------------------------------------


def _sniff_encoding(path: Path, head: bytes) -> Generator[ScanProgress, None, str]:
    """By its byte order mark or zeros; else UTF-8 if all of the file is, or what Windows writes in the West."""
    if head.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        return "utf-32"
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    zeros = (head[::2].count(0), head[1::2].count(0))
    if max(zeros) > len(head) / 8:
        return "utf-16-le" if zeros[1] > zeros[0] else "utf-16-be"
    if any(zeros):
        raise _unreadable(path, "it is not text")
    decoder = codecs.getincrementaldecoder("utf-8")()
    total, done = path.stat().st_size, 0
    with path.open("rb") as file:
        while part := file.read(1 << 20):
            try:
                decoder.decode(part)
            except UnicodeDecodeError:
                return "cp1252"
            done += len(part)
            yield ScanProgress(f"Looking at {path.name}", done, total)
    try:
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return "cp1252"
    return "utf-8"


def _open_text(path: Path, encoding: str, given: Mapping[str, str]) -> RawTable:
    try:
        with path.open(encoding=encoding, errors="replace", newline="") as file:
            head = file.read(HEAD).removeprefix("\ufeff")
    except LookupError as error:
        raise _unreadable(path, f"“{encoding[:20]}” is not an encoding") from error
    except UnicodeError as error:  # UTF-16 and UTF-32 without a mark are not always replaced
        raise _unreadable(path, f"it is not written in {encoding}") from error
    if len(head) >= HEAD:
        head = head[:max(head.rfind("\n"), head.rfind("\r")) + 1] or head
    said = re.match(r"sep=(.)\r?\n", head)  # what spreadsheets write for each other
    separator = given.get("separator") or (said[1] if said else sniff_separator(head))

    def lines() -> Iterator[list[str]]:
        with path.open(encoding=encoding, errors="replace", newline="") as text:
            if text.read(1) != "\ufeff":
                text.seek(0)
            if said:
                text.readline()
            yield from csv.reader((line.replace("\0", "") for line in text), delimiter=separator, skipinitialspace=True)

    beginning = _parsed(head[said.end():] if said else head, separator)
    decimal = given.get("decimal") or sniff_decimal(itertools.chain.from_iterable(beginning[1:]), separator)
    return _with_names(RawTable(path=path, names=(), lines=lines, separator=separator, decimal=decimal,
                                encoding=encoding), beginning)


def _parsed(text: str, separator: str, most: int = 200) -> list[list[str]]:
    """The first rows that are not blank, as far as they can be read."""
    found: list[list[str]] = []
    rows = csv.reader(text.replace("\0", "").splitlines(keepends=True), delimiter=separator, skipinitialspace=True)
    try:
        for cells in rows:
            if any(map(str.strip, cells)):
                found.append(cells)
            if len(found) == most:
                break
    except csv.Error:
        pass  # whoever reads all of it says so
    return found


def sniff_separator(head: str) -> str:
    """The one that cuts most rows into as many cells as the first, and into the most; a comma if none does."""
    def fits(separator: str) -> tuple[float, int]:
        widths = [len(cells) for cells in _parsed(head, separator, 50)]
        if not widths or widths[0] < 2:
            return (0.0, 0)
        return (round(widths.count(widths[0]) / len(widths), 1), widths[0])

    return max(SEPARATORS, key=fits)


_DECIMALS = {
    ".": re.compile(r"[-+]?(\d+|\d{1,3}(?:,\d{3})+)\.(\d+)", re.ASCII),
    ",": re.compile(r"[-+]?(\d+|\d{1,3}(?:\.\d{3})+),(\d+)", re.ASCII),
}


def sniff_decimal(cells: Iterable[str], separator: str) -> str:
    """"." or ",": what stands before the decimals. One mark with three digits after it may as well mean thousands."""
    sure, maybe = Counter[str](), Counter[str]()
    for cell in cells:
        for mark, pattern in _DECIMALS.items():
            if match := pattern.fullmatch(cell.strip()):
                whole, decimals = match.groups()
                thousands = len(decimals) == 3 and len(whole) <= 3 and not whole.startswith("0")
                (maybe if thousands else sure)[mark] += 1
    if sure[","] != sure["."]:
        return "," if sure[","] > sure["."] else "."
    return "," if separator == ";" and maybe[","] > maybe["."] else "."


# -- spreadsheets -----------------------------------------------------------------------------------------


def _open_spreadsheet(path: Path, given: Mapping[str, str]) -> RawTable:
    import python_calamine as calamine

    try:
        with calamine.CalamineWorkbook.from_path(path) as book:
            sheets = {name: book.get_sheet_by_name(name) for name in book.sheet_names}
            filled = next((name for name, each in sheets.items() if each.height > 1), next(iter(sheets), ""))
            sheet = given.get("sheet", "") if given.get("sheet", "") in sheets else filled
            rows = [[_text(cell) for cell in row] for row in sheets[sheet].to_python()] if sheet else []
    except (calamine.CalamineError, OSError, ValueError) as error:
        raise _unreadable(path, str(error)[:200]) from error
    except BaseException as error:  # a panic of the library, for a file that is broken in an unusual way
        if type(error).__name__ != "PanicException":
            raise
        raise _unreadable(path, "it is damaged") from error
    beginning = [cells for cells in rows[:400] if any(map(str.strip, cells))]
    table = RawTable(path=path, names=(), lines=lambda: iter(rows), sheet=sheet, sheets=tuple(sheets))
    return _with_names(table, beginning)


def _text(cell: object) -> str:
    """A cell as a CSV file would hold it, with a decimal point."""
    match cell:
        case bool():
            return str(cell).lower()
        case float():
            return number_text(cell)
        case datetime.date() | datetime.time():
            return cell.isoformat()
        case _:
            return str(cell)


# -- names ------------------------------------------------------------------------------------------------


def _with_names(table: RawTable, beginning: list[list[str]]) -> RawTable:
    """With the names of the columns from the first line that is not blank, or made up where that has only numbers."""
    if not beginning:
        raise DataError(place=table.path.name, why="it is empty", remedy="Choose another file.")
    header = beginning[0]
    used = max(i for cells in beginning for i, cell in enumerate(cells) if cell.strip()) + 1
    header = header[:used]  # spreadsheets leave empty columns at the end
    if len(header) > MOST_CELLS:
        raise DataError(place=table.path.name, why=f"it has {len(header)} columns", remedy="Choose another file.")
    remarks = []
    nameless = all(number(cell, table.decimal or ".") is not None for cell in header)
    if nameless:
        remarks.append("The first row has only numbers, so the columns are called “column 1” and so on.")
        header = [""] * len(header)
    names: dict[str, None] = {}
    for place, raw in enumerate(header, start=1):
        wanted = name = class_name(raw)[:LONGEST_NAME].strip() or f"column {place}"
        copy = 2
        while name in names:
            name = f"{wanted[:LONGEST_NAME - 8]} ({copy})"
            copy += 1
        if name != wanted:
            remarks.append(f"Two columns are called “{wanted}”; the later one is taken as “{name}”.")
        names[name] = None
    blank = next((i for i, cells in enumerate(table.lines()) if any(map(str.strip, cells))), 0)
    return msgspec.structs.replace(table, names=tuple(names), remarks=tuple(remarks),
                                   skip=blank + (0 if nameless else 1))


# -- cells ------------------------------------------------------------------------------------------------

_GROUPS = " '’\u00a0\u202f"
_PLAIN = {mark: re.compile(rf"[-+]?(?:\d+{re.escape(mark)}?\d*|{re.escape(mark)}\d+)(?:[eE][-+]?\d{{1,3}})?", re.ASCII)
          for mark in ".,"}
_GROUPED = {mark: re.compile(rf"[-+]?\d{{1,3}}([{other}{_GROUPS}])\d{{3}}(?:\1\d{{3}})*(?:{re.escape(mark)}\d*)?",
                             re.ASCII) for mark, other in ((".", ","), (",", "."))}


def number(text: str, decimal: str) -> float | None:
    """The number that a cell holds, with or without marks at thousands or a percent sign; None when it is none."""
    text = text.strip().replace("−", "-").removesuffix("%").rstrip()
    if _PLAIN[decimal].fullmatch(text):
        found = float(text.replace(",", "."))
    elif _GROUPED[decimal].fullmatch(text):
        found = float(re.sub(rf"[^-\d{decimal}]", "", text).replace(",", "."))
    else:
        return None
    return found if abs(found) <= LARGEST else None


def number_text(value: float) -> str:
    """A number in the one form in which it stands for a class or a category: 1, 2.5."""
    return str(int(value)) if value == int(value) and abs(value) <= LARGEST else repr(value)


def is_missing(text: str) -> bool:
    """Whether a cell holds nothing, or one of the usual marks for that."""
    return text.strip().lower() in MISSING


def value_text(text: str, decimal: str) -> str:
    """What a cell says as a class or category, in one form for all members; "" when it is missing."""
    if is_missing(text):
        return ""
    found = number(text, decimal)
    return class_name(text)[:LONGEST_NAME].strip() if found is None else number_text(found)
