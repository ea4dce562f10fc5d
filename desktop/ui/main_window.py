"""The window: rail, notices, pages, keys, drag and drop. Renders snapshots, emits intents, decides nothing."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QByteArray, QCoreApplication, QEvent, QSize, Qt, Signal
from PySide6.QtGui import (
    QCloseEvent,
    QDragEnterEvent,
    QDragLeaveEvent,
    QDragMoveEvent,
    QDropEvent,
    QKeySequence,
    QPixmap,
    QResizeEvent,
    QShortcut,
)
from PySide6.QtWidgets import QApplication, QStackedWidget, QVBoxLayout, QWidget

from desktop.intents import BeginJoin, BeginRoom, GoTo, Intent, Quit
from desktop.state import PAGES, STEPS, WindowState
from desktop.ui.data_page import DataPage
from desktop.ui.drop import DropOverlay, Meaning
from desktop.ui.first_page import FirstPage
from desktop.ui.help_page import HelpPage
from desktop.ui.icons import app_icon
from desktop.ui.make_page import MakePage
from desktop.ui.models_page import ModelsPage
from desktop.ui.network_page import NetworkPage
from desktop.ui.notices import NoticeBar
from desktop.ui.rail import Rail
from desktop.ui.room_page import RoomPage
from desktop.ui.settings_page import SettingsPage
from desktop.ui.task_page import TaskPage
from desktop.ui.theme import style_sheet, theme
from desktop.ui.try_page import TryPage
from desktop.ui.widgets import Page, row

LEAST_SIZE = QSize(1024, 640)
FIRST_SIZE = QSize(1280, 720)


def _train_page() -> Page:
    """The charts' library takes a third of a second to load; it is needed only when the page is shown."""
    from desktop.ui.train_page import TrainPage

    return TrainPage()


_MAKERS: dict[str, Callable[[], Page]] = {
    "first": FirstPage, "task": TaskPage, "data": DataPage, "room": RoomPage, "train": _train_page, "try": TryPage,
    "make": MakePage, "models": ModelsPage, "network": NetworkPage, "settings": SettingsPage, "help": HelpPage,
}  # fmt: skip


