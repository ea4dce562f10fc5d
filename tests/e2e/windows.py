"""Real windows as processes: started with a profile of their own, watched through their reports, ended for sure."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PROC = Path("/proc")  # where the system has one, `ps` need not be there
POLL_S = 0.05
PATIENCE_S = 60.0  # for what takes some seconds on a computer that does nothing else
GONE_S = 5.0  # a closed window is gone after 3 s; more for a busy computer
Line = dict[str, Any]  # of a report

# That one is lost is found sooner than by default: tests wait for it, and all windows are on one computer.
SETTINGS = {"heartbeat_s": 0.5, "silent_s": 4.0}


class TooLate(AssertionError):
    """Something did not come about in time."""


def wait_until(condition: Callable[[], Any], seconds: float, what: str) -> Any:
    """The first true value of the condition; TooLate after so many seconds."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise TooLate(f"not within {seconds:g} s: {what}")
        time.sleep(POLL_S)


def environment() -> dict[str, str]:
    """Off the screen, and with this checkout's program."""
    return {**os.environ, "QT_QPA_PLATFORM": "offscreen", "PYTHONPATH": str(ROOT)}


PROGRAM = ("desktop",)  # what Python runs as the program: a module, and options of its own


def command(*options: str | Path, program: Sequence[str] = PROGRAM) -> list[str]:
    """How the program is started with these options."""
    return [sys.executable, "-m", *program, *map(str, options)]


def run_to_end(*options: str | Path, seconds: float = 20.0) -> tuple[int, str]:
    """Start the program, wait until it has ended: exit code and what it said on stderr."""
    done = subprocess.run(command(*options), env=environment(), cwd=ROOT.parent, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=seconds, check=False)
    return done.returncode, done.stderr


class Report:
    """The lines of a report, as far as they are written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines: list[Line] = []
        self._read = 0

    def update(self) -> list[Line]:
        """All whole lines until now."""
        if self.path.exists():
            with self.path.open("rb") as file:
                file.seek(self._read)
                whole, newline, _ = file.read().rpartition(b"\n")
            self._read += len(whole) + len(newline)
            self.lines += [json.loads(line) for line in whole.splitlines()]
        return self.lines

    @property
    def last(self) -> Line:
        """The newest line; {} before the first."""
        return (self.update() or [{}])[-1]

    def wait(self, condition: Callable[[Line], Any], what: str, seconds: float = PATIENCE_S) -> Line:
        """The newest line as soon as the condition is true of it; TooLate otherwise."""
        found: Line = wait_until(lambda: self.last if self.last and condition(self.last) else None, seconds,
                                 f"{what}, in {self.path.name}")
        return found

    def faults(self) -> list[str]:
        """The texts of all faults."""
        return [fault["text"] for fault in self.last.get("faults", [])]


def written_at(line: Line) -> float:
    """When a line of a report, or a fault in it, was written: seconds since 1970."""
    return datetime.fromisoformat(line["at"]).timestamp()


class Window:
    """One started window. It leads a process group, so that windows that it opens can be found and ended too."""

    def __init__(
        self, name: str, folder: Path, *options: str | Path, settings: dict[str, float],
        program: Sequence[str] = PROGRAM, inside: Sequence[str] = (),
    ) -> None:
        self.name, self.folder = name, folder
        self.profile = folder / name
        (self.profile / "config").mkdir(parents=True, exist_ok=True)  # it may be started again
        (self.profile / "config" / "settings.json").write_text(json.dumps(settings))
        self.report = Report(folder / f"{name}.jsonl")
        self.said = folder / f"{name}.err"
        arguments = command("--profile", self.profile, "--report", self.report.path, "--new-instance", *options,
                            program=program)
        with self.said.open("wb") as said:
            self.process = subprocess.Popen([*inside, *arguments], env=environment(), cwd=folder, stdout=said,
                                            stderr=said, stdin=subprocess.DEVNULL, start_new_session=True)

    @property
    def pid(self) -> int:
        return self.process.pid

    def processes(self) -> list[int]:
        """This window's process and those of the windows that it opened, as far as they run."""
        self.process.poll()  # takes note of its end, or it would stay in the list
        return [pid for pid, group, state in all_processes() if group == self.pid and state != "Z"]

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to this window alone."""
        self.process.send_signal(number)

    def exit_code(self, seconds: float = PATIENCE_S) -> int:
        """Wait for the end: the exit code."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise TooLate(f"{self.name} did not end within {seconds:g} s") from None

    def end(self) -> None:
        """Whatever it does: gone now, with all that it opened."""
        wait_until(self._end_all, 10, f"{self.name} and its further windows are ended")
        self.process.wait()

    def _end_all(self) -> bool:
        """Whether nothing was left to be ended. Called again, for a window that was just being opened."""
        pids = self.processes()
        for pid in pids:
            end_process(pid)
        return not pids

    def log(self) -> str:
        """What it logged and what it wrote to stderr."""
        files = [self.said, *sorted(self.profile.rglob("*.log"))]
        return "".join(file.read_text("utf-8", "replace") for file in files if file.exists())

    def models(self) -> list[Path]:
        """All in its folder of models."""
        return sorted((self.profile / "models").iterdir())

    def story(self) -> str:
        """What helps to understand a failure: the end of the log, and the last line of the report."""
        tail = "\n".join(self.log().splitlines()[-25:])
        return f"exit code {self.process.poll()}\n{tail}\nreport: {json.dumps(self.report.last, ensure_ascii=False)}"


