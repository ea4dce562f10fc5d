"""The Train page: what happens now, for whom the room waits, how long still; the curves, the members, the log."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QSizePolicy, QStackedWidget, QVBoxLayout, QWidget

from desktop.intents import GoTo, Leave, Start, Stop
from desktop.state import Curves, SessionState, WindowState
from desktop.ui.charts import Chart, Line
from desktop.ui.figures import further, meaning, score
from desktop.ui.formats import counted, duration, figure, number, rate, short_digest, time_left
from desktop.ui.log import LogStrip, LogView
from desktop.ui.members import MembersCard
from desktop.ui.theme import set_kind, set_tone, theme
from desktop.ui.values import ValuesCard
from desktop.ui.widgets import (
    Bar,
    Card,
    ElidedLabel,
    Page,
    TitleLine,
    button,
    column,
    number_label,
    page_layout,
    row,
    set_text,
)

RUNNING = ("loading", "waiting", "training", "exchanging", "syncing", "stopping")
ENDED = ("done", "stopped", "failed")


class StatusCard(Card):
    """What is happening, for whom do we wait, how long still."""

    def __init__(self) -> None:
        super().__init__(padding=16, spacing=2)
        self.body.setContentsMargins(theme.px(16), theme.px(12), theme.px(16), theme.px(12))
        self.title = ElidedLabel("", "emphasis", Qt.TextElideMode.ElideMiddle)
        self.note = ElidedLabel("", "quiet")
        self.bar = Bar(self.tr("Progress of all rounds"))
        self.bar.setFixedWidth(theme.px(260))
        self.left = number_label("", "emphasis")
        self.speed = number_label()
        for right in (self.left, self.speed):
            right.setAlignment(Qt.AlignmentFlag.AlignRight)
        words = column(self.title, self.note, spacing=2)
        numbers = column(1, self.left, self.speed, 1, spacing=2)
        line = row(words, self.bar, numbers, spacing=18)
        line.setStretch(0, 1)
        self.body.addLayout(line)

    def show_session(self, session: SessionState, why_not: str, *, can_start: bool) -> None:
        """Put a session into words."""
        set_text(self.title, self._title(session, why_not, can_start=can_start))
        set_text(self.note, " · ".join(self._notes(session, why_not, can_start=can_start)))
        set_tone(self.title, "bad" if session.state == "failed" else "")
        started = session.state in RUNNING or session.state in ENDED
        self.bar.setVisible(started and session.rounds > 0)
        rounds = max(session.rounds, 1)
        running = session.state in RUNNING
        done = session.round / rounds
        self.bar.show_parts((done, "mine"), ((session.round_progress if running else 0.0) / rounds, "mine/2"),
                            words=self.tr("{a} of {b} rounds").format(a=session.round, b=session.rounds))
        set_text(self.left, time_left(session.seconds_left) if running else "")
        self.left.setVisible(running and bool(self.left.text()))
        speed = [self.tr("step {n}").format(n=number(session.step))] if session.step else []
        if running and session.steps_per_s > 0:
            speed.append(self.tr("{n} steps/s").format(n=rate(session.steps_per_s)))
        set_text(self.speed, " · ".join(speed))
        self.speed.setVisible(started and bool(speed))

    def _title(self, session: SessionState, why_not: str, *, can_start: bool) -> str:
        in_hand = self.tr("Round {a} of {b}").format(
            a=number(min(session.round + 1, max(session.rounds, 1))), b=number(session.rounds))
        if session.state == "idle":
            return self.tr("Ready to start") if can_start else self.tr("Not ready to start")
        if session.state == "done":
            return counted(session.rounds, self.tr("Finished: the round is done"),
                           self.tr("Finished: all {n} rounds are done"))
        if session.state == "stopped":
            return self.tr("Stopped after round {n}").format(n=number(session.round))
        if session.state == "failed":
            return self.tr("Training failed after round {n}").format(n=number(session.round))
        doing = {
            "loading": self.tr("getting ready"), "training": self.tr("training"),
            "exchanging": self.tr("exchanging what was learnt"), "syncing": self.tr("getting the weights"),
            "stopping": self.tr("stopping after this batch"), "waiting": self.tr("waiting"),
        }.get(session.state, session.state)  # fmt: skip
        if session.waiting_for and session.state != "stopping":
            doing = session.waiting_for
        return f"{in_hand} — {doing}"

    def _notes(self, session: SessionState, why_not: str, *, can_start: bool) -> list[str]:
        if session.state == "idle":
            return [self.tr("Press Start when you are ready.") if can_start else why_not]
        if session.state in ENDED:
            return self._result(session)
        notes = []
        others = [member for member in session.members if member.state != "lost"]
        if len(others) > 1:
            ready = sum(member.state in ("ready", "exchanging", "done") for member in others)
            notes.append(self.tr("{a} of {b} are ready").format(a=ready, b=len(others)))
            if session.policy.deadline_s > 0 and session.policy.quorum < session.policy.n:
                notes.append(self.tr("goes on with {q} after {time}").format(
                    q=session.policy.quorum, time=duration(session.policy.deadline_s)))
        if session.local_epochs:
            notes.append(self.tr("1 local epoch") if session.local_epochs == 1 else self.tr("{n} local epochs").format(
                n=f"{session.local_epochs:g}"))
        else:
            notes.append(counted(session.local_steps, self.tr("1 local step"), self.tr("{n} local steps")))
        notes.append(self.tr("batch {n}").format(n=number(session.batch)))
        if len(others) > 1:
            notes.append(session.precision)
            if session.policy.weighting == "equal":
                notes.append(self.tr("all weigh alike"))
            if session.topology == "star":
                notes.append(self.tr("the leader adds up alone"))
            if session.policy.late == "carry":
                notes.append(self.tr("late work is carried"))
            if session.outer != "none":
                notes.append(session.outer)
            if session.bytes_per_s > 0:
                notes.append(self.tr("{n} MB/s").format(n=number(session.bytes_per_s / 1e6, 1)))
        return notes

    def _result(self, session: SessionState) -> list[str]:
        final = session.final
        if final is not None and final.test_samples:
            words = f"{score(final.test_accuracy, final.metrics)} {meaning(final.metrics, final.test_samples)}"
            return [words, self.tr("nobody trained on these")]
        return [self.tr("The weights of the last finished round are kept.")]


class DigestCard(Card):
    """Whether all hold the same weights."""

    def __init__(self) -> None:
        super().__init__(padding=16, spacing=2)
        self.body.setContentsMargins(theme.px(16), theme.px(11), theme.px(16), theme.px(11))
        self.title = ElidedLabel("", "strong")
        self.note = ElidedLabel("", "quiet")

    def build(self, on_help: object) -> None:
        """Lay out, with the way to the page that says what is shared."""
        more = button(self.tr("What is shared?"), on_help, "link")  # type: ignore[arg-type]
        self.body.addWidget(self.title)
        line = row(self.note, more, spacing=8)
        line.setStretch(0, 1)
        self.body.addLayout(line)

    def show_session(self, session: SessionState) -> None:
        """Say who holds what."""
        present = [member for member in session.members if member.state != "lost"]
        same = sum(member.round == session.round for member in present)
        if not session.digest or not session.round:
            title, note = self.tr("No round is finished yet"), self.tr("a digest tells when all agree")
        elif len(present) < 2:
            title = self.tr("Your weights")
        elif same == len(present):
            title = counted(same, "", self.tr("All {n} hold the same weights")) if same > 2 else self.tr(
                "Both hold the same weights")
        else:
            title = self.tr("{a} of {b} hold the same weights").format(a=same, b=len(present))
        if session.digest and session.round:
            note = self.tr("round {n} · digest {digest}").format(
                n=number(session.round), digest=short_digest(session.digest))
        set_text(self.title, title)
        set_text(self.note, note)


def _side(layout: QVBoxLayout) -> QWidget:
    """A column whose width follows the window's, not its content."""
    made = QWidget()
    made.setLayout(layout)
    made.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
    return made


