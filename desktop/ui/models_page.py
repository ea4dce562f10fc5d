"""The Models page: the models saved on this computer."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QPushButton, QVBoxLayout, QWidget

from desktop.intents import GoTo, OpenFolder
from desktop.state import ModelRow, WindowState
from desktop.ui.figures import meaning, score
from desktop.ui.formats import counted, moment, size
from desktop.ui.theme import theme
from desktop.ui.widgets import (
    Card,
    ElidedLabel,
    Empty,
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


class ModelsPage(Page):
    """A list; the newest first, as it is given."""

    def __init__(self) -> None:
        super().__init__()
        self._models: tuple[ModelRow, ...] | None = None
        self.open_buttons: list[QPushButton] = []
        self.head = TitleLine(self.tr("Models"))
        self.empty = Empty("model", self.tr("No model yet"),
                           self.tr("After training, the model is saved on this computer and listed here."),
                           button(self.tr("Choose a task"), lambda: self.send(GoTo("task")), "primary"))
        self._lines = QVBoxLayout()
        self._lines.setContentsMargins(0, 0, theme.px(4), 0)
        self._lines.setSpacing(theme.px(12))
        content = QWidget()
        content.setLayout(column(self._lines, 1))
        self._card = Card(padding=16)
        self._card.body.addWidget(scroll(content, self.tr("Models")))
        layout = page_layout(self)
        layout.addWidget(self.head)
        layout.addWidget(self._card, 1)
        layout.addWidget(self.empty, 1)

    def show_state(self, state: WindowState) -> None:
        if state.models == self._models:
            return
        self._models = state.models
        self._card.setVisible(bool(state.models))
        self.empty.setVisible(not state.models)
        set_text(self.head.note, counted(len(state.models), self.tr("1 model on this computer"),
                                         self.tr("{n} models on this computer")) if state.models else "")
        clear(self._lines)
        self.open_buttons.clear()
        for place, model in enumerate(state.models):
            if place:
                self._lines.addWidget(rule())
            self._lines.addLayout(self._line(model))

    def _line(self, model: ModelRow) -> QVBoxLayout:
        facts = [moment(model.date), counted(model.rounds, self.tr("1 round"), self.tr("{n} rounds")),
                 counted(model.members, self.tr("1 member"), self.tr("{n} members")), size(model.size_bytes)]
        words = column(ElidedLabel(model.title, "strong"), ElidedLabel(" · ".join(facts), "quiet"),
                       ElidedLabel(model.path, "quiet", Qt.TextElideMode.ElideMiddle), spacing=2)
        right = Qt.AlignmentFlag.AlignRight
        shown = label(score(model.test_accuracy, model.metrics), "emphasis")
        known = model.test_accuracy is not None or bool(model.metrics)
        what = label(meaning(model.metrics) if known else self.tr("not tested"), "quiet")
        shown.setAlignment(right)
        what.setAlignment(right)
        show = button(self.tr("Open folder"), lambda: self.send(OpenFolder(model.path)), "plain",
                      self.tr("Open folder of {title}").format(title=model.title))
        self.open_buttons.append(show)
        line = row(words, column(1, shown, what, 1, spacing=2), show, spacing=20)
        line.setStretch(0, 1)
        return column(line)
