"""What a task is: one frozen record that a room fixes for all its members, checked when it comes from outside."""

from __future__ import annotations

import functools
import hashlib
import itertools
import math
import re
import unicodedata
from collections.abc import Iterable
from typing import Any, ClassVar, Literal, Self

import msgspec

from desktop.errors import TaskError, TooLittleDataError

LARGEST_TEXT = 1024 * 1024  # bytes of a task from a peer or a file
MOST_CLASSES = 1000
MOST_COLUMNS = 1000
MOST_VALUES = 1000  # of a column of categories
MOST_CHARACTERS = 8000  # of a vocabulary
LONGEST_NAME = 100

# Names of models by the kind of data that they read; `tasks.models` builds them.
MODELS: dict[str, tuple[str, ...]] = {
    "images": ("digits-cnn", "small-cnn", "mnist-cnn", "mlp", "lus-cnn", "mobilenet-v1", "mobilenet-v2"),
    "table": ("mlp",),
    "text": ("gpt-nano", "gpt-micro", "gpt-mini", "gpt2"),
}

SIDES = {"digits-cnn": (8, 64), "mnist-cnn": (10, 512), "lus-cnn": (16, 512)}  # of pictures that a model can read

RANGES: dict[str, tuple[float, float]] = {
    "lr": (1e-8, 10.0), "batch": (1, 65_536), "local_steps": (1, 100_000), "local_epochs": (0.0, 1000.0),
    "rounds": (1, 1_000_000), "seed": (0, 2**63 - 1), "validation": (0.0, 0.4), "test": (0.0, 0.4),
    "weight_decay": (0.0, 10.0), "warmup_steps": (0, 10_000_000), "clip": (0.0, 1e6), "patience": (0, 1_000_000),
    "min_members": (1, 64), "privacy_clip": (0.0, 1e6), "privacy_noise": (0.0, 1000.0),
}


