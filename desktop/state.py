"""The frozen snapshots that the window renders, and nothing else.

`WindowState` is all that the window shows; its `session` is what a script reads in the report
(`--report`), field for field what a person sees.
"""

from __future__ import annotations

from typing import dataclass_transform

import msgspec

STEPS = ("task", "data", "room", "train", "try")
PAGES = ("first", *STEPS, "make", "models", "network", "settings", "help")


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class Frozen(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all snapshots: immutable, compared by value."""


# -- the session: what the report holds -------------------------------------------------------------


class Moving(Frozen):
    """A large message on its way to or from a member. `left_s` is None as long as nothing has come through."""

    outgoing: bool
    done_bytes: int
    total_bytes: int
    left_s: float | None = None


class MemberRow(Frozen):
    """One member of the room, this window included (`you`)."""

    peer: str
    name: str
    you: bool = False
    backend: str = ""
    role: str = "member"  # "leader" | "member"
    link: str = ""  # "you" | "direct" | "relay" | "via NAME" | "connecting" | "lost"
    lanes: dict[str, int] = {}  # open ones by kind: "webrtc", "tls", "via"
    tries: int = 0  # failed ones since it was last connected, or connected directly
    next_try_s: float | None = None
    rtt_ms: float | None = None
    sent_bytes: int = 0
    received_bytes: int = 0
    moving: tuple[Moving, ...] = ()
    round: int = 0
    last_seen_s: float = 0.0
    candidates: str = ""  # of the chosen pair, e.g. "host → host, 4 gathered"; "" when not known
    state: str = ""  # "training" | "ready" | "exchanging" | "waiting" | "getting the weights" | "lost" | "done"
    state_for_s: float = 0.0
    weight: float | None = None  # of its update in the latest exchange, 0..1; None: it had no part in it
    training_share: float = 0.0  # of the time since Start, 0..1
    exchanging_share: float = 0.0


class Policy(Frozen):
    """When a round goes on: with `quorum` of `n` members, after `deadline_s` at the latest; what each member weighs."""

    quorum: int = 1
    n: int = 1
    beat_ms: int = 500
    deadline_s: float = 0.0
    weighting: str = "samples"  # "samples": as many as it trained on | "equal"
    late: str = "drop"  # work that misses its round: "drop" | "carry" into the member's next contribution


class Fault(Frozen):
    """One thing that went wrong or changed, in words."""

    at: str  # ISO 8601, UTC
    severity: str  # "info" | "care" | "bad"
    text: str
    peer: str = ""


class LoopLag(Frozen):
    """Lag of the window's event loop in ms since torch was imported."""

    p50: float = 0.0
    p99: float = 0.0
    max: float = 0.0


class Final(Frozen):
    """What is left when training has ended."""

    model_path: str = ""
    test_accuracy: float | None = None  # None also where nothing is right or wrong
    test_samples: int = 0
    metrics: dict[str, float] = {}  # on the same samples, as in SessionState


class SessionState(Frozen):
    """One session as people and scripts see it."""

    peer: str = ""
    name: str = ""
    role: str = "member"
    # "idle" | "loading" | "waiting" | "training" | "exchanging" | "syncing" | "stopping", and at the end
    # "done" | "stopped" | "failed"
    state: str = "idle"
    waiting_for: str = ""  # the reason for a wait, with names and seconds; "" when nothing is waited for
    backend: str = "cpu"
    task: str = ""
    model: str = ""
    parameters: int = 0
    scheme: str = "butterfly"
    precision: str = "f32"
    room: str = ""
    invite: str = ""  # the room's link
    members: tuple[MemberRow, ...] = ()
    round: int = 0  # last committed round
    rounds: int = 0  # how many there will be
    step: int = 0
    epoch: float = 0.0
    local_steps: int = 0
    local_epochs: float = 0.0  # above 0: local steps are counted by these instead
    outer: str = "none"  # outer optimiser: "none" | "momentum" | "nesterov"
    outer_lr: float = 0.7
    outer_momentum: float = 0.9
    topology: str = "butterfly"
    round_progress: float = 0.0  # of the round in hand, 0..1
    batch: int = 0
    lr: float = 0.0
    loss: float | None = None
    accuracy: float | None = None  # of the last step, as the loss; None where nothing is right or wrong
    validation_loss: float | None = None  # of the room, weighted by samples
    validation_accuracy: float | None = None
    # Further figures of the room's validation, those that fit the task: "f1" (mean of the classes'), for two classes
    # "auc"; for a number "mae" (mean absolute error) and "r2"; for text "perplexity". F1, AUC and R² are means of the
    # members' figures by their samples, the others are those of all samples together.
    metrics: dict[str, float] = {}
    samples_per_s: float = 0.0
    steps_per_s: float = 0.0
    bytes_per_s: float = 0.0
    seconds_left: float | None = None
    policy: Policy = Policy()
    digest: str = ""
    faults: tuple[Fault, ...] = ()
    loop_lag_ms: LoopLag = LoopLag()
    import_gap_ms: float = 0.0  # the one stop of the window while torch was imported
    final: Final | None = None


# -- what only the window shows -----------------------------------------------------------------------


class Curve(Frozen):
    """Points of one line, thinned out to what a chart can show. x is the step."""

    x: tuple[float, ...] = ()
    y: tuple[float, ...] = ()


class Curves(Frozen):
    """The lines of the Train page: mine by step (training), mine and the room's by round (validation).

    A task that predicts a number has errors (mean absolute ones) and no accuracies.
    """

    loss: Curve = Curve()
    accuracy: Curve = Curve()
    error: Curve = Curve()
    validation_loss: Curve = Curve()
    validation_accuracy: Curve = Curve()
    validation_error: Curve = Curve()
    room_loss: Curve = Curve()
    room_accuracy: Curve = Curve()
    room_error: Curve = Curve()


class TaskCard(Frozen):
    """A task to choose."""

    id: str
    title: str
    text: str  # one or two plain sentences
    data: str  # what data it wants, in words
    kind: str = "images"  # "images" | "table" | "text"
    model: str = ""
    sample: bool = False  # sample data ships with the program


class ClassCard(Frozen):
    """One class of my data, with up to 12 thumbnails (PNG bytes)."""

    name: str
    count: int
    thumbnails: tuple[bytes, ...] = ()
    left_out: bool = False  # the room does not have it


class Edit(Frozen):
    """One thing that a person changed about how data is read.

    what        name                                              value
    "class"     a class as its folder or label calls it           what it is called instead; "" leaves it out
    "skip"      path of a file                                    "": it is left out
    "reading"   "separator" | "decimal" | "encoding" | "sheet"    how the table or text is read, instead of as detected
    "role"      a column                                          "number" | "category" | "label" | "ignore"
    """

    what: str
    name: str
    value: str = ""


class Finding(Frozen):
    """One thing to look at in the data. `skip` and `fix` are what a click on these does; empty: not offered."""

    severity: str  # "info" | "care" | "bad"
    title: str
    text: str
    files: tuple[str, ...] = ()
    skip: tuple[Edit, ...] = ()
    fix: tuple[Edit, ...] = ()
    fix_text: str = ""  # of the button, e.g. "Leave this column out"


class ColumnView(Frozen):
    """One column of a table."""

    name: str
    role: str  # "number" | "category" | "label" | "ignore"
    detected: str  # what its values look like, in words, e.g. "whole numbers", "3 categories", "text", "dates"
    detail: str = ""  # e.g. "32.1 to 59.6, 2 missing"


class TableView(Frozen):
    """A table as it was understood. `separator`, `decimal` and `encoding` are "" where a spreadsheet has none."""

    columns: tuple[ColumnView, ...] = ()
    rows: int = 0
    preview: tuple[tuple[str, ...], ...] = ()  # the first rows as they stand in the file, a text for each column
    goal: str = "classes"  # "classes" | "number"
    separator: str = ""
    decimal: str = ""
    encoding: str = ""
    sheet: str = ""
    sheets: tuple[str, ...] = ()


class TextView(Frozen):
    """Text as it was understood."""

    files: int = 0
    characters: int = 0
    tokens: int = 0
    encoding: str = ""
    sample: str = ""  # how it begins


class DataView(Frozen):
    """My data as the program understood it."""

    title: str = ""
    source: str = ""  # "sample" or the path
    reading: str = ""  # "" when done, else what is being read
    progress: float | None = None
    classes: tuple[ClassCard, ...] = ()
    training: int = 0
    validation: int = 0
    test: int = 0
    shape: str = ""  # e.g. "any → 64 × 64, upright, colour"
    findings: tuple[Finding, ...] = ()
    error: str = ""  # why it cannot be used; "" when it can
    usable: bool = False
    table: TableView | None = None
    text: TextView | None = None
    score: int | None = None  # how good the data is, 0..100
    score_text: str = ""  # the same in a few words
    edits: tuple[tuple[Edit, ...], ...] = ()  # what the person changed, step by step; the last step is undone first


class TrainingValues(Frozen):
    """How a room trains; while it does, its leader can change these from the next round on."""

    batch: int = 32
    lr: float = 0.001
    local_steps: int = 20
    rounds: int = 12
    precision: str = "f32"
    local_epochs: float = 0.0  # above 0: local steps are counted by these instead
    weighting: str = "samples"
    outer: str = "none"
    outer_lr: float = 0.7
    outer_momentum: float = 0.9
    topology: str = "butterfly"  # all members share the reducing | "star": the leader does it
    late: str = "drop"


class NearbyRoom(Frozen):
    """A room announced on the LAN."""

    room: str
    host: str
    task: str
    members: int
    address: str  # "host:port"


class RoomView(Frozen):
    """The room this window is in, or is about to join."""

    room: str = ""
    hosting: bool = False
    host: str = ""
    state: str = ""  # "opening" | "open" | "joining" | "joined" | "failed" | ""
    error: str = ""
    link: str = ""
    code: str = ""
    address: str = ""
    task: str = ""
    start_members: int = 2


class PathsView(Frozen):
    """What the preflight check says of this computer's ways to others; it may run again while this stands."""

    state: str = ""  # "" | "checking" | "done"
    severity: str = ""  # "good" | "info" | "care" | "bad"; "" before the first one is done
    title: str = ""
    text: str = ""
    details: tuple[str, ...] = ()  # the facts, one a line
    at: str = ""  # local time, HH:MM


class PathRow(Frozen):
    """The path to one member, as ICE found it. Kinds of candidates: host, srflx, prflx, relay."""

    peer: str
    state: str = ""  # "connecting" | "open" | "lost"
    path: str = ""  # "host → srflx", mine first; "" while none is chosen
    gathered: str = ""  # "2 host, 1 srflx"
    remote: int = 0  # candidates of the other side


class Confidence(Frozen):
    """How sure the model is of one class, 0..1."""

    name: str
    value: float


class TryView(Frozen):
    """The model afterwards: its hit rate on the held-out part, and the last picture it read."""

    ready: bool = False
    test_accuracy: float | None = None
    test_samples: int = 0
    metrics: dict[str, float] = {}  # of the test, as in SessionState
    model_path: str = ""
    picture: bytes = b""  # PNG as the model sees it, enlarged
    picture_name: str = ""
    confidences: tuple[Confidence, ...] = ()
    samples: tuple[bytes, ...] = ()  # a few held-out pictures to click
    error: str = ""


class ModelRow(Frozen):
    """A saved model."""

    path: str
    title: str
    date: str
    rounds: int
    members: int
    test_accuracy: float | None
    size_bytes: int
    metrics: dict[str, float] = {}  # of the test, as in SessionState


class LogLine(Frozen):
    """One line of the log."""

    at: str  # local time, HH:MM:SS
    severity: str
    text: str


class Notice(Frozen):
    """A sentence that stays until it is put away."""

    id: int
    severity: str
    text: str


class SettingRow(Frozen):
    """A setting with its current value, as text."""

    key: str
    title: str
    text: str
    value: str
    kind: str  # "text" | "number" | "choice" | "switch"
    choices: tuple[str, ...] = ()
    default: str = ""
    error: str = ""  # why the last value was refused


class DraftGroup(Frozen):
    """Values of a task that belong together."""

    title: str
    rows: tuple[SettingRow, ...] = ()


class DraftView(Frozen):
    """A task that the person makes. `parameters` and `samples_per_s` on this computer are None until they are known."""

    kind: str = "images"  # of data
    kinds: tuple[str, ...] = ()
    groups: tuple[DraftGroup, ...] = ()
    error: str = ""  # the first value that cannot be
    parameters: int | None = None
    samples_per_s: float | None = None


class WindowState(Frozen):
    """All that the window shows."""

    page: str = "first"
    mode: str = ""  # "" | "host" | "join" | "alone" | "demo"
    done: tuple[str, ...] = ()  # steps of the path that are behind us
    name: str = ""
    device: str = ""  # e.g. "CPU · 1 of 2 cores"
    addresses: tuple[str, ...] = ()  # of this computer, at which others on the network can reach it
    ready: bool = False  # torch is there
    tasks: tuple[TaskCard, ...] = ()
    task: TaskCard | None = None
    draft: DraftView | None = None
    recent: tuple[str, ...] = ()  # paths of data used before, newest first
    values: TrainingValues = TrainingValues()
    data: DataView | None = None
    room: RoomView | None = None
    nearby: tuple[NearbyRoom, ...] = ()
    preflight: PathsView = PathsView()
    paths: tuple[PathRow, ...] = ()  # of all links, renewed every 3 s
    can_start: bool = False
    why_not_start: str = ""  # the reason that Start is disabled
    session: SessionState = SessionState()
    curves: Curves = Curves()
    try_: TryView = TryView()
    models: tuple[ModelRow, ...] = ()
    settings: tuple[SettingRow, ...] = ()
    log: tuple[LogLine, ...] = ()
    notices: tuple[Notice, ...] = ()
