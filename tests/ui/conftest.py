"""A window to test, and the list of what it asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from PySide6.QtCore import QLocale
from PySide6.QtWidgets import QApplication, QPushButton, QWidget
from pytestqt.qtbot import QtBot

from desktop.intents import Intent
from desktop.ui.main_window import MainWindow


@pytest.fixture(autouse=True)
def british() -> Iterator[None]:
    """Numbers as in the pictures, whatever the machine says."""
    before = QLocale()
    QLocale.setDefault(QLocale(QLocale.Language.English, QLocale.Country.UnitedKingdom))
    yield
    QLocale.setDefault(before)


@pytest.fixture
def window(qtbot: QtBot) -> Iterator[MainWindow]:
    """A window of 1280 × 720 in the light theme, on screen."""
    made = MainWindow()
    made.set_theme("light")
    made.show()
    qtbot.waitExposed(made)
    yield made
    made.allow_close()
    made.deleteLater()
    QApplication.sendPostedEvents(None, 0)
    QApplication.processEvents()


@pytest.fixture
def asked(window: MainWindow) -> list[Intent]:
    """What the window has asked for so far."""
    intents: list[Intent] = []
    window.intent.connect(intents.append)
    return intents


def find_button(parent: QWidget, text: str) -> QPushButton:
    """The visible button that says, or is named, so."""
    found = [button for button in parent.findChildren(QPushButton)
             if text in (button.text(), button.accessibleName()) and button.isVisible()]
    assert len(found) == 1, f"{len(found)} visible buttons say “{text}”"
    return found[0]


@pytest.fixture
def press(window: MainWindow, qtbot: QtBot) -> Callable[[str], None]:
    """Press a visible button by its text with the mouse."""
    from PySide6.QtCore import Qt

    def by_text(text: str) -> None:
        qtbot.mouseClick(find_button(window, text), Qt.MouseButton.LeftButton)

    return by_text