def end_process(pid: int) -> None:
    """Kill one process, if it is still there."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def all_processes() -> list[tuple[int, int, str]]:
    """(process id, process group, state: one letter) of all processes."""
    if PROC.exists():
        return [row for each in PROC.iterdir() if each.name.isdigit() and (row := process_row(each))]
    found = subprocess.run(["ps", "-A", "-o", "pid=,pgid=,stat="], capture_output=True, text=True, check=True).stdout
    rows = (line.split() for line in found.splitlines())
    return [(int(pid), int(group), state[0]) for pid, group, state in rows]


def process_row(folder: Path) -> tuple[int, int, str] | None:
    """The same of one process, from its folder in /proc; None when it has just ended."""
    try:
        state, _, group = (folder / "stat").read_text().rpartition(")")[2].split()[:3]
    except (OSError, ValueError):
        return None
    return int(folder.name), int(group), state


def arguments_of(pid: int) -> str:
    """The command line of a process."""
    if PROC.exists():
        return (PROC / str(pid) / "cmdline").read_text().replace("\0", " ")
    return subprocess.run(["ps", "-o", "args=", "-p", str(pid)], capture_output=True, text=True, check=True).stdout


class Windows:
    """All windows of a test. Leaving it ends every process."""

    def __init__(self, folder: Path, settings: dict[str, float] = SETTINGS, program: Sequence[str] = PROGRAM) -> None:
        self.folder, self.settings, self.program = folder, settings, program
        self.open: list[Window] = []

    def __enter__(self) -> Windows:
        return self

    def __exit__(self, *_: object) -> None:
        for window in self.open:
            window.end()

    def start(self, name: str, *options: str | Path, inside: Sequence[str] = ()) -> Window:
        """Open a window that keeps its files in `folder/name`; `inside` another machine (see tests/network.py)."""
        # The windows that a demo opens have settings of their own: for all to be alike, its first one has the defaults.
        settings = {} if "--demo" in options else self.settings
        window = Window(name, self.folder, *options, settings=settings, program=self.program, inside=inside)
        self.open.append(window)
        return window

    def host(self, *options: str | Path, members: int = 2) -> tuple[Window, str]:
        """A window that hosts a room on this computer, and the room's link."""
        window = self.start("host", "--host", "--members", str(members), "--task", "digits", "--data", "sample",
                            "--share", f"1/{members}", "--loopback", "--start", *options)
        return window, self.link(window)

    def link(self, host: Window) -> str:
        """The link to the room of a window, as soon as it is open."""
        link: str = host.report.wait(lambda line: line["room"] and line["invite"], "the room is open")["invite"]
        return link

    def guest(self, number: int, members: int, link: str, *options: str | Path) -> Window:
        """A window that joins by a link, with its share of the sample data."""
        return self.start(f"guest-{number}", link, "--loopback", "--data", "sample", "--share", f"{number}/{members}",
                          "--start", *options)


def freeze_in_exchange(pid: int, watcher: Report, after_round: int = 2) -> None:
    """Stop a process (SIGSTOP) in the middle of an exchange, as the report of another member of its room shows.

    A member that is stopped while it trains leaves the others waiting for it; it goes on, and is stopped again later.
    One that is stopped while it exchanges leaves the watcher exchanging.
    """
    watcher.wait(lambda line: line["round"] >= after_round, f"round {after_round}")
    for _ in range(30):
        os.kill(pid, signal.SIGSTOP)
        stopped = time.time()
        line = watcher.wait(lambda line: written_at(line) > stopped + 0.3, "a line after the stop")  # noqa: B023
        if line["state"] == "exchanging":
            return
        os.kill(pid, signal.SIGCONT)
        round_ = line["round"]
        watcher.wait(lambda line: line["round"] > round_, "the next round")  # noqa: B023
    raise TooLate("the process was never stopped in an exchange")