class TrainPage(Page):
    """The page where one stays while training."""

    def __init__(self) -> None:
        super().__init__()
        self._shown: dict[str, object] = {}
        self._state: WindowState | None = None
        self._change = False  # the values are shown while training
        self._build_head()
        self.status = StatusCard()
        self.values = ValuesCard()
        self.values.intent.connect(self.intent)
        self.members, self.digest = MembersCard(), DigestCard()
        self.digest.build(lambda: self.send(GoTo("help")))
        self._build_charts()
        self.log, self.strip = LogView(), LogStrip()
        self.strip.opened.connect(self._toggle_log)
        self.log.closed.connect(self._toggle_log)
        right = column(self.members, self.digest, spacing=14)
        right.setStretch(0, 1)
        body = row(_side(self._left()), _side(right), spacing=14)
        body.setStretch(0, 7)
        body.setStretch(1, 4)
        content = QWidget()
        content.setLayout(body)
        self.bodies = QStackedWidget()
        self.bodies.addWidget(content)
        self.bodies.addWidget(self.log)
        layout = page_layout(self)
        layout.setContentsMargins(theme.px(24), theme.px(18), theme.px(24), theme.px(10))
        layout.addWidget(self.head)
        layout.addWidget(self.status)
        layout.addWidget(self.bodies, 1)
        layout.addWidget(self.strip)

    def show_state(self, state: WindowState) -> None:
        self._state = state
        session = state.session
        if self._differs("head", (session, state.task, state.room, state.mode, state.can_start, state.why_not_start)):
            self._show_head(state)
            self.status.show_session(session, state.why_not_start, can_start=state.can_start)
            self.members.show_members(session.members, session.waiting_for)
            self.digest.show_session(session)
        before, running = session.state == "idle", session.state in RUNNING
        self._change = self._change and running
        self.values.setVisible(before or self._change)
        if before:
            self.values.show_values(state.values, own=state.mode != "join")
        elif self._change:
            self.values.show_values(state.values, own=session.role == "leader", running=True)
        self._show_curves(state.curves, session, state.values.rounds * state.values.local_steps)
        self.log.show_lines(state.log)
        self.strip.show_lines(state.log, session.loop_lag_ms)

    # -- building

    def _build_head(self) -> None:
        self.head = TitleLine("")
        self.change = self.head.add(button(self.tr("Values"), self._toggle_values,
                                           name=self.tr("How the room trains")))
        self.invite = self.head.add(button(self.tr("Invite…"), lambda: self.send(GoTo("room"))))
        self.leave = self.head.add(button(self.tr("Leave"), lambda: self.send(Leave()),
                                          name=self.tr("Leave the room")))
        self.stop = self.head.add(button(self.tr("Stop"), lambda: self.send(Stop()), name=self.tr("Stop training")))
        self.start = self.head.add(button(self.tr("Start"), lambda: self.send(Start()), "primary"))
        self.try_it = self.head.add(button(self.tr("Try the model"), lambda: self.send(GoTo("try")), "primary"))

    def _build_charts(self) -> None:
        mine = Line(self.tr("mine"), "mine", width=1.0, alpha=0.75)
        mine_validation = Line(self.tr("my validation"), "mine", dashed=True)
        room = Line(self.tr("room validation"), "room")
        self.loss = Chart(self.tr("Loss"), (mine, mine_validation, room))
        self.accuracy = Chart(self.tr("Accuracy"), (mine, mine_validation, room), top=1.0)
        self.error = Chart(self.tr("Error"), (mine, mine_validation, room))
        self.error.hide()

    def _left(self) -> QVBoxLayout:
        left = column(self.values, self.loss, self.accuracy, self.error, spacing=14)
        for place in (1, 2, 3):
            left.setStretch(place, 1)
        return left

    # -- showing

    def _differs(self, key: str, value: object) -> bool:
        if self._shown.get(key) == value:
            return False
        self._shown[key] = value
        return True

    def _show_head(self, state: WindowState) -> None:
        session = state.session
        set_text(self.head.title, state.task.title if state.task else self.tr("Train"))
        set_text(self.head.note, " · ".join(self._where(state)))
        running, ended = session.state in RUNNING, session.state in ENDED
        in_room = bool(session.room or (state.room and state.room.state in ("open", "joined")))
        self.change.setVisible(running and session.state != "stopping")
        self.invite.setVisible(in_room)
        self.leave.setVisible(in_room)
        self.stop.setVisible(running)
        self.stop.setEnabled(session.state != "stopping")
        self.start.setVisible(not running)
        self.start.setEnabled(state.can_start)
        set_text(self.start, self.tr("Train again") if ended else self.tr("Start"))
        set_kind(self.start, "plain" if ended and session.final is not None else "primary")
        more = self.tr("as many rounds again, for all, from the weights that the room has")
        again = more if in_room and session.state == "done" else ""
        self.start.setToolTip(again if state.can_start else state.why_not_start)
        self.start.setAccessibleDescription("" if state.can_start else state.why_not_start)
        self.try_it.setVisible(ended and session.final is not None)

    def _where(self, state: WindowState) -> list[str]:
        session = state.session
        name = session.room or (state.room.room if state.room else "")
        if not name:
            return [self.tr("alone on this computer")]
        present = sum(member.state != "lost" for member in session.members)
        parts = [self.tr("room {name}").format(name=name)]
        if present:
            parts.append(counted(present, self.tr("1 member"), self.tr("{n} members")))
        return parts

    def _show_curves(self, curves: Curves, session: SessionState, planned: int) -> None:
        left = (session.rounds - session.round) * session.local_steps  # what was done may have been in other steps
        steps = session.rounds * session.local_steps or planned
        x_end = float(max(steps, session.step + left - session.local_steps) if session.step else steps)
        self.loss.show_curves((curves.loss, curves.validation_loss, curves.room_loss), x_end)
        self.accuracy.show_curves((curves.accuracy, curves.validation_accuracy, curves.room_accuracy), x_end)
        self.error.show_curves((curves.error, curves.validation_error, curves.room_error), x_end)
        number_task = bool(curves.error.x or curves.validation_error.x)
        self.error.setVisible(number_task)
        self.accuracy.setVisible(not number_task)
        explained = self.tr("The room's, after the latest round: the mean of its members' figures, each weighing as "
                            "much as it has samples")
        for chart in (self.accuracy, self.error):
            chart.show_note(further(session.metrics), explained)
        perplexity = session.metrics.get("perplexity")
        self.loss.show_note("" if perplexity is None else self.tr("perplexity {n}").format(n=figure(perplexity)),
                            self.tr("The room's, after the latest round: of so many equally likely tokens it chooses"))

    def _toggle_values(self) -> None:
        self._change = not self._change
        if self._state is not None:
            self.show_state(self._state)

    def _toggle_log(self) -> None:
        self.bodies.setCurrentIndex(1 - self.bodies.currentIndex())
        if self.bodies.currentIndex() == 1:
            self.log.table.scrollToBottom()
