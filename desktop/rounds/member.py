"""A member's part in a round: train, say ready, exchange, apply, commit.

{diagram}
"""

from __future__ import annotations

from desktop.rounds.actions import (
    ApplyResults,
    BeginExchange,
    Contribute,
    DigestResults,
    DropCarried,
    Finished,
    Keep,
    KeepResult,
    Reduce,
    StopTraining,
    Train,
    Validate,
)
from desktop.rounds.exchange import Exchange
from desktop.rounds.fetch import Fetch
from desktop.rounds.machine import Machine, Table, every
from desktop.rounds.messages import (
    Announce,
    Applied,
    Commit,
    Complaint,
    Contribution,
    Pause,
    PeerId,
    Plan,
    Ready,
    Refused,
    Result,
    Stamp,
    Standing,
)
from desktop.rounds.room import NEVER, Room

UNHEARD = "I did not hear whether it counted"
CARRIED_ROUNDS = 8  # how long late work is carried: what was learnt from older weights is of little use
PHASES = Table(
    "idle",
    {
        **every(("idle", "syncing", "training", "ready", "exchanging", "applied"), "announced", "training"),
        **every(("idle", "syncing", "training", "ready", "exchanging", "applied"), "kept", "ready"),
        ("training", "trained"): "ready",
        **every(("idle", "syncing", "training", "ready", "exchanging", "applied"), "planned", "exchanging"),
        ("exchanging", "complete"): "applied",
        **every(("exchanging", "applied"), "paused", "idle"),
        **every(("idle", "syncing", "training", "ready", "exchanging", "applied"), "committed", "idle"),
        **every(("idle", "training", "ready", "exchanging", "applied"), "behind", "syncing"),
        ("syncing", "whole"): "idle",
        **every(("idle", "training", "ready", "exchanging", "applied", "syncing"), "out", "idle"),
        ("done", "reopened"): "idle",
        **every(("idle", "applied"), "finished", "done"),
    },
)
__doc__ = (__doc__ or "").replace("{diagram}", PHASES.diagram())

Early = dict[tuple[type, int], tuple[Contribution | Result, object]]  # by kind and bucket


