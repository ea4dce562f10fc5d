"""What the check found in my data: a score, and a list of things to look at, each with what can be done."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QPushButton, QVBoxLayout, QWidget

from desktop.intents import EditData, Intent, OpenFolder
from desktop.state import DataView, Finding
from desktop.ui.formats import counted, number
from desktop.ui.theme import theme
from desktop.ui.widgets import Bar, Card, IconLabel, button, clear, column, label, row, rule, scroll, set_text

GOOD, FAIR = 70, 50  # scores from which data counts as good, and as usable


class FindingsCard(Card):
    """The score and the list."""

    def __init__(self, send: Callable[[Intent], None]) -> None:
        super().__init__(padding=16, spacing=10)
        self._send = send
        self._shown: tuple[Finding, ...] | None = None
        self.show_files: list[QPushButton] = []
        self.score = label("", "title")
        self.score_text = label("", "quiet", wrap=True)
        self.bar = Bar(self.tr("How good the data is"))
        self._score = QWidget()
        self._score.setLayout(column(row(label(self.tr("Your data"), "strong"), 1, self.score), self.bar,
                                     self.score_text, spacing=6))
        self.title = label("", "strong")
        self._lines = QVBoxLayout()
        self._lines.setContentsMargins(0, 0, 0, 0)
        self._lines.setSpacing(theme.px(10))
        content = QWidget()
        content.setLayout(column(self._lines, 1))
        self._rules = (rule(), rule())
        self.body.addWidget(self._score)
        self.body.addWidget(self._rules[0])
        self.body.addWidget(self.title)
        self.body.addWidget(self._rules[1])
        self.body.addWidget(scroll(content, self.tr("Things to look at")), 1)

    def show_data(self, data: DataView | None) -> None:
        """Show what was found; hidden when there is neither a score nor anything to look at."""
        findings = data.findings if data else ()
        score = data.score if data else None
        self.setVisible(bool(findings) or score is not None)
        for part in (self._score, self._rules[0]):
            part.setVisible(score is not None)
        if data is not None and score is not None:
            set_text(self.score, self.tr("{score} of 100").format(score=number(score)))
            tone = "good" if score >= GOOD else "care" if score >= FAIR else "bad"
            self.bar.show_parts((score / 100, tone), words=self.score.text())
            set_text(self.score_text, data.score_text)
        set_text(self.title, counted(len(findings), self.tr("1 thing to look at"), self.tr("{n} things to look at"))
                 if findings else self.tr("Nothing to look at"))
        if findings != self._shown:
            self._shown = findings
            self._show_lines(findings)

    def _show_lines(self, findings: tuple[Finding, ...]) -> None:
        clear(self._lines)
        self.show_files = []
        for place, finding in enumerate(findings):
            if place:
                self._lines.addWidget(rule())
            self._lines.addLayout(self._line(finding))

    def _line(self, finding: Finding) -> QVBoxLayout:
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
        if actions := self._actions(finding):
            under = row(*actions, 1, spacing=14)
            under.setContentsMargins(theme.px(22), 0, 0, 0)
            line.addLayout(under)
        return line

    def _actions(self, finding: Finding) -> list[QPushButton]:
        made = []
        if finding.fix:
            text = finding.fix_text or self.tr("Fix")
            made.append(button(text, lambda: self._send(EditData(finding.fix)), "link", f"{text}: {finding.title}"))
        if finding.skip:
            made.append(button(self.tr("Leave out"), lambda: self._send(EditData(finding.skip)), "link",
                               self.tr("Leave out: {title}").format(title=finding.title)))
        if finding.files:
            first = next((edit.name for edit in finding.skip if edit.what == "skip"), finding.files[0])
            show = button(self.tr("Show"), lambda: self._send(OpenFolder(first)), "link",
                          self.tr("Show: {title}").format(title=finding.title))
            show.setToolTip("\n".join(finding.files[:10]))
            self.show_files.append(show)
            made.append(show)
        return made
