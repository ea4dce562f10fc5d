"""What the round engine asks of its surroundings: frozen actions, carried out in the order given.

The engine never touches a number. Whoever runs it (the trainer, or the simulator) carries the actions out one
at a time, so that the trainer can return to its event loop between two of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from desktop.rounds.messages import PeerId, Plan, RoundMessage, Stamp, Values


@dataclass(frozen=True, slots=True)
class Action:
    """Base of all actions."""


@dataclass(frozen=True, slots=True)
class Send(Action):
    """Send a message without payload."""

    to: PeerId
    message: RoundMessage


@dataclass(frozen=True, slots=True)
class Train(Action):
    """Train from the committed weights; answer with `RoundEngine.trained`."""

    round: int
    values: Values


@dataclass(frozen=True, slots=True)
class StopTraining(Action):
    """Drop the local work of this round."""

    round: int


@dataclass(frozen=True, slots=True)
class BeginExchange(Action):
    """Forget contributions and results of earlier attempts."""

    plan: Plan


@dataclass(frozen=True, slots=True)
class Contribute(Action):
    """Send my update of one bucket to its reducer, as a `Contribution`."""

    stamp: Stamp
    bucket: int
    to: PeerId
    precision: str


@dataclass(frozen=True, slots=True)
class Keep(Action):
    """Keep a contribution for `Reduce`; if it cannot be used, answer with `RoundEngine.unusable`."""

    stamp: Stamp
    bucket: int
    peer: PeerId
    payload: object


@dataclass(frozen=True, slots=True)
class Reduce(Action):
    """Combine the contributions of one bucket, keep the rounded result, and send it to `to` as a `Result`.

    Answer with `RoundEngine.reduced`.
    """

    stamp: Stamp
    bucket: int
    shares: tuple[tuple[PeerId, float], ...]
    to: tuple[PeerId, ...]
    precision: str


@dataclass(frozen=True, slots=True)
class KeepResult(Action):
    """Keep the result of one bucket until the commit; if unusable, answer with `RoundEngine.unusable`."""

    stamp: Stamp
    bucket: int
    peer: PeerId
    payload: object


@dataclass(frozen=True, slots=True)
class DigestResults(Action):
    """Digest of the committed weights plus the results; answer with `RoundEngine.digested`."""

    stamp: Stamp


@dataclass(frozen=True, slots=True)
class DigestBase(Action):
    """Digest of the committed weights; answer with `RoundEngine.base_digested`."""

    round: int


@dataclass(frozen=True, slots=True)
class ApplyResults(Action):
    """Add the results of these buckets to the committed weights: the round is committed.

    `work` says what becomes of my work: "counted", and with it what I carried; "carried" into a later contribution; ""
    for neither. Answer with `RoundEngine.not_applied` when the result of a bucket is not here after all.
    """

    round: int
    buckets: tuple[int, ...]
    work: str = ""


@dataclass(frozen=True, slots=True)
class DropCarried(Action):
    """Forget the work of earlier rounds that is carried."""


@dataclass(frozen=True, slots=True)
class Validate(Action):
    """Run the committed weights on my validation part; answer with `RoundEngine.validated`."""

    round: int


@dataclass(frozen=True, slots=True)
class SendSnapshot(Action):
    """Send one bucket of the committed weights, as a `SnapshotBucket` of `round`."""

    to: PeerId
    round: int
    bucket: int


@dataclass(frozen=True, slots=True)
class Restore(Action):
    """Put a bucket of committed weights in place; if unusable, answer with `RoundEngine.unusable_snapshot`."""

    bucket: int
    peer: PeerId
    payload: object
    round: int


@dataclass(frozen=True, slots=True)
class Note(Action):
    """Tell the person: severity "info", "care" or "bad"."""

    severity: str
    text: str
    peer: PeerId = ""


@dataclass(frozen=True, slots=True)
class Finished(Action):
    """All rounds are committed."""

    round: int
