"""Further windows on this computer: real processes that join the room of this one."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from PySide6.QtCore import QObject, QProcess, QProcessEnvironment, Signal

import desktop

ENDING_MS = 3000


def command() -> tuple[str, list[str]]:
    """How this program is started: the bundle's own file, or Python with this package."""
    if getattr(sys, "frozen", False):
        return sys.executable, []
    return sys.executable, ["-m", "desktop"]


class Windows(QObject):
    """Starts further windows and ends them with this one."""

    ended = Signal(int, bool)  # number of the window, whether it ended by itself and well

    def __init__(self, name: Callable[[int], str], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._name = name
        self._processes: dict[int, QProcess] = {}

    @property
    def running(self) -> int:
        """How many are open."""
        return len(self._processes)

    def start(self, number: int, arguments: Sequence[str], log: Path) -> None:
        """Open window `number` with these options; what it prints goes to `log`."""
        process = QProcess(self)
        environment = QProcessEnvironment.systemEnvironment()
        # `-m desktop` must find this package, whatever folder the person stands in.
        environment.insert("PYTHONPATH", str(Path(desktop.__file__).parent.parent))
        process.setProcessEnvironment(environment)
        process.setStandardErrorFile(str(log))
        process.setStandardOutputFile(QProcess.nullDevice())
        process.finished.connect(lambda code, status: self._finished(number, code, status))
        process.errorOccurred.connect(lambda error: self._failed(number, error))
        self._processes[number] = process
        program, first = command()
        process.start(program, [*first, *arguments])

    def _finished(self, number: int, code: int, status: QProcess.ExitStatus) -> None:
        if self._processes.pop(number, None) is not None:
            self.ended.emit(number, code == 0 and status == QProcess.ExitStatus.NormalExit)

    def _failed(self, number: int, error: QProcess.ProcessError) -> None:
        if error == QProcess.ProcessError.FailedToStart and self._processes.pop(number, None) is not None:
            self.ended.emit(number, False)

    def terminate(self) -> None:
        """Ask all to close."""
        for process in self._processes.values():
            process.terminate()

    def kill(self) -> None:
        """End those that did not."""
        for process in list(self._processes.values()):
            process.kill()
            process.waitForFinished(ENDING_MS)
