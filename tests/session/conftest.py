"""People at windows: real windows in one process, each with its trainer thread, on one qasync loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QCoreApplication, QEvent, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton, QLineEdit
from pytestqt.qtbot import QtBot

from desktop.app import App
from desktop.options import Options
from desktop.paths import Folders
from desktop.peers.eventloop import make_loop
from desktop.settings import Settings

PATIENCE_S = 20.0  # for a busy machine; what is waited for usually comes within a second


class Person:
    """Somebody at a window."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        folders = Folders.find(folder).make()
        parsed = Options.parse(["--loopback", "--profile", str(folder), *options])
        settings = Settings.load(folders.settings)
        for key, text in parsed.settings().items():
            settings.override(key, text)
        self.app = App(parsed, settings, folders, asyncio.get_running_loop())
        self.window = self.app.window
        self.task = asyncio.get_running_loop().create_task(self.app.run())

    @property
    def controller(self) -> Any:
        return self.app.controller

    def buttons(self, text: str) -> list[QAbstractButton]:
        return [b for b in self.window.findChildren(QAbstractButton)
                if b.isVisible() and text in (b.text(), b.accessibleName())]

    async def click(self, text: str) -> None:
        """Click the button that says so, as soon as it is there and enabled."""
        await self.until(lambda: any(button.isEnabled() for button in self.buttons(text)), f"a button “{text}”")
        button = next(button for button in self.buttons(text) if button.isEnabled())
        QTest.mouseClick(button, Qt.MouseButton.LeftButton)

    async def type(self, name: str, text: str) -> None:
        """Type into the field of this accessible name."""
        fields = [f for f in self.window.findChildren(QLineEdit) if f.isVisible() and f.accessibleName() == name]
        assert len(fields) == 1, [f.accessibleName() for f in self.window.findChildren(QLineEdit) if f.isVisible()]
        fields[0].setText(text)

    async def until(self, true: Callable[[], bool], what: str) -> None:
        """Wait for something that this window must come to."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                while not true():  # noqa: ASYNC110 - a person looks again and again, too
                    await asyncio.sleep(0.02)
        except TimeoutError:
            snapshot = self.controller.snapshot()
            shown = [b.text() for b in self.window.findChildren(QAbstractButton) if b.isVisible()]
            pytest.fail(f"waited in vain for {what}; page {snapshot.page}, state {snapshot.session.state}, "
                        f"room {snapshot.room}, log {[line.text for line in snapshot.log]}, buttons {shown}")

    async def close(self) -> int:
        """Close the window; its exit code."""
        self.window.close()
        return await self.task


class House:
    """Where people sit at their windows."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.people: list[Person] = []

    def sit_down(self, *options: str) -> Person:
        person = Person(self._folder / f"person-{len(self.people)}", *options)
        self.people.append(person)
        return person

    async def empty(self) -> None:
        for person in self.people:
            person.app.closing.set()
        await asyncio.gather(*(person.task for person in self.people))
        for person in self.people:
            person.window.deleteLater()


@pytest.fixture
def in_house(qtbot: QtBot, tmp_path: Path) -> Iterator[Callable[[Callable[[House], Coroutine[Any, Any, None]]], None]]:
    """Run a coroutine function with a house, on the windows' own loop."""
    from PySide6.QtWidgets import QApplication

    def run(story: Callable[[House], Coroutine[Any, Any, None]]) -> None:
        async def whole() -> None:
            house = House(tmp_path)
            try:
                await story(house)
            finally:
                await house.empty()

        with asyncio.Runner(loop_factory=lambda: make_loop(QApplication.instance())) as runner:
            runner.run(whole())

    yield run
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
