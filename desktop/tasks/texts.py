"""Text for language models: read from files, cut into parts that nobody mixes up, turned into tokens on disk."""

from __future__ import annotations

import hashlib
import tempfile
from collections import Counter, defaultdict
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from desktop.errors import (
    DataError,
    EncodingError,
    NoTextError,
    NotTextError,
    PeerloomError,
    TaskError,
    TooLittleDataError,
)
from desktop.resources import resource
from desktop.state import DataView, Edit, Finding, TextView
from desktop.tasks import tokens
from desktop.tasks.data import TaskData
from desktop.tasks.image_checks import words
from desktop.tasks.plain_text import TextFile, files_below, look, pieces
from desktop.tasks.readers import BrokenFile, ScanProgress, listed, name_below
from desktop.tasks.samples import Indices
from desktop.tasks.spec import TaskSpec, Text

BLOCKS_A_PIECE = 16  # in characters, so that it does not depend on the tokens
TRAIN, VALIDATION, TEST, NOT_MINE = range(4)
LITTLE = 100_000  # characters from which on a small model learns how words are written
BPE_TEXT = 2_000_000  # characters that a tokenizer is made from
SAMPLE = 600  # characters shown
EVERY = 64  # pieces between two slices

Edits = tuple[tuple[Edit, ...], ...]
Places = npt.NDArray[np.float64]


