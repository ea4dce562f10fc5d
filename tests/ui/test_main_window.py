"""The frame of the window: rail, keys, notices, drag and drop, closing, themes, what it costs to render."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from PySide6.QtCore import QMimeData, QPointF, Qt, QUrl
from PySide6.QtGui import QDragEnterEvent, QDragLeaveEvent, QDropEvent
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from desktop.intents import AddData, BeginJoin, BeginRoom, Dismiss, GoTo, Intent, Join, Quit, TryImage
from desktop.state import PAGES, STEPS, Notice, WindowState
from desktop.ui.main_window import MainWindow
from desktop.ui.theme import DARK, LIGHT, theme
from tests.ui import sample_states

Press = Callable[[str], None]


def test_every_step_and_link_of_the_rail_leads_to_its_page(window: MainWindow, asked: list[Intent],
                                                           qtbot: QtBot) -> None:
    for button in (*window.rail.steps.values(), *window.rail.links.values()):
        qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    qtbot.mouseClick(window.rail.home, Qt.MouseButton.LeftButton)
    assert asked == [GoTo(page) for page in (*STEPS, "models", "network", "settings", "help", "first")]


def test_rail_shows_where_we_are_and_what_is_done(window: MainWindow) -> None:
    window.render(sample_states.training())
    assert [page for page, step in window.rail.steps.items() if step.done] == ["task", "data", "room"]
    assert [page for page, step in window.rail.steps.items() if step.isChecked()] == ["train"]
    assert window.rail.name.text() == "Quiet Heron"
    assert window.rail.device.text() == "CPU · 1 of 2 cores"
    assert "done" in window.rail.steps["task"].accessibleDescription()


def test_a_click_on_a_step_does_not_move_there_by_itself(window: MainWindow, qtbot: QtBot) -> None:
    window.render(sample_states.task())
    qtbot.mouseClick(window.rail.steps["try"], Qt.MouseButton.LeftButton)
    assert window.rail.steps["task"].isChecked()
    assert not window.rail.steps["try"].isChecked()


@pytest.mark.parametrize(("key", "modifier", "wanted"), [
    (Qt.Key.Key_N, Qt.KeyboardModifier.ControlModifier, BeginRoom()),
    (Qt.Key.Key_J, Qt.KeyboardModifier.ControlModifier, BeginJoin()),
    (Qt.Key.Key_Comma, Qt.KeyboardModifier.ControlModifier, GoTo("settings")),
    (Qt.Key.Key_F1, Qt.KeyboardModifier.NoModifier, GoTo("help")),
    (Qt.Key.Key_1, Qt.KeyboardModifier.AltModifier, GoTo("task")),
    (Qt.Key.Key_4, Qt.KeyboardModifier.AltModifier, GoTo("train")),
    (Qt.Key.Key_5, Qt.KeyboardModifier.AltModifier, GoTo("try")),
])
def test_keys(window: MainWindow, asked: list[Intent], qtbot: QtBot, key: Qt.Key, modifier: Qt.KeyboardModifier,
              wanted: Intent) -> None:
    window.activateWindow()
    qtbot.keyClick(window, key, modifier)
    assert asked == [wanted]


def test_ctrl_o_asks_for_a_folder_without_blocking(window: MainWindow, asked: list[Intent], qtbot: QtBot,
                                                   tmp_path: Path) -> None:
    window.activateWindow()
    qtbot.keyClick(window, Qt.Key.Key_O, Qt.KeyboardModifier.ControlModifier)
    dialog = window.page("data").dialog  # type: ignore[attr-defined]
    assert dialog.isVisible()
    dialog.filesSelected.emit([str(tmp_path)])
    dialog.reject()
    assert asked == [GoTo("data"), AddData((str(tmp_path),))]


def test_closing_asks_to_quit_and_waits_to_be_allowed(window: MainWindow, asked: list[Intent]) -> None:
    window.close()
    assert asked == [Quit()]
    assert window.isVisible()
    window.allow_close()
    assert not window.isVisible()
    assert asked == [Quit()]


def test_geometry_is_kept_as_bytes(window: MainWindow) -> None:
    window.resize(1024, 700)  # no larger than the screen of the offscreen platform allows
    kept = window.geometry_bytes()
    window.resize(1280, 720)
    assert window.restore_geometry_bytes(kept)
    assert (window.width(), window.height()) == (1024, 700)
    assert not window.restore_geometry_bytes(b"not a geometry")


# -- notices ------------------------------------------------------------------------------------------


def test_gravest_notice_comes_first_and_the_rest_unfolds(window: MainWindow, asked: list[Intent], press: Press) -> None:
    notices = (Notice(id=1, severity="info", text="Calm Lynx joined."),
               Notice(id=2, severity="bad", text="The port is in use."),
               Notice(id=3, severity="care", text="Little data."))
    window.render(WindowState(notices=notices))
    assert window.notices.isVisible()
    assert "The port is in use." in texts(window.notices)
    assert "Little data." not in texts(window.notices)
    press("2 more")
    QApplication.processEvents()
    assert {"The port is in use.", "Little data.", "Calm Lynx joined."} <= texts(window.notices)
    press("Put away: Little data.")
    assert asked == [Dismiss(3)]
    window.render(WindowState())
    assert not window.notices.isVisible()


def texts(widget: object) -> set[str]:
    from PySide6.QtWidgets import QLabel

    return {label.text() for label in widget.findChildren(QLabel) if label.isVisible()}  # type: ignore[attr-defined]


# -- drag and drop ------------------------------------------------------------------------------------


def drag(window: MainWindow, data: QMimeData) -> QDragEnterEvent:
    event = QDragEnterEvent(window.rect().center(), Qt.DropAction.CopyAction, data, Qt.MouseButton.LeftButton,
                            Qt.KeyboardModifier.NoModifier)
    QApplication.sendEvent(window, event)
    return event


def drop(window: MainWindow, data: QMimeData) -> None:
    event = QDropEvent(QPointF(window.rect().center()), Qt.DropAction.CopyAction, data, Qt.MouseButton.LeftButton,
                       Qt.KeyboardModifier.NoModifier)
    QApplication.sendEvent(window, event)


def files(*paths: Path) -> QMimeData:
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(path)) for path in paths])
    return data


def test_folder_dropped_becomes_data(window: MainWindow, asked: list[Intent], tmp_path: Path) -> None:
    data = files(tmp_path)
    drag(window, data)
    assert window.overlay.isVisible()
    assert "Use as your data" in texts(window.overlay)
    drop(window, data)
    assert not window.overlay.isVisible()
    assert asked == [AddData((str(tmp_path),))]


def test_picture_dropped_on_the_try_page_is_tried(window: MainWindow, asked: list[Intent], tmp_path: Path) -> None:
    window.render(sample_states.try_page())
    data = files(tmp_path / "seven.PNG")
    drag(window, data)
    assert "Try this picture" in texts(window.overlay)
    drop(window, data)
    assert asked == [TryImage(str(tmp_path / "seven.PNG"))]


def test_room_link_dropped_joins(window: MainWindow, asked: list[Intent]) -> None:
    data = QMimeData()
    data.setText(f"  {sample_states.LINK}\n")
    drag(window, data)
    assert "Join the room" in texts(window.overlay)
    drop(window, data)
    assert asked == [Join(sample_states.LINK)]


def test_what_cannot_be_used_is_said_and_does_nothing(window: MainWindow, asked: list[Intent], tmp_path: Path) -> None:
    data = files(tmp_path / "notes.docx")
    drag(window, data)
    assert "Not something to learn from" in texts(window.overlay)
    drop(window, data)
    QApplication.sendEvent(window, QDragLeaveEvent())
    assert asked == []
    assert not window.overlay.isVisible()


def test_plain_text_is_not_taken(window: MainWindow, asked: list[Intent]) -> None:
    data = QMimeData()
    data.setText("hello")
    drag(window, data)
    drop(window, data)
    assert not window.overlay.isVisible()
    assert asked == []


# -- themes and rendering -----------------------------------------------------------------------------


def test_theme_changes_at_once(window: MainWindow) -> None:
    corner = (window.width() - 3, window.height() - 3)
    window.set_theme("dark")
    assert window.grab().toImage().pixelColor(*corner).name().upper() == DARK.window
    window.set_theme("light")
    assert window.grab().toImage().pixelColor(*corner).name().upper() == LIGHT.window
    with pytest.raises(ValueError, match="blue"):
        window.set_theme("blue")
    assert theme.choice == "light"


def test_every_page_renders_every_snapshot(window: MainWindow) -> None:
    for make in sample_states.SAMPLES.values():
        window.render(make())
        QApplication.processEvents()
    for page in PAGES:
        for make in sample_states.SAMPLES.values():
            window.render(msgspec.structs.replace(make(), page=page))
    QApplication.processEvents()


def test_unknown_page_shows_the_first_one(window: MainWindow) -> None:
    window.render(WindowState(page="nowhere"))
    assert window.stack.currentWidget() is window.page("first")


def test_equal_snapshot_repaints_nothing(window: MainWindow, qtbot: QtBot) -> None:
    from PySide6.QtCore import QEvent, QObject

    class Painted(QObject):
        count = 0

        def eventFilter(self, watched: QObject, event: QEvent) -> bool:
            self.count += event.type() in (QEvent.Type.Paint, QEvent.Type.UpdateRequest)
            return False

    state = sample_states.training()
    window.render(state)
    for _ in range(3):
        QApplication.processEvents()
    painted = Painted()
    page = window.page("train")
    for widget in (window, *window.findChildren(type(page.head))):  # type: ignore[attr-defined]
        widget.installEventFilter(painted)
    window.render(msgspec.convert(msgspec.to_builtins(state), WindowState))  # equal, but no object is the same
    QApplication.processEvents()
    assert painted.count == 0
