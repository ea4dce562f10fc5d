"""The Data page: my data as the program understood it, what to look at, and what the room will see of it."""

from __future__ import annotations

from functools import partial

from PySide6.QtCore import Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFileDialog, QGridLayout, QLabel, QWidget

from desktop.intents import AddData, ClearData, EditData, GoTo, UndoData, UseSample
from desktop.state import ClassCard, DataView, Edit, TaskCard, WindowState
from desktop.ui.data_classes import ClassPart
from desktop.ui.data_findings import FindingsCard
from desktop.ui.data_table import TablePart, TextPart, what_is_shared
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
    page_layout,
    row,
    rule,
    scroll,
    set_text,
)

_FINDINGS_WIDTH = 348
_EMPTY_HEIGHT = 320
_MOST_RECENT = 4
_LONGEST_RECENT = 24


class DataPage(Page):
    """Bring data in and look at it."""

    def __init__(self) -> None:
        super().__init__()
        self._shown: tuple[object, ...] = ()
        self._cards: list[ClassPart] = []
        self._cards_of: tuple[ClassCard, ...] = ()
        self._columns = 0
        self._wants_file = False
        self._recent_of: tuple[str, ...] = ()
        self.head = TitleLine(self.tr("Your data"))
        self.sample = self.head.add(button(self.tr("Use the sample"), lambda: self.send(UseSample())))
        self.undo = self.head.add(button(self.tr("Undo"), lambda: self.send(UndoData()),
                                         name=self.tr("Undo the last change to the data")))
        self.forget = self.head.add(button(self.tr("Clear"), lambda: self.send(ClearData()),
                                           name=self.tr("Clear: forget this data")))
        self.add = self.head.add(button(self.tr("Other data…"), self.choose))
        self.go_on = self.head.add(button(self.tr("Continue"), lambda: self.send(GoTo("room")), "primary"))
        self._left = column(spacing=14)
        self._build_left()
        self._findings = FindingsCard(self.send)
        self._findings.setFixedWidth(theme.px(_FINDINGS_WIDTH))
        body = row(self._scrolled_left(), self._findings, spacing=14)
        body.setStretch(0, 1)
        layout = page_layout(self)
        layout.addWidget(self.head)
        layout.addLayout(body, 1)

    def show_state(self, state: WindowState) -> None:
        shown = (state.data, state.task, state.mode, state.room, state.recent)
        if shown == self._shown:
            return
        self._shown = shown
        data = state.data
        sample = state.task is not None and state.task.sample
        self.sample.setVisible(sample and not (data and data.source == "sample"))
        self.forget.setVisible(data is not None)
        self.go_on.setEnabled(data is not None and data.usable)
        set_text(self.head.note, self._note(data, state))
        self.undo.setVisible(data is not None and bool(data.edits))
        self._findings.show_data(data)
        self._show_rest(data)
        self._show_classes(data)
        self._arrange()
        self._show_drop(state.task, data)
        self._show_recent(state.recent if data is None else ())
        self._show_reading(data)
        self._show_room(data, alone=state.mode == "alone")

    def choose(self) -> None:
        """Ask for what the task wants: a folder, or a file."""
        (self.choose_file if self._wants_file else self.choose_folder)()

    def choose_file(self) -> None:
        """Ask for files without blocking; the answer is an intent."""
        dialog = QFileDialog(self, self.tr("Choose your data"))
        dialog.setFileMode(QFileDialog.FileMode.ExistingFiles)
        self._open(dialog)

    def choose_folder(self) -> None:
        """Ask for a folder without blocking; the answer is an intent."""
        dialog = QFileDialog(self, self.tr("Choose a folder with one folder of pictures for each class"))
        dialog.setFileMode(QFileDialog.FileMode.Directory)
        dialog.setOption(QFileDialog.Option.ShowDirsOnly)
        self._open(dialog)

    def _open(self, dialog: QFileDialog) -> None:
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.filesSelected.connect(lambda paths: self.send(AddData(tuple(paths))))
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
        self._table, self._text = TablePart(self._edit), TextPart(self._edit)
        self._left.addWidget(self._table)
        self._left.addWidget(self._text)
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
        self.drop_file = button(self.tr("Choose files…"), self.choose_file)
        self.drop_sample = button(self.tr("Use the sample data"), lambda: self.send(UseSample()), "primary")
        self._drop_buttons = QWidget()
        self._drop_buttons.setLayout(row(1, self.drop_sample, self.drop_folder, self.drop_file, 1, spacing=12))
        self._drop.body.addStretch(1)
        self._drop.body.addWidget(self._drop_icon, 0, center)
        self._drop.body.addWidget(self.drop_title)
        self._drop.body.addWidget(self.drop_text)
        self._drop.body.addSpacing(theme.px(6))
        self._drop.body.addWidget(self._drop_buttons)
        self._recent = QWidget()
        self._recent_line = row(spacing=14)
        self._recent_line.setAlignment(center)
        self._recent.setLayout(self._recent_line)
        self._drop.body.addWidget(self._recent)
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
        self.fact_names: list[QLabel] = []
        for place in range(3):
            if place:
                self._room.body.addWidget(rule())
            value = ElidedLabel("", "quiet")
            value.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
            self.facts.append(value)
            self.fact_names.append(label(""))
            line = row(self.fact_names[-1], value, spacing=24)
            line.setStretch(1, 1)
            line.setContentsMargins(0, theme.px(8), 0, theme.px(8))
            self._room.body.addLayout(line)
        return self._room

    # -- showing

    def _edit(self, edits: tuple[Edit, ...]) -> None:
        self.send(EditData(edits))

    def _show_rest(self, data: DataView | None) -> None:
        """The table or the text."""
        self._table.setVisible(data is not None and data.table is not None)
        self._text.setVisible(data is not None and data.text is not None)
        if data is not None and data.table is not None:
            self._table.show_table(data.table)
        if data is not None and data.text is not None:
            self._text.show_text(data.text)

    def _note(self, data: DataView | None, state: WindowState) -> str:
        if data is not None and data.table is not None:
            return self.tr("{title} · {rows} · stays on this computer").format(
                title=data.title, rows=counted(data.table.rows, self.tr("1 row"), self.tr("{n} rows")))
        if data is not None and data.text is not None:
            return self.tr("{title} · {n} characters · stays on this computer").format(
                title=data.title, n=number(data.text.characters))
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
        names = tuple(card.name for card in classes)
        edit = self._edit if data is not None and data.source != "sample" else None
        self._cards = [ClassPart(card, tuple(name for name in names if name != card.name), edit) for card in classes]
        self._columns = 0
        self._arrange()

    def _arrange(self) -> None:
        """As many class cards side by side as there is room for."""
        side = theme.px(_FINDINGS_WIDTH + 14) if self._findings.isVisibleTo(self) else 0
        width = self.width() - 2 * theme.px(24) - side
        columns = max(1, min(len(self._cards), (width + theme.px(12)) // theme.px(206)))
        if columns == self._columns or not self._cards:
            return
        for place in range(max(columns, self._grid.columnCount())):
            self._grid.setColumnStretch(place, 1 if place < columns else 0)
        self._columns = columns
        for place, card in enumerate(self._cards):
            self._grid.addWidget(card, place // columns, place % columns)

    def _show_drop(self, task: TaskCard | None, data: DataView | None) -> None:
        empty = data is None or not (data.classes or data.reading or data.table or data.text)
        kind = task.kind if task else ""
        self._wants_file = kind in ("table", "text")
        self.drop_folder.setVisible(kind != "table")
        self._drop_icon.setVisible(empty)
        self._drop_buttons.setVisible(empty)
        self.drop_title.setVisible(empty)
        self._drop.setMinimumHeight(theme.px(_EMPTY_HEIGHT if empty else 76))
        self.drop_sample.setVisible(task is not None and task.sample)
        wants = task.data if task else self.tr("A folder that holds one folder of pictures for each class")
        set_text(self.drop_text, wants if empty else self.tr("Drop files or folders anywhere in this window"))
        self.add.setVisible(not empty)
        self.sample.setVisible(self.sample.isVisibleTo(self) and not empty)

    def _show_recent(self, paths: tuple[str, ...]) -> None:
        """Data used before, one click away."""
        self._recent.setVisible(bool(paths))
        if paths == self._recent_of:
            return
        self._recent_of = paths
        clear(self._recent_line)
        if paths:
            self._recent_line.addWidget(label(self.tr("Used before:"), "quiet"))
        for path in paths[:_MOST_RECENT]:
            name = path.replace("\\", "/").rstrip("/").rpartition("/")[2]
            short = name if len(name) <= _LONGEST_RECENT else f"{name[:_LONGEST_RECENT]}…"
            made = button(short, partial(self.send, AddData((path,))), "link", self.tr("Use {path}").format(path=path))
            made.setToolTip(path)
            self._recent_line.addWidget(made)

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
        known = data is not None and bool(data.classes or data.table or data.text) and not data.error
        self._room.setVisible(known)
        self._fine.setVisible(known and data is not None and not data.findings and data.score is None)
        if data is None:
            return
        set_text(self._room_title, self.tr("How it is used") if alone else self.tr("What the room will see"))
        set_text(self._room_note, "" if alone else self.tr("nothing but this, and how the model changed"))
        parts = " / ".join(number(count) for count in (data.training, data.validation, data.test))
        kind, shared = what_is_shared(data)
        names = {
            "classes": (self.tr("classes and order"), self.tr("pictures for training / validation / test"),
                        self.tr("size")),
            "columns": (self.tr("columns"), self.tr("rows for training / validation / test"), self.tr("form")),
            "tokens": (self.tr("tokens"), self.tr("blocks for training / validation / test"), self.tr("form")),
        }[kind]
        for place, (name, text) in enumerate(zip(names, (shared, parts, data.shape), strict=True)):
            set_text(self.fact_names[place], name)
            set_text(self.facts[place], text)
