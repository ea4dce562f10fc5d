"""What a task is: one frozen record that a room fixes for all its members, checked when it comes from outside."""

from __future__ import annotations

import hashlib
import math
import re
import unicodedata
from collections.abc import Iterable
from typing import Any, Literal, Self

import msgspec

from desktop.errors import TaskError, TooLittleDataError

LARGEST_TEXT = 256 * 1024  # bytes of a task from a peer or a file
MOST_CLASSES = 1000
LONGEST_NAME = 100

RANGES: dict[str, tuple[float, float]] = {
    "height": (8, 512), "width": (8, 512), "lr": (1e-8, 10.0), "batch": (1, 65_536), "local_steps": (1, 100_000),
    "rounds": (1, 1_000_000), "seed": (0, 2**63 - 1), "validation": (0.0, 0.4), "test": (0.0, 0.4),
}


class TaskSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A task: its data's form, its model and its training values.

    `classes` are in the order of the model's outputs. `strokes` says that pictures are bright strokes on black, as
    the sample digits are (see `pictures.strokes`). `validation` and `test` are shares of the data, 0 to 0.4.
    """

    id: str
    title: str
    text: str
    kind: Literal["images"] = "images"
    classes: tuple[str, ...] = ()
    height: int
    width: int
    channels: Literal[1, 3]
    strokes: bool = False
    model: Literal["digits-cnn", "small-cnn"]
    optimiser: Literal["adamw", "adam", "sgd"] = "adamw"
    lr: float = 1e-3
    batch: int = 32
    local_steps: int = 20
    rounds: int = 12
    seed: int = 42
    validation: float = 0.1
    test: float = 0.15
    sample: Literal["", "digits"] = ""  # which sample data fits, if any ships

    def changed(self, **values: Any) -> Self:
        """A copy with these fields changed; TaskError, naming the field, when one is unknown or not valid."""
        for key in values:
            if key not in self.__struct_fields__:
                raise TaskError(why=f"“{key}” is not a key of a task")
        return type(self).from_json(msgspec.json.encode(msgspec.to_builtins(self) | values))

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
            value = getattr(self, key)
            if not (math.isfinite(value) and low <= value <= high):
                raise TaskError(why=f"{key} is {value:g}; allowed: {low:g} to {high:g}")
        if self.model == "digits-cnn" and max(self.height, self.width) > 64:
            raise TaskError(why="the model digits-cnn reads pictures of at most 64 × 64 points")
        if not self.id or len(self.id) > LONGEST_NAME or len(self.title) > 200 or len(self.text) > 2000:
            raise TaskError(why="id, title or text is missing or too long")
        if len(self.classes) == 1 or len(self.classes) > MOST_CLASSES:
            raise TaskError(why=f"it has {len(self.classes)} classes; allowed: 2 to {MOST_CLASSES}")
        for name in self.classes:
            if name != class_name(name) or not 0 < len(name) <= LONGEST_NAME:
                raise TaskError(why=f"“{name[:LONGEST_NAME]}” cannot be the name of a class")
        if len(set(self.classes)) < len(self.classes):
            raise TaskError(why="two classes have the same name")

    def schema_digest(self) -> str:
        """Hex digest of what members must agree on so that their models fit together: classes, form, model."""
        schema = [self.kind, self.classes, self.channels, self.height, self.width, self.strokes, self.model]
        return hashlib.blake2b(msgspec.json.encode(schema), digest_size=16).hexdigest()


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
