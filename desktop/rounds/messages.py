"""What members say to each other about rounds: frozen messages, one class per meaning.

Every message that belongs to a round carries a `Stamp`, so that nothing counts in another round, view or
attempt than its own. Version, sender and schema digest travel in the envelope around it (`bridge.codec`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import ceil, isfinite
from typing import Any

PeerId = str
PRECISIONS = ("f32", "f16", "int8")  # in which updates travel
OUTER = ("none", "momentum", "nesterov")  # what is done to the mean of the updates before it is applied
LATE = ("drop", "carry")  # what becomes of work that missed its round: left out, or added to a later contribution
WEIGHTINGS = ("samples", "equal")  # what a member's update weighs: the samples it was made of, or as much as any other
TOPOLOGIES = ("butterfly", "star")  # who reduces: each member a part of the model, or the leader all of it
MOST_STEPS = 100_000_000  # of one round: more than an epoch of anything that fits into a computer
MOST_FIGURES, LONGEST_FIGURE = 8, 16  # named figures of a member's validation, characters of a name
LARGEST = 2**62  # of a round, a term or a number of a view: what is larger is refused, so that one more still fits


@dataclass(frozen=True, slots=True)
class View:
    """Who is in: a numbered list of members, longest-standing first. The first one leads.

    Views are ordered by (term, number): the term changes with the leader, the number with every change.
    """

    term: int = 0
    number: int = 0
    members: tuple[PeerId, ...] = ()

    @property
    def leader(self) -> PeerId:
        """The member that drives the rounds; "" in an empty view."""
        return self.members[0] if self.members else ""

    @property
    def order(self) -> tuple[int, int]:
        """What makes one view newer than another."""
        return (self.term, self.number)


@dataclass(frozen=True, slots=True, order=True)
class Stamp:
    """Where something belongs. Compares in the order in which things happen."""

    round: int
    term: int
    view: int
    attempt: int = 0


@dataclass(frozen=True, slots=True)
class Outer:
    """The outer optimiser: a step of SGD on the mean of all updates, once a round.

    "none" takes the mean as it is, whatever the other two say. The defaults are DiLoCo's (Douillard et al. 2023).
    """

    kind: str = "none"
    lr: float = 0.7
    momentum: float = 0.9

    @property
    def sound(self) -> bool:
        """Whether one can take steps with it."""
        numbers = isfinite(self.lr) and self.lr > 0 and 0 <= self.momentum < 1
        return self.kind in OUTER and numbers


@dataclass(frozen=True, slots=True)
class Values:
    """What the leader decides for all; changes count from the next announcement on.

    `local_epochs` above 0 counts local steps by passes through a member's own data, and `local_steps` is not used then.
    `late` says what becomes of a member's work that no round has counted: it is left out, or the member adds it to its
    next contribution, which weighs no more for that.
    """

    rounds: int = 12
    local_steps: int = 20
    precision: str = "f32"
    batch: int = 32
    lr: float = 0.001
    local_epochs: float = 0.0
    weighting: str = "samples"
    outer: Outer = Outer()
    topology: str = "butterfly"
    late: str = "drop"

    @property
    def sound(self) -> bool:
        """Whether one can train with them."""
        counts = 0 <= self.rounds <= LARGEST and 1 <= self.local_steps <= MOST_STEPS and 1 <= self.batch <= LARGEST
        reals = isfinite(self.lr) and self.lr > 0 and isfinite(self.local_epochs) and self.local_epochs >= 0
        words = (self.precision in PRECISIONS and self.weighting in WEIGHTINGS and self.topology in TOPOLOGIES
                 and self.late in LATE)
        return counts and reals and words and self.outer.sound

    def steps(self, samples: int) -> int:
        """Local steps of a round for a member with so many training samples."""
        if not self.local_epochs:
            return self.local_steps
        return min(MOST_STEPS, max(1, ceil(self.local_epochs * samples / min(self.batch, max(1, samples)))))

    @property
    def most_samples(self) -> int:
        """Samples that a member can have trained on in a round; 0 where that depends on its data."""
        return 0 if self.local_epochs else self.local_steps * self.batch

    def weight(self, samples: int) -> int:
        """What an update made of so many samples weighs, compared with others."""
        return samples if self.weighting == "samples" else 1

    def changed(self, new: Mapping[str, Any]) -> Values:
        """These values with some replaced. "outer", "outer_lr" and "outer_momentum" are the outer optimiser's.

        TypeError for a key that there is not.
        """
        inner = {"outer": "kind", "outer_lr": "lr", "outer_momentum": "momentum"}
        outer = {inner[key]: value for key, value in new.items() if key in inner}
        rest = {key: value for key, value in new.items() if key not in inner}
        return replace(self, outer=replace(self.outer, **outer), **rest)

    def changes(self, new: Values) -> str:
        """What is different in `new`, in words; "" for nothing."""
        parts = []
        if (self.local_steps, self.local_epochs) != (new.local_steps, new.local_epochs):
            parts.append(f"{new.local_epochs:g} local epochs" if new.local_epochs else f"{new.local_steps} local steps")
        if self.outer != new.outer:
            numbers = "" if new.outer.kind == "none" else f" {new.outer.lr:g}, {new.outer.momentum:g}"
            parts.append(f"outer optimiser {new.outer.kind}{numbers}")
        if self.weighting != new.weighting:
            parts.append("members weigh alike" if new.weighting == "equal" else "members weigh by samples")
        if self.topology != new.topology:
            parts.append("the leader adds up alone" if new.topology == "star" else "all share the adding up")
        if self.late != new.late:
            parts.append("late work is carried" if new.late == "carry" else "late work is dropped")
        named = (("precision", "precision"), ("batch", "batch"), ("lr", "learning rate"), ("rounds", "rounds"))
        parts += [f"{name} {getattr(new, key)}" for key, name in named if getattr(self, key) != getattr(new, key)]
        return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class RoundMessage:
    """Base of all messages about rounds."""


# -- membership -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Hello(RoundMessage):
    """Said to every peer as soon as it is connected: where I stand."""

    view: View
    round: int


@dataclass(frozen=True, slots=True)
class Join(RoundMessage):
    """Let me in, please. `round` and `digest` say which weights I hold, `reach` whom I have a link to."""

    round: int
    digest: str
    reach: tuple[PeerId, ...]


@dataclass(frozen=True, slots=True)
class Leave(RoundMessage):
    """I go. What I contributed to committed rounds stays."""


@dataclass(frozen=True, slots=True)
class TakeOver(RoundMessage):
    """The leader is lost and I am next: this is the view now. Answered by `Standing`."""

    view: View


@dataclass(frozen=True, slots=True)
class Standing(RoundMessage):
    """Answer to `TakeOver`: the round I committed last, with its digest, and whether my weights are whole."""

    term: int
    round: int
    digest: str
    synced: bool


@dataclass(frozen=True, slots=True)
class StaleView(RoundMessage):
    """You speak for a view that I do not follow: this one is mine, and `round` the last that I know it committed."""

    view: View
    round: int = 0


# -- a round ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Pause(RoundMessage):
    """No round now: `missing` more members are needed. Also how a newcomer learns the view."""

    view: View
    serial: int  # counts what this leader announces; what is not newer is a repeat
    round: int
    base_digest: str
    missing: int
    values: Values  # of the room: a newcomer that finds all rounds done must know how many there were


@dataclass(frozen=True, slots=True)
class Announce(RoundMessage):
    """Train `values.local_steps` steps from the weights of `round - 1`, whose digest is `base_digest`."""

    view: View
    serial: int
    round: int
    base_digest: str
    values: Values


@dataclass(frozen=True, slots=True)
class Ready(RoundMessage):
    """I have trained for this round on `samples` samples.

    `uplink` is what I can send, in bytes per second, by what others took of me in exchanges before; 0: not known.
    """

    stamp: Stamp
    samples: int
    uplink: float = 0.0


@dataclass(frozen=True, slots=True)
class Share:
    """One contributor of a plan, and what its update weighs (all weights sum to 1)."""

    peer: PeerId
    weight: float


@dataclass(frozen=True, slots=True)
class Plan(RoundMessage):
    """Who contributes what, and which contributor reduces which bucket (`reducers[bucket]`)."""

    stamp: Stamp
    shares: tuple[Share, ...]
    reducers: tuple[PeerId, ...]
    precision: str
    outer: Outer = Outer()

    @property
    def sound(self) -> bool:
        """Whether it can be carried out: nobody contributes twice, and every weight is a number."""
        peers = {share.peer for share in self.shares}
        weights = all(isfinite(share.weight) and share.weight >= 0 for share in self.shares)
        return len(peers) == len(self.shares) > 0 and weights and self.precision in PRECISIONS and self.outer.sound


@dataclass(frozen=True, slots=True)
class Applied(RoundMessage):
    """I hold every result of this attempt; with them my weights have this digest."""

    stamp: Stamp
    digest: str


@dataclass(frozen=True, slots=True)
class Commit(RoundMessage):
    """The round counts. Weights with another digest than this are fetched anew."""

    stamp: Stamp
    digest: str


@dataclass(frozen=True, slots=True)
class Metrics(RoundMessage):
    """How the committed weights of `round` do on my own validation part.

    `accuracy` is None where nothing is right or wrong; `figures` are further ones that fit the task, by short names.
    """

    round: int
    loss: float
    accuracy: float | None
    samples: int
    figures: dict[str, float] = field(default_factory=dict)

    @property
    def sound(self) -> bool:
        """Whether they can be added to those of others."""
        accuracy = self.accuracy is None or 0 <= self.accuracy <= 1
        names = len(self.figures) <= MOST_FIGURES and all(0 < len(name) <= LONGEST_FIGURE for name in self.figures)
        return accuracy and names and isfinite(self.loss) and all(isfinite(value) for value in self.figures.values())


@dataclass(frozen=True, slots=True)
class Seat:
    """One line of the leader's roster."""

    peer: PeerId
    phase: str
    round: int


