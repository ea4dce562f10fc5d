"""Cards of the classes found in my data: thumbnails and counts; a class is renamed, merged or left out in place."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from PySide6.QtCore import QEvent, QPoint, QRectF, QSize, Qt
from PySide6.QtGui import QBrush, QKeyEvent, QPainter, QPaintEvent, QPixmap
from PySide6.QtWidgets import QMenu, QWidget

from desktop.state import ClassCard, Edit
from desktop.ui.formats import counted
from desktop.ui.theme import set_kind, theme
from desktop.ui.widgets import Card, ElidedLabel, IconButton, line_edit, number_label, row, set_text

MOST_THUMBNAILS = 12
IN_A_ROW = 6
MOST_IN_MENU = 20  # classes to merge with; others are merged by typing their name


class Thumbnails(QWidget):
    """Up to 12 small pictures in rows; small ones are enlarged in whole pixels."""

    def __init__(self, pictures: tuple[bytes, ...], side: int = 24) -> None:
        super().__init__()
        self._side, self._gap = theme.px(side), theme.px(4)
        self._pictures = [read_picture(png, self._side) for png in pictures[:MOST_THUMBNAILS]]
        step = self._side + self._gap
        rows = -(-len(self._pictures) // IN_A_ROW)
        self.setMinimumWidth(IN_A_ROW * step - self._gap)
        self.setFixedHeight(max(1, rows * step - self._gap))

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHints(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        down = self._side + self._gap
        across = (self.width() - self._side) / (IN_A_ROW - 1)
        for place, picture in enumerate(self._pictures):
            painter.resetTransform()
            painter.translate(round(place % IN_A_ROW * across), place // IN_A_ROW * down)
            painter.setBrush(QBrush(picture))
            painter.drawRoundedRect(QRectF(0, 0, self._side, self._side), theme.px(3), theme.px(3))


class ClassPart(Card):
    """One class. `edit` is called with what the person changed; a class of sample data cannot be changed."""

    def __init__(self, shown: ClassCard, others: tuple[str, ...], edit: Callable[[tuple[Edit, ...]], None] | None
                 ) -> None:
        super().__init__(padding=14, spacing=8)
        self._shown, self._others, self._edit = shown, others, edit
        unit = (self.tr("1 picture"), self.tr("{n} pictures")) if shown.thumbnails else (
            self.tr("1 row"), self.tr("{n} rows"))
        count = number_label(counted(shown.count, *unit))
        self.name = ElidedLabel(shown.name, "strong")
        self.typed = line_edit(self.tr("Name of the class {name}").format(name=shown.name))
        set_kind(self.typed, "name")
        self.typed.hide()
        self.typed.editingFinished.connect(self._typed)
        self.typed.installEventFilter(self)
        if shown.left_out:
            self.name.setEnabled(False)
            set_text(count, self.tr("left out"))
        self.more = IconButton("more", self.tr("Change the class {name}").format(name=shown.name), self._open_menu)
        self.more.setVisible(edit is not None)
        line = row(self.name, self.typed, count, self.more, spacing=6)
        line.setStretch(0, 1)
        line.setStretch(1, 1)
        self.body.addLayout(line)
        if shown.thumbnails:
            self.body.addWidget(Thumbnails(shown.thumbnails))
        self.body.addStretch(1)
        self.setAccessibleName(f"{shown.name}, {count.text()}")

    def menu(self) -> QMenu:
        """What can be done with the class."""
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.addAction(self.tr("Rename…"), self.rename)
        merge = menu.addMenu(self.tr("Merge into"))
        for other in self._others[:MOST_IN_MENU]:
            merge.addAction(other.replace("&", "&&"), partial(self._send, other))
        merge.setEnabled(bool(self._others))
        menu.addAction(self.tr("Leave out"), partial(self._send, ""))
        return menu

    def rename(self) -> None:
        """Let the person type another name in place of the shown one."""
        self.name.hide()
        self.typed.setText(self._shown.name)
        self.typed.show()
        self.typed.setFocus()
        self.typed.selectAll()

    def mouseDoubleClickEvent(self, event: object) -> None:
        if self._edit is not None:
            self.rename()

    def eventFilter(self, watched: object, event: QEvent) -> bool:
        if watched is self.typed and isinstance(event, QKeyEvent) and event.key() == Qt.Key.Key_Escape:
            self._show_name()
            return True
        return False

    def _open_menu(self) -> None:
        self.opened = self.menu()
        self.opened.popup(self.more.mapToGlobal(QPoint(0, self.more.height())))

    def _typed(self) -> None:
        if self.typed.isHidden():
            return
        new = " ".join(self.typed.text().split())
        self._show_name()
        if new and new != self._shown.name:
            self._send(new)

    def _show_name(self) -> None:
        self.typed.hide()
        self.name.show()

    def _send(self, value: str) -> None:
        if self._edit is not None:
            self._edit((Edit(what="class", name=self._shown.name, value=value),))


def read_picture(png: bytes, side: int) -> QPixmap:
    """The picture `side` logical pixels wide, sharp on screens of double density."""
    picture = QPixmap()
    picture.loadFromData(png)
    if picture.isNull():
        picture = QPixmap(side, side)
        picture.fill(theme.color("rest"))
    enlarge = picture.width() < 2 * side
    mode = Qt.TransformationMode.FastTransformation if enlarge else Qt.TransformationMode.SmoothTransformation
    drawn = picture.scaled(QSize(2 * side, 2 * side), Qt.AspectRatioMode.KeepAspectRatioByExpanding, mode)
    drawn.setDevicePixelRatio(2.0)
    return drawn
