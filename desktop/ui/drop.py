"""Drag and drop over the whole window: what a drop means, and the overlay that says so before it happens."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from PySide6.QtCore import QMimeData, QRectF, Qt
from PySide6.QtGui import QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QWidget

from desktop.intents import AddData, Intent, Join, OpenTask, TryImage
from desktop.ui.formats import counted
from desktop.ui.theme import theme
from desktop.ui.widgets import IconLabel, column, label

DATA_FILES = (".csv", ".tsv", ".tab", ".xlsx", ".xls", ".ods", ".txt", ".md", ".text", ".gz", ".idx3-ubyte",
              ".idx1-ubyte")
TASK_FILE = ".peerloom-task"
PICTURES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff")


@dataclass(frozen=True)
class Meaning:
    """What a drop would do: the intent, and the words for it. No intent: it cannot be used, and why."""

    title: str
    text: str
    intent: Intent | None = None


class DropOverlay(QWidget):
    """Covers the window while something is dragged over it."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self._icon = IconLabel("drop", "mine", 32)
        self._title = label("", "title")
        self._text = label("", "lead")
        layout = column(1, spacing=10)
        for part in (self._icon, self._title, self._text):
            layout.addWidget(part, 0, Qt.AlignmentFlag.AlignHCenter)
        layout.addStretch(1)
        self.setLayout(layout)
        self.hide()

    def meaning(self, data: QMimeData, page: str) -> Meaning | None:
        """What these things would do on this page; None when they are nothing we take."""
        paths = tuple(url.toLocalFile() for url in data.urls() if url.isLocalFile())
        link = _room_link(data)
        if link:
            return Meaning(self.tr("Join the room"), self.tr("Drop the link to join the room it leads to."), Join(link))
        if not paths:
            return None
        if len(paths) == 1 and paths[0].lower().endswith(TASK_FILE):
            return Meaning(self.tr("Take this task"), self.tr("Then bring the data that it wants."), OpenTask(paths[0]))
        if page == "try":
            return self._picture_to_try(paths)
        return self._data(paths)

    def show_meaning(self, meaning: Meaning) -> None:
        """Cover the window and say what will happen."""
        self._title.setText(meaning.title)
        self._text.setText(meaning.text)
        self._icon.show_icon("drop" if meaning.intent else "care", "mine" if meaning.intent else "care")
        parent = self.parentWidget()
        if parent is not None:
            self.setGeometry(parent.rect())
        self.raise_()
        self.show()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        cover = theme.color("window")
        cover.setAlphaF(0.94)
        painter.fillRect(self.rect(), cover)
        painter.setPen(QPen(theme.color("mine"), 2, Qt.PenStyle.DashLine))
        edge = theme.px(16)
        painter.drawRoundedRect(QRectF(self.rect()).adjusted(edge, edge, -edge, -edge), edge, edge)

    def _picture_to_try(self, paths: tuple[str, ...]) -> Meaning:
        if len(paths) == 1 and _is_picture(paths[0]):
            return Meaning(self.tr("Try this picture"), self.tr("The model says what it sees. The picture stays here."),
                           TryImage(paths[0]))
        return Meaning(self.tr("One picture at a time"), self.tr("Drop a single picture file to try the model on it."))

    def _data(self, paths: tuple[str, ...]) -> Meaning:
        folders = sum(Path(path).is_dir() for path in paths)
        pictures = sum(_is_picture(path) for path in paths)
        files = sum(path.lower().endswith(DATA_FILES) for path in paths)
        if folders + pictures + files < len(paths):
            return Meaning(self.tr("Not something to learn from"),
                           self.tr("Drop folders of pictures, one for each class, a table, or text."))
        parts = []
        if folders:
            parts.append(counted(folders, self.tr("1 folder"), self.tr("{n} folders")))
        if pictures:
            parts.append(counted(pictures, self.tr("1 picture"), self.tr("{n} pictures")))
        if files:
            parts.append(counted(files, self.tr("1 file"), self.tr("{n} files")))
        return Meaning(self.tr("Use as your data"),
                       self.tr("{what}. Nothing is copied, and nothing leaves this computer.").format(
                           what=", ".join(parts)), AddData(paths))


def _is_picture(path: str) -> bool:
    return path.lower().endswith(PICTURES)


def _room_link(data: QMimeData) -> str:
    for text in [url.toString() for url in data.urls()] + [data.text().strip()]:
        if text.lower().startswith("peerloom:"):
            return text
    return ""
