"""A member's data in memory: arrays of pictures in three parts, how they are split, and how they are shown."""

from __future__ import annotations

import gzip
import hashlib
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
from PIL import Image

from desktop.errors import BrokenImageError, ClassesDifferError, OptionError, TaskError, TooLittleDataError
from desktop.resources import resource
from desktop.state import ClassCard, DataView, Edit, Finding
from desktop.tasks import pictures
from desktop.tasks.ahead import in_order
from desktop.tasks.readers import BrokenFile, FolderScan, ScanProgress, listed
from desktop.tasks.samples import Indices, Samples
from desktop.tasks.spec import TaskSpec
from desktop.tasks.store import PictureStore, Stored, bound_bytes

LEAST_PER_CLASS = 5
MOST_THUMBNAILS = 12
THUMBNAIL_SIDE = 40

Floats = npt.NDArray[np.float32]


class ArraySet:
    """Pictures and labels: `pixels` uint8 [N, C, H, W], which times `scale` lie in 0..1; `labels` int64 [N]."""

    def __init__(self, pixels: pictures.Pixels | Stored, labels: Indices, scale: float) -> None:
        self.pixels = pixels
        self.labels = labels
        self.scale = scale

    def __len__(self) -> int:
        return len(self.labels)

    def batch(self, indices: Indices | slice) -> tuple[Floats, Indices]:
        """New arrays of the samples at `indices`: x float32 [n, C, H, W] in 0..1, y int64 [n]."""
        x = self.pixels[indices].astype(np.float32)
        x *= np.float32(self.scale)
        return x, self.labels[indices].copy()

    def only(self, indices: Indices) -> ArraySet:
        """A set of these samples alone."""
        pixels = self.pixels
        some = pixels.only(indices) if isinstance(pixels, Stored) else pixels[indices]
        return ArraySet(some, self.labels[indices], self.scale)

    def ahead(self, indices: Indices) -> None:
        """These will be asked for next: what is not in memory is read meanwhile."""
        if isinstance(self.pixels, Stored):
            self.pixels.ahead(indices)


class TaskData(msgspec.Struct, frozen=True):
    """A member's data: what it trains on, what it watches, and the held-out part that no member trains on."""

    train: Samples
    validation: Samples
    test: Samples
    title: str
    source: str  # "sample" or the folder
    findings: tuple[Finding, ...] = ()


# -- the sample data ----------------------------------------------------------------------------------


def load_sample(spec: TaskSpec, share: tuple[int, int] = (1, 1)) -> TaskData:
    """The sample data that ships with the task; `share` (i, n) takes the i-th of n equal parts of it.

    The test part is stratified and the same for all shares. The shares are disjoint, differ by at most one sample,
    hold each class alike, and together are all the rest. All of it follows from the task's seed alone.
    """
    part, parts = check_share(share)
    if spec.sample != "digits":
        raise TaskError(why=f"no sample data ships with “{spec.title}”; use a folder of your own")
    if (spec.images.channels, spec.images.height, spec.images.width, spec.classes) != (1, 8, 8, tuple("0123456789")):
        raise TaskError(why="the sample digits are 8 × 8 grey pictures of the classes 0 to 9")
    everything = digits()
    test, rest = stratified(everything.labels, spec.test, f"{spec.seed} test")
    # Dealt out like cards, class after class: parts of equal size that hold each class alike.
    mine = rest[np.argsort(everything.labels[rest], kind="stable")][part - 1::parts]
    validation, train = stratified(everything.labels[mine], spec.validation, f"{spec.seed} validation {part}/{parts}")
    if not len(train):
        raise TooLittleDataError(place="the sample data", have=f"{len(rest)} pictures for {parts} shares",
                                 need="one for each")
    title = "Sample digits" if parts == 1 else f"Sample digits, part {part} of {parts}"
    return TaskData(train=everything.only(mine[train]), validation=everything.only(mine[validation]),
                    test=everything.only(test), title=title, source="sample")


def check_share(share: tuple[int, int]) -> tuple[int, int]:
    """The share (i, n) as it is; OptionError when there is no such part."""
    part, parts = share
    if not 1 <= part <= parts:
        raise OptionError(key="share", value=f"{part}/{parts}", allowed="I/N with 1 ≤ I ≤ N, for example 2/3")
    return share