class Blocks:
    """Tokens in blocks: x int64 [n, block], y the same moved on by one. A Samples.

    With a `seed` blocks begin anywhere at random, near their place; without one always at the same places, side by
    side. `stream` may lie on disk.
    """

    def __init__(self, stream: npt.NDArray[Any], block: int, seed: int | None = None) -> None:
        self._stream, self._block = stream, block
        self._random = None if seed is None else np.random.default_rng(seed)

    def __len__(self) -> int:
        return max(0, (len(self._stream) - 1) // self._block)

    def batch(self, indices: Indices | slice, /) -> tuple[Indices, Indices]:
        if isinstance(indices, slice):
            indices = np.arange(*indices.indices(len(self)))
        starts = indices * self._block
        if self._random is not None:
            moved = starts + self._random.integers(self._block, size=len(starts))
            starts = np.minimum(moved, len(self._stream) - self._block - 1)
        found = self._stream[starts[:, None] + np.arange(self._block + 1)].astype(np.int64)
        return found[:, :-1].copy(), found[:, 1:].copy()


class _Seen(NamedTuple):
    """What the first pass through the text found."""

    places: Places  # of each piece, 0..1, by content
    counts: Counter[str]  # of each character
    sample: str
    for_bpe: list[str]

    @property
    def characters(self) -> int:
        return self.counts.total()


def read_text(spec: TaskSpec, paths: tuple[Path, ...], edits: Edits
              ) -> Generator[ScanProgress, None, tuple[TaskSpec, TaskData | None, DataView]]:
    """Files of plain text and folders of them, in slices."""
    form = _form(spec)
    steps = [edit for step in edits for edit in step]
    skipped = {edit.name for edit in steps if edit.what == "skip"}
    encoding = next((edit.value for edit in reversed(steps) if (edit.what, edit.name) == ("reading", "encoding")), "")
    _check_encoding(encoding)
    broken: list[BrokenFile] = []
    files: list[TextFile] = []
    tokenizer = form.tokenizer
    for path in files_below(paths, broken):
        if str(path) in skipped:
            continue
        try:
            if path.name == "tokenizer.json" and form.tokens == "bpe":
                tokenizer = tokenizer or tokens.compact(path.read_bytes())
                continue
            files.append((yield from look(path, encoding)))
        except NotTextError as error:
            broken.append(BrokenFile(path, str(error.details["why"])))
        except OSError as error:
            broken.append(BrokenFile(path, error.strerror or "it cannot be read"))
    place = ", ".join(path.name or str(path) for path in paths[:3]) + (" …" if len(paths) > 3 else "")
    findings = _file_findings(paths, files, broken)
    source = ", ".join(map(str, paths))
    try:
        if not files:
            raise NoTextError(place=place)
        if tokenizer != form.tokenizer:
            spec = spec.changed(tokenizer=tokenizer)
        return (yield from _read(spec, files, place, source, findings))
    except PeerloomError as error:
        return spec, None, DataView(title=place, source=source, error=error.sentence, findings=findings)


def read_sample(spec: TaskSpec, share: tuple[int, int]
                ) -> Generator[ScanProgress, None, tuple[TaskSpec, TaskData | None, DataView]]:
    """The play that ships with the program, or the i-th of n equal parts of it; the test part is the same for all."""
    part, parts = share
    title = "Hamlet" if parts == 1 else f"Hamlet, part {part} of {parts}"
    play = yield from look(resource("demo/hamlet.txt"))
    return (yield from _read(spec, [play], title, "sample", (), share))


def _read(spec: TaskSpec, files: list[TextFile], title: str, source: str, findings: tuple[Finding, ...],
          share: tuple[int, int] = (1, 1)) -> Generator[ScanProgress, None, tuple[TaskSpec, TaskData, DataView]]:
    """Two passes: what is there, then its tokens, each part's in a file of its own."""
    seen = yield from _survey(spec, files)
    _check_enough(spec, seen, title, share)
    if not _form(spec).vocabulary_size:
        yield ScanProgress("Choosing tokens", 0, 0)
        spec = _fixed(spec, seen)
    parts = _parts(seen.places, spec, share)
    streams = yield from _tokenised(spec, files, parts)
    block = _form(spec).block
    train, validation, test = (Blocks(stream, block) for stream in streams)
    if not len(train) or len(validation) < (spec.validation > 0) or len(test) < (spec.test > 0):
        raise TooLittleDataError(place=title, have=f"{seen.characters:,} characters", need="twice as many")
    findings += _text_findings(spec, seen)
    data = TaskData(train=Blocks(streams[TRAIN], block, spec.seed), validation=validation, test=test, title=title,
                    source=source, findings=findings)
    score = _score(findings)
    view = DataView(
        title=title, source=source, training=len(train), validation=len(validation), test=len(test),
        shape=f"blocks of {block} {UNITS[_form(spec).tokens]}", findings=findings, usable=True, score=score,
        score_text=words(score),
        text=TextView(files=len(files), characters=seen.characters, tokens=sum(map(len, streams)),
                      encoding=", ".join(sorted({file.encoding for file in files})), sample=seen.sample),
    )
    return spec, data, view


UNITS = {"bytes": "bytes", "characters": "characters", "bpe": "word pieces"}


def _form(spec: TaskSpec) -> Text:
    if not isinstance(spec.form, Text):
        raise TaskError(why="it is not a task for text")
    return spec.form


def _piece(spec: TaskSpec) -> int:
    """Characters of a piece."""
    return BLOCKS_A_PIECE * _form(spec).block


# -- first pass ------------------------------------------------------------------------------------------


def _survey(spec: TaskSpec, files: Sequence[TextFile]) -> Generator[ScanProgress, None, _Seen]:
    """Where each piece belongs, which characters there are, and enough text to make a tokenizer from."""
    places: list[float] = []
    seen = _Seen(np.empty(0), Counter(), "", [])
    sample = ""
    room = BPE_TEXT
    for done, file in enumerate(files, start=1):
        for piece in pieces(file, _piece(spec)):
            places.append(_place(piece, spec.seed))
            seen.counts.update(piece)
            sample = sample or piece[:SAMPLE]
            if room > 0:
                seen.for_bpe.append(piece)
                room -= len(piece)
            if len(places) % EVERY == 0:
                yield ScanProgress(f"Reading {file.path.name}", done, len(files))
        yield ScanProgress(f"Reading {file.path.name}", done, len(files))
    return seen._replace(places=np.array(places), sample=sample)


def _place(piece: str, seed: int) -> float:
    """A number in 0..1 that follows from the text and the seed: a copy of it lies in the same part at every member,
    so that nobody trains on what another holds out.
    """
    digest = hashlib.blake2b(f"{seed} {piece.strip()}".encode("utf-8", "replace"), digest_size=7).digest()
    return int.from_bytes(digest) / 256**7


def _fixed(spec: TaskSpec, seen: _Seen) -> TaskSpec:
    """The task with its tokens taken from this text."""
    if _form(spec).tokens == "characters":
        return spec.changed(vocabulary=tokens.vocabulary(seen.counts))
    return spec.changed(tokenizer=tokens.train_bpe(seen.for_bpe))


# -- parts -----------------------------------------------------------------------------------------------


def _check_enough(spec: TaskSpec, seen: _Seen, place: str, share: tuple[int, int]) -> None:
    """A piece for each part, at every share."""
    need = share[1] * (1 + (spec.validation > 0)) + (spec.test > 0)
    if len(seen.places) < need or seen.characters < need * _piece(spec):
        raise TooLittleDataError(place=place, have=f"{seen.characters:,} characters", need=f"{need * _piece(spec):,}")


def _parts(places: Places, spec: TaskSpec, share: tuple[int, int]) -> npt.NDArray[np.int8]:
    """The part of each piece: the test part is where `places` is below its share, and so on; at least one piece each.

    What is not test is dealt out to the shares like cards.
    """
    part, parts = share
    order = np.argsort(places, kind="stable")
    found = np.full(len(places), NOT_MINE, np.int8)
    test = _bounded(np.sum(places < spec.test), spec.test, len(order) - parts * (1 + (spec.validation > 0)))
    found[order[:test]] = TEST
    mine = np.sort(order[test:])[part - 1::parts]
    mine = mine[np.argsort(places[mine], kind="stable")]
    below = np.sum(places[mine] < spec.test + spec.validation)
    validation = _bounded(below, spec.validation, len(mine) - 1)
    found[mine[:validation]] = VALIDATION
    found[mine[validation:]] = TRAIN
    return found


def _bounded(count: Any, share: float, most: int) -> int:
    return min(max(int(count), int(share > 0)), most)


# -- second pass -----------------------------------------------------------------------------------------


def _tokenised(spec: TaskSpec, files: Sequence[TextFile], parts: npt.NDArray[np.int8]
               ) -> Generator[ScanProgress, None, list[npt.NDArray[Any]]]:
    """The tokens of the three parts: arrays that the system reads from disk when they are needed."""
    coder = tokens.tokens_of(_form(spec))
    kind = np.dtype(np.uint16 if coder.size <= 1 << 16 else np.uint32)
    belongs = iter(parts.tolist())
    done = 0
    try:
        with tempfile.TemporaryFile() as train, tempfile.TemporaryFile() as validation, \
                tempfile.TemporaryFile() as test:
            stores = (train, validation, test)
            for file in files:
                # zip asks the text first: of one that has grown since, what is new is left out
                for piece, part in zip(pieces(file, _piece(spec)), belongs, strict=False):
                    if part != NOT_MINE:
                        stores[part].write(coder.encode(piece).astype(kind).tobytes())
                    done += 1
                    if done % EVERY == 0:
                        yield ScanProgress(f"Preparing {file.path.name}", done, len(parts))
            return [_mapped(store, kind) for store in stores]
    except OSError as error:
        raise DataError(place=tempfile.gettempdir(), why=error.strerror or "the text's tokens cannot be kept there",
                        remedy="Make room there.") from error


def _mapped(store: IO[bytes], kind: np.dtype[Any]) -> npt.NDArray[Any]:
    store.flush()
    if not store.tell():
        return np.empty(0, kind)  # there is no map of nothing
    return np.memmap(store, kind, "r")


# -- what a person should look at ------------------------------------------------------------------------


def _check_encoding(encoding: str) -> None:
    try:
        "".encode(encoding or "utf-8")
    except (LookupError, ValueError) as error:
        raise EncodingError(encoding=encoding[:40]) from error


def _file_findings(roots: tuple[Path, ...], files: Sequence[TextFile], broken: Sequence[BrokenFile]
                   ) -> tuple[Finding, ...]:
    """Files that were left out, are the same, or had their encoding guessed."""
    found = []
    if broken:
        title = "1 file is not plain text" if len(broken) == 1 else f"{len(broken)} files are not plain text"
        found.append(Finding(severity="care", title=title, text="Left out. The others are used.",
                             files=listed(f"{name_below(roots, path)}: {why}" for path, why in broken)))
    same: dict[bytes, list[Path]] = defaultdict(list)
    for file in files:
        same[file.digest].append(file.path)
    copies = [path for paths in same.values() for path in paths[1:]]
    if copies:
        found.append(Finding(
            severity="care", title="The same text more than once",
            text="A model learns repeated text by heart. Leave the copies out, unless they are meant.",
            files=listed(name_below(roots, path) for path in copies),
            skip=tuple(Edit(what="skip", name=str(path)) for path in copies)))
    guessed = [file for file in files if file.encoding in ("cp1252", "latin-1")]
    if guessed:
        found.append(Finding(
            severity="info", title="Saved in an older encoding",
            text=f"Read as {', '.join(sorted({file.encoding for file in guessed}))}. If letters look wrong in the "
                 "sample, choose another encoding.", files=listed(name_below(roots, file.path) for file in guessed)))
    return tuple(found)


def _text_findings(spec: TaskSpec, seen: _Seen) -> tuple[Finding, ...]:
    """Little text, letters that could not be read, and letters that the room does not know."""
    found = []
    if seen.characters < LITTLE:
        found.append(Finding(severity="care", title="Little text",
                             text=f"{seen.characters:,} characters. A model begins to write words that exist from "
                                  f"about {LITTLE:,} on; a book has several times as many."))
    if seen.counts[tokens.OTHER]:
        found.append(Finding(severity="care", title="Some letters could not be read",
                             text=f"{seen.counts[tokens.OTHER]:,} of {seen.characters:,} characters. Perhaps the text "
                                  "is in another encoding than the one it was read in."))
    form = _form(spec)
    if form.tokens == "characters":
        unknown = {c: n for c, n in seen.counts.items() if c not in set(form.vocabulary)}
        share = sum(unknown.values()) / seen.characters
        if share > 0.01:
            most = sorted(unknown, key=lambda character: -unknown[character])[:20]
            found.append(Finding(
                severity="bad" if share > 0.5 else "care", title="Letters that this task does not know",
                text=f"{share:.0%} of the characters, such as {' '.join(most)}. The model sees one and the same sign "
                     "for all of them. Is this the language that the room trains on?"))
    return tuple(found)


def _score(findings: Sequence[Finding]) -> int:
    """How good the text is, 0 to 100: points are taken for what the findings say."""
    lost = {"info": 0, "care": 15, "bad": 50}
    return max(0, 100 - sum(lost[finding.severity] for finding in findings))
