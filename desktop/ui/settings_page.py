"""The Settings page: one line for each setting, applied at once."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel, QLineEdit, QPushButton, QVBoxLayout, QWidget

from desktop.intents import SetSetting
from desktop.state import SettingRow, WindowState
from desktop.ui.theme import set_tone, theme
from desktop.ui.widgets import (
    Card,
    ChoiceBox,
    Page,
    Switch,
    TitleLine,
    button,
    clear,
    column,
    label,
    line_edit,
    page_layout,
    row,
    rule,
    scroll,
    set_text,
)

_ON = ("true", "1", "yes", "on")


class SettingLine(QWidget):
    """One setting: its title and sentence on the left, its control on the right."""

    def __init__(self, setting: SettingRow, change: Callable[[str, str], None]) -> None:
        super().__init__()
        self._setting, self._change = setting, change
        self._showing = False
        self.title = label(setting.title, "strong", wrap=True)
        self.text = label(setting.text, "quiet", wrap=True)
        self.control = self._control(setting)
        self.title.setBuddy(self.control)
        self.reset = button(self.tr("Reset"), lambda: self._send(self._setting.default), "link",
                            self.tr("Reset {title}").format(title=setting.title))
        keep = self.reset.sizePolicy()
        keep.setRetainSizeWhenHidden(True)
        self.reset.setSizePolicy(keep)
        words = column(self.title, self.text, spacing=2)
        line = row(words, self.reset, self.control, spacing=16)
        line.setStretch(0, 1)
        line.setContentsMargins(0, theme.px(10), 0, theme.px(10))
        self.setLayout(line)
        if isinstance(self.control, QLineEdit):
            self.control.setText(setting.value)
            self.control.setCursorPosition(0)
        self.show_setting(setting)

    def show_setting(self, setting: SettingRow) -> None:
        """Show the value, and why the last one was refused."""
        self._setting = setting
        self._showing = True
        if isinstance(self.control, QLineEdit):
            if self.control.text() != setting.value and not setting.error:
                self.control.setText(setting.value)
                self.control.setCursorPosition(0)
        elif isinstance(self.control, ChoiceBox):
            self.control.setCurrentText(setting.value)
        elif isinstance(self.control, QPushButton):
            self.control.setChecked(setting.value.lower() in _ON)
        self._showing = False
        set_text(self.text, setting.error or setting.text)
        set_tone(self.text, "bad" if setting.error else "")
        self.reset.setVisible(setting.value != setting.default)

    def matches(self, words: str) -> bool:
        """Whether all these words occur in the title, sentence or key."""
        whole = f"{self._setting.title} {self._setting.text} {self._setting.key}".casefold()
        return all(word in whole for word in words.casefold().split())

    def _control(self, setting: SettingRow) -> QWidget:
        wide = theme.px(220)
        if setting.kind == "switch":
            switch = Switch(setting.title, self.tr("on"), self.tr("off"))
            switch.clicked.connect(lambda checked: self._send("true" if checked else "false"))
            return switch
        if setting.kind == "choice":
            choice = ChoiceBox(setting.title)
            choice.addItems(setting.choices)
            choice.setFixedWidth(wide)
            choice.currentTextChanged.connect(self._send)
            return choice
        edit = line_edit(setting.title)
        edit.setFixedWidth(wide)
        if setting.kind == "number":
            edit.setAlignment(Qt.AlignmentFlag.AlignRight)
        edit.editingFinished.connect(lambda: self._send(edit.text().strip()))
        return edit

    def _send(self, value: str) -> None:
        if not self._showing and value != self._setting.value:
            self._change(self._setting.key, value)


class SettingsPage(Page):
    """All settings, with a field to find one."""

    def __init__(self) -> None:
        super().__init__()
        self._settings: tuple[SettingRow, ...] | None = None
        self.lines: dict[str, SettingLine] = {}
        self._rules: list[QWidget] = []
        self.head = TitleLine(self.tr("Settings"), self.tr("a change counts at once"))
        self.search = line_edit(self.tr("Find a setting"), self.tr("Find a setting"))
        self.search.setFixedWidth(theme.px(220))
        self.search.setClearButtonEnabled(False)
        self.search.textChanged.connect(self._filter)
        self.head.buttons.addWidget(self.search)
        self._list = QVBoxLayout()
        self._list.setContentsMargins(0, 0, theme.px(6), 0)
        self._list.setSpacing(0)
        content = QWidget()
        content.setLayout(column(self._list, 1))
        self.nothing: QLabel = label("", "quiet")
        card = Card(padding=16, spacing=0)
        card.body.setContentsMargins(theme.px(18), theme.px(6), theme.px(12), theme.px(6))
        card.body.addWidget(self.nothing)
        card.body.addWidget(scroll(content, self.tr("Settings")), 1)
        layout = page_layout(self)
        layout.addWidget(self.head)
        layout.addWidget(card, 1)
        self._filter()

    def show_state(self, state: WindowState) -> None:
        if state.settings == self._settings:
            return
        old, self._settings = self._settings or (), state.settings
        if [(s.key, s.kind, s.choices) for s in old] != [(s.key, s.kind, s.choices) for s in state.settings]:
            self._rebuild(state.settings)
        for setting in state.settings:
            self.lines[setting.key].show_setting(setting)

    def _rebuild(self, settings: tuple[SettingRow, ...]) -> None:
        clear(self._list)
        self.lines, self._rules = {}, []
        for setting in settings:
            line = SettingLine(setting, lambda key, value: self.send(SetSetting(key, value)))
            self.lines[setting.key] = line
            self._rules.append(rule())
            self._list.addWidget(self._rules[-1])
            self._list.addWidget(line)
        self._filter()

    def _filter(self) -> None:
        shown = 0
        for line, above in zip(self.lines.values(), self._rules, strict=True):
            visible = line.matches(self.search.text())
            line.setVisible(visible)
            above.setVisible(visible and shown > 0)
            shown += visible
        self.nothing.setVisible(shown == 0)
        set_text(self.nothing, self.tr("No setting has these words.") if self.lines else self.tr("No settings."))
