"""The charts of the Train page: a few lines by step, with a legend that reads out the value under the pointer."""

from __future__ import annotations

import bisect
import math
from dataclasses import dataclass

import pyqtgraph as pg
from PySide6.QtCore import QEvent, QObject, QPointF, Qt
from PySide6.QtGui import QFont, QFontMetrics, QMouseEvent, QPainter, QResizeEvent
from PySide6.QtWidgets import QWidget

from desktop.state import Curve
from desktop.ui.formats import figure, number
from desktop.ui.theme import theme
from desktop.ui.widgets import Card, LineMark, label, number_label, row, set_text

MOST_POINTS = 300


@dataclass(frozen=True)
class Line:
    """How one line looks: its name in the legend, its token, and its stroke (not told apart by colour alone)."""

    name: str
    token: str
    width: float = 2.0
    dashed: bool = False
    alpha: float = 1.0


class PlainAxis(pg.AxisItem):
    """An axis that is only its numbers; the last one stays inside the picture."""

    def drawPicture(self, p: QPainter, axisSpec: object, tickSpecs: object, textSpecs: list[tuple]) -> None:
        right = self.rect().right()
        p.setFont(self.style["tickFont"] or self.font())
        p.setPen(self.textPen())
        for rect, flags, text in textSpecs:
            rect.moveRight(min(rect.right(), right))
            p.drawText(rect, int(flags), text)


class Chart(Card):
    """A card with one chart. `top` fixes the upper end of the y axis; None lets it follow the data."""

    def __init__(self, title: str, lines: tuple[Line, ...], top: float | None = None) -> None:
        super().__init__(padding=16, spacing=4)
        self.body.setContentsMargins(theme.px(16), theme.px(12), theme.px(12), theme.px(6))
        self._title, self._lines, self._top = title, lines, top
        self._curves: tuple[Curve, ...] = tuple(Curve() for _ in lines)
        self._x_end = 0.0
        self._x_max = 1.0
        self._ends = (0.0, 0.0)
        self._at: float | None = None
        self._legend(title)
        self._plot()
        theme.changed.connect(self._draw_theme)
        self._draw_theme()
        self._draw_axes(1.0)
        self._read_out()

    def show_curves(self, curves: tuple[Curve, ...], x_end: float) -> None:
        """Draw these lines over steps 0..x_end; cheap when nothing changed."""
        old = self._curves
        changed = [i for i, curve in enumerate(curves) if curve is not old[i] and curve != old[i]]
        if not changed and x_end == self._x_end:
            return
        self._curves, self._x_end = curves, x_end
        for i in changed:
            self._items[i].setData(_thinned(curves[i].x), _thinned(curves[i].y))
        self._draw_axes(x_end)
        self._read_out()

    def show_note(self, text: str, explained: str = "") -> None:
        """Further figures at the end of the legend, where there is room for them."""
        set_text(self.note, text)
        self.note.setToolTip(explained)
        self._fit_note()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit_note()

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.DevicePixelRatioChange:
            self._draw_theme()
        return super().event(event)

    # -- building

    def _legend(self, title: str) -> None:
        head = self._head = row(label(title, "strong"), spacing=11)
        self.values = []
        for line in self._lines:
            value = number_label(line.name)
            self.values.append(value)
            head.addLayout(row(LineMark(line.token, dashed=line.dashed, thin=line.width < 2), value, spacing=5))
        head.addStretch(1)
        self.note = number_label("")
        self.note.hide()
        head.addWidget(self.note)
        self.place = number_label("")
        self.place.hide()
        head.addWidget(self.place)
        self.body.addLayout(head)

    def _plot(self) -> None:
        self.plot = pg.PlotWidget(axisItems={name: PlainAxis(name) for name in ("left", "bottom")})
        self.plot.setAccessibleName(self.tr("{title} by step").format(title=self._title))
        self.plot.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.plot.setAcceptDrops(False)
        self.plot.viewport().setAcceptDrops(False)
        self.plot.setMinimumSize(theme.px(120), theme.px(60))
        self.plot.viewport().setMouseTracking(True)
        self.plot.viewport().installEventFilter(self)
        item = self.plot.getPlotItem()
        item.setMenuEnabled(False)
        item.hideButtons()
        item.setMouseEnabled(x=False, y=False)
        item.getViewBox().setDefaultPadding(0.0)
        font = QFont(self.font())
        font.setPixelSize(theme.px(11))
        font.setFeature(QFont.Tag("tnum"), 1)
        for name in ("left", "bottom"):
            axis = item.getAxis(name)
            axis.setStyle(tickFont=font, tickLength=0, tickTextOffset=6, autoExpandTextSpace=False,
                          hideOverlappingLabels=False)
            axis.setZValue(-10)
        item.getAxis("bottom").setHeight(theme.px(22))
        self._rules = [pg.InfiniteLine(angle=0, movable=False) for _ in range(3)]
        self._marker = pg.InfiniteLine(angle=90, movable=False)
        self._marker.hide()
        self._items = [pg.PlotDataItem(antialias=True, connect="finite") for _ in self._lines]
        for part in (*self._rules, self._marker, *self._items):
            self.plot.addItem(part)
        self.body.addWidget(self.plot, 1)

    # -- drawing

    def _draw_theme(self) -> None:
        ratio = self.devicePixelRatioF()  # pyqtgraph's pens are measured in pixels of the screen
        self.plot.setBackground(theme.color("surface"))
        for rule_ in self._rules:
            rule_.setPen(pg.mkPen(theme.color("line"), width=ratio))
        self._marker.setPen(pg.mkPen(theme.color("faint"), width=1))
        item = self.plot.getPlotItem()
        for name in ("left", "bottom"):
            item.getAxis(name).setTextPen(pg.mkPen(theme.color("quiet")))
        for line, drawn in zip(self._lines, self._items, strict=True):
            color = theme.color(line.token)
            color.setAlphaF(line.alpha)
            style = Qt.PenStyle.DashLine if line.dashed else Qt.PenStyle.SolidLine
            drawn.setPen(pg.mkPen(color, width=line.width * ratio, style=style))

    def _draw_axes(self, x_end: float) -> None:
        last = max((curve.x[-1] for curve in self._curves if curve.x), default=0.0)
        top = self._top if self._top is not None else _above(self._curves)
        ends = max(x_end, last, 1.0), top
        if ends == self._ends:
            return
        self._ends = ends
        self._x_max = ends[0]
        item = self.plot.getPlotItem()
        item.setXRange(0, self._x_max, padding=0.0)
        item.setYRange(0, top, padding=0.03)
        decimals = next((n for n, least in enumerate((20, 0.5, 0.05, 0.005)) if top >= least), 4)
        marks = [0.0, top / 2, top]
        left = item.getAxis("left")
        left.setTicks([[(y, number(y, decimals)) for y in marks]])
        widest = max(QFontMetrics(left.style["tickFont"]).horizontalAdvance(number(y, decimals)) for y in marks)
        left.setWidth(max(theme.px(34), widest + theme.px(10)))
        item.getAxis("bottom").setTicks([[(x, number(x)) for x in _ticks(self._x_max)]])
        for y, rule_ in zip(marks, self._rules, strict=True):
            rule_.setPos(y)

    # -- the value under the pointer

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.MouseMove and isinstance(event, QMouseEvent):
            self._point_at(event.position())
        elif event.type() == QEvent.Type.Leave:
            self._at = None
            self._marker.hide()
            self._read_out()
        return super().eventFilter(watched, event)

    def _point_at(self, position: QPointF) -> None:
        box = self.plot.getPlotItem().getViewBox()
        x = box.mapSceneToView(self.plot.mapToScene(position.toPoint())).x()
        inside = 0 <= x <= self._x_max and any(curve.x for curve in self._curves)
        self._at = x if inside else None
        self._marker.setVisible(inside)
        if inside:
            self._marker.setPos(x)
        self._read_out()

    def _read_out(self) -> None:
        for line, value, curve in zip(self._lines, self.values, self._curves, strict=True):
            shown = figure(_value_at(curve, self._at))
            set_text(value, f"{line.name} {shown}")
        set_text(self.place, "" if self._at is None else self.tr("step {n}").format(n=number(self._at)))
        self.place.setVisible(self._at is not None)
        self._fit_note()
        self.plot.setAccessibleDescription(", ".join(value.text() for value in self.values))


    def _fit_note(self) -> None:
        """While the pointer reads values out, their step stands there instead."""
        legend = self._head.minimumSize().width()
        wide = self.note.sizeHint().width() + self._head.spacing()
        if self.note.isVisibleTo(self):
            legend -= wide
        margins = self.body.contentsMargins()
        room = self.width() - margins.left() - margins.right() - legend
        self.note.setVisible(bool(self.note.text()) and self._at is None and room >= wide)