def digits() -> ArraySet:
    """All 1,797 sample digits, in the order of their file: 8 × 8 points of 0 to 16."""
    with gzip.open(resource("demo/digits.csv.gz"), "rt", encoding="ascii") as file:
        table = np.loadtxt(file, dtype=np.uint8, delimiter=",", skiprows=1)
    return ArraySet(table[:, 1:].reshape(-1, 1, 8, 8).copy(), table[:, 0].astype(np.int64), 1 / 16)


def stratified(labels: Indices, fraction: float, purpose: str) -> tuple[Indices, Indices]:
    """Indices of a random `fraction` and of the rest, each mixed, each class split alike."""
    order = _shuffled(len(labels), purpose)
    rank = np.argsort(order)
    taken, rest = [], []
    owed = 0.0  # what rounding left over: ten classes rounded down would make the part too small
    for label in np.unique(labels):
        of_class = order[labels[order] == label]
        owed += fraction * len(of_class)
        count = min(round(owed), len(of_class))
        owed -= count
        taken.append(of_class[:count])
        rest.append(of_class[count:])
    return _mixed(taken, rank), _mixed(rest, rank)


def _mixed(parts: list[Indices], rank: npt.NDArray[Any]) -> Indices:
    """All parts as one, sorted by their `rank`: not class after class, so that any stretch of it shows all."""
    joined = np.concatenate(parts) if parts else np.empty(0, np.int64)
    return joined[np.argsort(rank[joined], kind="stable")]


def _shuffled(n: int, purpose: str) -> Indices:
    """0..n-1 in an order that follows from `purpose`.

    By hashes, since numpy may change what its generators draw: with two versions of it in a room, one member would
    train on what another holds out.
    """
    keys = [hashlib.blake2b(f"{purpose} {i}".encode(), digest_size=8).digest() for i in range(n)]
    return np.array(sorted(range(n), key=keys.__getitem__), dtype=np.int64)


# -- folders of one's own -----------------------------------------------------------------------------


def fitting(spec: TaskSpec, scan: FolderScan) -> dict[str, tuple[Path, ...]]:
    """The pictures of the task's classes. ClassesDifferError, by name, when no class fits; TooLittleDataError."""
    if not spec.classes:
        raise TaskError(why="its classes are not fixed yet")
    known = {name: paths for name, paths in scan.classes.items() if name in spec.classes}
    if not known:
        raise ClassesDifferError(unknown=", ".join(scan.classes), known=", ".join(spec.classes))
    _check_enough({name: len(paths) for name, paths in known.items()})
    return known


def _check_enough(counts: dict[str, int]) -> None:
    few = {name: count for name, count in counts.items() if count < LEAST_PER_CLASS}
    if few:
        raise TooLittleDataError(place=", ".join(f"“{name}”" for name in few),
                                 have=", ".join(map(str, few.values())) + " pictures that can be read",
                                 need=f"{LEAST_PER_CLASS} in each class")


def load_folder(spec: TaskSpec, scan: FolderScan, bound: int | None = None
                ) -> Generator[ScanProgress, None, TaskData]:
    """Decodes what a scan found, in slices of one picture, to uint8 at the model's size; returns TaskData.

    At most `bound` bytes of decoded pictures stay in memory; the others are decoded again when they are needed.

    Which part a picture goes to follows from the task's seed and the file's content alone: a copy of it lies in the
    same part at every member, so that nobody trains on what another holds out. Small classes are levelled, so
    that each has a picture in each part.
    """
    known = fitting(spec, scan)
    files = [(spec.classes.index(name), path) for name, paths in known.items() for path in paths]
    form = spec.images
    store = PictureStore([path for _, path in files], (form.channels, form.height, form.width),
                         partial(pictures.pixels, spec=spec), bound_bytes() if bound is None else bound)
    usable, late = [], list[BrokenFile]()
    for done, (number, points) in enumerate(in_order(partial(_decoded, store), range(len(files))), start=1):
        label, path = files[number]
        if isinstance(points, str):
            late.append(BrokenFile(path, points))
        else:
            usable.append(number)
            store.put(number, points)
        yield ScanProgress(f"Reading {spec.classes[label]}", done, len(files))
    numbers = np.array(usable, np.int64)
    labels = np.array([files[number][0] for number in usable], np.int64)
    places = np.array([_place(scan.looks[files[number][1]].digest, spec.seed) for number in usable], np.float64)
    everything = ArraySet(Stored(store, numbers), labels, 1 / 255)
    _check_enough({name: int(np.sum(labels == spec.classes.index(name))) for name in known})
    train, validation, test = three_parts(labels, places, spec)
    return TaskData(train=everything.only(train), validation=everything.only(validation), test=everything.only(test),
                    title=scan.place, source=", ".join(map(str, scan.roots)),
                    findings=(*scan.findings(late), *differences(spec, scan)))


