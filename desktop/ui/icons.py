"""Own SVG icons, drawn in a colour of the theme."""

from __future__ import annotations

from functools import lru_cache

from PySide6.QtCore import QByteArray, QRectF, QSize, Qt
from PySide6.QtGui import QIcon, QPainter, QPixmap
from PySide6.QtSvg import QSvgRenderer

from desktop.resources import resource
from desktop.ui.theme import theme


def pixmap(name: str, color: str = "text", size: int = 16, ratio: float = 2.0) -> QPixmap:
    """The icon in the colour of a token, `size` logical pixels wide. A missing file gives an empty picture."""
    return _drawn(name, getattr(theme.tokens, color), size, ratio)


def icon(name: str, color: str = "text") -> QIcon:
    """The icon for a button; faint when the button is disabled."""
    made = QIcon(pixmap(name, color, 20))
    made.addPixmap(pixmap(name, "faint", 20), QIcon.Mode.Disabled)
    return made


@lru_cache(maxsize=1)
def app_icon() -> QIcon:
    """The icon of the program, for title bars and task bars."""
    made = QIcon()
    for size in (16, 24, 32, 48, 64, 128, 256):
        made.addPixmap(_drawn("peerloom", "", size, 1.0))
    return made


@lru_cache(maxsize=256)
def _drawn(name: str, color: str, size: int, ratio: float) -> QPixmap:
    picture = QPixmap(QSize(round(size * ratio), round(size * ratio)))
    picture.setDevicePixelRatio(ratio)
    picture.fill(Qt.GlobalColor.transparent)
    try:
        source = resource(f"icons/{name}.svg").read_text(encoding="utf-8")
    except OSError:
        return picture
    renderer = QSvgRenderer(QByteArray(source.replace("currentColor", color).encode()))
    painter = QPainter(picture)
    renderer.render(painter, QRectF(0, 0, size, size))
    painter.end()
    return picture
