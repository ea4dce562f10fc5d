"""The small widgets that all pages are made of: cards, labels, buttons, bars, fields."""

from __future__ import annotations

import html
from collections.abc import Callable
from typing import TypeVar

from PySide6.QtCore import QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QFont, QFontMetrics, QPainter, QPaintEvent, QPen, QPixmap, QResizeEvent, QWheelEvent
from PySide6.QtWidgets import (
    QAbstractSpinBox,
    QBoxLayout,
    QComboBox,
    QDoubleSpinBox,
    QFrame,
    QHBoxLayout,
    QLabel,
    QLayout,
    QLineEdit,
    QPushButton,
    QScrollArea,
    QSizePolicy,
    QSpinBox,
    QVBoxLayout,
    QWidget,
)

from desktop.intents import Intent
from desktop.state import WindowState
from desktop.ui import icons
from desktop.ui.theme import set_kind, theme

FIELD_HEIGHT = 32
_LINE_HEIGHT = 118

_Box = TypeVar("_Box", bound=QBoxLayout)

SEVERITY_ICONS = {"info": "info", "care": "care", "bad": "bad", "good": "good"}
SEVERITY_COLORS = {"info": "quiet", "care": "care", "bad": "bad", "good": "good"}


class Page(QWidget):
    """One page of the window: shows a snapshot, emits intents."""

    intent = Signal(object)

    def show_state(self, state: WindowState) -> None:
        """Show what differs from the last snapshot."""
        raise NotImplementedError

    def send(self, wish: Intent) -> None:
        """Tell the application what the person asks for."""
        self.intent.emit(wish)


# -- labels -------------------------------------------------------------------------------------------


def label(text: str = "", kind: str = "body", *, wrap: bool = False) -> QLabel:
    """A label of one of the kinds in the style sheet. Plain text always: names come from other people."""
    made = Prose(text) if wrap else QLabel(text)
    if not wrap:
        made.setTextFormat(Qt.TextFormat.PlainText)
    _tighten(made, kind)
    set_kind(made, kind)
    return made


class Prose(QLabel):
    """Text over several lines, with air between them. What it is given is plain text and stays so."""

    def __init__(self, text: str = "") -> None:
        super().__init__()
        self._plain = ""
        self.setTextFormat(Qt.TextFormat.RichText)
        self.setWordWrap(True)
        self.setText(text)

    def text(self) -> str:
        return self._plain

    def setText(self, text: str) -> None:
        self._plain = text
        lines = html.escape(text).replace("\n", "<br>")
        super().setText(f'<div style="line-height: {_LINE_HEIGHT}%">{lines}</div>' if text else "")


def _tighten(target: QLabel, kind: str) -> None:
    """Large letters stand a little closer."""
    if kind in ("display", "title"):
        font = QFont(target.font())
        font.setLetterSpacing(QFont.SpacingType.PercentageSpacing, 98)
        target.setFont(font)


def verbatim(widget: QWidget) -> None:
    """Show each character as it is: some fonts draw "3x4" as "3×4", which is wrong in a link or a code."""
    font = QFont(widget.font())
    font.setFeature(QFont.Tag("calt"), 0)
    widget.setFont(font)


def number_label(text: str = "", kind: str = "quiet") -> QLabel:
    """A label whose digits are all of one width, so that a changing number does not shiver."""
    made = label(text, kind)
    tabular(made)
    return made


def tabular(widget: QWidget) -> None:
    """Set digits of one width, where the font has them."""
    font = QFont(widget.font())
    font.setFeature(QFont.Tag("tnum"), 1)
    widget.setFont(font)


def set_text(target: QLabel | QPushButton, text: str) -> None:
    """Set a text only when it differs, so that nothing is laid out again for nothing."""
    if target.text() != text:
        target.setText(text)


