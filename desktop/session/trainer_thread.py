"""The trainer's QThread: started, spoken to, stopped, and, if it does not answer, left behind."""

from __future__ import annotations

import asyncio
import ctypes

from PySide6.QtCore import QObject, QThread, Signal, Slot

from desktop.bridge.adapter import PeerPort
from desktop.bridge.lifecycle import Command
from desktop.trainer.worker import EndedByForce, TrainerWorker


class TrainerThread(QObject):
    """The window's end of the trainer: `do` commands, hear `said`."""

    said = Signal(object)
    _command = Signal(object)
    _quit = Signal()

    def __init__(self, me: str, port: PeerPort) -> None:
        super().__init__()
        self._me, self._port = me, port
        self._over = asyncio.Event()
        self._begin()

    def _begin(self) -> None:
        self._thread = QThread()
        self._thread.setObjectName("trainer")
        self._worker = TrainerWorker(self._me)
        self._worker.moveToThread(self._thread)
        self._worker.transport.join(self._port)
        self._worker.said.connect(self._hear)
        self._command.connect(self._worker.do)
        self._quit.connect(self._worker.shut_down)
        self._thread.started.connect(self._worker.begin)
        self._thread.finished.connect(self._thread_over)
        self._thread.start(QThread.Priority.LowPriority)

    @Slot(object)
    def _hear(self, said: object) -> None:
        self.said.emit(said)

    def do(self, command: Command) -> None:
        """Ask the trainer for something; it answers by `said`."""
        self._command.emit(command)

    def force(self) -> None:
        """End a trainer that does not answer, and begin a new one. The window goes on at once.

        Python code in the thread gets an exception. A thread that hangs inside a library cannot be ended without
        taking the interpreter lock along, so it is left behind: nothing of it reaches the window any more, and
        the process ends without waiting for it.
        """
        thread, worker = self._thread, self._worker
        self._command.disconnect(worker.do)
        self._quit.disconnect(worker.shut_down)
        worker.said.disconnect(self._hear)
        worker.transport.leave(self._port)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(worker.ident), ctypes.py_object(EndedByForce))
        thread.quit()
        LEFT_BEHIND.append((thread, worker))  # or Qt would destroy what still runs
        self._begin()

    async def close(self, timeout_s: float) -> bool:
        """Leave the room and end the thread; False when it did not end in time."""
        self._quit.emit()  # the worker says good-bye to the room, then ends its thread itself
        try:
            async with asyncio.timeout(timeout_s):
                await self._over.wait()
        except TimeoutError:
            LEFT_BEHIND.append((self._thread, self._worker))
            return False
        self._thread.wait()  # `finished` comes a moment before the thread is gone
        return True

    @Slot()
    def _thread_over(self) -> None:
        # A slot of this object, so that it runs in this object's thread: `finished` is emitted in the trainer's.
        if self._thread.isFinished():
            self._over.set()


LEFT_BEHIND: list[tuple[QThread, QObject]] = []


def any_left_behind() -> bool:
    """Whether a trainer thread still runs that must not be waited for."""
    LEFT_BEHIND[:] = [(thread, worker) for thread, worker in LEFT_BEHIND if not thread.isFinished()]
    return bool(LEFT_BEHIND)
