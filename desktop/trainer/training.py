"""One run of training: carries out what the round engine asks, in slices, with real numbers.

No Qt here: whoever owns it calls `slice()` again and again (the worker does so from its event loop), so that a
message or a stop is handled within one batch or one bucket.
"""

from __future__ import annotations

import logging
import math
import random
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from desktop.bridge import codec
from desktop.bridge.lifecycle import (
    Begun,
    Failed,
    FinalModel,
    NotChanged,
    Noted,
    Point,
    Progress,
    RoundCommitted,
    Said,
    Seat,
    Start,
)
from desktop.bridge.transport import PeerTransport
from desktop.errors import MessageError, PeerloomError, TrainingError
from desktop.library import store
from desktop.library.evaluate import BATCH, Evaluation, evaluate, perplexity
from desktop.library.try_image import sample_pictures
from desktop.rounds import actions as act
from desktop.rounds.engine import RoundEngine
from desktop.rounds.messages import Contribution, Metrics, Result, SnapshotBucket, Stamp, Values
from desktop.tasks.data import TaskData
from desktop.tasks.samples import Samples
from desktop.tasks.spec import TaskSpec
from desktop.trainer import memory, privacy, wire
from desktop.trainer.aggregate import Aggregation
from desktop.trainer.loop import LocalTraining, memory_ran_out
from desktop.trainer.plateau import Plateau

log = logging.getLogger(__name__)

HIGH_WATER = 8 * 1024 * 1024  # unacknowledged bytes to one peer above which nothing more is produced for it
REPORT_S = 0.1
DIVERGED_TRIES = 3
SAMPLES_TO_TRY = 12


@dataclass(frozen=True, slots=True)
class SendResult(act.Action):
    """Send a result that I have made. The buffer is one for all members, and is kept for the commit anyway."""

    stamp: Stamp
    buffer: memoryview