class ElidedLabel(QLabel):
    """A label that shortens its text with "…" to the room it has and tells it whole in a tooltip."""

    def __init__(
        self, text: str = "", kind: str = "body", mode: Qt.TextElideMode = Qt.TextElideMode.ElideRight
    ) -> None:
        super().__init__(text)
        self.setTextFormat(Qt.TextFormat.PlainText)
        self._mode = mode
        _tighten(self, kind)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        set_kind(self, kind)

    def minimumSizeHint(self) -> QSize:
        return QSize(theme.px(24), super().minimumSizeHint().height())

    def is_elided(self) -> bool:
        """Whether a part of the text is hidden now."""
        return self._shown() != self.text()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.setToolTip(self.text() if self.is_elided() else "")

    def setText(self, text: str) -> None:
        super().setText(text)
        self.setToolTip(text if self.is_elided() else "")

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setPen(self.palette().color(self.foregroundRole()))
        painter.drawText(self.contentsRect(), int(self.alignment() | Qt.TextFlag.TextSingleLine), self._shown())

    def _shown(self) -> str:
        return QFontMetrics(self.font()).elidedText(self.text(), self._mode, self.contentsRect().width())


class IconLabel(QLabel):
    """An icon that says something, in a colour of the theme."""

    def __init__(self, name: str = "", color: str = "quiet", size: int = 16) -> None:
        super().__init__()
        self._name, self._color, self._size = name, color, size
        self.setFixedSize(size, size)
        theme.changed.connect(self._draw)
        self._draw()

    def show_icon(self, name: str, color: str) -> None:
        """Show another icon."""
        if (name, color) != (self._name, self._color):
            self._name, self._color = name, color
            self._draw()

    def show_severity(self, severity: str, words: str) -> None:
        """Show how grave something is; the words are for those who do not see the icon."""
        self.show_icon(SEVERITY_ICONS.get(severity, "info"), SEVERITY_COLORS.get(severity, "quiet"))
        self.setAccessibleName(words)

    def _draw(self) -> None:
        self.setPixmap(icons.pixmap(self._name, self._color, self._size) if self._name else QPixmap())


class DropZone(QFrame):
    """A place that looks as if things could be dropped there; the whole window takes them."""

    def __init__(self) -> None:
        super().__init__()
        self.body = QVBoxLayout(self)
        self.body.setContentsMargins(*(theme.px(16),) * 4)
        self.body.setSpacing(theme.px(8))

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        color = theme.color("faint")
        color.setAlphaF(0.7)
        pen = QPen(color, 1)
        pen.setDashPattern([4, 4])
        painter.setPen(pen)
        painter.setBrush(theme.color("surface"))
        painter.drawRoundedRect(QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5), theme.px(10), theme.px(10))


class Dot(QWidget):
    """A small filled circle; a word always stands beside it."""

    def __init__(self, color: str = "good", size: int = 9) -> None:
        super().__init__()
        self._color = color
        self.setFixedSize(theme.px(size), theme.px(size))

    def set_color(self, color: str) -> None:
        """Take another token."""
        if color != self._color:
            self._color = color
            self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(theme.color(self._color))
        painter.drawEllipse(QRectF(self.rect()))


# -- surfaces -----------------------------------------------------------------------------------------


class Card(QFrame):
    """A surface with a border; its content goes into `body`."""

    def __init__(self, *, padding: int = 16, spacing: int = 8, kind: str = "card") -> None:
        super().__init__()
        set_kind(self, kind)
        self.body = QVBoxLayout(self)
        self.body.setContentsMargins(*(theme.px(padding),) * 4)
        self.body.setSpacing(theme.px(spacing))


def rule() -> QFrame:
    """A thin horizontal line."""
    made = QFrame()
    set_kind(made, "rule")
    made.setFixedHeight(1)
    return made


def row(*parts: QWidget | QLayout | int, spacing: int = 8) -> QHBoxLayout:
    """Widgets and layouts side by side; an int is a stretch of that weight."""
    return _filled(QHBoxLayout(), parts, spacing)


def column(*parts: QWidget | QLayout | int, spacing: int = 8) -> QVBoxLayout:
    """Widgets and layouts one below the other; an int is a stretch of that weight."""
    return _filled(QVBoxLayout(), parts, spacing)


