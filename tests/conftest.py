"""What every test gets: async tests, and failure on whatever a test leaves behind or lets slip.

A test fails when it leaves a thread, QThread, QTimer or asyncio task running, loses an exception, or logs at
WARNING or above without `@pytest.mark.allow_log(regex)`. Warnings, Qt messages and exceptions in slots fail it
too (settings in pyproject.toml, pytest-qt).
"""

from __future__ import annotations

import asyncio
import gc
import inspect
import logging
import os
import re
import tempfile
import threading
import time
import weakref
from collections.abc import Generator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import shiboken6
from PySide6.QtCore import QCoreApplication, QEvent, QThread, QTimer

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
# No test may read or write the settings and models of the person who runs the tests.
HOME = tempfile.TemporaryDirectory(prefix="peerloom-tests-")
os.environ.update({f"XDG_{kind}_HOME": f"{HOME.name}/{kind.lower()}" for kind in ("CONFIG", "DATA", "CACHE", "STATE")})

# The same examples each time: a failure that comes and goes tells nobody what change caused it.
hypothesis.settings.register_profile("peerloom", derandomize=True, deadline=None, database=None)
hypothesis.settings.load_profile("peerloom")

GRACE_S = 2.0  # for what was told to end and is ending

ALLOWED_THREADS = {
    "pytest_timeout": "watches the test itself and ends after it",
    "Dummy-": "how Python sees a thread that Qt started; it stays listed after its end, QThread is watched instead",
}


# As in the program: garbage with QObjects in it must not be collected by another thread (see desktop/garbage.py).
gc.disable()
FULL_COLLECTION = 50  # tests


def pytest_unconfigure() -> None:
    HOME.cleanup()


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    """An empty folder for --profile."""
    folder = tmp_path / "profile"
    folder.mkdir()
    return folder


# -- async tests ----------------------------------------------------------------------------------------


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs `async def` tests, each on its own plain loop. (qasync changes the policy: hence the factory.)"""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    run_async(pyfuncitem.obj(**arguments))
    return True


def run_async(test: Any) -> None:
    """Runs a coroutine to its end; then fails for each task still running and each exception nobody fetched."""
    lost: list[str] = []
    gc.freeze()  # so that the collection below looks only at what the test made
    try:
        with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
            runner.get_loop().set_exception_handler(lambda _, context: lost.append(describe_lost(context)))
            leaked = runner.run(with_leaks(test))
        gc.collect()  # a task that failed unseen says so when it is collected
    finally:
        gc.unfreeze()
    if leaked or lost:
        pytest.fail("\n".join([*(f"task left running: {task}" for task in leaked),
                               *(f"exception lost: {text}" for text in lost)]), pytrace=False)


async def with_leaks(test: Any) -> list[str]:
    """Awaits the test and returns the tasks that it left."""
    await test
    left = asyncio.all_tasks() - {asyncio.current_task()}
    if left:
        _, left = await asyncio.wait(left, timeout=GRACE_S)
    return [repr(task) for task in left]


def describe_lost(context: dict[str, Any]) -> str:
    exception = context.get("exception")
    return f"{context.get('message')}: {exception!r} {context.get('task') or context.get('handle') or ''}"


# -- log lines ------------------------------------------------------------------------------------------


class Recorder(logging.Handler):
    """Keeps each line as “LEVEL logger: text”."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(f"{record.name}: {record.getMessage()}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    recorder = Recorder()
    logging.getLogger().addHandler(recorder)
    try:
        result = yield
    finally:
        logging.getLogger().removeHandler(recorder)
    allowed = [re.compile(mark.args[0]) for mark in item.iter_markers("allow_log")]
    unexpected = [line for line in recorder.lines if not any(regex.search(line) for regex in allowed)]
    if unexpected:
        pytest.fail("unexpected in the log:\n" + "\n".join(unexpected), pytrace=False)
    return result


# -- threads and timers ---------------------------------------------------------------------------------

started: weakref.WeakSet[QThread | QTimer] = weakref.WeakSet()


def remember_starts(kind: Any) -> None:
    """Replaces `kind.start` by one that remembers who was started: Qt has no list of its threads and timers."""
    start = kind.start

    def remembering(self: Any, *args: Any) -> None:
        started.add(self)
        start(self, *args)

    kind.start = remembering


remember_starts(QThread)
remember_starts(QTimer)


def still_running() -> list[str]:
    """QThreads and QTimers that run now. What was told to go with deleteLater() goes first."""
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    alive = [each for each in list(started) if shiboken6.isValid(each)]
    return [f"{type(each).__name__} {each.objectName() or ''} of {each.parent()}" for each in alive
            if (each.isRunning() if isinstance(each, QThread) else each.isActive())]


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    item.stash[THREADS] = set(threading.enumerate())
    started.clear()
    return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, Any, Any]:
    result = yield
    gc.disable()  # a window that was closed has switched it on
    gc.collect(2 if gc.get_count()[2] > FULL_COLLECTION else 1)
    prefixes = (*ALLOWED_THREADS, *(mark.args[0] for mark in item.iter_markers("allow_thread")))
    new = [thread for thread in threading.enumerate()
           if thread not in item.stash[THREADS] and not thread.name.startswith(prefixes)]
    end = time.monotonic() + GRACE_S
    for thread in new:
        thread.join(max(0.0, end - time.monotonic()))
    leaks = [f"thread {thread.name}" for thread in new if thread.is_alive()] + still_running()
    if leaks:
        pytest.fail("left running: " + ", ".join(leaks), pytrace=False)
    return result


THREADS: pytest.StashKey[set[threading.Thread]] = pytest.StashKey()