def load_arrays(spec: TaskSpec, read: Sequence[tuple[pictures.Pixels, npt.NDArray[np.uint8]]], names: Mapping[str, str],
                title: str, source: str) -> Generator[ScanProgress, None, TaskData]:
    """Grey pictures uint8 [n, height, width] with labels whose classes `names` gives, as TaskData; in slices.

    Labels that the task does not have are left out. ClassesDifferError when no label fits.
    """
    form, number = spec.images, {name: place for place, name in enumerate(spec.classes)}
    total = sum(len(labels) for _, labels in read)
    pixels = np.empty((total, form.channels, form.height, form.width), np.uint8)
    classes = np.empty(total, np.int64)
    digests, unknown, count = [], Counter[str](), 0
    for pictures_, labels in read:
        for one, label in zip(pictures_, labels.tolist(), strict=True):
            name = names[str(label)]
            if name not in number:
                unknown.update((name,) if name else ())
                continue
            small = one if one.shape == (form.height, form.width) else np.asarray(
                pictures.fit(Image.fromarray(one), form.height, form.width, 0))
            pixels[count], classes[count] = small, number[name]
            digests.append(hashlib.blake2b(one.tobytes(), digest_size=16).digest())
            count += 1
            if count % 512 == 0:
                yield ScanProgress(f"Reading {title}", count, total)
    if not count:
        raise ClassesDifferError(unknown=", ".join(unknown), known=", ".join(spec.classes))
    everything = ArraySet(pixels[:count], classes[:count], 1 / 255)
    _check_enough({spec.classes[label]: int(n) for label, n in enumerate(np.bincount(everything.labels)) if n})
    places = np.array([_place(digest, spec.seed) for digest in digests], np.float64)
    train, validation, test = three_parts(everything.labels, places, spec)
    findings = tuple(
        Finding(severity="care", title=f"Class {name} is not one of the room", text=f"{n:,} pictures are left out.")
        for name, n in unknown.items())
    return TaskData(train=everything.only(train), validation=everything.only(validation), test=everything.only(test),
                    title=title, source=source, findings=findings)


def _decoded(store: PictureStore, number: int) -> pictures.Pixels | str:
    """A picture's points, or why it cannot be read any more."""
    try:
        return store.decode(number)
    except BrokenImageError as error:
        return str(error.details["why"])
    except OSError as error:
        return error.strerror or "it cannot be read"


def differences(spec: TaskSpec, scan: FolderScan) -> tuple[Finding, ...]:
    """What the room's classes and mine do not have in common, by name."""
    found = []
    if unknown := {name: len(paths) for name, paths in scan.classes.items() if name not in spec.classes}:
        alike = {name.casefold(): name for name in spec.classes}
        fix = tuple(Edit(what="class", name=name, value=alike[name.casefold()]) for name in unknown
                    if name.casefold() in alike)
        found.append(Finding(
            severity="care", title="Classes that the room does not have",
            text="They are left out. If one of them is a class of the room under another name, give it that name.",
            files=listed(f"{name}: {count:,} pictures" for name, count in unknown.items()),
            fix=fix, fix_text=f"“{fix[0].name}” is “{fix[0].value}”" if fix else ""))
    if missing := [name for name in spec.classes if name not in scan.classes]:
        found.append(Finding(severity="info", title="Classes that you have no pictures of",
                             text="Others in the room can bring them.", files=listed(missing)))
    return tuple(found)


def _place(digest: bytes, seed: int) -> float:
    """A number in 0..1 that follows from the digest of a file's content and the seed."""
    return int.from_bytes(hashlib.blake2b(digest + str(seed).encode(), digest_size=7).digest()) / 256**7


