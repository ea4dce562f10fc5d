"""The Task page: what the model shall learn, one card for each task."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QGridLayout, QPushButton, QWidget

from desktop.intents import ChooseTask, GoTo, MakeTask
from desktop.state import TaskCard, WindowState
from desktop.ui.theme import theme
from desktop.ui.widgets import (
    Card,
    Empty,
    IconLabel,
    Page,
    TitleLine,
    button,
    clear,
    column,
    label,
    page_layout,
    row,
    scroll,
)

_COLUMNS = 3


class TaskPage(Page):
    """Choose a task."""

    def __init__(self) -> None:
        super().__init__()
        self._shown: tuple[object, ...] = ()
        self.head = TitleLine(self.tr("What shall it learn?"), self.tr("everyone in the room trains the same task"))
        self.make = self.head.add(button(self.tr("Make your own…"), lambda: self.send(MakeTask())))
        self.go_on = self.head.add(button(self.tr("Continue"), lambda: self.send(GoTo("data")), "primary"))
        self.choose: dict[str, QPushButton] = {}
        self._grid = QGridLayout()
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setSpacing(theme.px(14))
        for place in range(_COLUMNS):
            self._grid.setColumnStretch(place, 1)
        content = QWidget()
        content.setLayout(column(self._grid, 1))
        self.empty = Empty("model", self.tr("Getting the tasks"), self.tr("They appear here in a moment."))
        self._area = scroll(content, self.tr("Tasks"))
        layout = page_layout(self)
        layout.addWidget(self.head)
        layout.addWidget(self._area, 1)
        layout.addWidget(self.empty, 1)

    def show_state(self, state: WindowState) -> None:
        fixed = state.mode == "join" and state.room is not None and state.room.state == "joined"
        shown = (state.tasks, state.task, fixed)
        if shown == self._shown:
            return
        self._shown = shown
        self.make.setVisible(not fixed)
        self.go_on.setEnabled(state.task is not None)
        self.go_on.setToolTip("" if state.task else self.tr("Choose a task first"))
        self.head.note.setText(self.tr("the host of the room chose it") if fixed
                               else self.tr("everyone in the room trains the same task"))
        self._area.setVisible(bool(state.tasks))
        self.empty.setVisible(not state.tasks)
        clear(self._grid)
        self.choose.clear()
        for place, task in enumerate(state.tasks):
            card = self._card(task, chosen=state.task is not None and task.id == state.task.id, fixed=fixed)
            self._grid.addWidget(card, place // _COLUMNS, place % _COLUMNS)

    def _card(self, task: TaskCard, *, chosen: bool, fixed: bool) -> QWidget:
        card = Card(padding=18, spacing=6, kind="chosen" if chosen else "card")
        if chosen:  # its border is one pixel wider
            card.body.setContentsMargins(*(theme.px(18) - 1,) * 4)
        card.setMinimumHeight(theme.px(212))
        words = label(task.text, "text", wrap=True)
        words.setAlignment(Qt.AlignmentFlag.AlignTop)
        take = button(self.tr("Chosen") if chosen else self.tr("Choose"), lambda: self.send(ChooseTask(task.id)),
                      "plain", self.tr("{task}: chosen").format(task=task.title) if chosen
                      else self.tr("Choose {task}").format(task=task.title))
        take.setEnabled(not chosen and not fixed)
        self.choose[task.id] = take
        mark = IconLabel("good", "mine")
        mark.setVisible(chosen)
        title = label(task.title, "emphasis", wrap=True)
        line = row(title, mark, spacing=8)
        line.setStretch(0, 1)
        card.body.addLayout(line)
        card.body.addWidget(words, 1)
        for name, value in self._facts(task):
            fact = label(value, "quiet", wrap=True)
            fact.setAlignment(Qt.AlignmentFlag.AlignTop)
            title = label(name, "quiet")
            title.setAlignment(Qt.AlignmentFlag.AlignTop)
            title.setFixedWidth(theme.px(46))
            facts = row(title, fact, spacing=6)
            facts.setStretch(1, 1)
            card.body.addLayout(facts)
        card.body.addSpacing(theme.px(6))
        card.body.addWidget(take)
        return card

    def _facts(self, task: TaskCard) -> list[tuple[str, str]]:
        facts = [(self.tr("Data"), task.data), (self.tr("Model"), task.model)]
        return [(name, value) for name, value in facts if value]
