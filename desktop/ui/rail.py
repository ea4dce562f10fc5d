"""The left rail: the path through a session, what is always there, and who and where I am."""

from __future__ import annotations

from PySide6.QtCore import QRectF, QSize, Qt, Signal
from PySide6.QtGui import QFont, QPainter, QPaintEvent
from PySide6.QtWidgets import QAbstractButton, QFrame, QPushButton, QSizePolicy, QVBoxLayout

from desktop.intents import GoTo
from desktop.state import STEPS, WindowState
from desktop.ui import icons
from desktop.ui.theme import set_kind, theme
from desktop.ui.widgets import Dot, ElidedLabel, IconLabel, button, label, row, rule, set_text


class PathStep(QAbstractButton):
    """One step of the path: its number in a circle, or a tick when it is behind us."""

    def __init__(self, number: int, text: str) -> None:
        super().__init__()
        self._number = number
        self._done = False
        self.setText(text)
        self.setCheckable(True)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setAttribute(Qt.WidgetAttribute.WA_Hover)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self._tell()

    @property
    def done(self) -> bool:
        """Whether the tick is shown."""
        return self._done

    def show_step(self, *, here: bool, done: bool) -> None:
        """Whether the person is at this step, and whether it is behind us."""
        if (here, done) != (self.isChecked(), self._done):
            self.setChecked(here)
            self._done = done
            self._tell()
            self.update()

    def nextCheckState(self) -> None:
        """A click asks to go there; the snapshot that follows says where we are."""

    def sizeHint(self) -> QSize:
        return QSize(theme.px(150), theme.px(32))

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        here = self.isChecked()
        box = QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5)
        if here or self.underMouse():
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(theme.color("selection" if here else "hover"))
            painter.drawRoundedRect(box, theme.px(8), theme.px(8))
        if self.hasFocus():
            painter.setPen(theme.color("mine"))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRoundedRect(box, theme.px(8), theme.px(8))
        side = theme.px(18)
        circle = QRectF(theme.px(10), (self.height() - side) / 2, side, side)
        self._paint_circle(painter, circle, here)
        font = QFont(self.font())
        font.setWeight(QFont.Weight.DemiBold if here else QFont.Weight.Normal)
        painter.setFont(font)
        painter.setPen(theme.color("text" if here else "quiet"))
        left = circle.right() + theme.px(10)
        painter.drawText(QRectF(left, 0, self.width() - left, self.height()), int(Qt.AlignmentFlag.AlignVCenter),
                         self.text())

    def _paint_circle(self, painter: QPainter, circle: QRectF, here: bool) -> None:
        if self._done and not here:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(theme.color("mine"))
            painter.drawEllipse(circle)
            inner = round(circle.width() * 0.72)
            tick = icons.pixmap("tick", "on_mine", inner)
            shift = (circle.width() - inner) / 2
            painter.drawPixmap(circle.topLeft() + type(circle.topLeft())(shift, shift), tick)
            return
        painter.setPen(theme.color("mine" if here else "faint"))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawEllipse(circle.adjusted(0.5, 0.5, -0.5, -0.5))
        font = QFont(self.font())
        font.setPixelSize(theme.px(11))
        font.setWeight(QFont.Weight.Medium)
        painter.setFont(font)
        painter.setPen(theme.color("mine" if here else "quiet"))
        painter.drawText(circle, int(Qt.AlignmentFlag.AlignCenter), str(self._number))

    def _tell(self) -> None:
        name = self.tr("{step}, step {number}").format(step=self.text(), number=self._number)
        self.setAccessibleName(name)
        self.setAccessibleDescription(self.tr("done") if self._done else self.tr("not done yet"))


class Rail(QFrame):
    """The left edge of the window."""

    intent = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        set_kind(self, "rail")
        self.setFixedWidth(theme.px(196))
        layout = QVBoxLayout(self)
        layout.setContentsMargins(theme.px(12), theme.px(14), theme.px(13), theme.px(22))
        layout.setSpacing(theme.px(3))
        self.home = button(self.tr("Peerloom"), lambda: self.intent.emit(GoTo("first")), "rail",
                           self.tr("Peerloom, first page"))
        self._head(layout)
        self.steps = {
            page: self._step(number, page, text)
            for number, (page, text) in enumerate(zip(STEPS, self._step_names(), strict=True), 1)
        }
        for step in self.steps.values():
            layout.addWidget(step)
        layout.addSpacing(theme.px(12))
        line = row(rule())
        line.setContentsMargins(theme.px(10), 0, theme.px(10), 0)
        layout.addLayout(line)
        layout.addSpacing(theme.px(12))
        self.links = {page: self._link(page, text) for page, text in self._link_names()}
        for link in self.links.values():
            layout.addWidget(link)
        layout.addStretch(1)
        self._foot(layout)

    def show_state(self, state: WindowState) -> None:
        """Show where we are, what is done, who I am and what this computer gives."""
        for page, step in self.steps.items():
            step.show_step(here=state.page == page, done=page in state.done)
        for page, link in self.links.items():
            link.setChecked(state.page == page)
        set_text(self.name, state.name or self.tr("no name yet"))
        set_text(self.device, state.device if state.ready else self.tr("getting ready…"))
        self.dot.set_color("good" if state.ready else "care")

    def _step_names(self) -> tuple[str, ...]:
        return self.tr("Task"), self.tr("Data"), self.tr("Room"), self.tr("Train"), self.tr("Try")

    def _link_names(self) -> tuple[tuple[str, str], ...]:
        return (("models", self.tr("Models")), ("network", self.tr("Network")), ("settings", self.tr("Settings")),
                ("help", self.tr("Help")))

    def _head(self, layout: QVBoxLayout) -> None:
        set_kind(self.home, "clear")
        self.home.setText("")
        self.home.setFixedHeight(theme.px(30))
        self.home.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        set_kind(self.home, "rail")
        inside = row(IconLabel("mark", "mine", theme.px(18)), label(self.tr("Peerloom"), "emphasis"), 1, spacing=8)
        inside.setContentsMargins(theme.px(9), 0, 0, 0)
        self.home.setLayout(inside)
        layout.addWidget(self.home)
        layout.addSpacing(theme.px(10))

    def _step(self, number: int, page: str, text: str) -> PathStep:
        step = PathStep(number, text)
        step.clicked.connect(lambda _checked=False: self.intent.emit(GoTo(page)))
        return step

    def _link(self, page: str, text: str) -> QPushButton:
        link = button(text, lambda: self.intent.emit(GoTo(page)), "rail")
        link.setCheckable(True)
        link.setFixedHeight(theme.px(32))
        return link

    def _foot(self, layout: QVBoxLayout) -> None:
        self.dot = Dot()
        self.name = ElidedLabel("", "quiet")
        self.device = ElidedLabel("", "quiet")
        name_line = row(self.dot, self.name, spacing=6)
        name_line.setStretch(1, 1)
        for part in (name_line, row(self.device)):
            part.setContentsMargins(theme.px(10), 0, 0, 0)
            layout.addLayout(part)