def _filled(layout: _Box, parts: tuple[QWidget | QLayout | int, ...], spacing: int) -> _Box:
    layout.setContentsMargins(0, 0, 0, 0)
    layout.setSpacing(theme.px(spacing))
    for part in parts:
        if isinstance(part, int):
            layout.addStretch(part)
        elif isinstance(part, QLayout):
            layout.addLayout(part)
        else:
            layout.addWidget(part)
    return layout


def clear(layout: QLayout) -> None:
    """Take all widgets and layouts out of a layout and delete them."""
    while (item := layout.takeAt(0)) is not None:
        widget, inner = item.widget(), item.layout()
        if widget is not None:
            widget.hide()
            widget.deleteLater()
        elif inner is not None:
            clear(inner)


def scroll(content: QWidget, name: str) -> QScrollArea:
    """Content that may be higher than its place."""
    set_kind(content, "clear")
    made = QScrollArea()
    made.setWidgetResizable(True)
    made.setFrameShape(QFrame.Shape.NoFrame)
    made.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
    made.viewport().setAutoFillBackground(False)
    content.setAutoFillBackground(False)
    made.setWidget(content)
    made.setAccessibleName(name)
    made.setFocusPolicy(Qt.FocusPolicy.NoFocus)
    return made


def page_layout(page: QWidget, *, spacing: int = 14) -> QVBoxLayout:
    """The margins that all pages share."""
    made = QVBoxLayout(page)
    made.setContentsMargins(theme.px(24), theme.px(18), theme.px(24), theme.px(14))
    made.setSpacing(theme.px(spacing))
    return made


class TitleLine(QWidget):
    """The head of a page: title, one quiet sentence, and the buttons on the right."""

    def __init__(self, title: str, note: str = "") -> None:
        super().__init__()
        self.title = ElidedLabel(title, "title")
        self.note = ElidedLabel(note, "text")
        self.title.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Fixed)
        self.note.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self.buttons = row(spacing=12)
        line = row(self.title, self.note, self.buttons, spacing=12)
        line.setStretch(1, 1)
        self.setLayout(line)
        self.setFixedHeight(theme.px(33))

    def add(self, button: QPushButton) -> QPushButton:
        """Put a button to the right end."""
        self.buttons.addWidget(button)
        return button


# -- controls -----------------------------------------------------------------------------------------


def button(text: str, on_click: Callable[[], object], kind: str = "plain", name: str = "") -> QPushButton:
    """A push button: "plain", "primary", "link" or "rail"."""
    made = QPushButton(text)
    made.setAutoDefault(False)
    made.setAccessibleName(name or text)
    made.setSizePolicy(QSizePolicy.Policy.Maximum if kind != "rail" else QSizePolicy.Policy.Preferred,
                       QSizePolicy.Policy.Fixed)
    set_kind(made, kind)
    if kind == "rail":
        made.setFocusPolicy(Qt.FocusPolicy.TabFocus)
    if kind in ("link", "primary", "rail"):
        made.setCursor(Qt.CursorShape.PointingHandCursor)
    made.clicked.connect(lambda _checked=False: on_click())
    return made


class IconButton(QPushButton):
    """A button that is only an icon; its name is told by tooltip and to screen readers."""

    def __init__(self, icon: str, name: str, on_click: Callable[[], object]) -> None:
        super().__init__()
        self._icon = icon
        set_kind(self, "icon")
        self.setAutoDefault(False)
        self.setAccessibleName(name)
        self.setToolTip(name)
        self.setIconSize(QSize(16, 16))
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self.clicked.connect(lambda _checked=False: on_click())
        theme.changed.connect(self._draw)
        self._draw()

    def show_icon(self, icon: str) -> None:
        """Show another icon."""
        if icon != self._icon:
            self._icon = icon
            self._draw()

    def _draw(self) -> None:
        self.setIcon(icons.icon(self._icon, "quiet"))


def line_edit(name: str, placeholder: str = "") -> QLineEdit:
    """A field for one line. Drops go to the window, which says what will happen."""
    made = QLineEdit()
    made.setAccessibleName(name)
    made.setPlaceholderText(placeholder)
    made.setFixedHeight(theme.px(FIELD_HEIGHT))
    made.setAcceptDrops(False)
    return made


