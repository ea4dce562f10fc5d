"""Looks through folders of pictures, one folder per class, and finds what is wrong before anyone trains."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Generator, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
from PIL import Image

from desktop.errors import BrokenImageError, DataError, NoClassFoldersError, NoFolderError, NoImagesError
from desktop.state import Edit, Finding
from desktop.tasks import labels, pictures
from desktop.tasks.ahead import in_order
from desktop.tasks.idx import listing
from desktop.tasks.spec import class_name

MOST_LISTED = 200  # files that a finding names
PLAIN = 6  # of 255: a picture whose brightness varies by no more shows nothing

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


class Look(NamedTuple):
    """What was seen of a picture: a digest of its file, and whether it is nearly of one colour."""

    digest: bytes
    plain: bool


class FolderScan(msgspec.Struct, frozen=True):
    """What was found: per class (names sorted) the pictures that can be read; what cannot; remarks.

    `place` names the data for a person; `roots` are the folders that were chosen.
    """

    roots: tuple[Path, ...]
    place: str
    classes: dict[str, tuple[Path, ...]]
    broken: tuple[BrokenFile, ...]
    remarks: tuple[Finding, ...]
    looks: dict[Path, Look] = {}  # of each picture that can be read

    def findings(self, further: Iterable[BrokenFile] = ()) -> tuple[Finding, ...]:
        """The remarks, and one finding for all broken pictures (`further`: found later)."""
        broken = (*self.broken, *further)
        if not broken:
            return self.remarks
        title = "1 picture cannot be read" if len(broken) == 1 else f"{len(broken)} pictures cannot be read"
        found = Finding(severity="care", title=title, text="Left out. The others are used.",
                        files=listed(f"{self.name_of(path)}: {why}" for path, why in broken),
                        skip=tuple(Edit(what="skip", name=str(path)) for path, _ in broken))
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


def scan_folder(chosen: Path | Iterable[Path], edits: Iterable[Edit] = ()
                ) -> Generator[ScanProgress, None, FolderScan]:
    """Looks through pictures, in slices of one: a folder for each class, or a folder with a CSV of labels.

    Yields after each slice and returns a FolderScan. Each picture is decoded once, small, in threads, since only that
    finds a file that ends half way. `edits` leave files out and rename, merge or leave out classes. Raises
    NoFolderError, NoClassFoldersError or NoImagesError.
    """
    roots = (chosen,) if isinstance(chosen, Path) else tuple(chosen)
    for root in roots:
        if not root.is_dir():
            raise NoFolderError(place=root.name or str(root))
    place = ", ".join(root.name or str(root) for root in roots[:3]) + (" …" if len(roots) > 3 else "")
    remarks: list[Finding] = []
    broken: list[BrokenFile] = []
    files = yield from _files_by_class(roots, place, remarks, broken)
    files = _edited(files, tuple(edits))
    total = sum(map(len, files.values()))
    if not total:
        raise NoImagesError(place=place)
    looks: dict[Path, Look] = {}
    for done, (path, look) in enumerate(in_order(_look, (p for paths in files.values() for p in paths)), start=1):
        if isinstance(look, Look):
            looks[path] = look
        else:
            broken.append(BrokenFile(path, look))
        yield ScanProgress(f"Checking {path.parent.name}", done, total)
    good = {name: tuple(path for path in paths if path in looks) for name, paths in files.items()}
    return FolderScan(roots=roots, place=place, classes=good, broken=tuple(broken), remarks=tuple(remarks), looks=looks)


def _look(path: Path) -> Look | str:
    """What there is to see of a picture, or why it cannot be read."""
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "blake2b").digest()
        image = pictures.read(path, side=32)
    except BrokenImageError as error:
        return str(error.details["why"])
    except OSError as error:
        return error.strerror or "it cannot be read"
    small = image.convert("L").resize((16, 16), Image.Resampling.BOX)
    low, high = small.getextrema()
    return Look(digest, plain=float(high) - float(low) <= PLAIN)  # type: ignore[arg-type]


def _edited(files: dict[str, list[Path]], edits: tuple[Edit, ...]) -> dict[str, list[Path]]:
    """The files by class after the person's changes, one after the other."""
    for edit in edits:
        if edit.what == "skip":
            files = {name: [path for path in paths if str(path) != edit.name] for name, paths in files.items()}
        elif edit.what == "class" and edit.name in files:
            moved, new = files.pop(edit.name), class_name(edit.value)
            if new:
                files.setdefault(new, []).extend(moved)
    return dict(sorted(files.items()))


def _files_by_class(
    roots: tuple[Path, ...], place: str, remarks: list[Finding], broken: list[BrokenFile]
) -> Generator[ScanProgress, None, dict[str, list[Path]]]:
    """By a CSV of labels where the pictures do not lie in class folders; else by these."""
    described = any(path.suffix.lower() in labels.SUFFIXES for root in roots for path in listing(root))
    if described and not _in_class_folders(roots):
        found = labels.find_labels(roots, _walk(roots, broken))
        if found is not None:
            remarks.extend(found.remarks)
            return found.classes
    files: dict[str, list[Path]] = {}
    for name, folders in _class_folders(roots, place, remarks).items():
        files[name] = []
        for path in _walk(folders, broken):
            files[name].append(path)
            if len(files[name]) % 256 == 0:
                yield ScanProgress(f"Looking through {name}", sum(map(len, files.values())), 0)
    return files


def _in_class_folders(roots: tuple[Path, ...]) -> bool:
    """Whether at least two folders hold pictures: then they are the classes, whatever a table beside them says."""
    folders = roots if len(roots) > 1 else _listing(roots[0])[0]
    return sum(next(_walk((folder,), []), None) is not None for folder in folders) > 1


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
