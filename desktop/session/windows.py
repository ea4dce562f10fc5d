"""Further windows on this computer: real processes that join the room of this one."""

from __future__ import annotations

import logging
import sys
import tempfile
from pathlib import Path

from PySide6.QtCore import QObject, QProcess, QProcessEnvironment, Signal

import desktop
from desktop.options import Options
from desktop.paths import Folders
from desktop.settings import DECLARED, Settings

log = logging.getLogger(__name__)

ENDING_MS = 1000
HANDED_ON = ("reach", "ice_servers", "turn")  # settings without which another window would find no way to this one


def command() -> tuple[str, list[str]]:
    """How this program is started: the bundle's own file, or Python with this package."""
    return sys.executable, [] if getattr(sys, "frozen", False) else ["-m", "desktop"]


class Windows(QObject):
    """Starts further windows and ends them with this one."""

    ended = Signal(int, bool)  # number of the window, whether it ended by itself and well

    def __init__(self, options: Options, settings: Settings, folders: Folders, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._options, self._settings, self._folders = options, settings, folders
        self._processes: dict[int, QProcess] = {}
        self._opened = 1  # this one

    @property
    def running(self) -> int:
        """How many are open."""
        return len(self._processes)

    def open(self, link: str, *more: str) -> None:
        """Open another window that joins the room of `link`, with a profile and a report of its own."""
        self._opened += 1
        number, options = self._opened, self._options
        profile = Path(tempfile.mkdtemp(prefix=f"window-{number}-", dir=self._folders.cache))
        self._hand_on(Folders.find(profile))
        arguments = [link, "--profile", str(profile), "--new-instance", "--theme", self._settings.theme, *more]
        if options.report:
            arguments += ["--report", str(options.report.with_stem(f"{options.report.stem}-{number}"))]
        if options.quit_when_done:
            arguments.append("--quit-when-done")
        if options.backend != "auto":
            arguments += ["--backend", options.backend]
        self._start(number, arguments, profile / "window.log")

    def _hand_on(self, folders: Folders) -> None:
        """By its settings, not by options: anybody on this computer can read those, and a TURN password is in them."""
        settings = Settings(folders.make().settings)
        for key in HANDED_ON:
            settings.set(key, DECLARED[key].kind.write(getattr(self._settings, key)))
        settings.save()

    def _start(self, number: int, arguments: list[str], output: Path) -> None:
        process = QProcess(self)
        environment = QProcessEnvironment.systemEnvironment()
        # `-m desktop` must find this package, whatever folder the person stands in.
        environment.insert("PYTHONPATH", str(Path(desktop.__file__).parent.parent))
        process.setProcessEnvironment(environment)
        process.setStandardErrorFile(str(output))
        process.setStandardOutputFile(QProcess.nullDevice())
        process.finished.connect(lambda code, status: self._finished(number, code, status))
        process.errorOccurred.connect(lambda error: self._over(number, False) if error == NOT_STARTED else None)
        self._processes[number] = process
        program, first = command()
        process.start(program, [*first, *arguments])

    def _finished(self, number: int, code: int, status: QProcess.ExitStatus) -> None:
        if code or status != NORMAL:
            log.info("window %d ended with code %d, %s", number, code, status)
        self._over(number, code == 0 and status == NORMAL)

    def _over(self, number: int, well: bool) -> None:
        if self._processes.pop(number, None) is not None:
            self.ended.emit(number, well)

    def terminate(self) -> None:
        """Ask all to close."""
        for process in self._processes.values():
            process.terminate()

    def kill(self) -> None:
        """End those that did not."""
        for process in list(self._processes.values()):
            process.kill()
            process.waitForFinished(ENDING_MS)


NORMAL = QProcess.ExitStatus.NormalExit
NOT_STARTED = QProcess.ProcessError.FailedToStart
