"""Looks through folders of pictures, one folder per class, and finds what is wrong before anyone trains."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from desktop.errors import BrokenImageError, DataError, NoClassFoldersError, NoFolderError, NoImagesError
from desktop.state import Finding
from desktop.tasks import pictures
from desktop.tasks.spec import class_name

MOST_LISTED = 200  # files that a finding names

# What systems leave in folders. Names that start with a dot (.DS_Store, ._cat.jpg) are left out as well.
LITTER = frozenset(("thumbs.db", "ehthumbs.db", "desktop.ini", "__macosx", "@eadir", "$recycle.bin",
                    "system volume information", "icon\r"))


class ScanProgress(msgspec.Struct, frozen=True):
    """How far reading has come: `done` of `total` files; `total` is 0 while it is not known."""

    text: str
    done: int
    total: int

    @property
    def fraction(self) -> float | None:
        return self.done / self.total if self.total else None


class BrokenFile(NamedTuple):
    """A file that cannot be used, and why, in words."""

    path: Path
    why: str


class FolderScan(msgspec.Struct, frozen=True):
    """What was found: per class (names sorted) the pictures that can be read; what cannot; remarks.

    `place` names the data for a person; `roots` are the folders that were chosen.
    """

    roots: tuple[Path, ...]
    place: str
    classes: dict[str, tuple[Path, ...]]
    broken: tuple[BrokenFile, ...]
    remarks: tuple[Finding, ...]

    def findings(self, further: Iterable[BrokenFile] = ()) -> tuple[Finding, ...]:
        """The remarks, and one finding for all broken pictures (`further`: found later)."""
        broken = (*self.broken, *further)
        if not broken:
            return self.remarks
        title = "1 picture cannot be read" if len(broken) == 1 else f"{len(broken)} pictures cannot be read"
        found = Finding(severity="care", title=title, text="Left out. The others are used.",
                        files=listed(f"{self.name_of(path)}: {why}" for path, why in broken))
        return (*self.remarks, found)

    def name_of(self, path: Path) -> str:
        """The path as a person knows it: below the folder that was chosen."""
        return name_below(self.roots, path)


def name_below(roots: tuple[Path, ...], path: Path) -> str:
    """`path` relative to the root that holds it; with the root's own name when several were chosen."""
    for root in roots:
        if path.is_relative_to(root):
            return str(path.relative_to(root.parent if len(roots) > 1 else root))
    return str(path)


def scan_folder(chosen: Path | Iterable[Path]) -> Generator[ScanProgress, None, FolderScan]:
    """Looks through a folder of class folders (or through several class folders), in slices of one picture.

    Yields after each slice and returns a FolderScan. Each picture is decoded once, small, since only that finds a
    file that ends half way. Raises NoFolderError, NoClassFoldersError or NoImagesError.
    """
    roots = (chosen,) if isinstance(chosen, Path) else tuple(chosen)
    for root in roots:
        if not root.is_dir():
            raise NoFolderError(place=root.name or str(root))
    place = ", ".join(root.name or str(root) for root in roots[:3]) + (" …" if len(roots) > 3 else "")
    remarks: list[Finding] = []
    broken: list[BrokenFile] = []
    files: dict[str, list[Path]] = {}
    for name, folders in _class_folders(roots, place, remarks).items():
        files[name] = []
        for path in _walk(folders, broken):
            files[name].append(path)
            if len(files[name]) % 256 == 0:
                yield ScanProgress(f"Looking through {name}", sum(map(len, files.values())), 0)
    total = sum(map(len, files.values()))
    if not total:
        raise NoImagesError(place=place)
    good: dict[str, tuple[Path, ...]] = {}
    done = 0
    for name, paths in files.items():
        readable = []
        for path in paths:
            try:
                pictures.read(path, side=1)
                readable.append(path)
            except BrokenImageError as error:
                broken.append(BrokenFile(path, str(error.details["why"])))
            done += 1
            yield ScanProgress(f"Checking {name}", done, total)
        good[name] = tuple(readable)
    return FolderScan(roots=roots, place=place, classes=good, broken=tuple(broken), remarks=tuple(remarks))


def _class_folders(roots: tuple[Path, ...], place: str, remarks: list[Finding]) -> dict[str, list[Path]]:
    """The class folders by the name of their class, sorted; names that differ only in white space are one class."""
    folders, loose = list(roots), list[Path]()
    if len(roots) == 1:
        folders, loose = _listing(roots[0])
        while len(folders) == 1 and not loose and _listing(folders[0])[0]:  # data/data/cat: an unpacked archive
            folders, loose = _listing(folders[0])
    if loose and not folders:
        raise NoClassFoldersError(place=place)
    if loose:
        remarks.append(Finding(severity="info", title="Pictures outside the class folders",
                               text="They belong to no class and are left out.",
                               files=listed(path.name for path in loose)))
    classes: dict[str, list[Path]] = {}
    for folder in folders:
        if name := class_name(folder.name):
            classes.setdefault(name, []).append(folder)
    for name, same in classes.items():
        if len(same) > 1:
            names = " and ".join(f"“{folder.name}”" for folder in same)
            remarks.append(Finding(severity="info", title=f"One class in {len(same)} folders",
                                   text=f"{names} are taken as one class, “{name}”."))
    if not classes:
        raise NoImagesError(place=place)
    return dict(sorted(classes.items()))


def _listing(folder: Path) -> tuple[list[Path], list[Path]]:
    """The folders and the pictures directly in a folder, sorted by name; DataError when it cannot be opened."""
    try:
        with os.scandir(folder) as entries:
            wanted = sorted((entry for entry in entries if not _litter(entry.name)), key=lambda entry: entry.name)
            return ([Path(entry.path) for entry in wanted if entry.is_dir()],
                    [Path(entry.path) for entry in wanted if entry.is_file() and _picture(entry.name)])
    except OSError as error:
        raise DataError(place=folder.name, why=error.strerror or "it cannot be opened",
                        remedy="Choose another folder.") from error


def _walk(folders: Iterable[Path], broken: list[BrokenFile]) -> Iterator[Path]:
    """All pictures in and below the folders, in the order of their names; a folder that stays shut is broken."""
    def shut(error: OSError) -> None:
        broken.append(BrokenFile(Path(error.filename), error.strerror or "it cannot be opened"))

    for folder in folders:
        for place, below, names in os.walk(folder, onerror=shut):
            below[:] = sorted(name for name in below if not _litter(name))
            for name in sorted(names):
                path = Path(place, name)
                # A pipe or a device named .png would be waited for.
                if _picture(name) and not _litter(name) and path.is_file():
                    yield path


def _litter(name: str) -> bool:
    return name.startswith(".") or name.lower() in LITTER


def _picture(name: str) -> bool:
    return os.path.splitext(name)[1].lower() in pictures.SUFFIXES


def listed(names: Iterable[str]) -> tuple[str, ...]:
    """At most MOST_LISTED of the names, then how many there are besides."""
    every = list(names)
    more = len(every) - MOST_LISTED
    return (*every[:MOST_LISTED], f"and {more} more") if more > 0 else tuple(every)