class MainWindow(QWidget):
    """Give it snapshots by `render`; listen to `intent`. It closes only after `allow_close()`."""

    intent = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        app = QApplication.instance()
        if isinstance(app, QApplication):
            theme.prepare(app)
        self._state = WindowState()
        self._may_close = False
        self._pages: dict[str, Page] = {}
        self._meaning: Meaning | None = None
        self.setWindowTitle(self.tr("Peerloom"))
        self.setWindowIcon(app_icon())
        self.setMinimumSize(LEAST_SIZE)
        self.resize(FIRST_SIZE)
        self.setAcceptDrops(True)
        self.setFocusPolicy(Qt.FocusPolicy.ClickFocus)
        self.setFocus()  # so that no control looks chosen before the person has touched anything
        self.rail, self.notices, self.stack = Rail(), NoticeBar(), QStackedWidget()
        self.rail.intent.connect(self.intent)
        self.notices.intent.connect(self.intent)
        self._lay_out()
        self.overlay = DropOverlay(self)
        self._set_keys()
        theme.changed.connect(self._style)
        self._style()
        self.render(self._state)

    # -- what the application uses

    def render(self, state: WindowState) -> None:  # type: ignore[override]
        """Show a snapshot. Only the visible page is touched, and of it only what differs."""
        self._state = state
        page = self.page(state.page if state.page in _MAKERS else "first")
        focus = QApplication.focusWidget()
        self.rail.show_state(state)
        self.notices.show_notices(state.notices)
        page.show_state(state)
        if self.stack.currentWidget() is not page:
            self.stack.setCurrentWidget(page)
        if focus is not None and self.isAncestorOf(focus) and not focus.isVisible():
            self.setFocus()  # what had it is gone; else Qt hands it to some control that nobody chose
        title = self.tr("{room} – Peerloom").format(room=state.session.room) if state.session.room else "Peerloom"
        if title != self.windowTitle():
            self.setWindowTitle(title)

    def page(self, name: str) -> Page:
        """The page of this name (`state.PAGES`), made when it is first asked for."""
        if name not in self._pages:
            made = _MAKERS[name]()
            made.intent.connect(self.intent)
            if isinstance(made, FirstPage):
                made.nearby_chosen.connect(self._choose_nearby)
            self._pages[name] = made
            self.stack.addWidget(made)
        return self._pages[name]

    def warm_up(self) -> None:
        """Make all pages now, so that no later click waits for one. Takes half a second: call it early."""
        for name in PAGES:
            self.page(name)
        train = self.page("train")
        train.resize(self.stack.size())
        train.grab()  # its first painting is the slow one

    def picture(self) -> QPixmap:
        """The window as it is drawn, with what was rendered last in its place."""
        QCoreApplication.sendPostedEvents(None, QEvent.Type.LayoutRequest)
        return self.grab()

    def allow_close(self) -> None:
        """Everything is shut down: close now."""
        self._may_close = True
        self.close()

    def set_theme(self, choice: str) -> None:
        """Take "system", "light" or "dark", at once."""
        theme.choose(choice)

    def geometry_bytes(self) -> bytes:
        """Size and place of the window, to be kept."""
        return bytes(self.saveGeometry().data())

    def restore_geometry_bytes(self, kept: bytes) -> bool:
        """Take up a kept size and place; False when it cannot be read."""
        return bool(self.restoreGeometry(QByteArray(kept)))

    # -- events

    def closeEvent(self, event: QCloseEvent) -> None:
        if self._may_close:
            event.accept()
            return
        event.ignore()
        self.intent.emit(Quit())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.overlay.setGeometry(self.rect())

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        self._meaning = self.overlay.meaning(event.mimeData(), self._state.page)
        if self._meaning is not None:
            self.overlay.show_meaning(self._meaning)
            event.acceptProposedAction()

    def dragMoveEvent(self, event: QDragMoveEvent) -> None:
        if self._meaning is not None and self._meaning.intent is not None:
            event.acceptProposedAction()
        else:
            event.ignore()

    def dragLeaveEvent(self, event: QDragLeaveEvent) -> None:
        self.overlay.hide()

    def dropEvent(self, event: QDropEvent) -> None:
        self.overlay.hide()
        meaning = self.overlay.meaning(event.mimeData(), self._state.page)
        if meaning is not None and meaning.intent is not None:
            event.acceptProposedAction()
            self.intent.emit(meaning.intent)

    # -- building

    def _lay_out(self) -> None:
        right = QVBoxLayout()
        right.setContentsMargins(0, 0, 0, 0)
        right.setSpacing(0)
        right.addWidget(self.notices)
        right.addWidget(self.stack, 1)
        whole = row(self.rail, right, spacing=0)
        whole.setStretch(1, 1)
        self.setLayout(whole)

    def _set_keys(self) -> None:
        self._key("Ctrl+N", lambda: self._send(BeginRoom()))
        self._key("Ctrl+J", lambda: self._send(BeginJoin()))
        self._key("Ctrl+O", self._choose_data)
        self._key("Ctrl+,", lambda: self._send(GoTo("settings")))
        self._key("F1", lambda: self._send(GoTo("help")))
        for number, step in enumerate(STEPS, 1):
            self._key(f"Alt+{number}", lambda step=step: self._send(GoTo(step)))  # type: ignore[misc]

    def _key(self, keys: str, action: Callable[[], object]) -> None:
        shortcut = QShortcut(QKeySequence(keys), self)
        shortcut.setContext(Qt.ShortcutContext.WindowShortcut)
        shortcut.activated.connect(lambda: action())

    def _send(self, wish: Intent) -> None:
        self.intent.emit(wish)

    def _choose_data(self) -> None:
        self._send(GoTo("data"))
        page = self.page("data")
        if isinstance(page, DataPage):
            page.choose_folder()

    def _choose_nearby(self, room: object) -> None:
        page = self.page("room")
        if isinstance(page, RoomPage):
            page.choose_nearby(room)  # type: ignore[arg-type]

    def _style(self) -> None:
        self.setStyleSheet(style_sheet(theme.tokens))
