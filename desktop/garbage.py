"""Python's cyclic garbage is collected on the GUI thread only.

Collected by whichever thread happens to allocate, a widget or another QObject would be destroyed in the trainer's
thread. Qt then holds a lock of its connections while it asks for the interpreter lock; the GUI thread, which has
that one, waits for the other while it connects a signal: both stand still for ever (seen, and read from their stacks).
"""

from __future__ import annotations

import gc

from PySide6.QtCore import QTimer

EVERY_MS = 500


class GuiCollector:
    """Switches Python's own collection off while it lives, and collects by a timer of the GUI thread instead."""

    alive = 0  # several windows can live in one process, in tests

    def __init__(self) -> None:
        GuiCollector.alive += 1
        gc.disable()
        self._timer = QTimer()
        self._timer.setInterval(EVERY_MS)
        self._timer.timeout.connect(self._collect)
        self._timer.start()

    def settle(self) -> None:
        """What is there now stays: the libraries' objects are never looked at again, so collecting takes no time."""
        gc.collect()
        gc.freeze()

    def stop(self) -> None:
        """As before; to be called when no other thread is left."""
        self._timer.stop()
        GuiCollector.alive -= 1
        if not GuiCollector.alive:
            gc.enable()

    def _collect(self) -> None:
        """The oldest generation that is due by Python's own thresholds."""
        due = [number for number, (count, most) in enumerate(zip(gc.get_count(), gc.get_threshold(), strict=True))
               if count > most]
        if due:
            gc.collect(max(due))
