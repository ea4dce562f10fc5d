"""Garbage is collected on the GUI thread, whoever made it."""

from __future__ import annotations

import gc
import threading

from pytestqt.qtbot import QtBot

from desktop.garbage import GuiCollector


class Cycle:
    """Garbage that only a collection finds; tells in which thread that was."""

    def __init__(self, told: list[int]) -> None:
        self.me, self.told = self, told

    def __del__(self) -> None:
        self.told.append(threading.get_ident())


def test_what_another_thread_leaves_is_destroyed_on_the_gui_thread(qtbot: QtBot) -> None:
    told: list[int] = []
    collector = GuiCollector()

    def work() -> None:
        Cycle(told)
        kept = [[] for _ in range(20 * gc.get_threshold()[0])]  # far more than Python's own collection waits for
        del kept

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert told == []
    gathered = [[] for _ in range(2 * gc.get_threshold()[0])]
    qtbot.waitUntil(lambda: bool(told), timeout=10_000)
    del gathered
    collector.stop()
    assert told == [threading.get_ident()]
    assert gc.isenabled()
