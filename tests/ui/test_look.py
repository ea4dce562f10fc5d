"""The look: contrast of the colours, names for all controls, the QR code's modules, numbers by locale."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import segno
from PySide6.QtCore import QLocale, Qt
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QAbstractSpinBox,
    QApplication,
    QComboBox,
    QLabel,
    QLineEdit,
    QWidget,
)
from pytestqt.qtbot import QtBot

from desktop.resources import resource
from desktop.state import PAGES
from desktop.ui import formats
from desktop.ui.main_window import MainWindow
from desktop.ui.qr import QrCode
from desktop.ui.theme import DARK, LIGHT, Tokens, contrast
from tests.ui import sample_states

TEXT_ON_GROUND = [(text, ground) for text in ("text", "quiet", "mine", "room", "good", "care", "bad")
                  for ground in ("window", "surface")]
TEXT_ON_GROUND += [("text", "selection"), ("mine", "selection"), ("text", "hover"), ("quiet", "hover"),
                   ("on_mine", "mine")]


def reference_contrast(one: str, other: str) -> float:
    """WCAG 2.2's definition, written out apart from the code under test."""
    def luminance(color: str) -> float:
        parts = [int(color[i:i + 2], 16) / 255 for i in (1, 3, 5)]
        r, g, b = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
        return 0.2126 * r + 0.7152 * g + 0.0722 * b

    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("tokens", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize(("text", "ground"), TEXT_ON_GROUND)
def test_text_has_contrast(tokens: Tokens, text: str, ground: str) -> None:
    assert reference_contrast(getattr(tokens, text), getattr(tokens, ground)) >= 4.5


def test_contrast_of_black_on_white() -> None:
    assert contrast("#000000", "#FFFFFF") == pytest.approx(21)


def test_palette_of_the_design_is_kept() -> None:
    assert (LIGHT.window, LIGHT.mine, LIGHT.room) == ("#F6F6F3", "#0E7C73", "#4B53C6")
    assert (DARK.window, DARK.mine, DARK.room) == ("#161819", "#3DB8AB", "#9198F5")


# -- names and the Tab key ----------------------------------------------------------------------------

CONTROLS = (QAbstractButton, QLineEdit, QAbstractSpinBox, QComboBox, QAbstractItemView)


def controls(page: QWidget) -> list[QWidget]:
    found: list[QWidget] = []
    for kind in CONTROLS:
        found += [widget for widget in page.findChildren(kind) if not is_part(widget)]
    return found


def is_part(widget: QWidget) -> bool:
    """Whether Qt made it as a part of another control."""
    parent = widget.parentWidget()
    while parent is not None:
        if isinstance(parent, QAbstractSpinBox | QComboBox | QAbstractItemView):
            return True
        parent = parent.parentWidget()
    return widget.objectName().startswith("qt_")


@pytest.mark.parametrize("name", sorted(sample_states.SAMPLES))
def test_every_control_has_a_name_and_is_reached_by_tab(window: MainWindow, name: str) -> None:
    window.render(sample_states.SAMPLES[name]())
    QApplication.processEvents()
    buddies = {label.buddy() for label in window.findChildren(QLabel) if label.buddy() is not None}
    nameless = [widget for widget in controls(window) if not widget.accessibleName() and widget not in buddies]
    assert [(type(widget).__name__, widget.objectName()) for widget in nameless] == []
    unreachable = [widget.accessibleName() for widget in controls(window)
                   if not widget.focusPolicy() & Qt.FocusPolicy.TabFocus]
    assert unreachable == []


def test_tab_walks_through_the_whole_page(window: MainWindow, qtbot: QtBot) -> None:
    window.render(sample_states.train_ready())
    window.activateWindow()
    wanted = {widget.accessibleName() for widget in controls(window) if widget.isVisible() and widget.isEnabled()}
    seen = set()
    for _ in range(60):
        qtbot.keyClick(QApplication.focusWidget() or window, Qt.Key.Key_Tab)
        focused = QApplication.focusWidget()
        seen.add(focused.accessibleName() if focused is not None else "")
    assert wanted <= seen


def test_icons_with_a_meaning_have_words(window: MainWindow) -> None:
    from desktop.ui.widgets import IconLabel

    window.render(sample_states.data_pets())
    QApplication.processEvents()
    graded = [mark for mark in window.page("data").findChildren(IconLabel) if mark._color in ("bad", "care")]
    assert graded
    assert all(mark.accessibleName() for mark in graded)


# -- QR -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("text", [sample_states.LINK, "peerloom://join?room=a&key=b", sample_states.LINK * 6])
def test_qr_is_drawn_module_by_module(window: MainWindow, qtbot: QtBot, scheme: str, text: str) -> None:
    window.set_theme(scheme)
    code = QrCode()
    qtbot.addWidget(code)
    code.show_text(text)
    code.resize(code.sizeHint())
    wanted = [list(line) for line in segno.make(text, error="m", micro=False, boost_error=False).matrix]
    assert segno.make(text, error="m", micro=False, boost_error=False).error == "M"
    module = code.module_pixels()
    assert module >= 2
    image = code.grab().toImage()
    side = (len(wanted) + 8) * module
    assert (image.width(), image.height()) == (side, side)

    def dark(x: int, y: int) -> bool:
        corners = {image.pixelColor(x * module + dx, y * module + dy).lightness() < 128
                   for dx in (0, module - 1) for dy in (0, module - 1)}
        assert len(corners) == 1  # modules end on whole pixels
        return corners.pop()

    drawn = [[dark(x, y) for x in range(len(wanted) + 8)] for y in range(len(wanted) + 8)]
    inner = [line[4:-4] for line in drawn[4:-4]]
    assert inner == [[bool(value) for value in line] for line in wanted]
    assert sum(map(sum, drawn)) == sum(map(sum, inner))  # four modules around it are light


def test_qr_of_nothing_and_of_too_much(qtbot: QtBot) -> None:
    code = QrCode()
    qtbot.addWidget(code)
    code.show_text("x" * 5000)
    assert not code.fits
    code.grab()
    code.show_text(sample_states.LINK)
    assert code.fits
    code.show_text("")
    assert not code.fits


# -- numbers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("make", "given", "wanted"), [
    (formats.number, (1234567,), "1,234,567"), (formats.number, (0.2314, 3), "0.231"), (formats.number, (None,), "–"),
    (formats.number, (math.nan, 2), "–"), (formats.number, (-math.inf,), "–"), (formats.percent, (0.972,), "97.2 %"),
    (formats.percent, (math.nan,), "–"), (formats.size, (900_000,), "0.9 MB"), (formats.size, (0,), "0 MB"),
    (formats.size, (3_400,), "3.4 kB"), (formats.size, (2.5e9,), "2.5 GB"), (formats.duration, (4.2,), "4 s"),
    (formats.duration, (174,), "3 min"), (formats.duration, (3900,), "1 h 5 min"), (formats.duration, (math.inf,), "–"),
    (formats.time_left, (None,), ""), (formats.time_left, (70,), "about 1 min left"),
    (formats.milliseconds, (0.44,), "0.4 ms"), (formats.milliseconds, (None,), "–"), (formats.rate, (52.4,), "52"),
    (formats.rate, (1.26,), "1.3"), (formats.short_digest, ("9f2c41d0aa",), "9f2c 41d0"),
    (formats.short_digest, ("",), ""),
])
def test_numbers_as_people_read_them(make: Callable[..., str], given: tuple[object, ...], wanted: str) -> None:
    assert make(*given) == wanted


def test_numbers_follow_the_locale() -> None:
    QLocale.setDefault(QLocale(QLocale.Language.German, QLocale.Country.Germany))
    assert formats.number(1234.5, 1) == "1.234,5"
    assert formats.percent(0.972) == "97,2 %"


# -- icons --------------------------------------------------------------------------------------------


def test_icons_are_our_own_and_alike() -> None:
    folder = resource("icons")
    for path in sorted(Path(folder).glob("*.svg")):
        source = path.read_text("utf-8")
        assert "<script" not in source
        if path.stem != "peerloom":
            assert 'stroke-width="1.6"' in source, path.name
            assert "currentColor" in source, path.name


def test_every_icon_that_is_used_exists(window: MainWindow, monkeypatch: pytest.MonkeyPatch) -> None:
    from desktop.ui import icons

    asked: set[str] = set()
    drawn = icons.pixmap
    monkeypatch.setattr(icons, "pixmap", lambda name, *rest: asked.add(name) or drawn(name, *rest))
    window.set_theme("dark")
    for make in sample_states.SAMPLES.values():
        window.render(make())
    assert set(PAGES) <= set(window._pages)
    missing = [name for name in asked if not (resource("icons") / f"{name}.svg").exists()]
    assert missing == []
