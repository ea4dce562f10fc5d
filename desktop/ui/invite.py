"""How others come in: the room's link, QR code, short code and address, on one card."""

from __future__ import annotations

from PySide6.QtCore import Qt, QTimer
from PySide6.QtWidgets import QApplication, QWidget

from desktop.state import RoomView
from desktop.ui.qr import QrCode
from desktop.ui.theme import theme
from desktop.ui.widgets import Card, button, column, label, line_edit, row, set_text, verbatim

_SAID_MS = 2000


class InviteCard(Card):
    """Everything a person needs to let others in."""

    def __init__(self) -> None:
        super().__init__(padding=20, spacing=0)
        self.qr = QrCode()
        self.no_qr = label(self.tr("The link is too long for a QR code. Send the link instead."), "quiet", wrap=True)
        self.link = line_edit(self.tr("Link to the room"))
        self.link.setReadOnly(True)
        self.copy = button(self.tr("Copy"), self._copy, name=self.tr("Copy the link"))
        self.code = label("", "code", wrap=True)
        self.code.setAccessibleName(self.tr("Code of the room"))
        self.address = label("", "body")
        for text in (self.code, self.address):
            text.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        for exact in (self.link, self.code, self.address):
            verbatim(exact)
        self.address.setAccessibleName(self.tr("Address of this window"))
        self._said = QTimer(self, singleShot=True, interval=_SAID_MS)
        self._said.timeout.connect(lambda: self.copy.setText(self.tr("Copy")))
        self._build()

    def show_room(self, room: RoomView) -> None:
        """Show how to come into this room."""
        if self.link.text() != room.link:
            self.link.setText(room.link)
            self.link.setCursorPosition(0)
        self.qr.show_text(room.link)
        self.qr.setVisible(self.qr.fits)
        self.no_qr.setVisible(bool(room.link) and not self.qr.fits)
        set_text(self.code, room.code)
        set_text(self.address, room.address)
        self._code_part.setVisible(bool(room.code))
        self._address_part.setVisible(bool(room.address))

    def _build(self) -> None:
        link_name = label(self.tr("Send the link"), "strong")
        link_name.setBuddy(self.link)
        link_line = row(self.link, self.copy, spacing=8)
        self._code_part, self._address_part = QWidget(), QWidget()
        self._code_part.setLayout(column(
            label(self.tr("Or read this code out"), "strong"), self.code,
            label(self.tr("good for one person; a new one appears after that"), "quiet"), spacing=2))
        self._address_part.setLayout(column(
            label(self.tr("Address, if they are asked for it"), "quiet"), self.address, spacing=2))
        words = column(link_name, link_line, spacing=6)
        words.addWidget(label(self.tr("Whoever has the link can join. Send it only to those you want here."), "quiet",
                              wrap=True))
        words.addSpacing(theme.px(14))
        words.addWidget(self._code_part)
        words.addSpacing(theme.px(10))
        words.addWidget(self._address_part)
        words.addStretch(1)
        under = label(self.tr("Or scan it"), "quiet")
        picture = column(self.qr, self.no_qr, under, 1, spacing=6)
        picture.setAlignment(under, Qt.AlignmentFlag.AlignHCenter)
        whole = row(words, picture, spacing=24)
        whole.setStretch(0, 1)
        self.body.addLayout(whole)

    def _copy(self) -> None:
        QApplication.clipboard().setText(self.link.text())
        self.copy.setText(self.tr("Copied"))
        self._said.start()