def three_parts(labels: Indices, places: npt.NDArray[np.float64], spec: TaskSpec) -> tuple[Indices, Indices, Indices]:
    """Indices of training, validation and test: the test part is where `places` is below its share, and so on."""
    parts: tuple[list[Indices], list[Indices], list[Indices]] = ([], [], [])
    for label in np.unique(labels):
        of_class = np.flatnonzero(labels == label)
        of_class = of_class[np.argsort(places[of_class], kind="stable")]
        n, least_test, least_validation = len(of_class), int(spec.test > 0), int(spec.validation > 0)
        test = int(np.sum(places[of_class] < spec.test))
        test = min(max(test, least_test), n - least_validation - 1)
        validation = int(np.sum(places[of_class] < spec.test + spec.validation)) - test
        validation = min(max(validation, least_validation), n - test - 1)
        for part, found in zip(parts, np.split(of_class, [test, test + validation]), strict=True):
            part.append(found)
    test_part, validation_part, train_part = (_mixed(part, places) for part in parts)
    return train_part, validation_part, test_part


# -- batches ------------------------------------------------------------------------------------------


class Batches(Iterator[Indices]):
    """Endless batches of indices into `n` samples: each epoch holds each sample once, in a new order.

    All batches have min(batch, n) indices; one may hold the end of an epoch and the start of the next.
    """

    def __init__(self, n: int, batch: int, seed: int) -> None:
        if n < 1 or batch < 1:
            raise ValueError(f"no batches of {batch} out of {n}")
        self.n = n
        self.batch = min(batch, n)
        self.drawn = 0
        self._rng = np.random.default_rng(seed)
        self._order = self._rng.permutation(n)
        self._at = 0

    @property
    def coming(self) -> Indices:
        """The next batch, as far as this epoch reaches."""
        return self._order[self._at:self._at + self.batch]

    @property
    def epoch(self) -> float:
        """How often the data has been gone through."""
        return self.drawn / self.n

    def __next__(self) -> Indices:
        taken = self._order[self._at:self._at + self.batch]
        self._at += self.batch
        if self._at >= self.n:
            self._at -= self.n
            self._order = self._rng.permutation(self.n)
            taken = np.concatenate((taken, self._order[:self._at]))
        self.drawn += self.batch
        return taken


# -- what the window shows ----------------------------------------------------------------------------


def describe(spec: TaskSpec, data: TaskData) -> DataView:
    """The data as cards with counts and thumbnails."""
    parts = [part for part in (data.train, data.validation, data.test) if isinstance(part, ArraySet)]
    cards = tuple(ClassCard(name=name, count=sum(int(np.sum(part.labels == label)) for part in parts),
                            thumbnails=_thumbnails(parts[0], label)) for label, name in enumerate(spec.classes))
    return DataView(title=data.title, source=data.source, classes=cards, training=len(data.train),
                    validation=len(data.validation), test=len(data.test), shape=shape_text(spec, data.source),
                    findings=data.findings, usable=True)


def shape_text(spec: TaskSpec, source: str) -> str:
    """What becomes of each picture, in a few words."""
    form = spec.images
    tone = "colour" if form.channels == 3 else "grey"
    size = f"{form.height} × {form.width}"
    if source == "sample":
        return f"{size}, {tone}"
    kept = "bright on black" if form.strokes else "whole picture on white"
    return f"any → {size}, upright, {tone}, {kept}"


def _thumbnails(part: ArraySet, label: int) -> tuple[bytes, ...]:
    return tuple(png(part, int(index), THUMBNAIL_SIDE)
                 for index in np.flatnonzero(part.labels == label)[:MOST_THUMBNAILS])


def png(part: ArraySet, index: int, side: int) -> bytes:
    """One sample as PNG, its longer side `side` points."""
    bright = np.rint(part.pixels[index] * (part.scale * 255)).astype(np.uint8)
    return pictures.png(bright, side)


def reading(source: str, progress: ScanProgress) -> DataView:
    """The view while data is being read."""
    return DataView(source=source, reading=progress.text, progress=progress.fraction)


def refused(source: str, sentence: str, findings: Sequence[Finding] = ()) -> DataView:
    """The view of data that cannot be used."""
    return DataView(source=source, error=sentence, findings=tuple(findings))
