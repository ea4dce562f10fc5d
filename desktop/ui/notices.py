"""The notices bar: sentences that stay until they are put away, folded into one line when there are many."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QVBoxLayout, QWidget

from desktop.intents import Dismiss
from desktop.state import Notice
from desktop.ui.formats import counted
from desktop.ui.theme import theme
from desktop.ui.widgets import Card, IconButton, IconLabel, button, clear, label, row

_ORDER = {"bad": 0, "care": 1}


class NoticeBar(QWidget):
    """At the top of every page; not there when there is nothing to say."""

    intent = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        self._shown: tuple[Notice, ...] = ()
        self._open = False
        self._lines = QVBoxLayout()
        self._lines.setSpacing(theme.px(6))
        outer = QHBoxLayout(self)
        outer.setContentsMargins(theme.px(24), theme.px(12), theme.px(24), 0)
        outer.addLayout(self._lines)
        self.setAccessibleName(self.tr("Notices"))
        self.hide()

    def show_notices(self, notices: tuple[Notice, ...]) -> None:
        """Show these; the gravest first."""
        if notices == self._shown:
            return
        self._shown = notices
        self._open = self._open and len(notices) > 1
        self._rebuild()

    def _rebuild(self) -> None:
        clear(self._lines)
        ordered = sorted(self._shown, key=lambda notice: (_ORDER.get(notice.severity, 2), -notice.id))
        visible = ordered if self._open else ordered[:1]
        for position, notice in enumerate(visible):
            self._lines.addWidget(self._line(notice, len(ordered) - 1 if position == 0 else 0))
        self.setVisible(bool(ordered))

    def _line(self, notice: Notice, others: int) -> QWidget:
        card = Card(padding=0, kind="notice")
        mark = IconLabel()
        mark.show_severity(notice.severity, self._word(notice.severity))
        text = label(notice.text, wrap=True)
        text.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        line = row(mark, text, spacing=10)
        line.setStretch(1, 1)
        line.setContentsMargins(theme.px(12), theme.px(5), theme.px(6), theme.px(5))
        if others:
            fold = self.tr("Fold") if self._open else counted(others, self.tr("1 more"), self.tr("{n} more"))
            line.addWidget(button(fold, self._toggle, "link"))
        close = IconButton("close", self.tr("Put away: {text}").format(text=notice.text),
                           lambda: self.intent.emit(Dismiss(notice.id)))
        close.setToolTip(self.tr("Put away"))
        line.addWidget(close)
        card.body.addLayout(line)
        return card

    def _word(self, severity: str) -> str:
        return {"bad": self.tr("Problem"), "care": self.tr("Take care"), "good": self.tr("Done")}.get(
            severity, self.tr("Note"))

    def _toggle(self) -> None:
        self._open = not self._open
        self._rebuild()
