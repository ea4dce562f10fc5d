"""What has happened in this session, as the snapshots that the window and the report show."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import msgspec

from desktop.bridge.lifecycle import Begun, FinalModel, Point, Prediction, Progress, RoundCommitted, Seat
from desktop.peers.mesh import LinkRow
from desktop.state import (
    Curve,
    Curves,
    Fault,
    Final,
    LogLine,
    LoopLag,
    MemberRow,
    Moving,
    Policy,
    SessionState,
    TryView,
)

MOST_POINTS = 600  # what a chart can show
MOST_FAULTS = 200
WORDS = {
    "idle": "waiting",
    "syncing": "getting the weights",
    "training": "training",
    "ready": "ready",
    "exchanging": "exchanging",
    "applied": "exchanging",
    "done": "done",
    "aside": "set aside",
}
STATES = {
    "idle": "waiting",
    "syncing": "syncing",
    "training": "training",
    "ready": "waiting",
    "exchanging": "exchanging",
    "applied": "exchanging",
    "done": "done",
}


class Line:
    """Points of a curve, thinned to every 2nd, 4th, ... when there are more than a chart can show."""

    def __init__(self) -> None:
        self._points: list[tuple[float, float]] = []
        self._every = 1
        self._seen = 0
        self._curve: Curve | None = None  # of the points as they are: the window asks ten times a second

    def add(self, x: float, y: float) -> None:
        """One more point, or another value for one of the last few."""
        self._curve = None
        for place in range(len(self._points) - 1, max(-1, len(self._points) - 10), -1):
            if self._points[place][0] == x:
                self._points[place] = (x, y)
                return
        if self._points and x < self._points[-1][0]:
            return
        if self._seen % self._every == 0:
            self._points.append((x, y))
        self._seen += 1
        if len(self._points) > 2 * MOST_POINTS:
            self._points = self._points[::2]
            self._every *= 2

    def curve(self) -> Curve:
        """The points as a snapshot."""
        if self._curve is None:
            self._curve = Curve(x=tuple(x for x, _ in self._points), y=tuple(y for _, y in self._points))
        return self._curve


class Lines:
    """The lines of one kind of samples: loss, and accuracy or absolute error, whichever fits the task."""

    def __init__(self) -> None:
        self.loss, self.accuracy, self.error = Line(), Line(), Line()

    def add(self, x: float, loss: float | None, accuracy: float | None, error: float | None) -> None:
        """The values there are."""
        for line, value in ((self.loss, loss), (self.accuracy, accuracy), (self.error, error)):
            if value is not None:
                line.add(x, value)


class Shares:
    """How long each member has been doing what, from the leader's roster as it comes."""

    def __init__(self) -> None:
        self._spent: dict[str, dict[str, float]] = {}
        self._state: dict[str, tuple[str, float]] = {}
        self._last: dict[str, float] = {}

    def add(self, peer: str, state: str, now: float) -> None:
        """A member does this now."""
        before, since = self._state.get(peer, (state, now))
        if before != "done":
            spent = self._spent.setdefault(peer, {})
            spent[before] = spent.get(before, 0.0) + (now - self._last.get(peer, now))
        self._last[peer] = now
        if state != before:
            since = now
        self._state[peer] = (state, since)

    def of(self, peer: str, now: float) -> tuple[str, float, float, float]:
        """(state, for how many seconds, share of training, share of exchanging)."""
        state, since = self._state.get(peer, ("", now))
        spent = self._spent.get(peer, {})
        total = sum(spent.values()) or 1.0
        return state, now - since, spent.get("training", 0.0) / total, spent.get("exchanging", 0.0) / total


