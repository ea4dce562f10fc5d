"""What will be trained: task, data and training values, as the person has chosen them so far."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from desktop.bridge import lifecycle as life
from desktop.errors import OptionError, TaskError
from desktop.options import Options, validate
from desktop.rounds.messages import Outer, Values
from desktop.rounds.policy import RoomPolicy
from desktop.settings import Settings
from desktop.state import DataView, Edit, TrainingValues
from desktop.tasks.builtin import TASKS
from desktop.tasks.spec import TaskSpec


class Setup:
    """Task, data, values. The data itself is read and kept by the trainer; here is only what is known of it."""

    def __init__(self, options: Options, settings: Settings, do: Callable[[life.Command], None]) -> None:
        self._options, self._settings, self._do = options, settings, do
        self.spec: TaskSpec | None = None
        self.chosen_task: TaskSpec | None = None  # the same before my data filled in what it leaves open
        self.data: DataView | None = None
        self.values = TrainingValues()
        self.share = options.share
        self.start_members = settings.min_members
        self._decided: RoomPolicy | None = None  # by the host of the room that I joined
        self._source: tuple[str, ...] = () if options.data in (None, "sample") else (str(options.data),)
        self._edits: tuple[tuple[Edit, ...], ...] = ()  # what the person changed about it, step by step
        self._own_schema = False  # whether my data decides what the task leaves open

    @property
    def source(self) -> tuple[str, ...]:
        """The files and folders that my data comes from; () for sample data and for none."""
        return self._source

    @property
    def usable(self) -> bool:
        """Whether the data can be trained on."""
        return self.data is not None and self.data.usable

    # -- task --

    def choose(self, task: str) -> None:
        """Take a built-in task, with the values that the options give."""
        self.take(TASKS[task].changed(seed=self._settings.seed))

    def take(self, task: TaskSpec) -> None:
        """Take any task, with the values that the options give."""
        options = self._options
        given = {key: getattr(options, key) for key in ("batch", "lr", "local_steps", "rounds")}
        spec = task.changed(**{key: value for key, value in given.items() if value is not None})
        keys = ("precision", "local_epochs", "weighting", "topology", "outer", "outer_lr", "outer_momentum", "late")
        more = {key: value for key in keys if (value := getattr(options, key)) is not None}
        if options.local_steps is not None:
            spec = spec.changed(local_epochs=0.0)
        values = {key: getattr(spec, key) for key in ("rounds", "local_steps", "local_epochs", "batch", "lr")}
        self._take(spec, TrainingValues(**values | more))

    def take_room(self, task: str, policy: str) -> bool:
        """Take what a room's host has decided (JSON); whether data must be read (again) for it.

        TaskError when the host sent something else.
        """
        spec = TaskSpec.from_json(task)
        try:
            self._decided = msgspec.json.decode(policy, type=RoomPolicy)
        except msgspec.MsgspecError as error:
            raise TaskError(why=f"its policy cannot be read: {error}") from error
        had = self.usable
        self._take(spec, shown(self._decided.values))
        self.start_members = self._decided.start_members
        return not (had and self.usable) and bool(self._source or self._options.data == "sample")

    def _take(self, spec: TaskSpec, values: TrainingValues) -> None:
        if self.spec is not None and self.spec.schema_digest() != spec.schema_digest():
            self.data = None
            self._do(life.ForgetData())
        self.spec = self.chosen_task = spec
        self.values = values

    def take_values(self, values: Values) -> None:
        """What the leader announced."""
        self.values = shown(values)

    def set_value(self, key: str, text: str) -> dict[str, Any]:
        """Change one training value; what is another now. OptionError says what is allowed."""
        changed = {key: validate(key.replace("_", "-"), text)}
        if key == "local_steps":
            changed["local_epochs"] = 0.0  # from now on by steps
        self.values = msgspec.structs.replace(self.values, **changed)
        return changed

    # -- data --

    def read_again(self) -> None:
        """Read what was chosen before, for a task that has changed."""
        if self._source:
            self._own_schema = False
            self._read()
        else:
            self.read_sample()

    def read_sample(self) -> None:
        """Use the sample data that ships with the task."""
        if self.spec is None or not self.spec.sample:
            raise OptionError(key="data", value="sample", allowed="a folder: this task has no sample data")
        self._source = ()
        self.data = DataView(title="Sample data", source="sample", reading="Reading the sample data")
        self._do(life.ReadSample(task=self.spec.to_json(), share=self.share))

    def read_data(self, paths: tuple[str, ...], *, own_schema: bool) -> None:
        """Use files and folders; `own_schema`: they decide what the classes or columns are (in a room the host's did).
        """
        self._source, self._edits, self._own_schema = paths, (), own_schema
        self._read()

    def edit(self, edits: tuple[Edit, ...]) -> None:
        """Read my data with these changes as well."""
        if self._source:
            self._edits = (*self._edits, edits)
            self._read()

    def undo(self) -> None:
        """Take the last step of changes back."""
        if self._edits:
            self._edits = self._edits[:-1]
            self._read()

    def _read(self) -> None:
        assert self.spec is not None
        assert self.chosen_task is not None
        spec = self.chosen_task if self._own_schema else self.spec
        first = self._source[0]
        self.data = DataView(title=Path(first).name, source=first, reading=f"Reading {Path(first).name}",
                             edits=self._edits)
        self._do(life.ReadData(task=spec.to_json(), paths=self._source, edits=self._edits))

    def clear_data(self) -> None:
        """Forget the data."""
        self.data, self._source, self._edits = None, (), ()
        self._do(life.ForgetData())

    def data_read(self, said: life.DataRead) -> None:
        """The trainer has read on; with the last answer the task has its classes."""
        self.data = said.view
        if said.task and self.spec is not None:
            self.spec = TaskSpec.from_json(said.task)

    def why_not(self) -> str:
        """What is missing before anything can be trained; "" for nothing."""
        if self.spec is None:
            return "Choose a task first."
        if self.data is None:
            return "Choose your data first."
        if self.data.reading:
            return "Your data is being read."
        if not self.data.usable:
            return self.data.error or "This data cannot be used."
        if self.values.rounds <= self.spec.survey_rounds:
            return f"The first {self.spec.survey_rounds} rounds only agree on how large numbers are. Train for more."
        return ""

    # -- what is handed on --

    def task_json(self) -> str:
        """The task with the values chosen."""
        assert self.spec is not None
        v = self.values
        return self.spec.changed(batch=v.batch, lr=v.lr, local_steps=v.local_steps, local_epochs=v.local_epochs,
                                 rounds=v.rounds).to_json()

    @property
    def chosen(self) -> Values:
        """The values chosen, as the rounds know them."""
        v = self.values
        return Values(rounds=v.rounds, local_steps=v.local_steps, precision=v.precision, batch=v.batch, lr=v.lr,
                      local_epochs=v.local_epochs, weighting=v.weighting, topology=v.topology,
                      outer=Outer(v.outer, v.outer_lr, v.outer_momentum), late=v.late)

    def policy(self, mode: str) -> RoomPolicy:
        """How rounds go on. A demo goes on when its other windows are closed; people wait for a second one."""
        values = self.chosen
        if mode == "join" and self._decided is not None:
            return dataclasses.replace(self._decided, values=values)
        start = 1 if mode == "alone" else self.start_members
        return RoomPolicy(values=values, start_members=start, min_members=1 if mode == "demo" else min(2, start))

    def policy_json(self, mode: str) -> str:
        """The same for a newcomer."""
        return msgspec.json.encode(self.policy(mode)).decode()


def shown(values: Values) -> TrainingValues:
    """Values as the window shows them."""
    outer = values.outer
    return TrainingValues(batch=values.batch, lr=values.lr, local_steps=values.local_steps, rounds=values.rounds,
                          precision=values.precision, local_epochs=values.local_epochs, weighting=values.weighting,
                          topology=values.topology, outer=outer.kind, outer_lr=outer.lr, outer_momentum=outer.momentum,
                          late=values.late)