class Member:
    """One member's machine. The leader has one too: it is a member like any other."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self.machine = Machine(PHASES)
        self.fetch = Fetch(room)
        self.exchange: Exchange | None = None
        self.precision = room.values.precision  # of the exchange in hand
        self._last: Announce | None = None  # the latest announcement
        self._training = 0  # the round whose local steps are running, 0 for none
        self._work: tuple[int, int] | None = None  # (round, samples) of finished local work
        self._cut = 0  # the round whose local steps were cut short by its plan
        self._carried = 0  # the oldest round whose work I carry into my next contribution, 0 for none
        self._digest = ""  # digest of weights plus results of the exchange in hand
        self._early: dict[PeerId, Early] = {}  # what came before its plan, by sender

    @property
    def phase(self) -> str:
        """State of the machine: a key of the diagram above."""
        return self.machine.state

    # -- a round, in the order in which it happens --

    def announced(self, message: Announce) -> None:
        """The leader names the round to train."""
        room = self._room
        changes = room.values.changes(message.values)
        if room.begun and changes:
            room.note("info", f"From round {message.round} on: {changes}.", room.view.leader)
        room.begun = True
        self._last = message
        if room.round >= message.round and room.whole:
            # The leader missed a commit that I have: it must hear so before it plans anything.
            room.send(room.view.leader, Standing(room.view.term, room.round, room.digest, room.whole))
            return
        self.catch_up(message.round - 1, message.base_digest)
        room.values = message.values
        if room.values.late == "drop":
            self.drop_carried("late work is dropped from now on")
        self._drop_exchange()
        self.machine.fire("reopened")  # where all rounds were done, there are more now
        if not room.whole or self.phase == "syncing":
            self.behind()  # in the latter case the digest of what was fetched is still being made
        elif self._work is not None and self._work[0] == message.round:
            self.machine.fire("kept")
            self._say_ready(*self._work)
        else:
            again = self.phase == "training"
            self.machine.fire("announced")
            self._cut = 0
            if not again or self._training != message.round:
                self._training = message.round
                room.do(Train(message.round, message.values))

    def catch_up(self, round_: int, digest: str) -> None:
        """The room's weights are those of `round_`: commit what I hold of it, else fetch them."""
        room = self._room
        if round_ == room.round + 1 and self._holds(round_, digest):
            self._commit(round_, digest)  # only the commit message was lost on the way
        elif round_ > room.round:
            room.round, room.digest = round_, digest
            self.drop_carried(UNHEARD)
            self.out()
            self.behind()
        elif round_ < room.round and not room.whole:
            self._go_back(round_, digest)
        elif round_ == room.round and digest and digest != room.digest:
            if room.digest:
                self._replaced()
            room.digest = digest

    def _go_back(self, round_: int, digest: str) -> None:
        """The later round that I heard of is lost, or never was: the room goes on from an earlier one."""
        room = self._room
        room.round, room.digest = round_, digest
        room.versions = [version if version <= round_ else NEVER for version in room.versions]
        self._work = None
        self.drop_carried("it was made from other weights")
        self.out()
        self.machine.fire("reopened")
        self.behind()

    def _replaced(self) -> None:
        """The room went on from other weights of my last round than those that I hold."""
        self._room.note("care", f"The room holds other weights of round {self._room.round}; I fetch them.")
        self._work = None
        self.drop_carried("it was made from other weights")
        self.out()
        self.machine.fire("reopened")
        self.fetch.again()

    def enter(self, round_: int, digest: str) -> None:
        """I was let in: the room's weights are those of `round_`, whatever I held before."""
        room = self._room
        if (round_, digest) != (room.round, room.digest):
            room.round, room.digest = round_, digest
            self._work = None
            self.drop_carried("it was made from other weights")
            self.fetch.again()
            self.machine.fire("reopened")

    def paused(self, message: Pause) -> None:
        """No round now. Work that is done or under way is kept for when the room goes on."""
        self.catch_up(message.round, message.base_digest)
        self._room.values = message.values
        if self.machine.fire("paused"):
            self._drop_exchange()
        if not self._room.whole:
            self.behind()

    def refused(self, message: Refused) -> None:
        """My work for this round is of no use to the others: it is not sent again."""
        if self._work is not None and self._work[0] == message.stamp.round:
            self._work = None

    def trained(self, round_: int, samples: int) -> None:
        """My local steps are done; 0 samples say that nothing usable came of them."""
        if self.phase == "training" and round_ == self._room.round + 1:
            self.machine.fire("trained")
            self._training = 0
            self._work = (round_, samples) if samples else None
            self._say_ready(round_, samples)

    def _say_ready(self, round_: int, samples: int) -> None:
        room = self._room
        room.send(room.view.leader, Ready(self._stamp(round_), samples, room.uplink))

    def planned(self, plan: Plan) -> None:
        """The leader says who contributes and who reduces; also a new attempt of the same round."""
        room = self._room
        if plan.stamp.round != room.round + 1 or (self.exchange and plan.stamp <= self.exchange.stamp):
            return
        self.precision = plan.precision
        if self.phase == "training":
            room.do(StopTraining(plan.stamp.round))
            self._training = 0
            self._cut = plan.stamp.round
            if room.values.late == "drop":
                room.note("care", f"My work for round {plan.stamp.round} came too late and was left out.", room.me)
        self._digest = ""
        self.exchange = Exchange(room.me, plan, room.view.members)
        self.machine.fire("planned")
        room.do(BeginExchange(plan))
        for bucket, peer in self.exchange.outgoing():
            room.do(Contribute(plan.stamp, bucket, peer, plan.precision))
        self._reduce()
        early, self._early = self._early, {}
        for sender, theirs in early.items():
            for message, payload in theirs.values():
                self.bulk(sender, message, payload)
        self._complain_about_lost()

    def bulk(self, sender: PeerId, message: Contribution | Result, payload: object) -> None:
        """A contribution or a result. One that comes before its plan waits for it; an old one is dropped."""
        current = self.exchange.stamp if self.exchange else Stamp(self._room.round + 1, -1, -1)
        if message.stamp > current:
            self._keep_early(sender, message, payload)
            return
        if message.stamp < current or self.exchange is None:
            return
        if isinstance(message, Contribution):
            why = self.exchange.take_contribution(sender, message.bucket)
            if not why:
                self._room.do(Keep(message.stamp, message.bucket, sender, payload))
                self._reduce()
        else:
            why = self.exchange.take_result(sender, message.bucket)
            if not why:
                self._room.do(KeepResult(message.stamp, message.bucket, sender, payload))
                self._check_complete()
        if not why:
            if self.exchange:
                self.exchange.heard[sender] = self._room.now
        else:
            self._room.note("care", f"Dropped a message of {self._room.name(sender)}: {why}.", sender)

    def _keep_early(self, sender: PeerId, message: Contribution | Result, payload: object) -> None:
        """The sender may have heard of the plan before me.

        Bounded: of each sender what belongs to its newest attempt, and of all no more than a round is made of; who
        sends more than the others is the first whose numbers are dropped.
        """
        room = self._room
        if message.stamp.round > room.round + 2 or not 0 <= message.bucket < room.buckets:
            return  # a commit and a plan may be on their way to me, no more
        theirs = self._early.setdefault(sender, {})
        newest = max((kept.stamp for kept, _ in theirs.values()), default=message.stamp)
        if message.stamp < newest:
            return
        if message.stamp > newest:
            theirs.clear()
        theirs[type(message), message.bucket] = (message, payload)
        if self.early > 2 * (room.buckets + len(room.connected) + 1):
            max(self._early.values(), key=len).popitem()

    @property
    def early(self) -> int:
        """How many payloads I hold that came before their plan."""
        return sum(map(len, self._early.values()))

    def _reduce(self) -> None:
        assert self.exchange is not None
        reducible = self.exchange.reducible()
        if not reducible:
            return
        shares = tuple((share.peer, share.weight) for share in self.exchange.plan.shares)
        others = tuple(peer for peer in self._room.view.members if peer != self._room.me)
        for bucket in reducible:
            self._room.do(Reduce(self.exchange.stamp, bucket, shares, others, self.precision))

    def reduced(self, stamp: Stamp, bucket: int) -> None:
        """A bucket of mine is combined and on its way to the others."""
        if self.exchange and self.exchange.stamp == stamp and not self.exchange.take_result(self._room.me, bucket):
            self._check_complete()

    def _check_complete(self) -> None:
        if self.exchange and self.exchange.complete and self._room.whole and self.phase == "exchanging":
            self.machine.fire("complete")
            self._room.do(DigestResults(self.exchange.stamp))

    def digested(self, stamp: Stamp, digest: str) -> None:
        """The digest of my weights with all results added."""
        if self.exchange and self.exchange.stamp == stamp and self.exchange.complete:
            self._digest = digest
            self._room.send(self._room.view.leader, Applied(stamp, digest))

    def committed(self, message: Commit) -> None:
        """The leader says that the round counts."""
        if message.stamp.round != self._room.round + 1:
            return
        if self.exchange and message.stamp != self.exchange.stamp:
            self._drop_exchange()
        self._commit(message.stamp.round, message.digest)

    def _settle_work(self, round_: int) -> str:
        """A round is committed: what becomes of my work, as `ApplyResults` says it. Nothing is lost without a word."""
        room, exchange = self._room, self.exchange
        finished = self._work is not None and self._work[0] == round_
        if exchange is None:
            self.drop_carried(UNHEARD)
            if finished and room.values.late == "carry":
                room.note("care", f"My work for round {round_} is not carried on: {UNHEARD}.", room.me)
            return ""
        if exchange.contributes:
            oldest, self._carried = self._carried, 0
            if oldest:
                room.note("info", f"My work since round {oldest} that was late went into round {round_}.", room.me)
            return "counted" if oldest else ""
        if round_ - self._carried >= CARRIED_ROUNDS:
            self.drop_carried("it is too old")
        if room.values.late == "carry" and (finished or self._cut == round_):
            room.note("info", f"My work for round {round_} was late; I carry it into my next contribution.", room.me)
            self._carried = self._carried or round_
            return "carried"
        if finished:
            room.note("care", f"My work for round {round_} was left out.", room.me)
        return ""

    def drop_carried(self, why: str) -> None:
        """What I carry will never count."""
        if self._carried:
            self._room.note("care", f"My late work since round {self._carried} is left out: {why}.", self._room.me)
            self._carried = 0
            self._room.do(DropCarried())

    def _holds(self, round_: int, digest: str) -> bool:
        return bool(self.exchange and self.exchange.stamp.round == round_ and self._digest == digest)

    def _commit(self, round_: int, digest: str) -> None:
        room = self._room
        results = self.exchange.results if self.exchange else set()
        was_whole = room.whole
        usable = [bucket for bucket in sorted(results) if room.versions[bucket] == round_ - 1]
        for bucket in usable:
            room.versions[bucket] = round_
        differs = bool(self._digest) and self._digest != digest
        checked = self._digest == digest and was_whole  # else what came from others may not be what the room has
        work = self._settle_work(round_)
        room.round, room.digest = round_, digest
        room.do(ApplyResults(round_, tuple(usable), work))
        if self.phase == "training":
            room.do(StopTraining(round_))
        self._drop_exchange()
        self._work = None
        self._training = 0
        if differs:
            room.note("care", f"My weights differed after round {round_}; they are fetched anew.", room.me)
            self.fetch.again()
        if not room.whole or not checked or self.phase == "syncing":
            self.behind(told=was_whole and self.phase != "syncing")
            return
        self.machine.fire("committed")
        room.do(Validate(round_))
        if round_ >= room.values.rounds:
            self.machine.fire("finished")
            self.drop_carried("that was the last round")
            room.do(Finished(round_))

    # -- what goes wrong --

    def behind(self, told: bool = True) -> None:
        """My weights are not those of the room: fetch them."""
        self.machine.fire("behind")
        room = self._room
        if told:
            room.send(room.view.leader, Standing(room.view.term, room.round, room.digest, False))
        self.fetch.work()

    def base_digested(self, round_: int, digest: str) -> None:
        """The digest of fetched weights: they are the room's, or are fetched once more."""
        room = self._room
        self.fetch.checked()
        if round_ != room.round or not room.whole:
            self.fetch.work()
        elif room.digest and digest != room.digest:
            room.note("care", "The weights that came were not the room's; they are fetched once more.")
            self.fetch.again()
            self.fetch.work()
        else:
            self.machine.fire("whole")
            room.send(room.view.leader, Standing(room.view.term, room.round, digest, True))
            if room.round >= room.values.rounds and self.machine.fire("finished"):
                room.do(Validate(room.round))
                self.drop_carried("that was the last round")
                room.do(Finished(room.round))
            elif self.phase == "exchanging":
                self._check_complete()
            elif self._last and self._last.view == room.view and self._last.round == room.round + 1:
                self.announced(self._last)  # the round is under way: take part if there is time

    def unusable(self, stamp: Stamp, peer: PeerId, why: str) -> None:
        """A payload of this peer could not be used: it is told, and the leader plans without it."""
        room = self._room
        room.note("bad", f"A contribution of {room.name(peer)} was refused: {why}.", peer)
        if peer == room.me:
            self._work = None
        else:
            room.send(peer, Refused(stamp, why))
        room.send(room.view.leader, Complaint(stamp, peer, why))

    def not_applied(self, buckets: tuple[int, ...]) -> None:
        """The round is committed, but I could not use the results of these buckets: fetch them."""
        for bucket in buckets:
            self.fetch.again(bucket)
        self.out()
        self.machine.fire("reopened")
        self.behind()

    def lost(self, peer: PeerId) -> None:
        """A peer is gone: if the exchange needs it, the leader must know."""
        if self.exchange and self.phase == "exchanging" and peer in self.exchange.lacking():
            self._room.send(self._room.view.leader, Complaint(self.exchange.stamp, peer, "lost"))

    def _complain_about_lost(self) -> None:
        assert self.exchange is not None
        for peer in self.exchange.lacking():
            if peer != self._room.me and peer not in self._room.connected:
                self.lost(peer)

    def out(self) -> None:
        """I am no longer in the view: what I trained for it does not count."""
        if self.phase == "training":
            self._room.do(StopTraining(self._room.round + 1))
        self._drop_exchange()
        self._training = 0
        self.machine.fire("out")

    def _drop_exchange(self) -> None:
        self.exchange = None
        self._digest = ""
        for sender, theirs in list(self._early.items()):
            if all(message.stamp.round <= self._room.round for message, _ in theirs.values()):
                del self._early[sender]

    def _stamp(self, round_: int) -> Stamp:
        return Stamp(round_, *self._room.view.order)
