"""What the window's side asks of the trainer thread and what that says back: one frozen message per meaning."""

from __future__ import annotations

from typing import Any

import msgspec

from desktop.rounds.messages import Values
from desktop.rounds.policy import RoomPolicy
from desktop.state import Confidence, DataView, Edit, Frozen, ModelRow


class Command(Frozen):
    """Base of what the trainer thread is asked."""


class WarmUp(Command):
    """Import torch; answered by `TorchReady`."""

    threads: int


class ListModels(Command):
    """Look into the folder of saved models; answered by `Models`."""

    folder: str


class Measure(Command):
    """Find out how large a task's model is, and how fast this computer trains it; answered by `Measured`."""

    task: str


class ReadSample(Command):
    """Use the task's sample data: part `share` of how many."""

    task: str  # JSON of a tasks.spec.TaskSpec
    share: tuple[int, int] = (1, 1)


class ReadData(Command):
    """Read these files and folders as data for the task, as the person changed it, step by step.

    What the task's form leaves open (classes, columns, characters) is fixed by what is found; else it is the room's.
    """

    task: str
    paths: tuple[str, ...]
    edits: tuple[tuple[Edit, ...], ...] = ()


class ForgetData(Command):
    """Forget what was read."""


class Start(Command):
    """Train with the data that was read. Peers come from the transport."""

    task: str
    policy: RoomPolicy
    backend: str
    founder: bool
    name: str
    models_folder: str


class Change(Command):
    """Let the whole room train so from the next round on. Where that cannot be: `NotChanged`.

    `new` names only what the person changed, so that of quick edits none undoes another: see `rounds` `Values.changed`.
    """

    new: dict[str, Any]


class Stop(Command):
    """End after the batch in hand; keep the last committed weights and save them as a model."""


class Leave(Command):
    """Tell the room good-bye; what was committed is kept."""


class TryPicture(Command):
    """Let the model read a picture file, or the held-out sample of this index."""

    path: str = ""
    index: int = -1


class Said(Frozen):
    """Base of what the trainer thread says."""


class TorchReady(Said):
    """torch is imported. `backends` that this computer has."""

    backends: tuple[str, ...]
    version: str


class Models(Said):
    """Saved models, newest first."""

    rows: tuple[ModelRow, ...]


class Measured(Said):
    """Answer to `Measure`; None is not known: data decides it, or the model is too large to try."""

    task: str
    parameters: int | None
    samples_per_s: float | None


class DataRead(Said):
    """State of reading; `task` has the classes filled in once the view is usable."""

    view: DataView
    task: str = ""


class Begun(Said):
    """Training began: what is trained, on what."""

    backend: str
    model: str
    parameters: int
    samples: int


class Point(Frozen):
    """One training step. `accuracy` is 0..1; a task that predicts a number has `error`, the mean absolute one."""

    step: int
    loss: float
    accuracy: float | None = None
    error: float | None = None


class Seat(Frozen):
    """What a member does, as the leader knows it."""

    peer: str
    phase: str
    round: int


class Progress(Said):
    """Where training stands; at most 10 per second. `points` are the steps since the last one."""

    phase: str
    round: int
    step: int
    epoch: float
    round_progress: float
    begun: bool  # a first round was announced
    inside: bool
    leading: bool
    leader: str
    digest: str
    waiting_on: tuple[str, ...] = ()
    waiting_since_s: float = 0.0
    missing: int = 0
    left_s: float = 0.0
    deadline_s: float = 0.0
    quorum: int = 1
    seats: tuple[Seat, ...] = ()
    fetched: float = 1.0
    local_steps: int = 0  # mine of the round in hand; by epochs, others' may be more or less
    weights: tuple[tuple[str, float], ...] = ()  # what each contributor's update weighs in the latest exchange
    values: Values = Values()
    wanted: Values = Values()  # from the next round on, as far as is known
    steps_per_s: float = 0.0
    samples_per_s: float = 0.0
    points: tuple[Point, ...] = ()


class RoundCommitted(Said):
    """Validation after a round: my own part, and the room's (weighted by samples), as far as it has come.

    `accuracy` is None where nothing is right or wrong; `figures` are named as in `state.SessionState.metrics`.
    """

    round: int
    step: int
    loss: float | None
    accuracy: float | None
    figures: dict[str, float] = msgspec.field(default_factory=dict)
    room_loss: float | None = None
    room_accuracy: float | None = None
    room_figures: dict[str, float] = msgspec.field(default_factory=dict)


class Noted(Said):
    """Something to know, with the peer that it is about."""

    severity: str
    text: str
    peer: str = ""


class NotChanged(Said):
    """The room goes on with these values, those that are wanted already among them; the sentence says why."""

    sentence: str
    values: Values


class Failed(Said):
    """Training ended with an error; the sentence says what to do. `lost_data`: the data must be read again."""

    sentence: str
    lost_data: bool = False


class FinalModel(Said):
    """Training ended: `complete` after all rounds, else by Stop. `path` is "" when nothing was committed or saved."""

    complete: bool
    round: int
    digest: str
    path: str
    test_accuracy: float | None
    test_samples: int
    test_figures: dict[str, float] = msgspec.field(default_factory=dict)
    samples: tuple[bytes, ...] = ()  # a few held-out pictures to try


class Prediction(Said):
    """How the model reads a picture."""

    picture: bytes
    name: str
    confidences: tuple[Confidence, ...] = ()
    error: str = ""
