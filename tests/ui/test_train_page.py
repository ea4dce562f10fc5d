"""The Train page: words for every state, its buttons, charts, members, log."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest
from PySide6.QtCore import QPointF, Qt
from PySide6.QtWidgets import QAbstractSpinBox, QApplication, QLabel, QWidget
from pytestqt.qtbot import QtBot

from desktop.intents import GoTo, Intent, Leave, SetTraining, Start, Stop
from desktop.state import LogLine, MemberRow, Moving, SessionState, TrainingValues, WindowState
from desktop.ui.main_window import MainWindow
from desktop.ui.members import MemberLine
from desktop.ui.theme import theme
from desktop.ui.train_page import TrainPage
from tests.ui import sample_states
from tests.ui.conftest import find_button

Press = Callable[[str], None]
replace = msgspec.structs.replace


@pytest.fixture
def page(window: MainWindow) -> TrainPage:
    page = window.page("train")
    assert isinstance(page, TrainPage)
    return page


def show(window: MainWindow, state: WindowState) -> None:
    window.render(state)
    QApplication.processEvents()


def test_says_round_reason_and_time_left(window: MainWindow, page: TrainPage) -> None:
    show(window, sample_states.training())
    assert page.head.title.text() == "Handwritten digits"
    assert page.head.note.text() == "room maple-otter · 4 members"
    assert page.status.title.text() == "Round 7 of 12 — waiting for Calm Lynx, 4 s"
    assert page.status.note.text().startswith("3 of 4 are ready · goes on with 3 after 15 s")
    assert page.status.left.text() == "about 3 min left"
    assert page.status.speed.text() == "step 140 · 52 steps/s"
    (done, _), (in_hand, _) = page.status.bar.parts
    assert done == pytest.approx(6 / 12)
    assert in_hand == pytest.approx(0.9 / 12)


@pytest.mark.parametrize(("state", "said"), [
    ("loading", "Round 7 of 12 — getting ready"), ("training", "Round 7 of 12 — training"),
    ("exchanging", "Round 7 of 12 — exchanging what was learnt"), ("syncing", "Round 7 of 12 — getting the weights"),
    ("stopping", "Round 7 of 12 — stopping after this batch"), ("done", "Finished: all 12 rounds are done"),
    ("stopped", "Stopped after round 6"), ("failed", "Training failed after round 6"),
])
def test_every_state_has_words(window: MainWindow, page: TrainPage, state: str, said: str) -> None:
    sample = sample_states.training()
    show(window, replace(sample, session=replace(sample.session, state=state, waiting_for="")))
    assert page.status.title.text() == said


def test_disabled_start_shows_the_reason(window: MainWindow, page: TrainPage, asked: list[Intent],
                                         qtbot: QtBot) -> None:
    show(window, sample_states.train_blocked())
    assert page.start.isVisible()
    assert not page.start.isEnabled()
    assert page.status.note.text() == "Choose your data first."
    assert page.start.toolTip() == page.start.accessibleDescription() == "Choose your data first."
    qtbot.mouseClick(page.start, Qt.MouseButton.LeftButton)
    assert asked == []


def test_buttons_before_while_and_after(window: MainWindow, asked: list[Intent], press: Press) -> None:
    show(window, sample_states.train_ready())
    press("Start")
    press("Invite…")
    press("Leave")
    show(window, sample_states.training())
    press("Stop")
    assert not visible(window, "Start")
    show(window, sample_states.trained())
    assert not visible(window, "Stop")
    press("Train again")
    press("Try the model")
    press("What is shared?")
    assert asked == [Start(), GoTo("room"), Leave(), Stop(), Start(), GoTo("try"), GoTo("help")]


def test_alone_there_is_nothing_to_leave_or_invite_to(window: MainWindow, page: TrainPage) -> None:
    show(window, replace(sample_states.room_alone(), page="train", can_start=True))
    assert page.head.note.text() == "alone on this computer"
    assert not page.leave.isVisible()
    assert not page.invite.isVisible()


def test_stop_is_pressed_once(window: MainWindow, page: TrainPage) -> None:
    sample = sample_states.training()
    show(window, replace(sample, session=replace(sample.session, state="stopping")))
    assert page.stop.isVisible()
    assert not page.stop.isEnabled()


def visible(window: MainWindow, text: str) -> bool:
    from PySide6.QtWidgets import QPushButton

    return any(button.text() == text and button.isVisible() for button in window.findChildren(QPushButton))


# -- training values ----------------------------------------------------------------------------------


def test_values_are_shown_and_sent_one_by_one(window: MainWindow, page: TrainPage, asked: list[Intent],
                                              qtbot: QtBot) -> None:
    show(window, sample_states.train_ready())
    values = page.values
    assert values.isVisible()
    assert (values.batch.value(), values.lr.text(), values.local_steps.value(), values.rounds.value(),
            values.precision.currentText()) == (32, "0.001", 20, 12, "f32")
    assert asked == []
    values.batch.setFocus()
    values.batch.selectAll()
    qtbot.keyClicks(values.batch, "100")
    qtbot.keyClick(values.batch, Qt.Key.Key_Return)
    values.lr.stepUp()
    values.rounds.stepDown()
    values.local_steps.stepUp()
    values.precision.setCurrentText("f16")
    assert asked == [SetTraining("batch", "100"), SetTraining("lr", "0.002"), SetTraining("rounds", "11"),
                     SetTraining("local_steps", "21"), SetTraining("precision", "f16")]


def test_guests_see_the_values_and_cannot_change_them(window: MainWindow, page: TrainPage) -> None:
    show(window, replace(sample_states.train_ready(), mode="join"))
    assert not page.values.batch.isEnabled()
    assert page.values.note.text() == "the host sets these"


def test_values_are_gone_while_training(window: MainWindow, page: TrainPage) -> None:
    show(window, sample_states.training())
    assert not page.values.isVisible()


def test_a_value_being_typed_is_not_overwritten(window: MainWindow, page: TrainPage, qtbot: QtBot) -> None:
    state = sample_states.train_ready()
    show(window, state)
    page.values.batch.setFocus()
    page.values.batch.selectAll()
    qtbot.keyClicks(page.values.batch, "64")
    show(window, replace(state, log=(LogLine(at="12:00:00", severity="info", text="Calm Lynx joined"),)))
    assert page.values.batch.text() == "64"


# -- charts -------------------------------------------------------------------------------------------


def test_curves_are_drawn_as_given(window: MainWindow, page: TrainPage) -> None:
    state = sample_states.training()
    show(window, state)
    for drawn, curve in zip(page.loss._items, (state.curves.loss, state.curves.validation_loss, state.curves.room_loss),
                            strict=True):
        x, y = drawn.getOriginalDataset()
        assert np.allclose(x, curve.x)
        assert np.allclose(y, curve.y)
    assert page.loss.plot.getPlotItem().viewRange()[0] == pytest.approx([0, 240])


def test_equal_curves_are_not_drawn_again(window: MainWindow, page: TrainPage, monkeypatch: pytest.MonkeyPatch) -> None:
    state = sample_states.training()
    show(window, state)
    drawn: list[object] = []
    for item in (*page.loss._items, *page.accuracy._items):
        monkeypatch.setattr(item, "setData", lambda *data: drawn.append(data))
    show(window, replace(state, curves=sample_states.curves(), session=replace(state.session, step=141)))
    assert drawn == []
    show(window, replace(state, curves=replace(state.curves, room_loss=state.curves.room_accuracy)))
    assert len(drawn) == 1


def test_long_curves_are_thinned_but_keep_their_ends(window: MainWindow, page: TrainPage) -> None:
    state = replace(sample_states.training(), curves=sample_states.curves(steps=5000, rounds=50))
    show(window, state)
    x, _ = page.loss._items[0].getOriginalDataset()
    assert len(x) <= 301
    assert (x[0], x[-1]) == (0, 4999)


def test_legend_tells_the_newest_value_and_the_one_under_the_pointer(window: MainWindow, page: TrainPage) -> None:
    state = sample_states.training()
    show(window, state)
    room = state.curves.room_loss
    assert page.loss.values[2].text() == f"room validation {room.y[-1]:.3f}"
    box = page.loss.plot.getPlotItem().getViewBox()
    place = page.loss.plot.mapFromScene(box.mapViewToScene(QPointF(50, 1)))
    page.loss._point_at(QPointF(place))
    assert page.loss.place.text() == "step 50"
    assert page.loss.values[2].text() == f"room validation {room.y[2]:.3f}"  # of step 40, the round before
    page.loss._point_at(QPointF(-50, 0))
    assert page.loss.values[2].text() == f"room validation {room.y[-1]:.3f}"


def test_numbers_that_are_not_finite_are_dashes(window: MainWindow, page: TrainPage) -> None:
    show(window, sample_states.training_odd())
    assert page.loss.values[0].text() == "mine –"
    assert page.loss.values[2].text() == "room validation –"
    assert page.status.left.text() == ""
    shown = " ".join(label.text() for label in page.findChildren(QLabel))
    assert "nan" not in shown.lower()
    assert "inf" not in shown.lower().split()
    assert page.members.lines[1].link.text() == "CPU · direct · –"


def test_charts_follow_the_theme(window: MainWindow, page: TrainPage) -> None:
    show(window, sample_states.training())
    light = page.loss.plot.backgroundBrush().color().name()
    window.set_theme("dark")
    assert page.loss.plot.backgroundBrush().color().name() != light
    assert page.loss._items[2].opts["pen"].color().name().upper() == "#9198F5"


# -- members and digest -------------------------------------------------------------------------------


def test_members_with_state_link_traffic_and_time(window: MainWindow, page: TrainPage) -> None:
    show(window, sample_states.training())
    me, awaited, _, via = page.members.lines
    assert (me.name.text(), me.tag.text(), me.state.text()) == ("Quiet Heron", "you · leader", "ready")
    assert awaited.state.text() == "still training, 4 s"
    assert awaited.link.text() == "CPU · direct · 1 ms"
    assert awaited.traffic.text() == "↑ 0.9 ↓ 0.9 MB"
    assert via.link.text() == "MPS · via Lab 3 · 41 ms"
    assert via.bar.parts == ((0.60, "mine"), (0.20, "room"))
    assert "waiting 20 %" in via.bar.accessibleDescription()
    assert page.digest.title.text() == "All 4 hold the same weights"
    assert page.digest.note.text() == "round 6 · digest 9f2c 41d0"


@pytest.mark.parametrize(("rounds", "said"), [
    ((6, 6, 6, 6), "All 4 hold the same weights"), ((6, 6), "Both hold the same weights"), ((6,), "Your weights"),
    ((6, 6, 5), "2 of 3 hold the same weights"),
])
def test_digest_card_never_claims_too_much(window: MainWindow, page: TrainPage, rounds: tuple[int, ...],
                                           said: str) -> None:
    state = sample_states.training()
    rows = tuple(replace(row, round=r) for row, r in zip(state.session.members, rounds, strict=False))
    show(window, replace(state, session=replace(state.session, members=rows)))
    assert page.digest.title.text() == said


def test_lost_members_are_not_counted(window: MainWindow, page: TrainPage) -> None:
    state = sample_states.training()
    rows = (*state.session.members[:3], replace(state.session.members[3], state="lost", round=4))
    show(window, replace(state, session=replace(state.session, members=rows)))
    assert page.head.note.text() == "room maple-otter · 3 members"
    assert page.digest.title.text() == "All 3 hold the same weights"
    assert page.members.lines[3].state.text() == "lost"


def test_no_round_yet(window: MainWindow, page: TrainPage) -> None:
    show(window, replace(sample_states.train_ready(), session=SessionState()))
    assert page.digest.title.text() == "No round is finished yet"
    assert page.members.nobody.isVisible()


def test_sixty_members_scroll_and_shrink_again(window: MainWindow, page: TrainPage) -> None:
    state = sample_states.training()
    many = tuple(replace(state.session.members[1], peer=f"{i:08x}", name=f"Member {i}") for i in range(60))
    show(window, replace(state, session=replace(state.session, members=many)))
    assert page.members.area.verticalScrollBar().maximum() > 0
    assert page.members.count.text() == "60"
    show(window, state)
    assert sum(line.isVisible() for line in page.members.lines) == 4
    assert page.members.area.verticalScrollBar().maximum() == 0


def test_long_names_are_shortened_and_told_whole(window: MainWindow, page: TrainPage) -> None:
    show(window, sample_states.training_crowd())
    line = page.members.lines[1]
    assert line.name.is_elided()
    assert line.name.toolTip() == sample_states.LONG_NAME
    assert line.state.text() == "lost, 31 s"
    assert inside(line.state, page.members)


def test_unknown_state_words_are_shown_as_they_are(qtbot: QtBot) -> None:
    line = MemberLine()
    qtbot.addWidget(line)
    line.show_member(MemberRow(peer="a", name="Calm Lynx", state="re-joining"), awaited=False, last=True)
    assert line.state.text() == "re-joining"


def test_lanes_retries_and_large_messages_on_their_way_are_told(qtbot: QtBot) -> None:
    line = MemberLine()
    qtbot.addWidget(line)

    def shown(**values: Any) -> tuple[str, str]:
        line.show_member(MemberRow(peer="a", name="Calm Lynx", **values), awaited=False, last=True)
        return line.link.text(), line.traffic.text()

    assert shown(link="direct", lanes={"webrtc": 1, "tls": 1}, rtt_ms=1.2)[0] == "direct, TLS · 1 ms"
    assert shown(link="direct", lanes={"webrtc": 4})[0] == "direct, 4 lanes"
    assert shown(link="via Lab 3", lanes={"via": 1})[0] == "via Lab 3"
    assert shown(link="lost", next_try_s=6.2)[0] == "no link · next try in 6 s"
    moving = (Moving(outgoing=True, done_bytes=124_000_000, total_bytes=496_000_000, left_s=3.0),
              Moving(outgoing=False, done_bytes=0, total_bytes=20_000_000))
    assert shown(link="direct", sent_bytes=5_000_000, moving=moving)[1] == "↑ 25 % ↓ 0 % · 3 s"
    assert line.traffic.toolTip() == "sending 124 of 496 MB, about 3 s left; receiving 0 of 20.0 MB, –"
    small = (Moving(outgoing=True, done_bytes=1, total_bytes=300_000),)
    assert shown(link="direct", sent_bytes=5_000_000, moving=small)[1] == "↑ 5.0 ↓ 0 MB"


# -- log ----------------------------------------------------------------------------------------------


def test_log_strip_opens_the_whole_log_and_closes_it(window: MainWindow, page: TrainPage, press: Press) -> None:
    show(window, sample_states.training())
    assert page.strip.newest.text() == "17:42:31  no direct path to Brisk Otter, going through Lab 3"
    assert page.strip.older.text() == "17:42:08  Brisk Otter joined, counts from round 5"
    assert page.strip.lag.text() == "window lag p99 3 ms"
    press("Log")
    assert page.log.isVisible()
    assert not page.loss.isVisible()
    assert page.log.model.rowCount() == len(sample_states.LOG)
    page.log.level.setCurrentIndex(2)
    assert [line.severity for line in page.log.model.lines] == ["bad"]
    press("Copy")
    copied = "17:41:30\tproblem\tA contribution of Lab 3 was refused: a number is not finite"
    assert QApplication.clipboard().text() == copied
    press("Back to the charts")
    assert page.loss.isVisible()


def test_log_appends_and_replaces(window: MainWindow, page: TrainPage) -> None:
    state = sample_states.training()
    show(window, state)
    more = (*state.log, LogLine(at="17:43:00", severity="info", text="Calm Lynx is ready"))
    resets: list[None] = []
    page.log.model.modelReset.connect(lambda: resets.append(None))
    show(window, replace(state, log=more))
    assert page.log.model.rowCount() == 6
    assert resets == []
    show(window, replace(state, log=more[-2:]))
    assert page.log.model.rowCount() == 2


# -- room for everything ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["training", "training_crowd", "training_number", "train_ready", "train_blocked",
                                  "trained"])
@pytest.mark.parametrize("size", [(1280, 720), (1024, 640)])
def test_nothing_is_clipped(window: MainWindow, page: TrainPage, name: str, size: tuple[int, int]) -> None:
    window.resize(*size)
    show(window, sample_states.SAMPLES[name]())
    assert (window.width(), window.height()) == size
    clipped = []
    for widget in page.findChildren(QWidget):
        if not widget.isVisible() or page.members.area.isAncestorOf(widget) or page.log.isAncestorOf(widget):
            continue
        if isinstance(widget, QLabel) and not widget.text():
            continue
        least = widget.minimumSizeHint()
        if isinstance(widget, QAbstractSpinBox):  # its hint is for the longest number of its range
            least.setWidth(widget.fontMetrics().horizontalAdvance(widget.text()) + theme.px(8 + 24))
        if widget.width() < least.width() or widget.height() < least.height() or not inside(widget, window):
            clipped.append((type(widget).__name__, getattr(widget, "text", str)(), widget.size(), least))
    assert clipped == []


def inside(widget: QWidget, outer: QWidget) -> bool:
    corner = widget.mapTo(outer, widget.rect().bottomRight())
    start = widget.mapTo(outer, widget.rect().topLeft())
    return start.x() >= 0 and start.y() >= 0 and corner.x() <= outer.width() and corner.y() <= outer.height()


def test_the_whole_words_fit_at_1280(window: MainWindow, page: TrainPage) -> None:
    show(window, sample_states.training())
    for part in (page.status.title, page.status.note, page.head.title, page.head.note, page.digest.note):
        assert not part.is_elided(), part.text()
    assert page.members.area.verticalScrollBar().maximum() == 0
    assert find_button(page, "Invite…").width() >= find_button(page, "Invite…").sizeHint().width()


@pytest.mark.parametrize("size", [(1280, 720), (1024, 640)])
@pytest.mark.parametrize("state", ["train_ready", "training"])
def test_the_other_values_are_shown_in_the_place_of_the_first(
    window: MainWindow, page: TrainPage, qtbot: QtBot, size: tuple[int, int], state: str
) -> None:
    window.resize(*size)
    show(window, sample_states.SAMPLES[state]())
    values = page.values
    if state == "training":
        assert not values.isVisible()
        qtbot.mouseClick(page.change, Qt.MouseButton.LeftButton)
    for _ in range(2):
        assert values.batch.isVisible()
        assert not values.outer.isVisible()
        for parts in ((values.local_epochs, values.weighting, values.topology, values.late),
                      (values.outer, values.outer_lr, values.outer_momentum)):
            assert values.more.text() == "More"
            qtbot.mouseClick(values.more, Qt.MouseButton.LeftButton)
            assert not values.batch.isVisible()
            for part in parts:
                assert part.isVisible()
                assert part.width() >= (0 if isinstance(part, QAbstractSpinBox) else part.minimumSizeHint().width())
                assert inside(part, window)
        assert values.more.text() == "Back"
        qtbot.mouseClick(values.more, Qt.MouseButton.LeftButton)


def test_the_leader_changes_values_while_training_and_others_see_them(
    window: MainWindow, page: TrainPage, asked: list[Intent], qtbot: QtBot
) -> None:
    state = sample_states.training()
    session = msgspec.structs.replace(state.session, role="leader")
    show(window, msgspec.structs.replace(state, session=session))
    qtbot.mouseClick(page.change, Qt.MouseButton.LeftButton)
    values = page.values
    assert values.note.text() == "a change counts from the next round on, for all"
    values.precision.setCurrentText("int8")
    values.outer.setCurrentText("nesterov")
    values.weighting.setCurrentText("equal")
    values.topology.setCurrentText("star")
    values.local_epochs.stepUp()
    values.late.setCurrentText("carry")
    assert asked == [SetTraining("precision", "int8"), SetTraining("outer", "nesterov"),
                     SetTraining("weighting", "equal"), SetTraining("topology", "star"),
                     SetTraining("local_epochs", "1"), SetTraining("late", "carry")]
    member = msgspec.structs.replace(session, role="member")
    show(window, msgspec.structs.replace(state, session=member))
    assert values.note.text() == "the leader sets these"
    assert not values.precision.isEnabled()
    qtbot.mouseClick(page.change, Qt.MouseButton.LeftButton)
    assert not values.isVisible()


def test_an_outer_learning_rate_is_asked_for_only_where_there_is_an_outer_optimiser(
    window: MainWindow, page: TrainPage
) -> None:
    state = sample_states.train_ready()
    show(window, state)
    assert not page.values.outer_lr.isEnabled()
    show(window, msgspec.structs.replace(state, values=TrainingValues(outer="momentum")))
    assert page.values.outer_lr.isEnabled()
    assert page.values.local_epochs.text() == "off"
