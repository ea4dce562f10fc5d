"""Text to the numbers that a model reads, and back."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
import numpy as np
import numpy.typing as npt

from desktop.errors import TaskError
from desktop.tasks.spec import MOST_CHARACTERS, Text

if TYPE_CHECKING:
    import tokenizers

OTHER = "\N{REPLACEMENT CHARACTER}"  # stands where the text had a character that the vocabulary lacks
BPE_SIZE = 4096
Ids = npt.NDArray[Any]


class Tokens(Protocol):
    """`size` different tokens, numbered from 0."""

    size: int

    def encode(self, text: str) -> Ids:
        """Any text as tokens, unsigned [n]."""
        ...

    def decode(self, ids: Iterable[int]) -> str:
        """The text that tokens stand for; what stands for none becomes OTHER."""
        ...


def tokens_of(form: Text) -> Tokens:
    """The tokens of a task for text. TaskError while they are not fixed, or when they cannot be used."""
    if not form.vocabulary_size:
        raise TaskError(why="its tokens are not fixed yet")
    match form.tokens:
        case "bytes":
            return Bytes()
        case "characters":
            return Characters(form.vocabulary)
        case "bpe":
            return Bpe(form.tokenizer)


class Bytes:
    """The bytes of UTF-8."""

    size = 256

    def encode(self, text: str) -> Ids:
        return np.frombuffer(text.encode("utf-8", "replace"), np.uint8)

    def decode(self, ids: Iterable[int]) -> str:
        return bytes(ids).decode("utf-8", "replace")


class Characters:
    """Single characters, in the order of `vocabulary`, and after them one token for all others."""

    def __init__(self, vocabulary: tuple[str, ...]) -> None:
        self.vocabulary = vocabulary
        self.size = len(vocabulary) + 1
        points = np.array([ord(character) for character in vocabulary])
        self._order = np.argsort(points)
        self._sorted = points[self._order]

    def encode(self, text: str) -> Ids:
        points = np.frombuffer(text.encode("utf-32-le", "replace"), "<u4")
        places = np.searchsorted(self._sorted, points).clip(max=len(self._sorted) - 1)
        known = self._sorted[places] == points
        return np.where(known, self._order[places], len(self.vocabulary)).astype(np.uint32)

    def decode(self, ids: Iterable[int]) -> str:
        return "".join((*self.vocabulary, OTHER)[i] for i in ids)


class Bpe:
    """Byte-pair encoding as GPT-2 does it, from the JSON of a tokenizer of the `tokenizers` library.

    Only its vocabulary and merges are taken: what else such a file can say could make any text of the same tokens.
    """

    def __init__(self, tokenizer: str) -> None:
        read = _read(tokenizer)
        if not set(_library().pre_tokenizers.ByteLevel.alphabet()) <= set(read.vocab):
            raise TaskError(why="its tokenizer lacks bytes: only those that work on bytes, as GPT-2's, can be used")
        try:
            self._tokenizer = _byte_level(_library().models.BPE(read.vocab, read.merges))
        except Exception as error:  # the library has no kinds of its own for them
            raise TaskError(why=f"its tokenizer cannot be used: {error}") from error
        self.size = len(read.vocab)

    def encode(self, text: str) -> Ids:
        return np.array(self._tokenizer.encode(text).ids, np.uint32)

    def decode(self, ids: Iterable[int]) -> str:
        return str(self._tokenizer.decode(list(ids)))


class _Merges(msgspec.Struct):
    vocab: dict[str, int]
    merges: list[tuple[str, str]]


class _Model(msgspec.Struct):
    model: _Merges


def _read(tokenizer: str) -> _Merges:
    try:
        return msgspec.json.decode(tokenizer, type=_Model).model
    except (msgspec.MsgspecError, RecursionError) as error:
        raise TaskError(why="its tokenizer cannot be read") from error


def compact(tokenizer: str | bytes) -> str:
    """The JSON of a tokenizer with nothing but what `Bpe` takes, so that it fits into a room's task. TaskError."""
    # Files of older versions write a merge as one text with a space between.
    try:
        model = msgspec.json.decode(tokenizer)["model"]
        merges = [merge.split(" ") if isinstance(merge, str) else merge for merge in model["merges"]]
        whole = {"model": {"type": "BPE", "vocab": model["vocab"], "merges": merges}}
    except (msgspec.DecodeError, UnicodeError, LookupError, TypeError, RecursionError) as error:
        raise TaskError(why="its tokenizer is not one of byte-pair encoding") from error
    text = msgspec.json.encode(whole).decode()
    Bpe(text)
    return text


def train_bpe(texts: Iterable[str], size: int = BPE_SIZE) -> str:
    """A tokenizer of at most `size` tokens, made for these texts; its JSON."""
    library = _library()
    tokenizer = _byte_level(library.models.BPE())
    trainer = library.trainers.BpeTrainer(
        vocab_size=size, show_progress=False, initial_alphabet=library.pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(texts, trainer)
    return compact(tokenizer.to_str())


def vocabulary(counts: Counter[str]) -> tuple[str, ...]:
    """The characters of a text as a vocabulary: the most frequent ones when there are too many, sorted."""
    frequent = sorted(counts, key=lambda character: (-counts[character], character))
    return tuple(sorted(frequent[:MOST_CHARACTERS]))


def _byte_level(model: Any) -> tokenizers.Tokenizer:
    library = _library()
    tokenizer = library.Tokenizer(model)
    tokenizer.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = library.decoders.ByteLevel()
    return tokenizer


def _library() -> Any:
    """Imported when first needed: few tasks do. In one thread, as training has its own share of the processor."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    import tokenizers

    return tokenizers