def legend_mark(token: str, text: str) -> QWidget:
    """A mark with its word, for a legend below a list."""
    made = QWidget()
    made.setLayout(row(LineMark(token), label(text, "quiet"), spacing=6))
    return made


def _thinned(values: tuple[float, ...]) -> list[float]:
    """Every n-th value and the last, as many as can be told apart; drawing more costs the window its fluency."""
    step = -(-len(values) // MOST_POINTS) or 1
    last = values[-1:] if (len(values) - 1) % step else ()
    return [float(value) for value in (*values[::step], *last)]


def _value_at(curve: Curve, x: float | None) -> float | None:
    """The last value at or before x; the newest when x is None."""
    if not curve.y:
        return None
    if x is None:
        return curve.y[-1]
    at = bisect.bisect_right(curve.x, x) - 1
    return curve.y[at] if at >= 0 else None


def _above(curves: tuple[Curve, ...]) -> float:
    """A round number just above all finite values."""
    highest = max((y for curve in curves for y in curve.y if math.isfinite(y)), default=1.0)
    if highest <= 0:
        return 1.0
    unit = 10.0 ** math.floor(math.log10(highest))
    factors = (1, 1.2, 1.6, 2, 2.4, 2.8, 3.2, 4, 5, 6, 8, 10)
    return next((factor * unit for factor in factors if factor * unit >= highest), 10 * unit)


def _ticks(end: float) -> list[float]:
    """Round positions from 0 to the end, about six of them."""
    raw = end / 6
    unit = 10.0 ** math.floor(math.log10(max(raw, 1e-9)))
    step = max(1.0, next(factor * unit for factor in (1, 2, 4, 5, 10) if factor * unit >= raw))
    return [i * step for i in range(int(end / step) + 1)]
