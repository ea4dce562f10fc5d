"""A CSV of labels beside a folder of pictures: which picture is of which class."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from desktop.state import Finding
from desktop.tasks.idx import listing
from desktop.tasks.spec import class_name

SUFFIXES = (".csv", ".tsv", ".txt")
LARGEST = 256 << 20
LEAST_MATCHED = 0.5  # of its lines must name a picture, else it is another table


class Labelled(NamedTuple):
    """The pictures of each class, and what to say about the rest."""

    classes: dict[str, list[Path]]
    remarks: tuple[Finding, ...]


def find_labels(roots: tuple[Path, ...], pictures: Iterable[Path]) -> Labelled | None:
    """The classes by the first CSV, directly in a folder chosen, that names pictures; None when there is none."""
    by_name: dict[str, Path] = {}
    every = list(pictures)
    for path in every:
        for name in (path.name, path.stem):
            by_name.setdefault(name.casefold(), path)
    for root in roots:
        if not root.is_dir():
            continue
        for path in listing(root):
            if path.suffix.lower() in SUFFIXES and path.is_file() and not path.name.startswith("."):
                found = _by(path, root, by_name, every)
                if found is not None:
                    return found
    return None


def _by(file: Path, root: Path, by_name: dict[str, Path], pictures: list[Path]) -> Labelled | None:
    rows = [row for row in _rows(file) if len(row) >= 2 and row[0].strip()]
    matched = [(row, _picture(row[0], root, by_name)) for row in rows]
    named = [(path, class_name(row[1])) for row, path in matched if path is not None]
    if not rows or len(named) < LEAST_MATCHED * (len(rows) - 1) or len(named) < 1:
        return None
    lost = [row[0] for row, path in matched[1 if matched[0][1] is None else 0:] if path is None]
    classes: dict[str, list[Path]] = {}
    labels: dict[Path, str] = {}
    twice = []
    for path, label in named:
        if not label or labels.setdefault(path, label) != label:
            twice.append(path.name)
        elif path not in classes.setdefault(label, []):
            classes[label].append(path)
    without = [path.name for path in pictures if path not in labels]
    said = (
        (lost, "Lines whose picture is not there", f"They stand in {file.name} and are left out."),
        (without, "Pictures without a label", f"{file.name} does not name them; they are left out."),
        (twice, "Pictures with two labels or none", "The first label counts; without one they are left out."),
    )
    remarks = tuple(Finding(severity="care", title=f"{title}: {len(names):,}", text=text, files=tuple(names[:200]))
                    for names, title, text in said if names)
    return Labelled(dict(sorted(classes.items())), remarks)


def _rows(file: Path) -> list[list[str]]:
    """The lines of a small table; () when it is none."""
    if file.stat().st_size > LARGEST:
        return []
    content = file.read_bytes()
    for encoding in ("utf-8-sig", "utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "cp1252", "latin-1"):
        try:
            text = content.decode(encoding)
            break
        except UnicodeDecodeError:
            continue
    first = text.partition("\n")[0]
    separator = max(",;\t|", key=first.count)
    try:
        return list(csv.reader(io.StringIO(text, newline=""), delimiter=separator))
    except csv.Error:
        return []


def _picture(name: str, root: Path, by_name: dict[str, Path]) -> Path | None:
    """The picture that a line names: by its place below the folder, or by its name alone."""
    posix = PurePosixPath(name.strip().replace("\\", "/"))
    found = by_name.get(posix.name.casefold())
    if found is not None and len(posix.parts) > 1:
        exact = root.joinpath(*[part for part in posix.parts if part not in ("..", "/")])
        return exact if exact.is_file() else found
    return found
