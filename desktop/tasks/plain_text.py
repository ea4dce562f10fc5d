"""Files of plain text as people have them: which ones are, in what encoding, and what is in them, piece by piece."""

from __future__ import annotations

import codecs
import hashlib
import os
import unicodedata
from collections.abc import Generator, Iterable, Iterator
from pathlib import Path
from typing import IO, NamedTuple

from desktop.errors import DataError, NotTextError
from desktop.tasks.readers import LITTER, BrokenFile, ScanProgress

SLICE = 1 << 20  # bytes read at once
MARKS = {  # longest first: UTF-32's begins with UTF-16's
    codecs.BOM_UTF32_LE: "utf-32", codecs.BOM_UTF32_BE: "utf-32", codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16",
}
KNOWN = {b"%PDF-": "it is a PDF", b"PK\3\4": "it is a packed file or an office document",
         b"{\\rtf": "it is a document with formatting (RTF)", b"\x1f\x8b": "it is a packed file"}
PLAIN = bytes([7, 8, 9, 10, 11, 12, 13, 27])  # control characters that plain text may hold
MOST_CONTROL = 0.005  # of a text that is not UTF-8


class TextFile(NamedTuple):
    """A file of plain text: its path, encoding as Python calls it, and a digest of what is in it."""

    path: Path
    encoding: str
    digest: bytes


def files_below(chosen: Iterable[Path], broken: list[BrokenFile]) -> Iterator[Path]:
    """The files chosen and those below the folders chosen, in the order of their names, without what systems leave
    behind. What cannot be opened is added to `broken`.
    """
    def shut(error: OSError) -> None:
        broken.append(BrokenFile(Path(error.filename), error.strerror or "it cannot be opened"))

    for root in chosen:
        if not root.is_dir():
            yield root
            continue
        for place, below, names in os.walk(root, onerror=shut):
            below[:] = sorted(name for name in below if not _litter(name))
            # A pipe or a device would be waited for.
            yield from (path for name in sorted(names) if not _litter(name) and (path := Path(place, name)).is_file())


def _litter(name: str) -> bool:
    return name.startswith(".") or name.lower() in LITTER


def look(path: Path, encoding: str = "") -> Generator[ScanProgress, None, TextFile]:
    """Goes through a file once, in slices: its encoding (guessed, unless given) and digest. NotTextError says why it
    is no text.
    """
    digest, controls, size = hashlib.blake2b(digest_size=16), 0, 0
    utf8 = codecs.getincrementaldecoder("utf-8")()
    is_utf8, high = True, set[int]()
    try:
        with path.open("rb") as file:
            head = file.read(SLICE)
            marked = encoding or _marked(path, head)
            data = head
            while data:
                digest.update(data)
                size += len(data)
                if not marked:
                    is_utf8 = is_utf8 and _decodes(utf8, data)
                    controls += len(data) - len(data.translate(None, _CONTROLS))
                    high.update(data.translate(None, _ASCII))
                yield ScanProgress(f"Looking at {path.name}", 0, 0)
                data = file.read(SLICE)
    except OSError as error:
        raise NotTextError(place=path.name, why=error.strerror or "it cannot be read") from error
    if not size:
        raise NotTextError(place=path.name, why="the file is empty")
    if not marked and controls > MOST_CONTROL * size:
        raise NotTextError(place=path.name, why="it is not plain text")
    if not marked:
        is_utf8 = is_utf8 and _decodes(utf8, b"", final=True)
        # Windows-1252 leaves five bytes undefined.
        marked = "utf-8" if is_utf8 else "latin-1" if high & {0x81, 0x8D, 0x8F, 0x90, 0x9D} else "cp1252"
    return TextFile(path, marked, digest.digest())


_ASCII = bytes(range(128))
_CONTROLS = bytes(sorted(set(range(32)) - set(PLAIN)))


def _decodes(decoder: codecs.IncrementalDecoder, data: bytes, final: bool = False) -> bool:
    try:
        decoder.decode(data, final)
    except UnicodeDecodeError:
        return False
    return True


def _marked(path: Path, head: bytes) -> str:
    """The encoding that a file's beginning gives away; "" for none. NotTextError for kinds that are no text."""
    for begin, why in KNOWN.items():
        if head.startswith(begin):
            raise NotTextError(place=path.name, why=why)
    for mark, encoding in MARKS.items():
        if head.startswith(mark):
            return encoding
    # UTF-16 without a mark: Western text has a zero in every second byte.
    even, odd = head[:4096:2], head[1:4096:2]
    if odd.count(0) > 0.3 * len(odd) and not even.count(0):
        return "utf-16-le"
    if even.count(0) > 0.3 * len(even) and not odd.count(0):
        return "utf-16-be"
    return ""


def pieces(file: TextFile, size: int) -> Iterator[str]:
    """The text in pieces of `size` characters from its beginning on; a last one of less than half is part of the one
    before.

    Line ends become "\\n" and characters are composed, so that the same text is the same wherever it was saved. Bytes
    that the encoding does not know become the replacement character.
    """
    try:
        with file.path.open(encoding=file.encoding, errors="replace") as opened:
            waiting = ""
            for text in _composed(opened):
                waiting += text
                start = 0
                while len(waiting) - start >= 1.5 * size:
                    yield waiting[start:start + size]
                    start += size
                waiting = waiting[start:]
            if waiting:
                yield waiting
    except (OSError, UnicodeError) as error:  # some of Python's encodings cannot replace what they do not know
        why = error.strerror if isinstance(error, OSError) else f"it is not {file.encoding}"
        raise DataError(place=file.path.name, why=why or "it cannot be read",
                        remedy="Check the file, or leave it out.") from error


def _composed(opened: IO[str]) -> Iterator[str]:
    """The text in slices of composed characters; a letter and its accents are not cut apart."""
    waiting = ""
    while text := opened.read(SLICE):
        text = waiting + text
        cut = len(text) - 1
        while cut and unicodedata.combining(text[cut]):
            cut -= 1
        waiting = text[cut:]
        yield _tidy(text[:cut])
    yield _tidy(waiting)


def _tidy(text: str) -> str:
    """Composed, and without halves of characters, which some encodings let through and no other can write."""
    return unicodedata.normalize("NFC", text).encode("utf-8", "replace").decode("utf-8")