class Training:
    """Owns model, data, engine and aggregation of one run. Use from one thread."""

    def __init__(
        self,
        order: Start,
        data: TaskData,
        transport: PeerTransport,
        say: Callable[[Said], None],
        clock: Callable[[], float] = time.monotonic,
        bucket_bytes: int = wire.BUCKET_BYTES,
    ) -> None:
        self._order, self._transport, self._say, self._clock = order, transport, say, clock
        self.spec = TaskSpec.from_json(order.task)
        self._schema = self.spec.schema_digest()
        memory.spare()
        # Batches differ between members: the peer's id is the seed of what is its own.
        seed = random.Random(f"{self.spec.seed}/{transport.me}").getrandbits(32)
        try:
            self.local = LocalTraining(self.spec, data, order.backend, seed)
        except ValueError as error:
            raise TrainingError(why=str(error)) from error
        self.numbers = Aggregation(self.local.flat, bucket_bytes)
        start = next(digest for digest in self.numbers.digest() if digest)
        me = transport.me
        # By the task, which all have, and not by what a host says: else members would do different things.
        policy = replace(order.policy, survey_rounds=self.spec.survey_rounds)
        self.engine = RoundEngine(me, policy, len(self.numbers), start, founder=order.founder)
        self.engine.room.names[me] = order.name
        self._actions: deque[act.Action] = deque()
        self._held: dict[str, deque[act.Action]] = {}  # per peer above high water, in order
        self._largest = wire.size(self.numbers.count(0), "f32")  # of a payload that is of any use
        self._marked: set[tuple[str, str]] = set()  # (peer, what is wrong) that was told already
        self._job: Iterator[object] | None = None
        self._training_round = 0
        self._cut = 0  # local steps of the round in hand that its plan left undone
        self._owed = 0  # of an earlier round whose work is carried: only these are trained in the next one
        self._weights: dict[str, float] = {}  # of members' updates in the latest exchange
        self._diverged = 0
        self._points: list[Point] = []
        self._last_report = self._last_tick = float("-inf")
        self._rate: deque[tuple[float, int]] = deque(maxlen=50)
        self._validation: dict[int, tuple[int, Evaluation]] = {}
        self._plateau = Plateau(self.spec.patience)
        self._told: dict[int, RoundCommitted] = {}
        self.ended = False
        self._stopping = False

    # -- life --

    def begin(self) -> None:
        """Enter the room with everyone who is connected."""
        self._tell_begun()
        if clip := self.spec.privacy_clip:
            noise = self.spec.privacy_noise
            then = f", then noise of {noise:g} times that is added" if noise else ""
            self._say(Noted(severity="info", text=f"What I learn in a round is brought down to a norm of {clip:g} "
                                                  f"before it leaves{then}."))
        self.engine.begin(self._clock())
        self._transport.listen(self)
        for peer, name in list(self._transport.peers.items()):
            self.engine.connected(peer, name, self._clock())

    def _tell_begun(self) -> None:
        local = self.local
        self._say(Begun(backend=local.device.type, model=self.spec.model, parameters=local.parameters,
                        samples=len(local.data.train)))

    def stop(self) -> None:
        """End: the last committed weights are kept, tested and saved; the room hears that I leave."""
        if not self.ended and not self._stopping:
            self._stopping = True
            self.leave()

    def change(self, new: Mapping[str, Any]) -> None:
        """Let the whole room train so from the next round on: see `Values.changed`."""
        why = self.engine.change(new, self._clock())
        if why:
            self._say(NotChanged(sentence=f"Nothing was changed: {why}.", values=self.engine.wanted))

    def leave(self) -> None:
        """Say good-bye to the room and train no more."""
        self.local.cancel()
        self._training_round = 0
        self.engine.leave(self._clock())
        self._collect()
        for action in self._actions:
            if isinstance(action, act.Send):
                self._transport.send(action.to, codec.encode(action.message, self._schema), bulk=False)
            elif isinstance(action, act.Note):
                self._say(Noted(severity=action.severity, text=action.text, peer=action.peer))
        # A commit that was decided is carried out to its end, or the weights would be those of two rounds.
        committing = (act.KeepResult, act.ApplyResults, act.Restore)
        self._actions = deque(action for action in self._actions if isinstance(action, committing))
        self._held.clear()
        self._transport.listen(None)

    def free(self) -> None:
        """Give the memory back, when another run takes its place."""
        self._job = None
        self.local.free()
        self.numbers.free()

    @property
    def left(self) -> bool:
        """Whether `leave` was called: nothing is sent or heard any more."""
        return self.engine.has_left

    # -- TransportListener --

    def peer_connected(self, peer: str, name: str) -> None:
        self.engine.connected(peer, name, self._clock())

    def peer_lost(self, peer: str, reason: str) -> None:
        self._held.pop(peer, None)
        self._marked = {mark for mark in self._marked if mark[0] != peer}
        self.engine.lost(peer, self._clock())

    def received(self, peer: str, data: memoryview) -> None:
        try:
            schema, message, payload = codec.decode(data)
        except MessageError as error:
            self._mark(peer, "unreadable", f"{self._name(peer)}: {error.sentence}")
            return
        if schema != self._schema:
            self._mark(peer, "schema", f"{self._name(peer)} trains another task; its messages are dropped.")
            return
        if len(payload) > self._largest:  # it will be refused for its length; the rest need not be held until then
            payload = memoryview(bytes(payload[: self._largest + 1]))
        self.engine.received(peer, message, payload, self._clock())

    def _mark(self, peer: str, kind: str, text: str) -> None:
        """Tell once what is wrong with a peer, not with each of its messages."""
        if (peer, kind) not in self._marked:
            self._marked.add((peer, kind))
            self._say(Noted(severity="bad", text=text, peer=peer))

    # -- slices --

    def slice(self) -> float:
        """Do one piece of work; seconds until there is more (0: at once)."""
        now = self._clock()
        try:
            if not self.left:
                self._tick(now)
                self._collect()
            worked = self._one_piece()
        except PeerloomError as error:
            self._fail(error.sentence)
            worked = True
        self._report(now)
        return 0.0 if worked else min(REPORT_S, self._order.policy.beat_s / 2)

    def _tick(self, now: float) -> None:
        if now - self._last_tick >= self._order.policy.beat_s / 2:
            self._last_tick = now
            self.engine.tick(now)

    def _collect(self) -> None:
        self._actions.extend(self.engine.take())

    def _one_piece(self) -> bool:
        """A pending job's next slice, else the next action, else a batch or a piece of one."""
        if self._job is not None:
            if next(self._job, self) is self:
                self._job = None
            return True
        if self._release_held():
            return True
        if self._actions:
            self._carry_out(self._actions.popleft())
            return True
        if self.local.running:
            self._batch()
            return True
        if self._stopping and not self.ended:
            self._job = self._finish(complete=False)
            return True
        return self.numbers.digest_ahead()

    def _release_held(self) -> bool:
        """Send the next thing that waits, to the peer that has the least on its way."""
        unsent = {peer: self._transport.unsent(peer) for peer, waiting in self._held.items() if waiting}
        peer = min(unsent, key=unsent.__getitem__, default="")
        if not peer or unsent[peer] >= HIGH_WATER:
            return False
        self._send_bulk(peer, self._held[peer].popleft())
        return True

    def _batch(self) -> None:
        """A batch, or a piece of a large one."""
        point = self.local.step()
        if point is None:
            return
        self._points.append(point)
        self._rate.append((self._clock(), self.local.step_number))
        if not self.local.running:
            self._job = self._guarded()

    def _guarded(self) -> Iterator[object]:
        """What I learnt, as the task lets it leave."""
        spec, numbers = self.spec, self.numbers
        if spec.privacy_clip and self.local.samples:
            yield from privacy.guard(numbers.current, numbers.committed, numbers.slices, spec.privacy_clip,
                                     spec.privacy_noise)
        self._trained()

    def _trained(self) -> None:
        samples = self.local.samples
        if not samples:
            self._diverged += 1
            if self._diverged >= DIVERGED_TRIES:
                raise TrainingError(why="the loss is not a finite number any more; choose a lower learning rate")
            self._say(Noted(severity="bad", text="My training diverged in this round; its work is left out.",
                            peer=self._transport.me))
            self.local.forget_momentum()
        else:
            self._diverged = 0
        self.engine.room.uplink = self._transport.measure_uplink()
        self.engine.trained(self._training_round, samples, self._clock())
        self._training_round = 0

    # -- actions --

    def _carry_out(self, action: act.Action) -> None:
        now = self._clock()
        match action:
            case act.Send(to, message):
                self._transport.send(to, codec.encode(message, self._schema), bulk=False)
            case act.Train(round_, values):
                self._job = self._begin_steps(round_, values)
            case act.StopTraining():
                self._training_round = 0
                self._cut = self.local.left
                self.local.cancel()
            case act.BeginExchange(plan):
                self._weights = {share.peer: share.weight for share in plan.shares}
                contributes = self._transport.me in self._weights
                self.numbers.begin(plan.stamp, plan.precision, plan.outer, contributes=contributes)
                self._job = self._make_room()
                self._drop_held(act.Contribute, SendResult)
            case act.Contribute(to=to):
                self._held.setdefault(to, deque()).append(action)  # also below high water: what waits goes first
            case act.SendSnapshot(to, _, bucket):
                waiting = self._held.setdefault(to, deque())
                if not any(isinstance(other, act.SendSnapshot) and other.bucket == bucket for other in waiting):
                    waiting.append(action)  # else it asks once more for what it will get
            case act.Keep(stamp, bucket, peer, payload):
                self._try(lambda: self.numbers.keep(bucket, peer, payload, self._weights[peer]), stamp, peer)
            case act.Reduce():
                self._reduce(action)
            case act.KeepResult(stamp, bucket, peer, payload):
                self._try(lambda: self.numbers.keep_result(bucket, payload), stamp, peer)
            case act.DigestResults(stamp):
                if self.numbers.stamp == stamp:
                    self._job = self._digest_results(stamp)
            case act.DigestBase(round_):
                self._job = self._digest_base(round_)
            case act.ApplyResults(round_, buckets, work):
                self._drop_held(SendResult)  # who has heard of the commit takes no results any more
                if self.spec.privacy_clip:
                    work = ""  # what was cut short is not bounded yet: it is dropped, not carried
                self._owed = {"carried": self._cut, "counted": 0}.get(work, self._owed)
                self._job = self._apply(round_, buckets, work)
            case act.DropCarried():
                self._owed = 0
                self.numbers.drop_carried()
            case act.Validate(round_):
                self._job = self._validate(round_)
            case act.Restore(bucket, peer, payload, round_):
                try:
                    self.numbers.restore(bucket, round_, payload)
                except ValueError as error:
                    self.engine.unusable_snapshot(bucket, peer, str(error), now)
            case act.Note(severity, text, peer):
                self._say(Noted(severity=severity, text=text, peer=peer))
            case act.Finished():
                self._job = self._finish(complete=True)

    def _make_room(self) -> Iterator[object]:
        """For an exchange: what earlier ones and training left behind goes."""
        yield from self.numbers.freeing()
        memory.spare()
        yield None

    def _drop_held(self, *kinds: type[act.Action]) -> None:
        self._held = {peer: deque(action for action in waiting if not isinstance(action, kinds))
                      for peer, waiting in self._held.items()}

    def _begin_steps(self, round_: int, values: Values) -> Iterator[object]:
        """Go back to the committed weights, then train from there, or take stock of my data."""
        memory.keep()
        for bucket in range(len(self.numbers)):
            self.numbers.rewind(bucket)
            yield None
        if self.left:
            return
        if self.ended:  # all rounds were done, and the leader wants more
            self.ended = False
            self._tell_begun()
        self._training_round, self._cut = round_, 0
        if round_ <= self.spec.survey_rounds:
            yield from self.local.survey(round_)
            self._trained()
            return
        steps = values.steps(len(self.local.data.train))
        self.local.begin(min(steps, self._owed or steps), values.batch, values.lr,
                         (round_ - 1) * steps, values.rounds * steps)

    def _apply(self, round_: int, buckets: tuple[int, ...], work: str) -> Iterator[object]:
        surveyed = round_ <= self.spec.survey_rounds  # what was counted then is no work that could come in later
        yield from self.numbers.apply(round_, buckets, "" if surveyed else work)
        missed = tuple(bucket for bucket in buckets if self.numbers.versions[bucket] < round_)
        if missed:
            self.engine.not_applied(missed, self._clock())

    def _try(self, what: Callable[[], None], stamp: Stamp, peer: str) -> None:
        """A payload that cannot be used is refused; one of an earlier attempt is of no interest any more."""
        if self.numbers.stamp != stamp:
            return
        try:
            what()
        except ValueError as error:
            self.engine.unusable(stamp, peer, str(error), self._clock())

    def _send_bulk(self, to: str, action: act.Action) -> None:
        numbers = self.numbers
        match action:
            case SendResult(buffer=buffer):
                self._transport.send(to, buffer, bulk=True)
                return
            case act.Contribute(stamp, bucket, _, precision):
                if numbers.stamp != stamp:
                    return
                message: Contribution | SnapshotBucket = Contribution(stamp, bucket)
                buffer, payload = codec.reserve(message, self._schema, wire.size(numbers.count(bucket), precision))
                wire.encode(numbers.update(bucket), precision, payload)
            case act.SendSnapshot(_, _, bucket):
                # The version is read here: rounds may have been committed while this waited.
                message = SnapshotBucket(numbers.versions[bucket], bucket)
                buffer, payload = codec.reserve(message, self._schema, wire.size(numbers.count(bucket), "f32"))
                numbers.snapshot(bucket, payload)
            case _:
                raise AssertionError(action)
        payload.release()
        self._transport.send(to, buffer, bulk=True)

    def _reduce(self, action: act.Reduce) -> None:
        numbers, stamp, bucket = self.numbers, action.stamp, action.bucket
        if numbers.stamp != stamp or not numbers.has_all(bucket, action.shares, self._transport.me):
            return  # one of them was refused: a new attempt without it is on its way
        size = wire.size(numbers.count(bucket), action.precision)
        buffer, payload = codec.reserve(Result(stamp, bucket), self._schema, size)
        try:
            numbers.reduce(bucket, action.shares, self._transport.me, payload)
        except ValueError as error:
            self.engine.unusable(stamp, self._transport.me, str(error), self._clock())
            return
        for peer in action.to:
            self._held.setdefault(peer, deque()).append(SendResult(stamp, buffer))
        self.engine.reduced(stamp, bucket, self._clock())

    def _digest_results(self, stamp: Stamp) -> Iterator[object]:
        for digest in self.numbers.digest_with_results():
            if digest:
                self.engine.digested(stamp, digest, self._clock())
            yield None

    def _digest_base(self, round_: int) -> Iterator[object]:
        for digest in self.numbers.digest():
            if digest:
                self.engine.base_digested(round_, digest, self._clock())
            yield None

    def _validate(self, round_: int) -> Iterator[object]:
        """The committed weights on my validation part. The model holds them: training has not gone on yet."""
        if round_ <= self.spec.survey_rounds:
            return  # it does not know yet what its numbers mean: what comes out of it would tell nothing
        found = yield from self._evaluate(self.local.data.validation)
        self._validation[round_] = (self.local.step_number, found)
        metrics = Metrics(round_, found.loss or 0.0, found.accuracy, found.n, found.figures)
        self.engine.validated(metrics, self._clock())

    def _evaluate(self, samples: Samples) -> Generator[int, None, Evaluation]:
        """The committed weights on these samples, as many at a time as training could hold, or fewer."""
        local = self.local
        while True:
            batch = min(BATCH, local.piece)
            try:
                return (yield from evaluate(local.model, self.spec, samples, batch))
            except (RuntimeError, MemoryError) as error:
                if not memory_ran_out(error):
                    raise
            local.shrink(batch)

    # -- the end --

    def _finish(self, complete: bool) -> Iterator[object]:
        """Test the committed weights on what nobody trained on, and save them."""
        room, local = self.engine.room, self.local
        for bucket in range(len(self.numbers)):
            self.numbers.rewind(bucket)
            yield None
        path, found, figures = "", Evaluation(None, None, 0), dict[str, float]()
        if room.round > 0 and room.whole:
            found = yield from self._evaluate(local.data.test)
            figures = self._figures(found.loss, found.figures)
            card = store.ModelCard(
                task=self.spec, rounds=room.round, members=self._members(), samples=len(local.data.train),
                date=datetime.now(UTC).isoformat(timespec="seconds"), digest=room.digest,
                test_accuracy=found.accuracy, test_samples=found.n, test_figures=figures,
            )
            try:
                path = str((yield from store.saving(Path(self._order.models_folder), local.model.state_dict().items(),
                                                    card)))
            except PeerloomError as error:
                self._say(Noted(severity="bad", text=error.sentence))
        local.forget_momentum()
        pictures = tuple(sample.png for sample in sample_pictures(local.data.test, SAMPLES_TO_TRY))
        self._report(float("inf"))
        self._say(FinalModel(complete=complete, round=room.round, digest=room.digest, path=path,
                             test_accuracy=found.accuracy, test_samples=found.n,
                             test_figures=figures, samples=pictures))
        self.ended = True

    def _members(self) -> tuple[str, ...]:
        room = self.engine.room
        return tuple(room.name(peer) for peer in room.view.members) or (self._order.name,)

    def _fail(self, sentence: str) -> None:
        log.info("training failed: %s", sentence)
        self.leave()
        self._job = None
        self.ended = self._stopping  # it failed while ending: not once more
        self._stopping = True  # what was committed is sound: it is tested and saved as after a stop
        self._say(Failed(sentence=sentence))

    # -- reporting --

    def _name(self, peer: str) -> str:
        return self.engine.room.name(peer)

    def _report(self, now: float) -> None:
        if now - self._last_report < REPORT_S:
            return
        self._last_report = min(now, self._clock())
        self._report_rounds()
        status = self.engine.status(self._clock())
        steps = self._steps_per_s()
        trained = 1 - self.local.left / max(1, self.local.planned) if status.phase == "training" else 0.0
        progress = {"training": 0.9 * trained, "ready": 0.9, "exchanging": 0.9 + 0.1 * status.exchanged, "applied": 1.0}
        self._say(
            Progress(
                phase=status.phase, round=status.round, step=self.local.step_number, epoch=self.local.batches.epoch,
                round_progress=progress.get(status.phase, 0.0), local_steps=self.local.planned,
                begun=self.engine.room.begun, inside=status.inside, leading=status.leading,
                leader=status.view.leader, digest=status.digest, waiting_on=status.waiting_on,
                waiting_since_s=status.waiting_since_s, missing=status.missing, left_s=status.left_s,
                deadline_s=status.deadline_s, quorum=status.quorum,
                seats=tuple(Seat(peer=seat.peer, phase=seat.phase, round=seat.round) for seat in status.roster),
                fetched=status.fetched, values=self.engine.room.values, wanted=self.engine.wanted,
                weights=tuple((peer, round(weight, 6)) for peer, weight in self._weights.items()),
                steps_per_s=steps, samples_per_s=steps * self.local.batches.batch, points=tuple(self._points),
            )
        )
        self._points.clear()

    def _steps_per_s(self) -> float:
        if len(self._rate) < 2:
            return 0.0
        (first, a), (last, b) = self._rate[0], self._rate[-1]
        return (b - a) / (last - first) if last > first and self._clock() - last < 5 else 0.0

    def _report_rounds(self) -> None:
        """Validation of rounds; once more when further members' figures have come."""
        for round_, (step, mine) in self._validation.items():
            room = self.engine.room_metrics(round_)
            found = RoundCommitted(round=round_, step=step, loss=mine.loss, accuracy=mine.accuracy,
                                   figures=self._figures(mine.loss, mine.figures))
            if room:
                found = msgspec.structs.replace(found, room_loss=room.loss, room_accuracy=room.accuracy,
                                                room_figures=self._figures(room.loss, room.figures))
                self._watch_for_the_end(round_, room.loss)
            if self._told.get(round_) != found:
                self._told[round_] = found
                self._say(found)
        for old in [round_ for round_ in self._validation if round_ < self.engine.room.round - 3]:
            del self._validation[old]
            self._told.pop(old, None)

    def _figures(self, loss: float | None, figures: dict[str, float]) -> dict[str, float]:
        """With a text's perplexity, which follows from the loss: a mean of members' would not be the room's."""
        if self.spec.kind != "text":
            return figures
        return {"perplexity": perplexity(loss)} if loss is not None and math.isfinite(loss) else {}

    def _watch_for_the_end(self, round_: int, loss: float) -> None:
        """When all members' figures are here: whether the room still learns. The leader ends it if not."""
        room = self.engine.room
        if not set(room.view.members) <= self.engine.metrics[round_].keys() or not self._plateau.reached(round_, loss):
            return
        rounds = f"{self.spec.patience} rounds" if self.spec.patience > 1 else "a round"
        text = f"The room's validation loss has not become better for {rounds}."
        if last := self.engine.end_early(self._clock()):
            text += f" Training ends early, after round {last}."
        self._say(Noted(severity="info", text=text))
