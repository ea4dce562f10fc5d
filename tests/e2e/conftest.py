"""Windows for a test, or for all tests of a module; and their story when the test fails."""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.windows import Window, Windows

if sys.platform == "win32":  # no signals that stop a process, or ask it to close
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture
def windows(tmp_path: Path) -> Iterator[Windows]:
    """Opens windows; ends all of them, whatever happens. None may have met an error that it did not expect."""
    with Windows(tmp_path) as opened:
        yield opened
    for window in opened.open:
        assert_no_traceback(window)


def assert_no_traceback(window: Window) -> None:
    """An exception that nobody caught is a mistake, even when all ends well."""
    log = window.log()
    place = log.find("Traceback (most recent call last)")
    assert place < 0, f"{window.name}: ...{log[max(0, place - 200) : place + 2000]}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    report = yield
    if report.failed and report.when in ("setup", "call"):
        for opened in getattr(item, "funcargs", {}).values():
            for window in opened.open if isinstance(opened, Windows) else ():
                report.sections.append((f"window {window.name}", window.story()))
    return report
