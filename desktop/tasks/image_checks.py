"""The check of pictures before anyone joins a room: what is wrong, what can be done, and one score for all of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from desktop.state import Edit, Finding
from desktop.tasks.readers import FolderScan, listed

FEW = 20  # pictures of a class below which a model learns little of it
UNEVEN = 5  # times as many pictures of one class as of another
MOST_UNEVEN = 20  # points of the score that this can cost


def check(scan: FolderScan, known: tuple[str, ...]) -> tuple[tuple[Finding, ...], int, str]:
    """What to look at in the pictures of the classes that are `known`, a score 0..100, and the score in words.

    The score is the share of files that are pictures, show something, and are there once and in one class; from that
    up to 20 points are taken for classes of very different size, and as many for classes of few pictures.
    """
    classes = {name: paths for name, paths in scan.classes.items() if paths and name in known}
    copies, mixed = _copies(scan, classes)
    plain = [path for paths in classes.values() for path in paths if scan.looks[path].plain]
    counts = {name: len(paths) for name, paths in classes.items()}
    found = [
        _finding(scan, "care", plain, "picture is nearly of one colour", "pictures are nearly of one colour",
                 "There is nothing to learn from them."),
        _finding(scan, "info", copies, "picture is there more than once", "pictures are there more than once",
                 "The same content within a class, under other names. Copies count more than once."),
        _finding(scan, "bad", mixed, "picture is in two classes", "pictures are in two classes",
                 "The same content: at least one of the two is wrong."),
        *_sizes(counts),
    ]
    files = sum(counts.values()) + len(scan.broken)
    wrong = len({*plain, *copies, *mixed}) + len(scan.broken)
    score = 100.0 * (1 - wrong / files) if files else 0.0
    ratio = max(counts.values()) / min(counts.values()) if counts else 1.0
    score -= min(MOST_UNEVEN, 2 * max(0.0, ratio - UNEVEN))
    score -= MOST_UNEVEN * sum(count < FEW for count in counts.values()) / max(1, len(counts))
    score = round(min(100, max(0, score)))
    return tuple(each for each in found if each is not None), score, words(score)


def words(score: int) -> str:
    """What a score of data says."""
    if score >= 90:
        return "Very good: there is little that could be better."
    if score >= 70:
        return "Good: a look at the list is worth while."
    if score >= 50:
        return "Usable: what stands in the list makes the model worse."
    return "Poor: mend what stands in the list first, or expect little."


def _copies(scan: FolderScan, classes: dict[str, tuple[Path, ...]]) -> tuple[list[Path], list[Path]]:
    """Further copies within a class; and all pictures whose content is in two classes."""
    places: dict[bytes, list[tuple[str, Path]]] = defaultdict(list)
    for name, paths in classes.items():
        for path in paths:
            places[scan.looks[path].digest].append((name, path))
    copies, mixed = [], []
    for same in places.values():
        if len({name for name, _ in same}) > 1:
            mixed += [path for _, path in same]
        else:
            copies += [path for _, path in same[1:]]
    return copies, mixed


def _finding(scan: FolderScan, severity: str, paths: list[Path], one: str, many: str, text: str) -> Finding | None:
    if not paths:
        return None
    title = f"1 {one}" if len(paths) == 1 else f"{len(paths):,} {many}"
    return Finding(severity=severity, title=title, text=text, files=listed(map(scan.name_of, paths)),
                   skip=tuple(Edit(what="skip", name=str(path)) for path in paths))


def _sizes(counts: dict[str, int]) -> Iterable[Finding]:
    few = [name for name, count in counts.items() if count < FEW]
    if few:
        names = ", ".join(f"“{name}” ({counts[name]})" for name in few[:5])
        yield Finding(severity="care", title="Few pictures", text=f"{names}: {FEW} of each class or more would help.")
    if counts and max(counts.values()) > UNEVEN * min(counts.values()):
        most, least = max(counts, key=counts.__getitem__), min(counts, key=counts.__getitem__)
        yield Finding(severity="care", title="Classes of very different size",
                      text=f"{counts[most]:,} pictures of “{most}”, {counts[least]:,} of “{least}”: the model will "
                           "seldom say the rare one.")