class NameEdit(QLineEdit):
    """A field that is as wide as the name in it, edited in place."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.setAccessibleName(name)
        self.setMaxLength(40)
        self.setAcceptDrops(False)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self.textChanged.connect(self.updateGeometry)
        set_kind(self, "name")

    def sizeHint(self) -> QSize:
        text = self.fontMetrics().horizontalAdvance(self.text()) + theme.px(24)
        return QSize(min(max(text, theme.px(96)), theme.px(340)), super().sizeHint().height())


def _draw_chevron(widget: QWidget, center: QPointF, up: bool) -> None:
    painter = QPainter(widget)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(QPen(theme.color("quiet" if widget.isEnabled() else "faint"), 1.6, Qt.PenStyle.SolidLine,
                        Qt.PenCapStyle.RoundCap, Qt.PenJoinStyle.RoundJoin))  # fmt: skip
    wide, high = theme.px(4), theme.px(4) / 2 * (-1 if up else 1)
    painter.drawPolyline([center + QPointF(-wide, -high), center + QPointF(0, high), center + QPointF(wide, -high)])


class ChoiceBox(QComboBox):
    """A combo box with the theme's own chevron. The wheel scrolls the page, not the choice."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.setAccessibleName(name)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setFixedHeight(theme.px(FIELD_HEIGHT))

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        _draw_chevron(self, QPointF(self.width() - theme.px(14), self.height() / 2), up=False)

    def wheelEvent(self, event: QWheelEvent) -> None:
        event.ignore()


def _prepare_steps(box: QAbstractSpinBox, name: str) -> None:
    box.setAccessibleName(name)
    box.setAcceptDrops(False)
    box.setKeyboardTracking(False)
    box.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
    box.setFixedHeight(theme.px(FIELD_HEIGHT))
    edit = box.findChild(QLineEdit)
    if edit is not None:
        edit.setTextMargins(theme.px(8), 0, 0, 0)
        edit.setAcceptDrops(False)


def _draw_steps(box: QAbstractSpinBox) -> None:
    x = box.width() - theme.px(13)
    _draw_chevron(box, QPointF(x, box.height() * 0.34), up=True)
    _draw_chevron(box, QPointF(x, box.height() * 0.66), up=False)


class WholeBox(QSpinBox):
    """A field for a whole number. The wheel scrolls the page, not the number."""

    def __init__(self, name: str, low: int, high: int) -> None:
        super().__init__()
        self.setRange(low, high)
        _prepare_steps(self, name)

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        _draw_steps(self)

    def wheelEvent(self, event: QWheelEvent) -> None:
        event.ignore()


class RateBox(QDoubleSpinBox):
    """A field for a small positive number such as a learning rate; a step is a factor of two."""

    def __init__(self, name: str, low: float, high: float) -> None:
        super().__init__()
        self.setDecimals(6)
        self.setRange(low, high)
        _prepare_steps(self, name)

    def textFromValue(self, value: float) -> str:
        return self.locale().toString(float(value), "g", 6)

    def stepBy(self, steps: int) -> None:
        self.setValue(self.value() * 2.0**steps)

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        _draw_steps(self)

    def wheelEvent(self, event: QWheelEvent) -> None:
        event.ignore()


class Switch(QPushButton):
    """An on/off switch. The word beside it says how it stands, so that colour is not needed."""

    def __init__(self, name: str, on: str, off: str) -> None:
        super().__init__()
        self._words = (off, on)
        set_kind(self, "icon")
        self.setCheckable(True)
        self.setAccessibleName(name)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)

    def sizeHint(self) -> QSize:
        metrics = QFontMetrics(self.font())
        words = max(metrics.horizontalAdvance(word) for word in self._words)
        return QSize(theme.px(34 + 8 + 8) + words, theme.px(28))

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        high = theme.px(18)
        track = QRectF(self.width() - theme.px(34) - 4, (self.height() - high) / 2, theme.px(34), high)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(theme.color("mine" if self.isChecked() else "faint"))
        painter.drawRoundedRect(track, high / 2, high / 2)
        knob = high - 4
        x = track.right() - knob - 2 if self.isChecked() else track.left() + 2
        painter.setBrush(theme.color("surface"))
        painter.drawEllipse(QRectF(x, track.top() + 2, knob, knob))
        painter.setPen(theme.color("quiet"))
        text = QRectF(0, 0, track.left() - theme.px(8), self.height())
        painter.drawText(text, int(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter),
                         self._words[self.isChecked()])


