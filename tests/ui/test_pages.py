"""The other pages: what each shows of a snapshot, and the intent of each of its controls."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QLabel, QWidget
from pytestqt.qtbot import QtBot

from desktop.intents import (
    AddData,
    AnotherWindow,
    BeginJoin,
    BeginRoom,
    CheckPaths,
    ChooseTask,
    ClearData,
    EditData,
    GoTo,
    Intent,
    Join,
    Leave,
    MakeTask,
    OpenFolder,
    OpenRoom,
    OpenTask,
    SaveTask,
    SetDraft,
    SetSetting,
    TrainAlone,
    TryDemo,
    TryImage,
    TrySample,
    UndoData,
    UseDraft,
    UseSample,
)
from desktop.state import DataView, Edit, NearbyRoom, RoomView, TaskCard, TryView, WindowState
from desktop.ui.main_window import MainWindow
from desktop.ui.theme import theme
from tests.ui import sample_states
from tests.ui.conftest import find_button

Press = Callable[[str], None]
replace = msgspec.structs.replace


def show(window: MainWindow, state: WindowState) -> Any:
    """Render, let Qt lay out, and give the page."""
    window.render(state)
    QApplication.processEvents()
    return window.page(state.page)


def texts(widget: QWidget) -> str:
    """All visible words, one label a line."""
    return "\n".join(label.text() for label in widget.findChildren(QLabel) if label.isVisible())


# -- first page ---------------------------------------------------------------------------------------


def test_first_page_offers_four_ways(window: MainWindow, asked: list[Intent], press: Press) -> None:
    show(window, sample_states.first())
    for way in ("Start the demo", "Start…", "Train…"):
        press(way)
    press("Join a room…")
    assert asked == [TryDemo(3), BeginRoom(), TrainAlone(), BeginJoin()]


def test_name_is_edited_in_place(window: MainWindow, asked: list[Intent], qtbot: QtBot) -> None:
    page = show(window, sample_states.first())
    assert page.name.text() == "Quiet Heron"
    page.name.setFocus()
    page.name.selectAll()
    qtbot.keyClicks(page.name, "  Ward   4 ")
    qtbot.keyClick(page.name, Qt.Key.Key_Return)
    assert asked == [SetSetting("name", "Ward 4")]
    page.name.selectAll()
    qtbot.keyClick(page.name, Qt.Key.Key_Delete)
    qtbot.keyClick(page.name, Qt.Key.Key_Return)
    assert page.name.text() == "Ward 4"
    assert len(asked) == 1


def test_room_nearby_is_joined_with_its_address_filled_in(window: MainWindow, asked: list[Intent], press: Press,
                                                          qtbot: QtBot) -> None:
    page = show(window, sample_states.first())
    assert "Handwritten digits · hosted by Calm Lynx, 2 members" in texts(page)
    press("Join maple-otter…")
    assert asked == [BeginJoin()]
    room = show(window, sample_states.room_join())
    assert room.join.address.text() == "192.168.1.31:47113"
    qtbot.keyClicks(room.join.text, "maple-otter-amber-falcon-42")
    press("Join")
    assert asked[-1] == Join("maple-otter-amber-falcon-42", "192.168.1.31:47113")


def test_many_rooms_nearby_do_not_push_the_page_out(window: MainWindow, asked: list[Intent], press: Press) -> None:
    many = tuple(NearbyRoom(room=f"room-{i}", host="Calm Lynx", task="Digits", members=1, address=f"10.0.0.{i}:4000")
                 for i in range(9))
    page = show(window, replace(sample_states.first(), nearby=many))
    assert texts(page).count("hosted by") == 3
    press("6 more nearby")
    assert asked == [BeginJoin()]


# -- task ---------------------------------------------------------------------------------------------


def test_tasks_are_cards_to_choose(window: MainWindow, asked: list[Intent], press: Press) -> None:
    page = show(window, sample_states.task())
    assert not page.choose["digits"].isEnabled()
    assert page.choose["digits"].text() == "Chosen"
    press("Choose Your own pictures")
    press("Continue")
    assert asked == [ChooseTask("images"), GoTo("data")]


def test_without_a_task_one_cannot_go_on(window: MainWindow) -> None:
    page = show(window, replace(sample_states.task(), task=None))
    assert not page.go_on.isEnabled()
    assert page.go_on.toolTip() == "Choose a task first"


def test_guests_cannot_change_the_task(window: MainWindow) -> None:
    joined = replace(sample_states.room_open(), page="task", mode="join")
    joined = replace(joined, room=replace(joined.room, state="joined", hosting=False))
    page = show(window, joined)
    assert not any(button.isEnabled() for button in page.choose.values())


def test_a_task_of_ones_own_is_made_value_by_value(window: MainWindow, asked: list[Intent], press: Press,
                                                   qtbot: QtBot) -> None:
    page = show(window, sample_states.make_task())
    assert not page.use.isEnabled()  # the height cannot be
    assert "9600" in page.lines["height"].text.text()
    assert page.parameters.text() == "95,044"
    page.lines["height"].control.setText("64")
    qtbot.keyClick(page.lines["height"].control, Qt.Key.Key_Return)
    page.lines["channels"].control.setCurrentText("grey")
    page.kind.setCurrentIndex(1)
    assert asked == [SetDraft("height", "64"), SetDraft("channels", "grey"), SetDraft("kind", "table")]
    asked.clear()
    show(window, replace(sample_states.make_task(), draft=replace(sample_states.make_task().draft, error="")))
    press("Use this task")
    press("Save as file…")
    page.dialog.fileSelected.emit("/home/me/cells.peerloom-task")
    page.dialog.reject()
    press("Open a task file…")
    page.dialog.fileSelected.emit("/home/me/other.peerloom-task")
    page.dialog.reject()
    assert asked == [UseDraft(), SaveTask("/home/me/cells.peerloom-task"), OpenTask("/home/me/other.peerloom-task")]


def test_the_task_page_leads_to_making_one(window: MainWindow, asked: list[Intent], press: Press) -> None:
    show(window, sample_states.task())
    press("Make your own…")
    assert asked == [MakeTask()]


# -- data ---------------------------------------------------------------------------------------------


def test_empty_data_page_says_what_to_do(window: MainWindow, asked: list[Intent], press: Press) -> None:
    page = show(window, sample_states.data_empty())
    assert "Drop your data anywhere in this window" in texts(page)
    assert not page.go_on.isEnabled()
    press("Use the sample data")
    press("Choose folder…")
    page.dialog.reject()
    assert asked == [UseSample()]


def test_data_used_before_is_one_click_away(window: MainWindow, asked: list[Intent], press: Press) -> None:
    show(window, sample_states.data_empty())
    press("Use /data/penguins.csv")
    assert asked == [AddData(("/data/penguins.csv",))]


def test_folder_is_chosen_without_blocking(window: MainWindow, asked: list[Intent], press: Press,
                                           tmp_path: Path) -> None:
    page = show(window, sample_states.data_empty())
    press("Choose folder…")
    page.dialog.filesSelected.emit([str(tmp_path)])
    page.dialog.reject()
    press("Choose files…")
    page.dialog.filesSelected.emit(["/home/me/a.csv", "/home/me/b.csv"])
    page.dialog.reject()
    assert asked == [AddData((str(tmp_path),)), AddData(("/home/me/a.csv", "/home/me/b.csv"))]


def test_data_with_findings(window: MainWindow, asked: list[Intent], press: Press) -> None:
    page = show(window, sample_states.data_pets())
    assert page.head.note.text() == "pets · 1,043 pictures in 3 classes · stays on this computer"
    assert page._findings.title.text() == "4 things to look at"
    facts = ["bird, cat, dog", "834 / 105 / 104", "any → 64 × 64, upright, colour"]
    assert [fact.text() for fact in page.facts] == facts
    press("Show: 3 pictures can’t be opened")
    press("Continue")
    press("Clear: forget this data")
    assert asked == [OpenFolder("/home/me/pets/cat/IMG_0412.jpg"), GoTo("room"), ClearData()]


def test_a_class_is_renamed_in_place(window: MainWindow, asked: list[Intent], qtbot: QtBot) -> None:
    page = show(window, sample_states.data_pets())
    bird = page._cards[0]
    bird.rename()
    qtbot.keyClicks(bird.typed, "  sea   bird ")
    qtbot.keyClick(bird.typed, Qt.Key.Key_Return)
    assert asked == [EditData((Edit(what="class", name="bird", value="sea bird"),))]
    assert bird.name.isVisible()


def test_escape_keeps_the_name_of_a_class(window: MainWindow, asked: list[Intent], qtbot: QtBot) -> None:
    bird = show(window, sample_states.data_pets())._cards[0]
    bird.rename()
    qtbot.keyClicks(bird.typed, "fish")
    qtbot.keyClick(bird.typed, Qt.Key.Key_Escape)
    assert bird.name.isVisible()
    assert asked == []


def test_a_class_is_merged_or_left_out_by_its_menu(window: MainWindow, asked: list[Intent]) -> None:
    menu = show(window, sample_states.data_pets())._cards[0].menu()
    rename, merge, leave = menu.actions()
    assert [action.text() for action in merge.menu().actions()] == ["cat", "dog"]
    merge.menu().actions()[1].trigger()
    leave.trigger()
    assert asked == [EditData((Edit(what="class", name="bird", value="dog"),)),
                     EditData((Edit(what="class", name="bird", value=""),))]
    assert rename.text() == "Rename…"


def test_classes_of_the_sample_cannot_be_changed(window: MainWindow) -> None:
    page = show(window, sample_states.data_digits())
    assert not any(card.more.isVisible() for card in page._cards)


def test_a_table_shows_its_columns_and_each_can_be_changed(window: MainWindow, asked: list[Intent], press: Press
                                                           ) -> None:
    page = show(window, sample_states.data_table())
    assert page.head.note.text() == "penguins.csv · 344 rows · stays on this computer"
    assert [line.role.currentText() for line in page._table.lines] == [
        "what to predict", "category", "number", "number", "number", "leave out", "leave out"]
    page._table.lines[1].role.setCurrentText("leave out")
    page._table.reading["separator"].box.setCurrentText("tab")
    assert not page._table.reading["sheet"].isVisible()  # it is no spreadsheet
    press("Undo the last change to the data")
    press("Leave this column out: “e-mail of the observer” identifies people")
    email = Edit(what="role", name="e-mail of the observer", value="ignore")
    assert asked == [EditData((Edit(what="role", name="island", value="ignore"),)),
                     EditData((Edit(what="reading", name="separator", value="\t"),)), UndoData(), EditData((email,))]
    assert page.facts[0].text().endswith("flipper_length_mm → species")
    assert page._findings.score.text() == "72 of 100"


def test_a_text_shows_how_it_begins(window: MainWindow, asked: list[Intent]) -> None:
    page = show(window, sample_states.data_text())
    assert page._text.sample.text().startswith("ACT I\n\nSCENE I.")
    assert page._text.count.text() == "3 files, 209,152 characters, 209,152 tokens"
    page._text.encoding.box.setCurrentText("cp1252")
    assert asked == [EditData((Edit(what="reading", name="encoding", value="cp1252"),))]
    assert page._findings.title.text() == "Nothing to look at"


def test_class_cards_find_room_at_every_width(window: MainWindow) -> None:
    for width in (1024, 1280, 1600):
        window.resize(width, 720)
        page = show(window, sample_states.data_digits())
        cards = page._cards
        assert len(cards) == 10
        assert max(card.mapTo(window, card.rect().topRight()).x() for card in cards) < width - theme.px(24) + 1
        rows = {card.y() for card in cards}
        assert len(rows) == 2 if width > 1024 else len(rows) in (3, 4)


def test_reading_shows_how_far_and_can_be_cancelled(window: MainWindow, asked: list[Intent], press: Press) -> None:
    page = show(window, sample_states.data_reading())
    assert page.reading.text() == "/home/me/pets/dog — 412 of 1,043 pictures"
    assert page.progress.parts == ((0.4, "mine"),)
    press("Cancel reading")
    assert asked == [ClearData()]


def test_data_that_cannot_be_used_says_why(window: MainWindow) -> None:
    page = show(window, sample_states.data_error())
    assert page.error.text().startswith("No pictures in /home/me/notes.")
    assert page.error.isVisible()
    assert not page.go_on.isEnabled()


def test_alone_nothing_is_said_about_a_room(window: MainWindow) -> None:
    assert "What the room will see" in texts(show(window, sample_states.data_digits()))
    assert "the room" not in texts(show(window, replace(sample_states.data_digits(), mode="alone")))


def test_broken_thumbnail_is_harmless(window: MainWindow) -> None:
    data = sample_states.digits_data()
    broken = replace(data, classes=(replace(data.classes[0], thumbnails=(b"no picture", b"")),))
    show(window, replace(sample_states.data_digits(), data=broken))
    window.grab()


# -- room ---------------------------------------------------------------------------------------------


def test_undecided_one_chooses_a_way(window: MainWindow, asked: list[Intent], press: Press) -> None:
    page = show(window, sample_states.room_choose())
    assert page.faces.currentWidget() is page.choose
    press("Open a room")
    press("Join a room…")
    press("Train alone")
    assert asked == [BeginRoom(), BeginJoin(), TrainAlone()]


def test_host_opens_for_so_many(window: MainWindow, asked: list[Intent], press: Press) -> None:
    page = show(window, sample_states.room_host())
    page.open.start_members.stepUp()
    press("Open the room")
    assert asked == [OpenRoom(3)]
    show(window, replace(sample_states.room_host(), room=sample_states.RoomView(hosting=True, state="opening")))
    assert not page.open.go.isEnabled()
    press("Leave the room")
    assert asked[-1] == Leave()


def test_host_reads_why_it_could_not_open(window: MainWindow) -> None:
    failed = sample_states.RoomView(hosting=True, state="failed", error="Port 7000 is already used by another program.")
    page = show(window, replace(sample_states.room_host(), room=failed))
    assert "Port 7000 is already used by another program." in texts(page)
    assert page.open.go.isEnabled()


def test_open_room_tells_all_ways_in(window: MainWindow, asked: list[Intent], press: Press) -> None:
    page = show(window, sample_states.room_open())
    invite = page.inside.invite
    assert page.head.title.text() == "maple-otter"
    assert page.head.note.text() == "Handwritten digits · you host it · starts when 3 members are ready"
    assert invite.link.text() == sample_states.LINK
    assert invite.code.text() == "maple-otter-amber-falcon-42"
    assert invite.address.text() == "192.168.1.20:47113"
    assert invite.qr.fits
    press("Copy the link")
    assert QApplication.clipboard().text() == sample_states.LINK
    assert invite.copy.text() == "Copied"
    assert page.inside.count.text() == "3 members are here"
    press("Another window here")
    press("Leave")
    press("Continue")
    assert asked == [AnotherWindow(), Leave(), GoTo("train")]


def test_room_without_a_code_shows_none(window: MainWindow) -> None:
    state = sample_states.room_open()
    page = show(window, replace(state, room=replace(state.room, code="")))
    assert not page.inside.invite.code.isVisible()


def test_link_too_long_for_a_code_points_at_the_link(window: MainWindow) -> None:
    state = sample_states.room_open()
    page = show(window, replace(state, room=replace(state.room, link="peerloom://join?x=" + "y" * 4000)))
    assert not page.inside.invite.qr.isVisible()
    assert page.inside.invite.no_qr.isVisible()


def test_join_by_link_code_and_address(window: MainWindow, asked: list[Intent], press: Press, qtbot: QtBot) -> None:
    page = show(window, sample_states.room_join())
    assert not page.join.go.isEnabled()
    qtbot.keyClicks(page.join.text, f" {sample_states.LINK} ")
    press("Join")
    assert asked == [Join(sample_states.LINK, "")]
    assert not page.join.address.isVisible()
    press("Add an address…")
    QApplication.processEvents()
    page.join.text.setText("maple-otter-amber-falcon-42")
    qtbot.keyClicks(page.join.address, "10.0.0.7:4000")
    qtbot.keyClick(page.join.address, Qt.Key.Key_Return)
    assert asked[-1] == Join("maple-otter-amber-falcon-42", "10.0.0.7:4000")


def test_joining_and_failing(window: MainWindow, asked: list[Intent], press: Press) -> None:
    page = show(window, sample_states.room_join())
    page.join.text.setText("maple-otter-amber-falcon-42")
    show(window, sample_states.room_joining())
    assert page.join.busy.text() == "Knocking at maple-otter…"
    assert not page.join.go.isEnabled()
    assert find_button(page, "Cancel").isVisible()
    press("Cancel")
    assert asked == [Leave()]
    show(window, sample_states.room_failed())
    assert page.join.trouble.text.text().startswith("No room answers at 192.168.1.31:47113.")
    assert page.join.text.text() == "maple-otter-amber-falcon-42"  # nothing typed is lost
    assert page.join.go.isEnabled()


def test_alone_no_room_is_needed(window: MainWindow, asked: list[Intent], press: Press) -> None:
    page = show(window, sample_states.room_alone())
    assert "No room is needed" in texts(page)
    press("Open a room after all")
    press("Continue")
    assert asked == [BeginRoom(), GoTo("train")]


# -- try ----------------------------------------------------------------------------------------------


def test_nothing_to_try_leads_to_training(window: MainWindow, asked: list[Intent], press: Press) -> None:
    page = show(window, sample_states.try_empty())
    assert "Nothing to try yet" in texts(page)
    assert not page.choose.isEnabled()
    press("Go to Train")
    assert asked == [GoTo("train")]


def test_model_is_tried(window: MainWindow, asked: list[Intent], press: Press) -> None:
    page = show(window, sample_states.try_page())
    assert page.score.text() == "97.2 %"
    assert page.score_note.text() == "right on 360 test samples, F1 0.971. Nobody trained on these."
    assert page.answer.text() == "8, 96 % sure"
    assert len(page.bars) == 10
    assert page.bars[8].parts == ((0.958, "mine"),)
    press("Test picture 3")
    press("Open folder")
    press("Choose a picture…")
    page.dialog.fileSelected.emit("/home/me/seven.png")
    page.dialog.reject()
    assert asked == [TrySample(2), OpenFolder(sample_states.MODELS[0].path), TryImage("/home/me/seven.png")]


def test_of_a_model_for_text_there_is_the_score_and_no_picture(window: MainWindow) -> None:
    state = sample_states.try_page()
    assert state.task is not None
    plain = replace(state, task=replace(state.task, kind="text"),
                    try_=TryView(ready=True, test_accuracy=0.41, test_samples=175, model_path="/models/play"))
    page = show(window, plain)
    assert page.score.isVisible()
    assert page.path.isVisible()
    for part in (page.choose, page.picture, page.answer, *page.sample_buttons):
        assert not part.isVisible()
    page = show(window, state)
    assert page.picture.isVisible()
    assert page.answer.isVisible()
    assert page.choose.isVisible()


def test_picture_that_cannot_be_read_says_why(window: MainWindow) -> None:
    view = TryView(ready=True, error="cat.png cannot be opened as a picture: it is cut off. It is skipped.")
    page = show(window, replace(sample_states.try_empty(), try_=view))
    assert page.trouble.text() == view.error
    assert page.score.text() == "–"


# -- models, network, settings, help ------------------------------------------------------------------


def test_models_are_listed(window: MainWindow, asked: list[Intent], qtbot: QtBot) -> None:
    page = show(window, sample_states.models_page())
    assert "4 May 2031, 17:42 · 12 rounds · 3 members · 0.4 MB" in texts(page)
    assert "not tested" in texts(page)
    qtbot.mouseClick(page.open_buttons[1], Qt.MouseButton.LeftButton)
    assert asked == [OpenFolder(sample_states.MODELS[1].path)]


def test_no_models_leads_to_a_task(window: MainWindow, asked: list[Intent], press: Press) -> None:
    show(window, sample_states.models_empty())
    press("Choose a task")
    assert asked == [GoTo("task")]


def test_network_rows_sort_by_number(window: MainWindow) -> None:
    page = show(window, sample_states.network_page())
    assert page.addresses.text() == "192.168.1.20 · 10.0.0.4"
    table = page.table.model()
    assert table.rowCount() == 3
    page.table.sortByColumn(3, Qt.SortOrder.DescendingOrder)
    assert [table.index(row, 3).data() for row in range(3)] == ["41 ms", "23 ms", "1 ms"]
    assert [table.index(0, column).data() for column in (1, 4, 5, 6)] == [
        "d4c7720a", "relay → host", "2 host, 1 relay, 2 srflx", "3"]
    page.table.sortByColumn(6, Qt.SortOrder.DescendingOrder)
    assert [table.index(row, 6).data() for row in range(3)] == ["4", "3", "2"]


def test_network_row_without_a_path(window: MainWindow) -> None:
    page = show(window, replace(sample_states.network_page(), paths=()))
    table = page.table.model()
    assert [table.index(0, column).data() for column in (4, 5, 6)] == ["–", "–", "–"]


def test_network_verdict_stands_until_the_next_one(window: MainWindow, asked: list[Intent], press: Press) -> None:
    page = show(window, sample_states.network_page())
    card = page.paths
    assert card.title.text() == "Reachable from anywhere"
    assert card.icon.accessibleName() == "good"
    assert card.at.text() == "checked at 17:41"
    assert card.details.isHidden()
    press("Details")
    assert card.details.isVisible()
    assert "stun.one.example:3478: sees this computer at 203.0.113.7:54012" in card.details.text()
    press("Check again")
    assert asked == [CheckPaths()]
    show(window, sample_states.network_bad())
    assert (card.check.text(), card.check.isEnabled()) == ("Checking…", False)
    assert card.title.text() == "TURN: wrong name or password"
    assert card.icon.accessibleName() == "bad"
    assert card.details.isVisible()
    press("Hide details")
    assert card.details.isHidden()


def test_network_can_be_checked_before_there_is_a_room(window: MainWindow, asked: list[Intent], press: Press) -> None:
    page = show(window, sample_states.network_empty())
    assert page.paths.text.text() == "This is found out when a room is opened or joined."
    assert page.paths.facts.isHidden()
    press("Check")
    assert asked == [CheckPaths()]


def test_network_without_a_room_leads_to_one(window: MainWindow, asked: list[Intent], press: Press) -> None:
    page = show(window, sample_states.network_empty())
    assert page.addresses.text() == "No address on a network that others could reach."
    press("Go to Room")
    assert asked == [GoTo("room")]


def test_settings_send_text_at_once(window: MainWindow, asked: list[Intent], qtbot: QtBot) -> None:
    page = show(window, sample_states.settings_page())
    page.lines["theme"].control.setCurrentText("dark")
    qtbot.mouseClick(page.lines["announce"].control, Qt.MouseButton.LeftButton)
    share = page.lines["cpu_share"].control
    share.setFocus()
    share.selectAll()
    qtbot.keyClicks(share, "2")
    qtbot.keyClick(share, Qt.Key.Key_Return)
    qtbot.mouseClick(page.lines["port"].reset, Qt.MouseButton.LeftButton)
    assert asked == [SetSetting("theme", "dark"), SetSetting("announce", "false"), SetSetting("cpu_share", "2"),
                     SetSetting("port", "0")]


def test_refused_setting_says_what_is_allowed_and_keeps_what_was_typed(window: MainWindow, qtbot: QtBot) -> None:
    state = sample_states.settings_page()
    page = show(window, state)
    assert "Allowed: a whole number from 1024 to 65535" in page.lines["port"].text.text()
    page.lines["port"].control.setText("99999999")
    rows = tuple(replace(row, error="port: “99999999” is not valid.") if row.key == "port" else row
                 for row in state.settings)
    show(window, replace(state, settings=rows))
    assert page.lines["port"].control.text() == "99999999"


def test_settings_are_found_by_their_words(window: MainWindow, qtbot: QtBot) -> None:
    page = show(window, sample_states.settings_page())
    qtbot.keyClicks(page.search, "processor cores")
    assert [key for key, line in page.lines.items() if line.isVisible()] == ["cpu_share"]
    qtbot.keyClicks(page.search, "xyz")
    assert page.nothing.isVisible()


def test_help_says_what_is_shared_and_the_keys(window: MainWindow) -> None:
    said = texts(show(window, sample_states.help_page()))
    for needed in ("What is shared, and with whom", "They are never sent.", "Ctrl+N", "Alt+1 … Alt+5", "F1"):
        assert needed in said


@pytest.mark.parametrize("name", sorted(sample_states.SAMPLES))
def test_no_page_needs_more_than_the_least_window(window: MainWindow, name: str) -> None:
    window.resize(1024, 640)
    state = sample_states.SAMPLES[name]()
    page = show(window, state)
    assert (window.width(), window.height()) == (1024, 640)
    assert page.minimumSizeHint().width() <= page.width()
    assert page.minimumSizeHint().height() <= page.height()


def test_data_view_without_anything(window: MainWindow) -> None:
    show(window, replace(sample_states.data_empty(), data=DataView(), task=None))


def test_a_model_shows_when_it_was_made_in_this_computers_words() -> None:
    from datetime import datetime

    from desktop.ui.formats import moment

    here = datetime.fromisoformat("2026-11-30T21:10:48+00:00").astimezone()
    shown = moment("2026-11-30T21:10:48+00:00")
    assert here.strftime("%H:%M") in shown
    assert "T" not in shown
    assert moment("the other day") == "the other day"


def test_who_has_joined_is_told_for_which_room_the_data_is(window: MainWindow) -> None:
    room = RoomView(room="maple-otter", host="Calm Lynx", state="joined")
    task = TaskCard(id="digits", title="Handwritten digits", text="", data="", sample=True)
    window.render(WindowState(page="data", mode="join", room=room, task=task))
    note = window.page("data").head.note.text()
    assert note == "for Handwritten digits in maple-otter, hosted by Calm Lynx · stays on this computer"
