"""A task that a person makes: every value of it declared once, checked as it is typed, kept as a file to hand on."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from desktop.errors import OptionError, TaskError, TaskFileError, TaskSaveError
from desktop.state import DraftGroup, DraftView, SettingRow
from desktop.tasks.builtin import TASKS
from desktop.tasks.spec import LARGEST_TEXT, MODELS, TaskSpec, class_name
from desktop.values import TASK_SUFFIX, Choice, Real, Text, Whole, checked

OWN = "own"  # the id of every task that a person made
KINDS = ("images", "table", "text")  # of data; each also the id of the built-in task that a draft begins with


class Field(NamedTuple):
    """One value: how it is called, what it may be, and how it stands in a task."""

    key: str
    title: str
    text: str
    kind: Any  # of desktop.values
    read: Callable[[TaskSpec], str]
    write: Callable[[str], dict[str, Any]]  # fields of the task, or of its form
    fits: Callable[[TaskSpec], bool] = lambda spec: True


def _plain(key: str, title: str, text: str, kind: Any, *, of: str = "") -> Field:
    """A value that a task has under the same key; `of`: only tasks for this kind of data."""
    def read(spec: TaskSpec) -> str:
        value = getattr(spec.form if key in spec.form.__struct_fields__ else spec, key)
        return f"{value:g}" if isinstance(value, float) else str(value)

    return Field(key, title, text, kind, read, lambda typed: {key: kind.read(typed)},
                 lambda spec: not of or spec.kind == of)


def _listed(key: str, title: str, text: str, fits: Callable[[TaskSpec], bool]) -> Field:
    """Names, separated by commas."""
    kind = Text("names separated by commas, or nothing", r"(?s).*", 20_000)
    return Field(key, title, text, kind, lambda spec: ", ".join(getattr(spec.form, key)),
                 lambda typed: {key: [name for part in typed.split(",") if (name := class_name(part))]}, fits)


def _widths(typed: str) -> dict[str, Any]:
    try:
        return {"widths": [int(part) for part in typed.split(",") if part.strip()]}
    except ValueError:
        raise OptionError(key="widths", value=typed, allowed="whole numbers separated by commas") from None


def _has_classes(spec: TaskSpec) -> bool:
    return spec.kind == "images" or (spec.kind == "table" and getattr(spec.form, "goal", "") == "classes")


def _side(key: str, title: str) -> Field:
    return _plain(key, title, "Pictures are brought to this size, the whole picture, in points.", Whole(8, 512),
                  of="images")


FIELDS: dict[str, tuple[Field, ...]] = {
    "What it is": (
        _plain("title", "Name", "What the others read before they join.",
               Text("up to 200 characters", r".{1,200}", 200)),
        _plain("text", "In a sentence", "What the model learns.", Text("up to 500 characters", r".{0,500}", 500)),
    ),
    "Data": (
        _listed("classes", "Classes", "Separated by commas. Empty: your own data decides when you open the room.",
                _has_classes),
        _side("height", "Height"),
        _side("width", "Width"),
        Field("channels", "Colour", "Colour tells more; grey is quicker.", Choice(("grey", "colour")),
              lambda spec: "colour" if spec.images.channels == 3 else "grey",
              lambda typed: {"channels": 3 if typed == "colour" else 1}, lambda spec: spec.kind == "images"),
        _plain("label", "Column to predict", "As the table's first line names it.",
               Text("up to 100 characters", r".{1,100}", 100), of="table"),
        _plain("goal", "What is predicted", "classes: one of several words. number: an amount.",
               Choice(("classes", "number")), of="table"),
        _plain("tokens", "Tokens", "What text is cut into. bpe learns frequent pieces of words from your own text.",
               Choice(("bytes", "characters", "bpe")), of="text"),
        _plain("block", "Block", "How many tokens the model sees at once.", Whole(8, 1024), of="text"),
    ),
    "Model": (
        Field("model", "Model", "Small ones train quickly and travel lightly.", None, lambda spec: spec.model,
              lambda typed: {"model": typed}),
        Field("widths", "Hidden layers", "Their widths, separated by commas, such as 64, 32.",
              Text("whole numbers separated by commas", r"[0-9, ]*", 200),
              lambda spec: ", ".join(map(str, spec.widths)), _widths, lambda spec: spec.model == "mlp"),
    ),
    "Training": (
        _plain("optimiser", "Optimiser", "adamw suits most tasks.", Choice(("adamw", "adam", "sgd"))),
        _plain("lr", "Learning rate", "How far one step goes.", Real(0, 10, open_low=True)),
        _plain("weight_decay", "Weight decay", "Keeps weights small; 0 is none.", Real(0, 10)),
        _plain("schedule", "Schedule", "cosine lets the learning rate fall to nothing by the last round.",
               Choice(("constant", "cosine"))),
        _plain("warmup_steps", "Warm-up, steps", "Steps over which the learning rate rises first.",
               Whole(0, 10_000_000)),
        _plain("clip", "Gradient norm", "The most that a step's gradient may measure; 0 is no limit.", Real(0, 1e6)),
        _plain("batch", "Batch", "Samples in one step.", Whole(1, 65_536)),
        _plain("local_steps", "Local steps", "Steps on one's own data between two exchanges.", Whole(1, 100_000)),
        _plain("local_epochs", "Local epochs", "The same counted by passes through one's data; 0: by steps.",
               Real(0, 1000)),
        _plain("rounds", "Rounds", "How often the room exchanges what it learnt.", Whole(1, 1_000_000)),
        _plain("patience", "Patience, rounds", "Ends after so many rounds without a better result; 0: never.",
               Whole(0, 1_000_000)),
        _plain("min_members", "Members to start with", "The room starts when this many are ready.", Whole(1, 64)),
    ),
    "Privacy": (
        _plain("privacy_clip", "Most that a member changes",
               "The norm of what a member sends in a round is brought down to this; 0 is no limit.", Real(0, 1e6)),
        _plain("privacy_noise", "Noise",
               "Random numbers that each member adds to what it sends, in multiples of that limit; 0 is none.",
               Real(0, 1000)),
    ),
}
BY_KEY = {field.key: field for fields in FIELDS.values() for field in fields}


class Draft:
    """The task in the making. A value that cannot be is named where it stands, and the one before it is kept."""

    def __init__(self, spec: TaskSpec) -> None:
        self.spec = spec
        self._errors: dict[str, str] = {}

    @classmethod
    def begin(cls, kind: str = "images", spec: TaskSpec | None = None) -> Draft:
        """From a task that is there, else from the built-in one for this kind of data."""
        return cls((spec or TASKS[kind]).changed(id=OWN, sample=""))

    def set(self, key: str, text: str) -> None:
        """Take a value as it was typed; "kind" begins anew for another kind of data."""
        if key == "kind":
            if text in KINDS and text != self.spec.kind:
                self.spec, self._errors = Draft.begin(text).spec, {}
            return
        field = BY_KEY[key]
        self._errors.pop(key, None)
        try:
            if field.kind is not None:
                checked(key, text, field.kind)
            self.spec = self.spec.changed(**field.write(text))
        except (OptionError, TaskError) as error:
            self._errors[key] = error.sentence

    @property
    def error(self) -> str:
        """The first value that cannot be; "" when all can."""
        return next(iter(self._errors.values()), "")

    def view(self, parameters: int | None = None, samples_per_s: float | None = None) -> DraftView:
        """What the window shows. Parameters and speed are those that the trainer found, if it has."""
        groups = tuple(
            DraftGroup(title=title, rows=tuple(self._row(field) for field in fields if field.fits(self.spec)))
            for title, fields in FIELDS.items())
        return DraftView(kind=self.spec.kind, kinds=KINDS, groups=groups, error=self.error,
                         parameters=parameters, samples_per_s=samples_per_s)

    def _row(self, field: Field) -> SettingRow:
        value = field.read(self.spec)
        own = field.key in ("title", "text", "classes", "label")  # nothing to go back to
        default = value if own else field.read(TASKS[self.spec.kind])
        choices = MODELS[self.spec.kind] if field.key == "model" else getattr(field.kind, "choices", ())
        return SettingRow(key=field.key, title=field.title, text=field.text, value=value, default=default,
                          kind="choice" if choices else field.kind.row, choices=tuple(choices),
                          error=self._errors.get(field.key, ""))


def save_task(spec: TaskSpec, path: Path) -> Path:
    """Writes the task as a readable file, whole or not at all; TaskSaveError says why not."""
    path = path if path.suffix == TASK_SUFFIX else path.with_name(path.name + TASK_SUFFIX)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_bytes(msgspec.json.format(spec.to_json().encode(), indent=2) + b"\n")
        os.replace(part, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        raise TaskSaveError(place=path.name, why=error.strerror or "it cannot be written") from error
    return path


def load_task(path: Path) -> TaskSpec:
    """Reads a task file; TaskFileError with the place and the key that is wrong."""
    try:
        with path.open("rb") as file:
            text = file.read(LARGEST_TEXT + 1)
        return TaskSpec.from_json(text)
    except OSError as error:
        raise TaskFileError(place=path.name, why=error.strerror or "it cannot be read") from error
    except TaskError as error:
        raise TaskFileError(place=path.name, why=str(error.details["why"])) from error
