"""The log: a strip with the newest lines, and the whole list with severities."""

from __future__ import annotations

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QPersistentModelIndex, Qt, Signal
from PySide6.QtWidgets import QAbstractItemView, QApplication, QHeaderView, QTableView, QWidget

from desktop.state import LogLine, LoopLag
from desktop.ui.formats import milliseconds
from desktop.ui.theme import set_tone, theme
from desktop.ui.widgets import Card, ChoiceBox, ElidedLabel, button, column, label, number_label, row, rule, set_text

_Index = QModelIndex | QPersistentModelIndex
_RANK = {"info": 0, "good": 0, "care": 1, "bad": 2}


class LogModel(QAbstractTableModel):
    """Lines of the log at or above a severity: time, severity in a word, text."""

    def __init__(self) -> None:
        super().__init__()
        self._all: tuple[LogLine, ...] = ()
        self.lines: list[LogLine] = []
        self.least = 0

    def show_lines(self, lines: tuple[LogLine, ...]) -> None:
        """Show these; lines that were only added are appended."""
        old = self._all
        if lines == old:
            return
        self._all = lines
        if old and lines[: len(old)] == old:
            self._append([line for line in lines[len(old):] if self._wanted(line)])
        else:
            self._reset()

    def filter(self, least: int) -> None:
        """Show all (0), what needs care (1), or problems only (2)."""
        self.least = least
        self._reset()

    def text(self) -> str:
        """All shown lines, for the clipboard."""
        return "\n".join(f"{line.at}\t{self._word(line.severity)}\t{line.text}" for line in self.lines)

    def rowCount(self, parent: _Index = QModelIndex()) -> int:  # noqa: B008 - Qt's own signature
        return 0 if parent.isValid() else len(self.lines)

    def columnCount(self, parent: _Index = QModelIndex()) -> int:  # noqa: B008
        return 3

    def data(self, index: _Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        line = self.lines[index.row()]
        if role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.ToolTipRole):
            return (line.at, self._word(line.severity), line.text)[index.column()]
        if role == Qt.ItemDataRole.ForegroundRole:
            color = {"care": "care", "bad": "bad", "good": "good"}.get(line.severity, "text")
            return theme.color("quiet" if index.column() == 0 else color)
        return None

    def _word(self, severity: str) -> str:
        return {"care": self.tr("care"), "bad": self.tr("problem")}.get(severity, self.tr("note"))

    def _wanted(self, line: LogLine) -> bool:
        return _RANK.get(line.severity, 0) >= self.least

    def _append(self, lines: list[LogLine]) -> None:
        if lines:
            self.beginInsertRows(QModelIndex(), len(self.lines), len(self.lines) + len(lines) - 1)
            self.lines.extend(lines)
            self.endInsertRows()

    def _reset(self) -> None:
        self.beginResetModel()
        self.lines = [line for line in self._all if self._wanted(line)]
        self.endResetModel()


class LogView(Card):
    """The whole log."""

    closed = Signal()

    def __init__(self) -> None:
        super().__init__(padding=16, spacing=8)
        self.model = LogModel()
        self.level = ChoiceBox(self.tr("Which lines"))
        self.level.addItems([self.tr("all lines"), self.tr("care and problems"), self.tr("problems only")])
        self.level.currentIndexChanged.connect(self.model.filter)
        self.copy = button(self.tr("Copy"), self._copy, name=self.tr("Copy the log"))
        self.close_button = button(self.tr("Back to the charts"), self.closed.emit)
        self.body.addLayout(row(label(self.tr("Log"), "strong"), 1, self.level, self.copy, self.close_button))
        self.table = QTableView()
        self.table.setModel(self.model)
        self.table.setAccessibleName(self.tr("Log"))
        self.table.setShowGrid(False)
        self.table.setWordWrap(False)
        self.table.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.table.setTabKeyNavigation(False)
        self.table.verticalHeader().hide()
        self.table.verticalHeader().setDefaultSectionSize(theme.px(26))
        header = self.table.horizontalHeader()
        header.hide()
        header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        header.setSectionResizeMode(2, QHeaderView.ResizeMode.Stretch)
        self.empty = label(self.tr("Nothing has happened yet."), "quiet")
        self.body.addWidget(self.empty)
        self.body.addWidget(self.table, 1)

    def show_lines(self, lines: tuple[LogLine, ...]) -> None:
        """Show these, and stay at the end when the end was in view."""
        bar = self.table.verticalScrollBar()
        at_end = bar.value() >= bar.maximum() - 2
        self.model.show_lines(lines)
        self.empty.setVisible(not lines)
        if at_end:
            self.table.scrollToBottom()

    def _copy(self) -> None:
        QApplication.clipboard().setText(self.model.text())


class LogStrip(QWidget):
    """One line at the foot of the Train page: the two newest events and the window's own lag."""

    opened = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._shown: tuple[LogLine, ...] = ()
        self.open = button(self.tr("Log"), self.opened.emit, "link", self.tr("Log: show all lines"))
        self.older = ElidedLabel("", "quiet")
        self.newest = ElidedLabel("", "quiet")
        self.lag = number_label()
        self.lag.setToolTip(self.tr("how late this window reacts at worst, in 99 of 100 cases"))
        line = row(self.open, self.older, self.newest, self.lag, spacing=14)
        line.setStretch(1, 2)
        line.setStretch(2, 3)
        layout = column(rule(), line, spacing=6)
        self.setLayout(layout)

    def show_lines(self, lines: tuple[LogLine, ...], lag: LoopLag) -> None:
        """Show the newest of these."""
        set_text(self.lag, self.tr("window lag p99 {time}").format(time=milliseconds(lag.p99)) if lag.max > 0 else "")
        newest = lines[-2:]
        if newest == self._shown:
            return
        self._shown = newest
        for target, line in zip((self.newest, self.older), reversed((None, None, *newest)), strict=False):
            set_text(target, f"{line.at}  {line.text}" if line else "")
            target.setVisible(line is not None)
            set_tone(target, {"care": "care", "bad": "bad"}.get(line.severity, "") if line else "")
