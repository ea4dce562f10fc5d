"""The first page: four ways to begin, my name in rooms, and the rooms nearby."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QBoxLayout, QPushButton, QVBoxLayout, QWidget

from desktop.intents import BeginJoin, BeginRoom, SetSetting, TrainAlone, TryDemo
from desktop.state import NearbyRoom, WindowState
from desktop.ui.formats import counted
from desktop.ui.theme import theme
from desktop.ui.widgets import ElidedLabel, NameEdit, Page, button, choice_card, clear, column, label, row

_MOST_NEARBY = 3


def _card(title: str, text: str, action: QPushButton) -> QWidget:
    return choice_card(title, text, action, height=182)


class FirstPage(Page):
    """Shown until a way is chosen. `nearby_chosen` carries the room that the person wants to join."""

    nearby_chosen = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        self._nearby: tuple[NearbyRoom, ...] | None = None
        self._name = ""
        promise = label(self.tr("Everyone’s files stay on their own computer. What travels between the windows is how "
                                "the model changed while training on them."), "lead", wrap=True)
        promise.setMaximumWidth(theme.px(640))
        promise.setMinimumHeight(theme.px(44))
        layout = column(1, label(self.tr("Learn together. Keep your data."), "display"), promise, spacing=6)
        layout.setContentsMargins(theme.px(56), theme.px(24), theme.px(56), theme.px(24))
        layout.addSpacing(theme.px(16))
        layout.addLayout(self._cards())
        layout.addSpacing(theme.px(16))
        layout.addLayout(self._name_line())
        self._rooms = QVBoxLayout()
        self._rooms.setSpacing(theme.px(4))
        layout.addLayout(self._rooms)
        layout.addStretch(1)
        self.setLayout(layout)

    def show_state(self, state: WindowState) -> None:
        if state.name != self._name:
            self._name = state.name
            self.name.setText(state.name)
        if state.nearby != self._nearby:
            self._nearby = state.nearby
            self._show_nearby(state.nearby)

    def _cards(self) -> QBoxLayout:
        self.demo = button(self.tr("Start the demo"), lambda: self.send(TryDemo()), "primary")
        self.room = button(self.tr("Start…"), lambda: self.send(BeginRoom()), name=self.tr("Start a room…"))
        self.join = button(self.tr("Join…"), lambda: self.send(BeginJoin()), name=self.tr("Join a room…"))
        self.alone = button(self.tr("Train…"), lambda: self.send(TrainAlone()), name=self.tr("Train alone…"))
        return row(
            _card(self.tr("Try the demo"), self.tr("Three windows on this computer train a model that reads "
                       "handwritten digits. Nothing leaves it. One minute."), self.demo),
            _card(self.tr("Start a room"), self.tr("Choose what to learn, drop your data in, invite others by "
                       "link, QR or code."), self.room),
            _card(self.tr("Join a room"), self.tr("Paste a link, read a code over the phone, or pick one "
                       "nearby."), self.join),
            _card(self.tr("Train alone"), self.tr("The same, without anyone else. You can open a room later."),
                       self.alone),
            spacing=14,
        )  # fmt: skip

    def _name_line(self) -> QBoxLayout:
        self.name = NameEdit(self.tr("Your name in rooms"))
        self.name.editingFinished.connect(self._rename)
        title = label(self.tr("Your name in rooms:"), "text")
        title.setBuddy(self.name)
        return row(title, self.name, 1, spacing=6)

    def _rename(self) -> None:
        name = " ".join(self.name.text().split())
        if not name:
            self.name.setText(self._name)
        elif name != self._name:
            self._name = name
            self.send(SetSetting("name", name))

    def _show_nearby(self, rooms: tuple[NearbyRoom, ...]) -> None:
        clear(self._rooms)
        for room in rooms[:_MOST_NEARBY]:
            self._rooms.addLayout(self._nearby_line(room))
        if len(rooms) > _MOST_NEARBY:
            more = button(counted(len(rooms) - _MOST_NEARBY, self.tr("1 more nearby"), self.tr("{n} more nearby")),
                          lambda: self.send(BeginJoin()), "link")
            self._rooms.addLayout(row(more, 1))

    def _nearby_line(self, room: NearbyRoom) -> QBoxLayout:
        title = ElidedLabel(room.room, "strong")
        told = self.tr("{task} · hosted by {host}, {members}").format(
            task=room.task, host=room.host,
            members=counted(room.members, self.tr("1 member"), self.tr("{n} members")))
        join = button(self.tr("Join…"), lambda: self._join_nearby(room), "link",
                      self.tr("Join {room}…").format(room=room.room))
        return row(label(self.tr("Nearby:"), "text"), title, ElidedLabel(told, "text"), join, 1, spacing=6)

    def _join_nearby(self, room: NearbyRoom) -> None:
        self.send(BeginJoin())
        self.nearby_chosen.emit(room)

