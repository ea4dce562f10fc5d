"""A table and a text on the Data page: how they were read, what each column is, and how they begin."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QPersistentModelIndex, Qt
from PySide6.QtWidgets import QAbstractItemView, QTableView, QVBoxLayout, QWidget

from desktop.state import ColumnView, DataView, Edit, TableView, TextView
from desktop.ui.formats import counted, number
from desktop.ui.theme import theme
from desktop.ui.widgets import (
    Card,
    ChoiceBox,
    ElidedLabel,
    clear,
    column,
    field,
    label,
    row,
    rule,
    scroll,
    set_text,
    verbatim,
)

Edits = Callable[[tuple[Edit, ...]], None]

ROLES = ("number", "category", "label", "ignore")
SEPARATORS = (",", ";", "\t", "|")
DECIMALS = (".", ",")
ENCODINGS = ("utf-8", "utf-16", "cp1252", "latin-1")
MOST_LINES = 12  # columns that are shown without scrolling within their card
LINE_HEIGHT = 39
BOX_WIDTH = 140
SAMPLE_LINES = 14
PREVIEW_ROW = 26


class ReadingBox(QWidget):
    """One thing about how a file is read, which the person can set to something else than what was detected."""

    def __init__(self, key: str, title: str, edit: Edits) -> None:
        super().__init__()
        self._key, self._edit, self._showing = key, edit, False
        self.box = ChoiceBox(title)
        self.box.setSizeAdjustPolicy(ChoiceBox.SizeAdjustPolicy.AdjustToContents)
        self.box.setMinimumWidth(theme.px(BOX_WIDTH))
        self.box.currentIndexChanged.connect(self._chosen)
        layout = column(field(title, self.box), spacing=0)
        layout.setContentsMargins(0, 0, 0, 0)
        self.setLayout(layout)

    def show_value(self, value: str, choices: tuple[str, ...]) -> None:
        """Show what is in force; hidden when the file has no such thing."""
        self.setVisible(bool(value))
        self._showing = True
        every = choices if value in choices else (value, *choices)
        if [self.box.itemData(place) for place in range(self.box.count())] != list(every):
            self.box.clear()
            for choice in every:
                self.box.addItem(self._words(choice), choice)
        self.box.setCurrentIndex(every.index(value))
        self._showing = False

    def _words(self, choice: str) -> str:
        return {",": self.tr("comma  ,"), ";": self.tr("semicolon  ;"), "\t": self.tr("tab"), "|": self.tr("bar  |"),
                ".": self.tr("point  ."), " ": self.tr("space")}.get(choice, choice)

    def _chosen(self) -> None:
        if not self._showing:
            self._edit((Edit(what="reading", name=self._key, value=self.box.currentData()),))


class ColumnLine(QWidget):
    """One column: name, what its values look like, and its part in the task."""

    def __init__(self, shown: ColumnView, edit: Edits) -> None:
        super().__init__()
        self._shown, self._edit = shown, edit
        name = ElidedLabel(shown.name, "strong")
        name.setFixedWidth(theme.px(170))
        looks = ElidedLabel(" · ".join(filter(None, (shown.detected, shown.detail))), "quiet")
        self.role = ChoiceBox(self.tr("What {column} is").format(column=shown.name))
        self.role.setFixedWidth(theme.px(150))
        words = (self.tr("number"), self.tr("category"), self.tr("what to predict"), self.tr("leave out"))
        for role, text in zip(ROLES, words, strict=True):
            self.role.addItem(text, role)
        self.role.setCurrentIndex(ROLES.index(shown.role))
        self.role.currentIndexChanged.connect(self._chosen)
        line = row(name, looks, self.role, spacing=12)
        line.setStretch(1, 1)
        line.setContentsMargins(0, theme.px(3), theme.px(6), theme.px(3))
        self.setLayout(line)

    def _chosen(self) -> None:
        self._edit((Edit(what="role", name=self._shown.name, value=self.role.currentData()),))


class Preview(QAbstractTableModel):
    """The first rows as they stand in the file."""

    def __init__(self) -> None:
        super().__init__()
        self._view = TableView()

    def show_table(self, view: TableView) -> None:
        """Show this one."""
        self.beginResetModel()
        self._view = view
        self.endResetModel()

    def rowCount(self, parent: QModelIndex | QPersistentModelIndex | None = None) -> int:
        return len(self._view.preview)

    def columnCount(self, parent: QModelIndex | QPersistentModelIndex | None = None) -> int:
        return len(self._view.columns)

    def data(self, index: QModelIndex | QPersistentModelIndex, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        if role != Qt.ItemDataRole.DisplayRole:
            return None
        cells = self._view.preview[index.row()]
        return cells[index.column()] if index.column() < len(cells) else ""

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
        if role != Qt.ItemDataRole.DisplayRole or orientation != Qt.Orientation.Horizontal:
            return None
        return self._view.columns[section].name


class TablePart(QWidget):
    """A table: how it is read, its columns, its first rows."""

    def __init__(self, edit: Edits) -> None:
        super().__init__()
        self._edit = edit
        self._columns_of: tuple[ColumnView, ...] = ()
        self.reading = {
            "separator": ReadingBox("separator", self.tr("Separator"), edit),
            "decimal": ReadingBox("decimal", self.tr("Decimal mark"), edit),
            "encoding": ReadingBox("encoding", self.tr("Encoding"), edit),
            "sheet": ReadingBox("sheet", self.tr("Sheet"), edit),
        }
        self.lines: list[ColumnLine] = []
        layout = column(self._columns_card(), self._preview_card(), spacing=14)
        layout.setContentsMargins(0, 0, 0, 0)
        self.setLayout(layout)

    def show_table(self, view: TableView) -> None:
        """Show this one."""
        choices = {"separator": SEPARATORS, "decimal": DECIMALS, "encoding": ENCODINGS, "sheet": view.sheets}
        for key, box in self.reading.items():
            box.show_value(getattr(view, key), choices[key])
        set_text(self._count, self.tr("{rows}, {columns}").format(
            rows=counted(view.rows, self.tr("1 row"), self.tr("{n} rows")),
            columns=counted(len(view.columns), self.tr("1 column"), self.tr("{n} columns"))))
        if view.columns != self._columns_of:
            self._columns_of = view.columns
            clear(self._lines)
            self.lines = [ColumnLine(each, self._edit) for each in view.columns]
            for place, line in enumerate(self.lines):
                if place:
                    self._lines.addWidget(rule())
                self._lines.addWidget(line)
            self._area.setFixedHeight(theme.px(LINE_HEIGHT) * min(MOST_LINES, len(view.columns)) + theme.px(6))
        self._preview.show_table(view)
        self._grid.setFixedHeight(theme.px(PREVIEW_ROW) * (len(view.preview) + 1) + theme.px(20))
        self._grid.resizeColumnsToContents()

    def _columns_card(self) -> QWidget:
        card = Card(padding=16, spacing=10)
        self._count = label("", "quiet")
        card.body.addLayout(row(label(self.tr("Columns"), "strong"), self._count, 1, spacing=14))
        card.body.addLayout(row(*self.reading.values(), 1, spacing=12))
        card.body.addWidget(rule())
        self._lines = QVBoxLayout()
        self._lines.setContentsMargins(0, 0, 0, 0)
        self._lines.setSpacing(0)
        content = QWidget()
        content.setLayout(column(self._lines, 1))
        self._area = scroll(content, self.tr("Columns"))
        card.body.addWidget(self._area)
        return card

    def _preview_card(self) -> QWidget:
        card = Card(padding=16, spacing=6)
        card.body.addWidget(label(self.tr("How it begins"), "strong"))
        self._preview = Preview()
        self._grid = QTableView()
        self._grid.setModel(self._preview)
        self._grid.setAccessibleName(self.tr("First rows of the table"))
        self._grid.setSelectionMode(QAbstractItemView.SelectionMode.NoSelection)
        self._grid.setTabKeyNavigation(False)
        self._grid.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._grid.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self._grid.setShowGrid(False)
        self._grid.setWordWrap(False)
        self._grid.verticalHeader().hide()
        self._grid.verticalHeader().setDefaultSectionSize(theme.px(PREVIEW_ROW))
        self._grid.horizontalHeader().setFixedHeight(theme.px(PREVIEW_ROW + 6))
        self._grid.horizontalHeader().setMaximumSectionSize(theme.px(200))
        self._grid.horizontalHeader().setSectionsClickable(False)
        card.body.addWidget(self._grid)
        return card


class TextPart(Card):
    """A text: how much of it there is, how it is read, how it begins."""

    def __init__(self, edit: Edits) -> None:
        super().__init__(padding=16, spacing=10)
        self.encoding = ReadingBox("encoding", self.tr("Encoding"), edit)
        self.count = label("", "quiet")
        self.sample = label("", "text")
        self.sample.setTextFormat(Qt.TextFormat.PlainText)
        self.sample.setWordWrap(True)
        verbatim(self.sample)
        self.body.addLayout(row(label(self.tr("How it begins"), "strong"), self.count, 1, spacing=14))
        self.body.addLayout(row(self.encoding, 1))
        self.body.addWidget(rule())
        self.body.addWidget(self.sample)

    def show_text(self, view: TextView) -> None:
        """Show this one."""
        self.encoding.show_value(view.encoding, ENCODINGS)
        set_text(self.count, self.tr("{files}, {characters} characters, {tokens} tokens").format(
            files=counted(view.files, self.tr("1 file"), self.tr("{n} files")),
            characters=number(view.characters), tokens=number(view.tokens)))
        lines = view.sample.split("\n")
        set_text(self.sample, "\n".join([*lines[:SAMPLE_LINES], *(["…"] if len(lines) > SAMPLE_LINES else [])]))


def what_is_shared(data: DataView) -> tuple[str, str]:
    """Name and value of what the room agrees on, for this kind of data: classes, columns, or the tokens."""
    if data.table is not None:
        used = [each.name for each in data.table.columns if each.role in ("number", "category")]
        predicted = [each.name for each in data.table.columns if each.role == "label"]
        return "columns", ", ".join(used) + (f" → {predicted[0]}" if predicted else "")
    if data.text is not None:
        return "tokens", number(data.text.tokens)
    return "classes", ", ".join(card.name for card in data.classes)
