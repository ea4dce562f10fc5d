"""The page on which a person makes a task: its data, its model, how it is trained; kept as a file to hand on."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFileDialog, QVBoxLayout, QWidget

from desktop.intents import GoTo, OpenTask, SaveTask, SetDraft, UseDraft
from desktop.state import DraftView, WindowState
from desktop.ui.formats import number, rate, size
from desktop.ui.settings_page import SettingLine
from desktop.ui.theme import set_tone, theme
from desktop.ui.widgets import (
    Card,
    ChoiceBox,
    Page,
    TitleLine,
    button,
    clear,
    column,
    field,
    label,
    page_layout,
    row,
    rule,
    scroll,
    set_text,
)

SUFFIX = ".peerloom-task"
_SIDE_WIDTH = 300
_BYTES = 4  # of a weight


class MakePage(Page):
    """Make a task."""

    def __init__(self) -> None:
        super().__init__()
        self._view: DraftView | None = None
        self._showing = False
        self.lines: dict[str, SettingLine] = {}
        self.head = TitleLine(self.tr("A task of your own"), self.tr("the room hands it to everyone who joins"))
        self.open = self.head.add(button(self.tr("Open a task file…"), self.choose_file))
        self.save = self.head.add(button(self.tr("Save as file…"), self.choose_place))
        self.back = self.head.add(button(self.tr("Back"), lambda: self.send(GoTo("task"))))
        self.use = self.head.add(button(self.tr("Use this task"), lambda: self.send(UseDraft()), "primary"))
        self._groups = QVBoxLayout()
        self._groups.setContentsMargins(0, 0, theme.px(6), 0)
        self._groups.setSpacing(theme.px(14))
        content = QWidget()
        content.setLayout(column(self._groups, 1))
        body = row(scroll(content, self.tr("Values of the task")), self._side(), spacing=14)
        body.setStretch(0, 1)
        layout = page_layout(self)
        layout.addWidget(self.head)
        layout.addLayout(body, 1)

    def show_state(self, state: WindowState) -> None:
        view = state.draft
        if view is None or view == self._view:
            return
        old, self._view = self._view, view
        if old is None or _shape(old) != _shape(view):
            self._rebuild(view)
        for group in view.groups:
            for setting in group.rows:
                self.lines[setting.key].show_setting(setting)
        self._showing = True
        if self.kind.count() != len(view.kinds):
            self.kind.clear()
            for kind in view.kinds:
                self.kind.addItem(self._kind(kind), kind)
        self.kind.setCurrentIndex(view.kinds.index(view.kind) if view.kind in view.kinds else -1)
        self._showing = False
        for part in (self.use, self.save):
            part.setEnabled(not view.error)
        self._show_size(view)

    def choose_file(self) -> None:
        """Ask for a task file without blocking."""
        dialog = QFileDialog(self, self.tr("Open a task file"), "", self._pattern())
        dialog.setFileMode(QFileDialog.FileMode.ExistingFile)
        dialog.fileSelected.connect(lambda path: self.send(OpenTask(path)))
        self._show(dialog)

    def choose_place(self) -> None:
        """Ask where to save without blocking."""
        dialog = QFileDialog(self, self.tr("Save the task"), "", self._pattern())
        dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
        dialog.setDefaultSuffix(SUFFIX[1:])
        dialog.fileSelected.connect(lambda path: self.send(SaveTask(path)))
        self._show(dialog)

    def _pattern(self) -> str:
        return self.tr("Peerloom tasks ({pattern})").format(pattern=f"*{SUFFIX}")

    def _show(self, dialog: QFileDialog) -> None:
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.dialog = dialog
        dialog.open()

    def _side(self) -> QWidget:
        card = Card(padding=16, spacing=10)
        card.setFixedWidth(theme.px(_SIDE_WIDTH))
        self.kind = ChoiceBox(self.tr("Kind of data"))
        self.kind.currentIndexChanged.connect(self._kind_chosen)
        self.parameters, self.traffic, self.speed = label("", "title"), label("", "quiet", wrap=True), label(
            "", "quiet", wrap=True)
        self.error = label("", wrap=True)
        set_tone(self.error, "bad")
        card.body.addLayout(field(self.tr("Kind of data"), self.kind))
        card.body.addWidget(rule())
        card.body.addLayout(column(label(self.tr("Size of the model"), "strong"), self.parameters, self.traffic,
                                   spacing=4))
        card.body.addWidget(rule())
        card.body.addLayout(column(label(self.tr("On this computer"), "strong"), self.speed, spacing=4))
        card.body.addWidget(self.error)
        card.body.addStretch(1)
        return card

    def _kind(self, kind: str) -> str:
        return {"images": self.tr("pictures in classes"), "table": self.tr("a table"),
                "text": self.tr("text")}.get(kind, kind)

    def _kind_chosen(self) -> None:
        if not self._showing:
            self.send(SetDraft("kind", self.kind.currentData()))

    def _rebuild(self, view: DraftView) -> None:
        clear(self._groups)
        self.lines = {}
        for group in view.groups:
            card = Card(padding=16, spacing=0)
            card.body.addWidget(label(group.title, "strong"))
            card.body.addSpacing(theme.px(4))
            for setting in group.rows:
                line = SettingLine(setting, lambda key, value: self.send(SetDraft(key, value)))
                self.lines[setting.key] = line
                card.body.addWidget(rule())
                card.body.addWidget(line)
            self._groups.addWidget(card)

    def _show_size(self, view: DraftView) -> None:
        known = view.parameters is not None
        set_text(self.parameters, number(view.parameters) if known else self.tr("not known yet"))
        set_text(self.traffic, self.tr("parameters. Each round, about {size} go out and come in for each member, half "
                                       "of that in f16.").format(size=size(2.0 * _BYTES * (view.parameters or 0)))
                 if known else self.tr("Your data decides how many columns there are."))
        set_text(self.speed, self.tr("about {rate} samples a second").format(rate=rate(view.samples_per_s))
                 if view.samples_per_s else self.tr("How fast it trains shows when it runs."))
        self.error.setVisible(bool(view.error))
        set_text(self.error, view.error)


def _shape(view: DraftView) -> list[tuple[str, str, tuple[str, ...]]]:
    """Which lines there are, with which controls."""
    return [(setting.key, setting.kind, setting.choices) for group in view.groups for setting in group.rows]