class Form(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"):
    """What data a task wants and what becomes of it: the room's schema. One class per kind of data."""

    ranges: ClassVar[dict[str, tuple[float, float]]] = {}

    def check(self) -> None:
        """Raises TaskError for the first value that no task can have."""
        for key, (low, high) in self.ranges.items():
            check_range(key, getattr(self, key), low, high)


class Images(Form, frozen=True, kw_only=True, tag="images"):
    """Pictures in classes. x is float32 [n, channels, height, width] in 0..1, y the class int64 [n].

    `classes` are in the order of the model's outputs; empty until a host's folders fix them. `strokes` says that
    pictures are bright strokes on black, as the sample digits are (see `pictures.strokes`).
    """

    ranges = {"height": (8, 512), "width": (8, 512)}
    classes: tuple[str, ...] = ()
    height: int
    width: int
    channels: Literal[1, 3]
    strokes: bool = False

    def check(self) -> None:
        super().check()
        check_classes(self.classes)


class Column(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One input column of a table: a number, or a category with the values that the room knows, in order."""

    name: str
    role: Literal["number", "category"]
    values: tuple[str, ...] = ()

    @property
    def inputs(self) -> int:
        """How many numbers a value becomes."""
        return 2 if self.role == "number" else len(self.values) + 1


class Table(Form, frozen=True, kw_only=True, tag="table"):
    """Rows of a table. x is float32 [n, inputs]; y the class int64 [n], or a number float32 [n].

    `columns` are the inputs in order, empty until a host's table fixes them; `label` is the column to predict, "" as
    long as that and the goal are open as well. A number takes two inputs (its value, and 1 where it is missing), a
    category one for each value and one for others.
    """

    label: str
    goal: Literal["classes", "number"] = "classes"
    classes: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()

    @property
    def inputs(self) -> int:
        """How many numbers a row becomes."""
        return sum(column.inputs for column in self.columns)

    @property
    def places(self) -> tuple[int, ...]:
        """Where the inputs of each column begin."""
        return tuple(itertools.accumulate((column.inputs for column in self.columns), initial=0))[:-1]

    def check(self) -> None:
        super().check()
        if len(self.columns) > MOST_COLUMNS:
            raise TaskError(why=f"it has {len(self.columns)} columns; allowed: up to {MOST_COLUMNS}")
        names = [column.name for column in self.columns]
        for name in (self.label, *names) if self.label or names else ():
            if name != class_name(name) or not 0 < len(name) <= LONGEST_NAME:
                raise TaskError(why=f"“{name[:LONGEST_NAME]}” cannot be the name of a column")
        if len({self.label, *names}) <= len(names):
            raise TaskError(why="two columns have the same name")
        if self.goal == "number" and self.classes:
            raise TaskError(why="it predicts a number and has classes; allowed is one of the two")
        for column in self.columns:
            if len(set(column.values)) < len(column.values) or len(column.values) > MOST_VALUES:
                raise TaskError(why=f"the values of column “{column.name}” are too many or not different")
        check_classes(self.classes)


class Text(Form, frozen=True, kw_only=True, tag="text"):
    """Running text, cut into blocks. x and y are tokens int64 [n, block]; y is x moved on by one.

    `tokens`: the bytes of UTF-8 (256 of them); the characters of `vocabulary` and one for all others; or byte-pair
    encoding by `tokenizer`, the JSON of a tokenizer of the `tokenizers` library.
    """

    ranges = {"block": (8, 1024)}  # GPT-2 has 1024
    tokens: Literal["bytes", "characters", "bpe"] = "bytes"
    vocabulary: tuple[str, ...] = ()
    tokenizer: str = ""
    block: int = 128

    @property
    def vocabulary_size(self) -> int:
        """How many different tokens there are; 0 while they are not fixed yet."""
        match self.tokens:
            case "bytes":
                return 256
            case "characters":
                return len(self.vocabulary) + 1 if self.vocabulary else 0
            case "bpe":
                return _bpe_size(self.tokenizer) if self.tokenizer else 0

    def check(self) -> None:
        super().check()
        if len(self.vocabulary) > MOST_CHARACTERS or any(len(character) != 1 for character in self.vocabulary):
            raise TaskError(why=f"vocabulary is not up to {MOST_CHARACTERS} single characters")
        if len(set(self.vocabulary)) < len(self.vocabulary):
            raise TaskError(why="vocabulary has a character twice")
        if self.tokenizer:
            _bpe_size(self.tokenizer)


class TaskSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A task: its data's form, its model and its training values.

    `validation` and `test` are shares of the data, 0 to 0.4. `widths` are those of the hidden layers of "mlp".
    `clip` bounds the norm of a step's gradient, `patience` is how many rounds without a better validation loss end
    training; 0 is none of it. `privacy_clip` bounds the norm of what a member sends in a round, `privacy_noise` is the
    deviation of the noise on it, in multiples of that bound; 0 is none of it. See `trainer.privacy`.
    """

    id: str
    title: str
    text: str
    form: Images | Table | Text
    model: str
    widths: tuple[int, ...] = ()
    optimiser: Literal["adamw", "adam", "sgd"] = "adamw"
    lr: float = 1e-3
    weight_decay: float = 0.01
    schedule: Literal["constant", "cosine"] = "constant"
    warmup_steps: int = 0
    clip: float = 0.0
    patience: int = 0
    batch: int = 32
    local_steps: int = 20
    local_epochs: float = 0.0  # above 0: local steps are counted by these instead
    rounds: int = 12
    min_members: int = 2
    privacy_clip: float = 0.0
    privacy_noise: float = 0.0
    seed: int = 42
    validation: float = 0.1
    test: float = 0.15
    sample: Literal["", "digits", "penguins", "shakespeare"] = ""  # which sample data fits, if any ships

    @property
    def kind(self) -> str:
        """"images" | "table" | "text"."""
        return type(self.form).__struct_config__.tag  # type: ignore[return-value]

    @property
    def survey_rounds(self) -> int:
        """So many first rounds train nothing but agree on figures of all data: mean and spread of a table's numbers."""
        return 2 if self.kind == "table" else 0

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes in the order of the model's outputs; () where none are predicted or they are not fixed yet."""
        return () if isinstance(self.form, Text) else self.form.classes

    @property
    def images(self) -> Images:
        """The form of a task for pictures; TaskError for another one."""
        if not isinstance(self.form, Images):
            raise TaskError(why="it is not a task for pictures")
        return self.form

    def changed(self, **values: Any) -> Self:
        """A copy with these fields, of the task or its form, changed; TaskError, naming the field, when one is unknown
        or not valid.
        """
        form = {key: values.pop(key) for key in list(values) if key in self.form.__struct_fields__}
        for key in values:
            if key not in self.__struct_fields__:
                raise TaskError(why=f"“{key}” is not a key of a task")
        whole = msgspec.to_builtins(self) | values
        whole["form"] = msgspec.to_builtins(whole["form"]) | form
        return type(self).from_json(msgspec.json.encode(whole))

    def with_classes(self, names: Iterable[str]) -> Self:
        """The task for these classes, sorted: how a host fixes the order for its room. At least 2 are needed."""
        classes = sorted({class_name(name) for name in names})
        if len(classes) < 2:
            raise TooLittleDataError(place="the folder", have="one class" if classes else "no class", need="2 classes")
        return self.changed(classes=classes)

    def to_json(self) -> str:
        """The task as JSON text, for a room, a model file or a task file."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Reads what `to_json` wrote. TaskError with the key when it is malformed or out of range."""
        if len(text) > LARGEST_TEXT:
            raise TaskError(why=f"it is longer than {LARGEST_TEXT // 1024} kB")
        try:
            spec = msgspec.json.decode(text, type=cls)
        except msgspec.ValidationError as error:
            raise TaskError(why=_in_words(str(error))) from error
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise TaskError(why="it is not written as JSON") from error
        spec.check()
        return spec

    def check(self) -> None:
        """Raises TaskError for the first value that no task can have."""
        for key, (low, high) in RANGES.items():
            check_range(key, getattr(self, key), low, high)
        self.form.check()
        if self.model not in MODELS[self.kind]:
            raise TaskError(why=f"model is {self.model[:40]}; for {self.kind} allowed: {', '.join(MODELS[self.kind])}")
        if self.privacy_noise and not self.privacy_clip:
            raise TaskError(why="privacy_noise is a multiple of privacy_clip, which is 0")
        if len(self.widths) > 16 or not all(1 <= width <= 4096 for width in self.widths):
            raise TaskError(why="widths are too many or not between 1 and 4096")
        if self.model in SIDES:
            low, high = SIDES[self.model]
            if not all(low <= side <= high for side in (self.images.height, self.images.width)):
                raise TaskError(why=f"the model {self.model} reads pictures of {low} to {high} points a side")
        if not self.id or len(self.id) > LONGEST_NAME or len(self.title) > 200 or len(self.text) > 2000:
            raise TaskError(why="id, title or text is missing or too long")

    def schema_digest(self) -> str:
        """Hex digest of what members must agree on so that their models fit together: the form and the model."""
        schema = [self.form, self.model, self.widths]
        return hashlib.blake2b(msgspec.json.encode(schema), digest_size=16).hexdigest()


class _Bpe(msgspec.Struct):
    """What a tokenizer's JSON says of its vocabulary."""

    vocab: dict[str, int]


class _Tokenizer(msgspec.Struct):
    model: _Bpe


@functools.cache
def _bpe_size(tokenizer: str) -> int:
    """How many tokens a tokenizer's JSON names; TaskError when it cannot be read."""
    try:
        vocabulary = msgspec.json.decode(tokenizer, type=_Tokenizer).model.vocab
    except (msgspec.MsgspecError, RecursionError) as error:
        raise TaskError(why="its tokenizer cannot be read") from error
    if sorted(vocabulary.values()) != list(range(len(vocabulary))):
        raise TaskError(why="its tokenizer does not number its tokens from 0 on")
    return len(vocabulary)


def check_range(key: str, value: float, low: float, high: float) -> None:
    """TaskError, naming the key, when a value lies outside."""
    if not (math.isfinite(value) and low <= value <= high):
        raise TaskError(why=f"{key} is {value:g}; allowed: {low:g} to {high:g}")


def check_classes(classes: tuple[str, ...]) -> None:
    """TaskError when these cannot be the classes of a task. None at all: they are not fixed yet."""
    if len(classes) == 1 or len(classes) > MOST_CLASSES:
        raise TaskError(why=f"it has {len(classes)} classes; allowed: 2 to {MOST_CLASSES}")
    for name in classes:
        if name != class_name(name) or not 0 < len(name) <= LONGEST_NAME:
            raise TaskError(why=f"“{name[:LONGEST_NAME]}” cannot be the name of a class")
    if len(set(classes)) < len(classes):
        raise TaskError(why="two classes have the same name")


def class_name(raw: str) -> str:
    """The name of a class from a folder's name: white space around and within collapsed, in composed Unicode.

    macOS writes “Ü” as two characters where Windows writes one; uncomposed they would be two classes.
    """
    return " ".join(unicodedata.normalize("NFC", raw).split())


def _in_words(message: str) -> str:
    """msgspec's “Expected `int`, got `str` - at `$.batch`” as “batch: expected int, got str”."""
    text, _, place = message.replace("`", "").partition(" - at $")
    key = re.sub(r"^\.", "", place)
    return f"{key}: {text[0].lower()}{text[1:]}" if key else text[0].lower() + text[1:]
