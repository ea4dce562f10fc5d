"""The room's link as a QR code: error correction M, whole-pixel modules, a quiet zone of four, dark on light always."""

from __future__ import annotations

import segno
from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QColor, QImage, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from desktop.ui.theme import theme

DARK, LIGHT = QColor("#111111"), QColor("#FFFFFF")
QUIET_ZONE = 4
LEAST_MODULE = 2


class QrCode(QWidget):
    """A square picture of a text. `fits` is False when the text is too long: then a note points at the link."""

    def __init__(self, side: int = 208) -> None:
        super().__init__()
        self._side = side
        self._text = ""
        self._matrix: tuple[bytearray, ...] = ()
        self._image = QImage()
        self.setAccessibleName(self.tr("QR code of the link"))
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)

    @property
    def fits(self) -> bool:
        """Whether there is a code to show."""
        return bool(self._matrix)

    def show_text(self, text: str) -> None:
        """Draw this text; nothing when it is empty."""
        if text == self._text:
            return
        self._text = text
        try:
            self._matrix = segno.make(text, error="m", micro=False, boost_error=False).matrix if text else ()
        except segno.DataOverflowError:
            self._matrix = ()
        self._image = QImage()
        self.updateGeometry()
        self.update()

    def module_pixels(self) -> int:
        """Width of one module in pixels of the screen."""
        modules = len(self._matrix) + 2 * QUIET_ZONE
        return max(LEAST_MODULE, int(theme.px(self._side) * self.devicePixelRatioF()) // modules)

    def sizeHint(self) -> QSize:
        if not self._matrix:
            return QSize(theme.px(self._side), theme.px(self._side))
        pixels = (len(self._matrix) + 2 * QUIET_ZONE) * self.module_pixels()
        side = -int(-pixels // self.devicePixelRatioF())
        return QSize(side, side)

    def paintEvent(self, event: QPaintEvent) -> None:
        if not self._matrix:
            return
        if self._image.isNull() or self._image.devicePixelRatio() != self.devicePixelRatioF():
            self._image = self._drawn()
        QPainter(self).drawImage(0, 0, self._image)

    def _drawn(self) -> QImage:
        module = self.module_pixels()
        small = QImage(*(len(self._matrix) + 2 * QUIET_ZONE,) * 2, QImage.Format.Format_RGB32)
        small.fill(LIGHT)
        for y, line in enumerate(self._matrix):
            for x, dark in enumerate(line):
                if dark:
                    small.setPixelColor(x + QUIET_ZONE, y + QUIET_ZONE, DARK)
        large = small.scaled(small.size() * module, Qt.AspectRatioMode.KeepAspectRatio,
                             Qt.TransformationMode.FastTransformation)
        large.setDevicePixelRatio(self.devicePixelRatioF())
        return large