@dataclass(frozen=True, slots=True)
class Beat(RoundMessage):
    """Sent each beat: by members to the leader what they do, by the leader to members what it waits for.

    `done` counts buckets that moved in the exchange, so that a transfer that still moves is never late;
    `lacking` names the peers from whom the sender still needs something.
    """

    term: int
    view: int
    round: int
    phase: str
    done: int = 0
    lacking: tuple[PeerId, ...] = ()
    deadline_s: float = 0.0
    left_s: float = 0.0
    quorum: int = 0
    roster: tuple[Seat, ...] = ()


@dataclass(frozen=True, slots=True)
class Complaint(RoundMessage):
    """To the leader: `peer` cannot take part in this attempt as I see it (lost, or sent what cannot be used)."""

    stamp: Stamp
    peer: PeerId
    why: str


@dataclass(frozen=True, slots=True)
class Refused(RoundMessage):
    """What you sent for this round cannot be used, and why."""

    stamp: Stamp
    why: str


# -- bulk: these have a payload ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Contribution(RoundMessage):
    """My update of one bucket, to the bucket's reducer. Payload: the update in wire precision."""

    stamp: Stamp
    bucket: int


@dataclass(frozen=True, slots=True)
class Result(RoundMessage):
    """The combined update of one bucket, to every member. Payload: the rounded result in wire precision."""

    stamp: Stamp
    bucket: int


@dataclass(frozen=True, slots=True)
class SnapshotRequest(RoundMessage):
    """Send me these buckets of your committed weights."""

    buckets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SnapshotBucket(RoundMessage):
    """One bucket of committed weights, as of `round`. Payload: float32, little endian."""

    round: int
    bucket: int


BULK = (Contribution, Result, SnapshotBucket)
ALL = (
    Hello, Join, Leave, TakeOver, Standing, StaleView, Pause, Announce, Ready, Plan, Applied, Commit, Metrics, Beat,
    Complaint, Refused, Contribution, Result, SnapshotRequest, SnapshotBucket,
)
