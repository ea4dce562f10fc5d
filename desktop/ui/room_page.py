"""The Room page: open a room and invite, join one, or be told that none is needed."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLayout, QPushButton, QStackedWidget, QVBoxLayout, QWidget

from desktop.intents import AnotherWindow, BeginJoin, BeginRoom, GoTo, Join, Leave, OpenRoom, TrainAlone
from desktop.state import MemberRow, NearbyRoom, RoomView, WindowState
from desktop.ui.formats import counted
from desktop.ui.invite import InviteCard
from desktop.ui.theme import theme
from desktop.ui.widgets import (
    Card,
    Dot,
    ElidedLabel,
    Empty,
    IconLabel,
    Page,
    TitleLine,
    WholeBox,
    button,
    choice_card,
    clear,
    column,
    field,
    label,
    line_edit,
    page_layout,
    row,
    rule,
    scroll,
    set_text,
)

_INSIDE = ("open", "joined")


class RoomPage(Page):
    """Four faces: choose, open (host), join, inside; and a fifth for those who train alone."""

    def __init__(self) -> None:
        super().__init__()
        self._shown: tuple[object, ...] = ()
        self.head = TitleLine(self.tr("Room"))
        self.another = self.head.add(button(self.tr("Another window here"), lambda: self.send(AnotherWindow()),
                                            name=self.tr("Another window on this computer joins this room")))
        self.leave = self.head.add(button(self.tr("Leave"), lambda: self.send(Leave()), name=self.tr("Leave the room")))
        self.go_on = self.head.add(button(self.tr("Continue"), lambda: self.send(GoTo("train")), "primary"))
        self.faces = QStackedWidget()
        self.choose, self.open, self.join = _ChooseFace(self), _OpenFace(self), _JoinFace(self)
        self.inside, self.alone = _InsideFace(), self._alone_face()
        for face in (self.choose, self.open, self.join, self.inside, self.alone):
            self.faces.addWidget(face)
        layout = page_layout(self)
        layout.addWidget(self.head)
        layout.addWidget(self.faces, 1)

    def show_state(self, state: WindowState) -> None:
        shown = (state.room, state.mode, state.nearby, state.session.members, state.name, state.data)
        if shown == self._shown:
            return
        self._shown = shown
        room = state.room or RoomView()
        inside = room.state in _INSIDE
        busy = room.state in ("opening", "joining")
        face = self._face(state.mode, room)
        self.faces.setCurrentWidget(face)
        self.leave.setVisible(inside or busy)
        set_text(self.leave, self.tr("Leave") if inside else self.tr("Cancel"))
        self.another.setVisible(inside)
        self.go_on.setVisible(inside or face is self.alone)
        title, note = self._title(room, face)
        set_text(self.head.title, title)
        set_text(self.head.note, note)
        self.open.show_room(room)
        self.join.show_room(room, state.nearby)
        if inside:
            self.inside.show_room(room, state.session.members)

    def choose_nearby(self, room: NearbyRoom) -> None:
        """Fill in the address of a room nearby and ask for its code."""
        self.join.choose_nearby(room)

    def _face(self, mode: str, room: RoomView) -> QWidget:
        if room.state in _INSIDE:
            return self.inside
        if room.state == "opening" or (mode in ("host", "demo") and room.state != "joining"):
            return self.open
        if mode == "join" or room.state == "joining":
            return self.join
        return self.alone if mode == "alone" else self.choose

    def _title(self, room: RoomView, face: QWidget) -> tuple[str, str]:
        if face is self.inside:
            host = self.tr("you host it") if room.hosting else self.tr("hosted by {host}").format(host=room.host)
            start = counted(room.start_members, self.tr("starts when you are ready"),
                            self.tr("starts when {n} members are ready"))
            return room.room or self.tr("Room"), f"{room.task} · {host} · {start}" if room.task else f"{host} · {start}"
        if face is self.join:
            return self.tr("Join a room"), self.tr("with a link, or a code read over the phone")
        if face is self.open:
            return self.tr("Open a room"), self.tr("others train with you, each on their own data")
        return self.tr("Room"), ""

    def _alone_face(self) -> QWidget:
        self.alone_open = button(self.tr("Open a room after all"), lambda: self.send(BeginRoom()))
        return Empty("good", self.tr("No room is needed"),
                     self.tr("You train alone. Nothing is sent anywhere. You can open a room later, and your data "
                             "stays as it is."), self.alone_open)


class _ChooseFace(QWidget):
    """Neither host nor guest yet."""

    def __init__(self, page: RoomPage) -> None:
        super().__init__()
        self.host = button(self.tr("Open a room"), lambda: page.send(BeginRoom()), "primary")
        self.guest = button(self.tr("Join a room…"), lambda: page.send(BeginJoin()))
        self.alone = button(self.tr("Train alone"), lambda: page.send(TrainAlone()))
        ways = (
            (self.tr("Open a room"), self.tr("You choose the task; others join by link, QR or code."), self.host),
            (self.tr("Join a room"), self.tr("Somebody sent you a link or reads you a code."), self.guest),
            (self.tr("Train alone"), self.tr("No room, nothing is sent. You can open one later."), self.alone),
        )
        cards = row(spacing=14)
        for title, text, action in ways:
            cards.addWidget(choice_card(title, text, action, height=150), 1)
        self.setLayout(column(cards, 1))


class _Trouble(QWidget):
    """An error sentence with its mark; not there when there is none."""

    def __init__(self) -> None:
        super().__init__()
        mark = IconLabel()
        mark.show_severity("bad", self.tr("Problem"))
        self.text = label("", wrap=True)
        self.text.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        line = row(mark, self.text, spacing=8)
        line.setStretch(1, 1)
        line.setAlignment(mark, Qt.AlignmentFlag.AlignTop)
        self.setLayout(line)
        self.hide()

    def tell(self, text: str) -> None:
        """Say this, or nothing."""
        set_text(self.text, text)
        self.setVisible(bool(text))


class _OpenFace(QWidget):
    """Before a room is open: when it starts, and the button that opens it."""

    def __init__(self, page: RoomPage) -> None:
        super().__init__()
        self.start_members = WholeBox(self.tr("Members that must be ready"), 1, 64)
        self.start_members.setValue(2)
        self.start_members.setFixedWidth(theme.px(84))
        self.go = button(self.tr("Open the room"), lambda: page.send(OpenRoom(self.start_members.value())), "primary")
        self.trouble = _Trouble()
        self.busy = label(self.tr("Opening the room…"), "quiet")
        before = label(self.tr("Start when"))
        before.setBuddy(self.start_members)
        card = Card(padding=20, spacing=14)
        card.setFixedWidth(theme.px(560))
        told = label(self.tr("This window becomes the place where others knock. They need the link, the QR code or a "
                             "short code that you see next. The room lives on when you leave."), "text",
                     wrap=True)
        card.body.addWidget(told)
        card.body.addLayout(row(before, self.start_members, label(self.tr("members are ready, you among them")), 1))
        card.body.addWidget(self.trouble)
        card.body.addLayout(row(self.go, self.busy, 1, spacing=12))
        self.setLayout(column(row(card, 1), 1))

    def show_room(self, room: RoomView) -> None:
        """Show whether it is being opened, and why it could not."""
        opening = room.state == "opening"
        self.go.setEnabled(not opening)
        self.start_members.setEnabled(not opening)
        self.busy.setVisible(opening)
        self.trouble.tell("" if opening else room.error)


class _JoinFace(QWidget):
    """Link or code, address on demand, and the rooms nearby."""

    def __init__(self, page: RoomPage) -> None:
        super().__init__()
        self._page = page
        self._nearby: tuple[NearbyRoom, ...] | None = None
        self.take: list[QPushButton] = []
        self.text = line_edit(self.tr("Link or code"),
                              self.tr("peerloom://… or a code such as maple-otter-amber-falcon-42"))
        self.text.returnPressed.connect(self._join)
        self.text.textChanged.connect(lambda: self._allow())
        self.address = line_edit(self.tr("Address"), self.tr("e.g. 192.168.1.20:47000"))
        self.address.returnPressed.connect(self._join)
        self.address_part = QWidget()
        self.address_part.setLayout(field(self.tr("Address that the host sees beside the code"), self.address))
        self.address_part.hide()
        self.ask_address = button(self.tr("Add an address…"), self._show_address, "link")
        self.go = button(self.tr("Join"), self._join, "primary")
        self.trouble = _Trouble()
        self.busy = label("", "quiet", wrap=True)
        self._joining = False
        layout = row(column(self._ask_card(), 1), self._nearby_card(), spacing=14)
        layout.setStretch(0, 3)
        layout.setStretch(1, 2)
        self.setLayout(layout)
        self._allow()

    def show_room(self, room: RoomView, nearby: tuple[NearbyRoom, ...]) -> None:
        """Show how joining goes, why it did not, and who is nearby."""
        self._joining = room.state == "joining"
        for part in (self.text, self.address, self.ask_address):
            part.setEnabled(not self._joining)
        self.busy.setVisible(self._joining)
        where = room.room or room.address or self.tr("the room")
        set_text(self.busy, self.tr("Knocking at {room}…").format(room=where))
        self.trouble.tell("" if self._joining else room.error)
        self._allow()
        if nearby != self._nearby:
            self._nearby = nearby
            self._show_nearby(nearby)

    def choose_nearby(self, room: NearbyRoom) -> None:
        """Take the address of this room; what is missing is its code."""
        self._show_address()
        self.address.setText(room.address)
        self.text.clear()
        self.text.setPlaceholderText(self.tr("The code that {host} sees").format(host=room.host))
        self.text.setFocus()

    def _ask_card(self) -> QWidget:
        card = Card(padding=20, spacing=12)
        line = row(self.text, self.go, spacing=8)
        name = label(self.tr("Link or code"), "strong")
        name.setBuddy(self.text)
        card.body.addLayout(column(name, line, spacing=6))
        card.body.addWidget(self.address_part)
        card.body.addWidget(self.ask_address)
        card.body.addWidget(self.trouble)
        card.body.addWidget(self.busy)
        card.body.addWidget(rule())
        card.body.addWidget(label(self.tr("Your files stay here. What is sent: how the model changed while training on "
                                          "them. You see the room’s task before anything is trained."), "quiet",
                                  wrap=True))
        return card

    def _nearby_card(self) -> QWidget:
        card = Card(padding=20, spacing=10)
        self._lines = QVBoxLayout()
        self._lines.setContentsMargins(0, 0, 0, 0)
        self._lines.setSpacing(theme.px(10))
        content = QWidget()
        content.setLayout(column(self._lines, 1))
        self.nobody = label(self.tr("No room is announced on this network. Ask the host for the link."), "quiet",
                            wrap=True)
        card.body.addWidget(label(self.tr("Nearby"), "strong"))
        card.body.addWidget(self.nobody)
        card.body.addWidget(scroll(content, self.tr("Rooms nearby")), 1)
        return card

    def _show_nearby(self, nearby: tuple[NearbyRoom, ...]) -> None:
        clear(self._lines)
        self.nobody.setVisible(not nearby)
        self.take = []
        for place, room in enumerate(nearby):
            if place:
                self._lines.addWidget(rule())
            self._lines.addLayout(self._nearby_line(room))

    def _nearby_line(self, room: NearbyRoom) -> QLayout:
        members = counted(room.members, self.tr("1 member"), self.tr("{n} members"))
        words = column(ElidedLabel(room.room, "strong"),
                       ElidedLabel(self.tr("{task} · {host}, {members}").format(
                           task=room.task, host=room.host, members=members), "quiet"), spacing=2)
        take = button(self.tr("Join…"), lambda: self.choose_nearby(room), "plain",
                      self.tr("Join {room}…").format(room=room.room))
        self.take.append(take)
        line = row(words, take, spacing=12)
        line.setStretch(0, 1)
        return line

    def _show_address(self) -> None:
        self.address_part.show()
        self.ask_address.hide()
        self.address.setFocus()

    def _allow(self) -> None:
        self.go.setEnabled(bool(self.text.text().strip()) and not self._joining)

    def _join(self) -> None:
        text = self.text.text().strip()
        if text and not self._joining:
            self._page.send(Join(text, self.address.text().strip()))


class _InsideFace(QWidget):
    """In a room: how others come in, and who is there."""

    def __init__(self) -> None:
        super().__init__()
        self.invite = InviteCard()
        self._lines = QVBoxLayout()
        self._lines.setContentsMargins(0, 0, 0, 0)
        self._lines.setSpacing(theme.px(10))
        content = QWidget()
        content.setLayout(column(self._lines, 1))
        self.count = label("", "strong")
        card = Card(padding=20, spacing=10)
        card.body.addWidget(self.count)
        card.body.addWidget(scroll(content, self.tr("Members")), 1)
        card.body.addWidget(rule())
        card.body.addWidget(label(self.tr("Your files stay here. What is sent: how the model changed while training on "
                                          "them."), "quiet", wrap=True))
        self._members: tuple[object, ...] | None = None
        layout = row(column(self.invite, 1), card, spacing=14)
        layout.setStretch(0, 3)
        layout.setStretch(1, 2)
        self.setLayout(layout)

    def show_room(self, room: RoomView, members: tuple[MemberRow, ...]) -> None:
        """Show the invitation, and who is in."""
        self.invite.show_room(room)
        here = tuple((m.peer, m.name, m.you, m.role, m.state == "lost", m.backend) for m in members)
        if here == self._members:
            return
        self._members = here
        present = sum(not lost for *_, lost, _ in here)
        set_text(self.count, counted(present, self.tr("1 member is here"), self.tr("{n} members are here")))
        clear(self._lines)
        for member in members:
            self._lines.addLayout(self._line(member))
        if len(members) < 2:
            self._lines.addWidget(label(self.tr("Send the link to let others in."), "quiet", wrap=True))

    def _line(self, member: MemberRow) -> QLayout:
        lost = member.state == "lost"
        words = [self.tr("you")] if member.you else []
        if member.role == "leader":
            words.append(self.tr("leader"))
        if member.backend:
            words.append(member.backend.upper() if len(member.backend) <= 4 else member.backend)
        if lost:
            words.append(self.tr("lost"))
        line = row(Dot("bad" if lost else "good"), ElidedLabel(member.name, "body"),
                   label(" · ".join(words), "quiet"), spacing=8)
        line.setStretch(1, 1)
        return line