def field(title: str, control: QWidget) -> QVBoxLayout:
    """A control below its name; the name is its buddy."""
    name = label(title, "quiet")
    name.setBuddy(control)
    return column(name, control, spacing=4)


# -- bars ---------------------------------------------------------------------------------------------


class Bar(QWidget):
    """A horizontal bar of coloured shares, or a running stripe when `show_busy`. Its words say the same."""

    def __init__(self, name: str, height: int = 6) -> None:
        super().__init__()
        self._parts: tuple[tuple[float, str], ...] = ()
        self.setAccessibleName(name)
        self.setFixedHeight(theme.px(height))
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def show_parts(self, *parts: tuple[float, str], words: str = "") -> None:
        """Shares of the whole (0..1) with their tokens, from the left; a token may end in "/2" for half strength."""
        if parts != self._parts:
            self._parts = parts
            self.setAccessibleDescription(words)
            self.update()

    @property
    def parts(self) -> tuple[tuple[float, str], ...]:
        """What is shown now."""
        return self._parts

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        radius = self.height() / 2
        painter.setBrush(theme.color("rest"))
        painter.drawRoundedRect(QRectF(self.rect()), radius, radius)
        left = 0.0
        for share, token in self._parts:
            width = max(0.0, min(share, 1.0)) * self.width()
            right = min(left + width, float(self.width()))
            if right - left >= 0.5:
                color = theme.color(token.removesuffix("/2"))
                color.setAlphaF(0.5 if token.endswith("/2") else 1.0)
                painter.setBrush(color)
                gap = 1.0 if left > 0 else 0.0
                painter.drawRoundedRect(QRectF(left + gap, 0, max(right - left - gap, 1.0), self.height()),
                                        min(radius, 2.0 if left > 0 else radius), radius)
            left = right


class LineMark(QWidget):
    """A short line as it is drawn in a chart or bar, for a legend."""

    def __init__(self, token: str, *, dashed: bool = False, thin: bool = False) -> None:
        super().__init__()
        self._token, self._dashed, self._thin = token, dashed, thin
        self.setFixedSize(theme.px(14), theme.px(8))

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        pen = QPen(theme.color(self._token), 1.5 if self._thin else 2.5)
        pen.setCapStyle(Qt.PenCapStyle.FlatCap if self._dashed else Qt.PenCapStyle.RoundCap)
        if self._dashed:
            pen.setDashPattern([1.6, 1.2])
        painter.setPen(pen)
        middle = self.height() / 2
        painter.drawLine(QPointF(1.5, middle), QPointF(self.width() - 1.5, middle))


class Empty(QWidget):
    """What an empty list shows: what is missing, what to do next, and the button for it."""

    def __init__(self, icon: str, title: str, text: str, action: QPushButton | None = None) -> None:
        super().__init__()
        words = label(text, "text", wrap=True)
        words.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        words.setFixedWidth(theme.px(380))
        center = Qt.AlignmentFlag.AlignHCenter
        layout = column(1, spacing=8)
        layout.addWidget(IconLabel(icon, "faint", 28), 0, center)
        layout.addWidget(label(title, "emphasis"), 0, center)
        layout.addLayout(row(1, words, 1))
        if action is not None:
            layout.addSpacing(theme.px(4))
            layout.addWidget(action, 0, center)
        layout.addStretch(1)
        self.setLayout(layout)


def choice_card(title: str, text: str, action: QWidget, *, height: int) -> Card:
    """One of several ways to go on: what it is called, what it means, and the button; at least `height` high."""
    card = Card(padding=18, spacing=6)
    card.setMinimumHeight(theme.px(height))
    words = label(text, "text", wrap=True)
    words.setAlignment(Qt.AlignmentFlag.AlignTop)
    card.body.addWidget(label(title, "emphasis"))
    card.body.addWidget(words, 1)
    card.body.addWidget(action)
    return card
