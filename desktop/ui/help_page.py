"""The Help page: how it works, what is shared with whom, and the keys."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QGridLayout, QSizePolicy, QWidget

from desktop.state import WindowState
from desktop.ui.theme import theme
from desktop.ui.widgets import Card, Page, TitleLine, column, label, page_layout, row, rule, scroll


class HelpPage(Page):
    """Never changes."""

    def __init__(self) -> None:
        super().__init__()
        self.head = TitleLine(self.tr("Help"))
        left = column(self._card(self.tr("How it works"), self._how()),
                      self._card(self.tr("Words"), self._words()), 1, spacing=14)
        right = column(self._shared(), self._keys(), 1, spacing=14)
        both = row(spacing=14)
        for side in (left, right):
            half = QWidget()
            half.setLayout(side)
            half.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
            both.addWidget(half)
        both.setStretch(0, 1)
        both.setStretch(1, 1)
        content = QWidget()
        content.setLayout(both)
        layout = page_layout(self)
        layout.addWidget(self.head)
        area = scroll(content, self.tr("Help"))
        area.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        layout.addWidget(area, 1)

    def show_state(self, state: WindowState) -> None:
        """There is nothing to follow."""

    def _card(self, title: str, lines: tuple[tuple[str, str], ...]) -> Card:
        card = Card(padding=18, spacing=8)
        card.body.addWidget(label(title, "emphasis"))
        for name, text in lines:
            head = label(name, "strong")
            head.setAlignment(Qt.AlignmentFlag.AlignTop)
            head.setFixedWidth(theme.px(92))
            line = row(head, label(text, "text", wrap=True), spacing=10)
            line.setStretch(1, 1)
            card.body.addLayout(line)
        return card

    def _how(self) -> tuple[tuple[str, str], ...]:
        return (
            (self.tr("1  Same start"), self.tr("All members begin with the same model.")),
            (self.tr("2  Train"), self.tr("Each trains it for some steps on its own data.")),
            (self.tr("3  Exchange"), self.tr("The windows send each other how their model changed, piece by piece, "
                                             "and each piece is averaged.")),
            (self.tr("4  Check"), self.tr("Every member ends the round with exactly the same weights and proves it by "
                                          "a digest. Then the next round begins.")),
            (self.tr("If one is lost"), self.tr("The others go on. Who comes late gets the current weights and counts "
                                                "from the next round.")),
        )

    def _words(self) -> tuple[tuple[str, str], ...]:
        return (
            (self.tr("Room"), self.tr("The members who train one model together.")),
            (self.tr("Leader"), self.tr("The longest-standing member; it calls the rounds and holds nothing more.")),
            (self.tr("Local steps"), self.tr("Steps on your own data between two exchanges.")),
            (self.tr("Digest"), self.tr("A short fingerprint of all weights. Equal digests mean equal models.")),
            (self.tr("Quorum"), self.tr("So many members must be ready for a round to go on.")),
        )

    def _shared(self) -> Card:
        card = self._card(self.tr("What is shared, and with whom"), (
            (self.tr("Stays here"), self.tr("Your files, their names, and every picture. They are never sent.")),
            (self.tr("The room gets"), self.tr("How the model changed while training, your name in rooms, the kind of "
                                               "processor, how many pictures you train on, your loss and accuracy.")),
            (self.tr("Others nearby"),
             self.tr("While you host: the room’s name, your name and the task. Not the key.")),
            (self.tr("Anyone else"), self.tr("Nothing. No server of ours exists; the windows talk straight to each "
                                             "other, encrypted.")),
        ))  # fmt: skip
        card.body.addWidget(rule())
        card.body.addWidget(label(self.tr("How a model changed can hint at the data it was trained on. Train with "
                                          "people whom you trust with that."), "quiet", wrap=True))
        return card

    def _keys(self) -> Card:
        card = Card(padding=18, spacing=8)
        card.body.addWidget(label(self.tr("Keys"), "emphasis"))
        grid = QGridLayout()
        grid.setHorizontalSpacing(theme.px(10))
        grid.setVerticalSpacing(theme.px(8))
        keys = (("Ctrl+N", self.tr("start a room")), ("Ctrl+J", self.tr("join a room")),
                ("Ctrl+O", self.tr("add data")), ("Ctrl+,", self.tr("settings")),
                ("Alt+1 … Alt+5", self.tr("Task, Data, Room, Train, Try")),
                ("F1", self.tr("this page")))
        for place, (key, text) in enumerate(keys):
            grid.addLayout(row(label(key, "key"), 1), place, 0)
            grid.addWidget(label(text, "text"), place, 1)
        grid.setColumnStretch(1, 1)
        card.body.addLayout(grid)
        return card