class Record:
    """Fed by the controller; read by `session`, `curves`, `try_view` and `log`."""

    def __init__(self, peer: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._peer, self._clock = peer, clock
        self.faults: list[Fault] = []
        self.log: list[LogLine] = []
        self.lag = LoopLag()
        self.import_gap_ms = 0.0
        self.reset()

    def reset(self) -> None:
        """A new run begins. Log and faults stay."""
        self.state = "idle"
        self.progress: Progress | None = None
        self.begun: Begun | None = None
        self.final: FinalModel | None = None
        self.prediction: Prediction | None = None
        self._mine, self._validation, self._rooms = Lines(), Lines(), Lines()
        self._last_point: Point | None = None
        self._round: RoundCommitted | None = None
        self._shares = Shares()
        self._commits: list[tuple[int, float]] = []
        self._traffic: list[tuple[float, int]] = []
        self.started = 0.0

    # -- what comes in --

    def fault(self, severity: str, text: str, peer: str = "") -> None:
        """Something went wrong or changed: into the log, and the report's `faults`."""
        now = datetime.now(UTC)
        self.faults = [*self.faults[-MOST_FAULTS + 1 :],
                       Fault(at=now.isoformat(timespec="milliseconds"), severity=severity, text=text, peer=peer)]
        local = now.astimezone().strftime("%H:%M:%S")
        self.log = [*self.log[-999:], LogLine(at=local, severity=severity, text=text)]

    def begin(self, said: Begun) -> None:
        """Training began, or goes on: the leader of a room that had trained all its rounds wants more."""
        if self.state == "done":
            self.state, self.final, self.prediction = "waiting", None, None
        self.begun = said
        self.started = self._clock()

    def progressed(self, said: Progress) -> None:
        """Where training stands."""
        now = self._clock()
        before = self.progress
        self.progress = said
        for point in said.points:
            self._mine.add(point.step, point.loss, point.accuracy, point.error)
            self._last_point = point
        for seat in said.seats:
            self._shares.add(seat.peer, WORDS.get(seat.phase, "waiting"), now)
        if not any(seat.peer == self._peer for seat in said.seats):
            self._shares.add(self._peer, WORDS.get(said.phase, "waiting"), now)
        if before is None or said.round != before.round:
            self._commits = [*self._commits[-9:], (said.round, now)]
        if self.state not in ("stopping", "done", "stopped", "failed"):
            self.state = STATES.get(said.phase, "waiting") if said.phase != "done" else "training"

    def committed(self, said: RoundCommitted) -> None:
        """Validation after a round; comes again when more members' figures are in."""
        self._validation.add(said.step, said.loss, said.accuracy, said.figures.get("mae"))
        self._rooms.add(said.step, said.room_loss, said.room_accuracy, said.room_figures.get("mae"))
        if self._round is None or said.round >= self._round.round:
            self._round = said

    def ended(self, said: FinalModel) -> None:
        """Training ended and the model was tested."""
        self.final = said
        if self.state != "failed":  # after a failure the last committed weights are saved as well
            self.state = "done" if said.complete else "stopped"

    def predicted(self, said: Prediction) -> None:
        """How the model reads a picture."""
        self.prediction = said

    # -- what goes out --

    def curves(self) -> Curves:
        """The lines of the charts."""
        mine, validation, room = self._mine, self._validation, self._rooms
        return Curves(
            loss=mine.loss.curve(), accuracy=mine.accuracy.curve(), error=mine.error.curve(),
            validation_loss=validation.loss.curve(), validation_accuracy=validation.accuracy.curve(),
            validation_error=validation.error.curve(),
            room_loss=room.loss.curve(), room_accuracy=room.accuracy.curve(), room_error=room.error.curve(),
        )

    def try_view(self, model_path: str = "") -> TryView:
        """The model afterwards."""
        final, shown = self.final, self.prediction
        if final is None:
            return TryView(error=shown.error if shown else "")
        return TryView(
            ready=True, test_accuracy=final.test_accuracy, test_samples=final.test_samples,
            metrics=final.test_figures, model_path=final.path,
            picture=shown.picture if shown else b"", picture_name=shown.name if shown else "",
            confidences=shown.confidences if shown else (), samples=final.samples, error=shown.error if shown else "",
        )

    def members(self, links: Sequence[LinkRow], me: MemberRow) -> tuple[MemberRow, ...]:
        """This window first, then everyone whom the mesh or the leader's roster knows."""
        now = self._clock()
        progress = self.progress
        leader = progress.leader if progress else ""
        seats = {seat.peer: seat for seat in progress.seats} if progress else {}
        weights = dict(progress.weights) if progress else {}
        # In the room and not in the rounds: not begun yet, stopped, or not let in yet.
        outside = "not training" if progress and progress.begun and progress.inside else "waiting"
        rows = []
        for link in links:
            words, since, training, exchanging = self._shares.of(link.peer, now)
            seat = seats.get(link.peer)
            lost = link.state == "lost"
            gathered = sum(link.gathered.values())
            pair = f"{link.local_type} → {link.remote_type}, {gathered} gathered" if link.local_type else ""
            rows.append(
                MemberRow(
                    peer=link.peer, name=link.name, backend=link.backend,
                    role="leader" if link.peer == leader and not lost else "member",
                    link=_way(link), lanes=link.lanes, rtt_ms=link.rtt_ms, tries=link.tries,
                    next_try_s=None if link.next_try_s is None else round(link.next_try_s, 1),
                    sent_bytes=link.sent_bytes, received_bytes=link.received_bytes, moving=_moving(link),
                    round=self._round_of(seat), last_seen_s=round(link.last_seen_s, 1), candidates=pair,
                    state="lost" if lost else words if seat else outside, state_for_s=round(since, 1),
                    training_share=training, exchanging_share=exchanging, weight=weights.get(link.peer),
                )
            )
        words, since, training, exchanging = self._shares.of(self._peer, now)
        mine = MemberRow(
            peer=me.peer, name=me.name, you=True, backend=me.backend, link="you",
            role="leader" if self._peer == leader else "member",
            sent_bytes=sum(row.sent_bytes for row in rows), received_bytes=sum(row.received_bytes for row in rows),
            round=progress.round if progress else 0, state=words or "waiting", state_for_s=round(since, 1),
            training_share=training, exchanging_share=exchanging, weight=weights.get(self._peer),
        )
        return (mine, *rows)

    def _round_of(self, seat: Seat | None) -> int:
        """The round whose weights a member holds: none is committed before all who are not behind have said so."""
        if seat is None or self.progress is None:
            return 0
        return seat.round if seat.phase in ("", "syncing") else max(seat.round, self.progress.round)

    def session(self, base: SessionState, links: Sequence[LinkRow], host: str) -> SessionState:
        """All of it. `base` brings what was chosen: names, task, room, planned values."""
        progress, point, round_ = self.progress, self._last_point, self._round
        me = MemberRow(peer=self._peer, name=base.name, backend=base.backend)
        members = self.members(links, me)
        values: dict[str, object] = {}
        if progress is not None:
            values = dict(
                round=progress.round, step=progress.step, epoch=round(progress.epoch, 3),
                round_progress=progress.round_progress, steps_per_s=round(progress.steps_per_s, 1),
                samples_per_s=round(progress.samples_per_s, 1), digest=progress.digest,
                rounds=progress.values.rounds, local_steps=progress.local_steps or progress.values.local_steps,
                precision=progress.values.precision, batch=progress.values.batch, lr=progress.values.lr,
                local_epochs=progress.values.local_epochs, outer=progress.values.outer.kind,
                outer_lr=progress.values.outer.lr, outer_momentum=progress.values.outer.momentum,
                topology=progress.values.topology,
                policy=Policy(quorum=progress.quorum, n=max(1, len(progress.seats)),
                              deadline_s=round(progress.deadline_s, 1), weighting=progress.values.weighting,
                              late=progress.values.late),
                seconds_left=self._seconds_left(progress),
            )
        final = self.final
        return msgspec.structs.replace(
            base, **values,
            peer=self._peer, role="leader" if progress and progress.leading else "member", state=self.state,
            waiting_for=self._waiting_for(progress, members, host), members=members,
            model=self.begun.model if self.begun else base.model,
            parameters=self.begun.parameters if self.begun else 0,
            backend=self.begun.backend if self.begun else base.backend,
            loss=point.loss if point else None, accuracy=point.accuracy if point else None,
            validation_loss=round_.room_loss if round_ else None,
            validation_accuracy=round_.room_accuracy if round_ else None,
            metrics=round_.room_figures if round_ else {},
            bytes_per_s=self._bytes_per_s(members), faults=tuple(self.faults), loop_lag_ms=self.lag,
            import_gap_ms=self.import_gap_ms,
            final=Final(model_path=final.path, test_accuracy=final.test_accuracy, test_samples=final.test_samples,
                        metrics=final.test_figures) if final else None,
        )

    def _bytes_per_s(self, members: Sequence[MemberRow]) -> float:
        now = self._clock()
        moved = members[0].sent_bytes + members[0].received_bytes
        self._traffic = [item for item in self._traffic if now - item[0] < 3.0]
        self._traffic.append((now, moved))
        (first, a), (last, b) = self._traffic[0], self._traffic[-1]
        return max(0.0, (b - a) / (last - first)) if last - first > 0.5 else 0.0

    def _seconds_left(self, progress: Progress) -> float | None:
        if len(self._commits) < 2:
            return None
        (first, since), (last, until) = self._commits[0], self._commits[-1]
        if last <= first:
            return None
        per_round = (until - since) / (last - first)
        return max(0.0, round(per_round * (progress.values.rounds - progress.round) - (self._clock() - until), 1))

    def _waiting_for(self, progress: Progress | None, members: Sequence[MemberRow], host: str) -> str:
        """The reason for a wait, with names and seconds; "" when I am busy."""
        if self.state not in ("waiting", "syncing", "loading"):
            return ""
        if self.state == "loading" or progress is None:
            return "loading the training library"
        if progress.phase == "syncing":
            return f"getting the weights, {progress.fetched:.0%}"
        if not progress.inside:
            others = [member for member in members if not member.you and member.state != "lost"]
            if not others:
                return "waiting for a link to the members"
            return "waiting to be let in at the next round" if progress.leader else f"waiting for {host} to start"
        names = {member.peer: member.name for member in members}
        awaited = [names.get(peer, peer[:8]) for peer in progress.waiting_on if peer != self._peer]
        if awaited:
            return f"waiting for {_listed(awaited)}, {progress.waiting_since_s:.0f} s"
        if progress.missing:
            more = "1 more member" if progress.missing == 1 else f"{progress.missing} more members"
            return f"waiting for {more}"
        leader = names.get(progress.leader, "")
        return f"waiting for {leader}" if leader and not progress.leading else ""


def _listed(names: Sequence[str]) -> str:
    """A, B and C."""
    if len(names) > 3:
        return f"{names[0]}, {names[1]} and {len(names) - 2} others"
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _way(link: LinkRow) -> str:
    """How a member is reached, as `MemberRow.link` says it."""
    if link.state != "open":
        return "lost" if link.state == "lost" else "connecting"
    return f"via {link.via}" if link.via else link.path or "connecting"


def _moving(link: LinkRow) -> tuple[Moving, ...]:
    return tuple(
        Moving(outgoing=each.outgoing, done_bytes=each.done_bytes, total_bytes=each.total_bytes,
               left_s=None if each.left_s is None else round(each.left_s, 1))
        for each in link.moving
    )
