"""The Data page: my data as the program understood it, what to look at, and what the room will see of it."""

from __future__ import annotations

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QBrush, QPainter, QPaintEvent, QPixmap, QResizeEvent
from PySide6.QtWidgets import QFileDialog, QGridLayout, QPushButton, QVBoxLayout, QWidget

from desktop.intents import AddData, ClearData, GoTo, OpenFolder, UseSample
from desktop.state import ClassCard, DataView, Finding, TaskCard, WindowState
from desktop.ui.formats import counted, number
from desktop.ui.theme import theme
from desktop.ui.widgets import (
    Bar,
    Card,
    DropZone,
    ElidedLabel,
    IconLabel,
    Page,
    TitleLine,
    button,
    clear,
    column,
    label,
    number_label,
    page_layout,
    row,
    rule,
    scroll,
    set_text,
)

_MOST_THUMBNAILS = 12
_IN_A_ROW = 6


class Thumbnails(QWidget):
    """Up to 12 small pictures in rows; small ones are enlarged in whole pixels."""

    def __init__(self, pictures: tuple[bytes, ...], side: int = 24) -> None:
        super().__init__()
        self._side, self._gap = theme.px(side), theme.px(4)
        self._pictures = [_read(png, self._side) for png in pictures[:_MOST_THUMBNAILS]]
        step = self._side + self._gap
        rows = -(-len(self._pictures) // _IN_A_ROW)
        self.setMinimumWidth(_IN_A_ROW * step - self._gap)
        self.setFixedHeight(max(1, rows * step - self._gap))

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHints(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        down = self._side + self._gap
        across = (self.width() - self._side) / (_IN_A_ROW - 1)
        for place, picture in enumerate(self._pictures):
            painter.resetTransform()
            painter.translate(round(place % _IN_A_ROW * across), place // _IN_A_ROW * down)
            painter.setBrush(QBrush(picture))
            painter.drawRoundedRect(QRectF(0, 0, self._side, self._side), theme.px(3), theme.px(3))


class DataPage(Page):
    """Bring data in and look at it."""

    def __init__(self) -> None:
        super().__init__()
        self._shown: tuple[object, ...] = ()
        self._cards: list[QWidget] = []
        self._cards_of: tuple[ClassCard, ...] = ()
        self._columns = 0
        self.head = TitleLine(self.tr("Your data"))
        self.sample = self.head.add(button(self.tr("Use the sample"), lambda: self.send(UseSample())))
        self.forget = self.head.add(button(self.tr("Clear"), lambda: self.send(ClearData()),
                                           name=self.tr("Clear: forget this data")))
        self.add = self.head.add(button(self.tr("Add folder…"), self.choose_folder))
        self.go_on = self.head.add(button(self.tr("Continue"), lambda: self.send(GoTo("room")), "primary"))
        self._left = column(spacing=14)
        self._build_left()
        self._findings = self._findings_card()
        body = row(self._scrolled_left(), self._findings, spacing=14)
        body.setStretch(0, 1)
        layout = page_layout(self)
        layout.addWidget(self.head)
        layout.addLayout(body, 1)

    def show_state(self, state: WindowState) -> None:
        shown = (state.data, state.task, state.mode, state.room)
        if shown == self._shown:
            return
        self._shown = shown
        data = state.data
        sample = state.task is not None and state.task.sample
        self.sample.setVisible(sample and not (data and data.source == "sample"))
        self.forget.setVisible(data is not None)
        self.go_on.setEnabled(data is not None and data.usable)
        set_text(self.head.note, self._note(data, state))
        self._findings.setVisible(data is not None and bool(data.findings))
        self._show_classes(data)
        self._arrange()
        self._show_drop(state.task, data)
        self._show_reading(data)
        self._show_room(data, alone=state.mode == "alone")
        self._show_findings(data.findings if data else ())

    def choose_folder(self) -> None:
        """Ask for a folder without blocking; the answer is an intent."""
        dialog = QFileDialog(self, self.tr("Choose a folder with one folder of pictures for each class"))
        dialog.setFileMode(QFileDialog.FileMode.Directory)
        dialog.setOption(QFileDialog.Option.ShowDirsOnly)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.fileSelected.connect(lambda path: self.send(AddData((path,))))
        self.dialog = dialog
        dialog.open()

    # -- building

    def _build_left(self) -> None:
        self._grid = QGridLayout()
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setSpacing(theme.px(12))
        self._classes = QWidget()
        self._classes.setLayout(self._grid)
        self._left.addWidget(self._classes)
        self._left.addWidget(self._error_card())
        self._left.addWidget(self._reading_card())
        self._left.addWidget(self._drop_card())
        self._left.addWidget(self._room_card())
        self._fine = QWidget()
        self._fine.setLayout(row(IconLabel("good", "good"), label(self.tr("Nothing to look at: the data looks fine."),
                                                                  "quiet"), 1))
        self._left.addWidget(self._fine)
        self._left.addStretch(1)

    def _scrolled_left(self) -> QWidget:
        content = QWidget()
        content.setLayout(self._left)
        return scroll(content, self.tr("Your data"))

    def _error_card(self) -> QWidget:
        self._error = Card()
        mark = IconLabel()
        mark.show_severity("bad", self.tr("Problem"))
        self.error = label("", wrap=True)
        line = row(mark, self.error, spacing=10)
        line.setStretch(1, 1)
        self._error.body.addLayout(line)
        return self._error

    def _reading_card(self) -> QWidget:
        self._reading = Card()
        self.reading = ElidedLabel("", "strong", Qt.TextElideMode.ElideMiddle)
        self.progress = Bar(self.tr("Reading"))
        self.cancel = button(self.tr("Cancel"), lambda: self.send(ClearData()), "link", self.tr("Cancel reading"))
        line = row(self.reading, self.cancel)
        line.setStretch(0, 1)
        self._reading.body.addLayout(line)
        self._reading.body.addWidget(self.progress)
        return self._reading

    def _drop_card(self) -> QWidget:
        self._drop = DropZone()
        center = Qt.AlignmentFlag.AlignHCenter
        self._drop_icon = IconLabel("drop", "faint", 28)
        self.drop_title = label(self.tr("Drop your data anywhere in this window"), "emphasis")
        self.drop_title.setAlignment(center)
        self.drop_text = label("", "text", wrap=True)
        self.drop_text.setAlignment(center)
        self.drop_folder = button(self.tr("Choose folder…"), self.choose_folder)
        self.drop_sample = button(self.tr("Use the sample data"), lambda: self.send(UseSample()), "primary")
        self._drop_buttons = QWidget()
        self._drop_buttons.setLayout(row(1, self.drop_sample, self.drop_folder, 1, spacing=12))
        self._drop.body.addStretch(1)
        self._drop.body.addWidget(self._drop_icon, 0, center)
        self._drop.body.addWidget(self.drop_title)
        self._drop.body.addWidget(self.drop_text)
        self._drop.body.addSpacing(theme.px(6))
        self._drop.body.addWidget(self._drop_buttons)
        self._drop.body.addStretch(1)
        return self._drop

    def _room_card(self) -> QWidget:
        self._room = Card(padding=16, spacing=0)
        self._room_title = label("", "strong")
        self._room_note = ElidedLabel("", "quiet")
        head = row(self._room_title, self._room_note, spacing=14)
        head.setStretch(1, 1)
        self._room.body.addLayout(head)
        self._room.body.addSpacing(theme.px(4))
        self.facts: list[ElidedLabel] = []
        names = (self.tr("classes and order"), self.tr("pictures for training / validation / test"), self.tr("size"))
        for place, name in enumerate(names):
            if place:
                self._room.body.addWidget(rule())
            value = ElidedLabel("", "quiet")
            value.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
            self.facts.append(value)
            line = row(label(name), value, spacing=24)
            line.setStretch(1, 1)
            line.setContentsMargins(0, theme.px(8), 0, theme.px(8))
            self._room.body.addLayout(line)
        return self._room

    def _findings_card(self) -> QWidget:
        card = Card(padding=16, spacing=10)
        card.setFixedWidth(theme.px(348))
        self.findings_title = label("", "strong")
        self._finding_lines = QVBoxLayout()
        self._finding_lines.setContentsMargins(0, 0, 0, 0)
        self._finding_lines.setSpacing(theme.px(10))
        content = QWidget()
        content.setLayout(column(self._finding_lines, 1))
        card.body.addWidget(self.findings_title)
        card.body.addWidget(rule())
        card.body.addWidget(scroll(content, self.tr("Things to look at")), 1)
        return card

    # -- showing

    def _note(self, data: DataView | None, state: WindowState) -> str:
        if data is None or not data.classes:
            room = state.room
            if state.mode == "join" and room is not None and room.state == "joined" and state.task is not None:
                return self.tr("for {task} in {room}, hosted by {host} · stays on this computer").format(
                    task=state.task.title, room=room.room, host=room.host)
            return self.tr("stays on this computer")
        pictures = counted(sum(card.count for card in data.classes), self.tr("1 picture"), self.tr("{n} pictures"))
        classes = counted(len(data.classes), self.tr("1 class"), self.tr("{n} classes"))
        return self.tr("{title} · {pictures} in {classes} · stays on this computer").format(
            title=data.title, pictures=pictures, classes=classes)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._arrange()

    def _show_classes(self, data: DataView | None) -> None:
        classes = data.classes if data else ()
        self._classes.setVisible(bool(classes))
        if classes == self._cards_of:
            return
        self._cards_of = classes
        clear(self._grid)
        self._cards = [self._class_card(card) for card in classes]
        self._columns = 0
        self._arrange()

    def _arrange(self) -> None:
        """As many class cards side by side as there is room for."""
        side = theme.px(348 + 14) if self._findings.isVisibleTo(self) else 0
        width = self.width() - 2 * theme.px(24) - side
        columns = max(1, min(len(self._cards), (width + theme.px(12)) // theme.px(206)))
        if columns == self._columns or not self._cards:
            return
        for place in range(max(columns, self._grid.columnCount())):
            self._grid.setColumnStretch(place, 1 if place < columns else 0)
        self._columns = columns
        for place, card in enumerate(self._cards):
            self._grid.addWidget(card, place // columns, place % columns)

    def _class_card(self, shown: ClassCard) -> QWidget:
        card = Card(padding=14, spacing=8)
        count = number_label(counted(shown.count, self.tr("1 picture"), self.tr("{n} pictures")))
        line = row(ElidedLabel(shown.name, "strong"), count)
        line.setStretch(0, 1)
        card.body.addLayout(line)
        card.body.addWidget(Thumbnails(shown.thumbnails))
        card.setAccessibleName(f"{shown.name}, {count.text()}")
        return card

    def _show_drop(self, task: TaskCard | None, data: DataView | None) -> None:
        empty = data is None or not (data.classes or data.reading)
        self._drop_icon.setVisible(empty)
        self._drop_buttons.setVisible(empty)
        self.drop_title.setVisible(empty)
        self._drop.setMinimumHeight(theme.px(320 if empty else 76))
        self.drop_sample.setVisible(task is not None and task.sample)
        wants = task.data if task else self.tr("A folder that holds one folder of pictures for each class")
        set_text(self.drop_text, wants if empty else self.tr("Drop folders or pictures anywhere in this window"))
        self.add.setVisible(not empty)
        self.sample.setVisible(self.sample.isVisibleTo(self) and not empty)

    def _show_reading(self, data: DataView | None) -> None:
        error = data.error if data else ""
        self._error.setVisible(bool(error))
        set_text(self.error, error)
        reading = data.reading if data else ""
        self._reading.setVisible(bool(reading))
        set_text(self.reading, reading)
        share = data.progress if data else None
        self.progress.setVisible(share is not None)
        self.progress.show_parts((share or 0.0, "mine"), words=f"{round(100 * (share or 0))} %")

    def _show_room(self, data: DataView | None, *, alone: bool) -> None:
        self._room.setVisible(data is not None and bool(data.classes))
        self._fine.setVisible(data is not None and bool(data.classes) and not data.findings)
        if data is None:
            return
        set_text(self._room_title, self.tr("How it is used") if alone else self.tr("What the room will see"))
        set_text(self._room_note, "" if alone else self.tr("nothing but this, and how the model changed"))
        parts = " / ".join(number(count) for count in (data.training, data.validation, data.test))
        values = (", ".join(card.name for card in data.classes), parts, data.shape)
        for target, text in zip(self.facts, values, strict=True):
            set_text(target, text)

    def _show_findings(self, findings: tuple[Finding, ...]) -> None:
        set_text(self.findings_title, counted(len(findings), self.tr("1 thing to look at"),
                                              self.tr("{n} things to look at")))
        clear(self._finding_lines)
        self.show_files: list[QPushButton] = []
        for place, finding in enumerate(findings):
            if place:
                self._finding_lines.addWidget(rule())
            self._finding_lines.addLayout(self._finding_line(finding))

    def _finding_line(self, finding: Finding) -> QVBoxLayout:
        words = {"bad": self.tr("Problem"), "care": self.tr("Take care")}.get(finding.severity, self.tr("Note"))
        mark = IconLabel()
        mark.show_severity(finding.severity, words)
        title = label(finding.title, "strong", wrap=True)
        head = row(mark, title, spacing=8)
        head.setStretch(1, 1)
        head.setAlignment(mark, Qt.AlignmentFlag.AlignTop)
        text = label(finding.text, "quiet", wrap=True)
        text.setContentsMargins(theme.px(24), 0, 0, 0)
        line = column(head, text, spacing=2)
        if finding.files:
            first = finding.files[0]
            show = button(self.tr("Show"), lambda: self.send(OpenFolder(first)), "link",
                          self.tr("Show: {title}").format(title=finding.title))
            show.setToolTip("\n".join(finding.files[:10]))
            self.show_files.append(show)
            under = row(show, 1)
            under.setContentsMargins(theme.px(22), 0, 0, 0)
            line.addLayout(under)
        return line


def _read(png: bytes, side: int) -> QPixmap:
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
