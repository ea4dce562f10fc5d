"""The safety net itself: each kind of fault that a test may leave behind makes it fail, and clean tests pass."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

PROBES = '''
import asyncio, logging, threading, warnings
import pytest
from PySide6.QtCore import QObject, QThread, QTimer, Signal, qWarning

kept, go = [], threading.Event()

class Source(QObject):
    fired = Signal()

async def raises():
    raise ValueError("lost")

async def test_passes_async(tmp_path):
    await asyncio.sleep(0)

async def test_passes_with_tasks_that_end():
    asyncio.ensure_future(asyncio.sleep(0.01))

async def test_fails_as_written():
    assert 1 == 2

async def test_fails_for_a_task():
    asyncio.ensure_future(asyncio.sleep(30))
    await asyncio.sleep(0)

async def test_fails_for_a_lost_exception():
    asyncio.ensure_future(raises())
    await asyncio.sleep(0)

async def test_fails_for_a_callback():
    asyncio.get_running_loop().call_soon(lambda: 1 / 0)
    await asyncio.sleep(0)

def test_fails_for_a_log_line():
    logging.getLogger("a.b").warning("hm")

@pytest.mark.allow_log("^a.b: hm")
def test_passes_with_an_allowed_log_line():
    logging.getLogger("a.b").warning("hm")

def test_fails_for_a_thread():
    threading.Thread(target=go.wait, args=(20,), name="sleepy", daemon=True).start()

@pytest.mark.allow_thread("known")
def test_passes_with_an_allowed_thread():
    threading.Thread(target=go.wait, args=(20,), name="known", daemon=True).start()

def test_passes_with_a_thread_that_ends():
    threading.Thread(target=lambda: None).start()

def test_fails_for_a_timer(qapp):
    kept.append(QTimer())
    kept[-1].start(1000)

def test_passes_with_a_timer_stopped(qapp):
    kept[0].stop()
    timer = QTimer()
    timer.start(1000)
    timer.stop()

def test_passes_with_a_timer_that_goes_with_its_owner(qapp):
    owner = QObject()
    kept.append(QTimer(owner))
    kept[-1].start(1000)
    owner.deleteLater()

def test_fails_for_a_qthread(qapp):
    kept.append(QThread())
    kept[-1].start()

def test_passes_with_a_qthread_that_ends(qapp):
    kept[-1].quit()
    kept[-1].wait()

def test_fails_for_a_qt_message():
    qWarning("boo")

def test_fails_for_an_exception_in_a_slot(qapp):
    source = Source()
    source.fired.connect(lambda: 1 / 0)
    source.fired.emit()

def test_fails_for_a_warning():
    warnings.warn("w")
'''


def test_what_a_test_leaves_behind_fails_it(tmp_path: Path) -> None:
    folder = tmp_path / "tests"
    folder.mkdir()
    conftest = (ROOT / "tests/conftest.py").read_text("utf-8")
    (folder / "conftest.py").write_text(conftest.replace("GRACE_S = 2.0", "GRACE_S = 0.2"), "utf-8")
    (folder / "test_probes.py").write_text(PROBES, "utf-8")
    command = [sys.executable, "-m", "pytest", "-c", ROOT / "pyproject.toml", "--rootdir", tmp_path, "-rA",
               "-p", "no:cacheprovider", folder]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=50)
    ends: dict[str, set[str]] = {name: set() for name in re.findall(r"def (test_\w+)", PROBES)}
    for word, name in re.findall(r"^(PASSED|FAILED|ERROR) \S+::(test_\w+)", done.stdout, re.MULTILINE):
        ends[name].add(word)
    for name, words in ends.items():  # a leak shows after the test has passed: PASSED, then ERROR
        good = words == {"PASSED"} if name.startswith("test_passes") else bool(words & {"FAILED", "ERROR"})
        assert good, f"{name}: {words}\n{done.stdout}"
