"""A window that is told to close (SIGTERM) is gone within seconds, whatever it is doing, and the others hear of it."""

from __future__ import annotations

import os
import signal
import socket

import pytest

from tests.e2e.test_demo import digest_of_file
from tests.e2e.windows import GONE_S, Window, Windows, freeze_in_exchange, wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]


def close(window: Window) -> None:
    """Tell it to close; it must be gone in time, with exit code 0, and leave no process and no half-written file."""
    window.signal(signal.SIGTERM)
    assert window.exit_code(GONE_S) == 0
    wait_until(lambda: not window.processes(), 2, "the windows that it opened are gone too")
    assert list(window.profile.rglob("*.part")) == []


def assert_told(window: Window, gone: Window) -> None:
    """The window says that the other one was closed, not that it was lost."""
    text = f"{gone.report.last['name']} closed its window."
    window.report.wait(lambda line: any(fault["text"] == text for fault in line["faults"]), text)


def assert_model_is_whole(window: Window) -> None:
    """The weights of the last round that the window reports are saved."""
    saved = [digest_of_file(path) for path in window.models()]
    assert saved == [window.report.last["digest"]]


def test_while_connecting(windows: Windows) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes the call, and never says a word
        port = silent.getsockname()[1]
        link = f"peerloom://join?room=maple-otter&key={'a' * 26}&at=127.0.0.1:{port}"
        window = windows.start("window", link, "--loopback", "--data", "sample", "--start")
        silent.settimeout(60)
        call, _ = silent.accept()
        with call:
            close(window)
    assert window.models() == []


def test_while_training(windows: Windows) -> None:
    host, link = windows.host("--local-steps", "100000")
    guest = windows.guest(2, 2, link)
    for window in (host, guest):
        window.report.wait(lambda line: line["state"] == "training" and line["step"] > 10, "it trains")
    close(guest)
    assert_told(host, guest)
    close(host)
    assert host.models() == guest.models() == []  # no round was finished


def test_in_an_exchange(windows: Windows) -> None:
    """A third member is stopped in the middle of an exchange, so that the others are in it when they are closed."""
    host, link = windows.host("--local-steps", "1", "--rounds", "1000000", members=3)
    guest, frozen = (windows.guest(number, 3, link) for number in (2, 3))
    for window in (guest, frozen):
        window.report.wait(lambda line: line["round"] > 0, "it trains")
    freeze_in_exchange(frozen.pid, host.report)
    close(guest)
    assert_model_is_whole(guest)
    assert_told(host, guest)
    close(host)
    assert_model_is_whole(host)
    os.kill(frozen.pid, signal.SIGCONT)
    close(frozen)
    assert_model_is_whole(frozen)


def test_the_first_window_of_a_demo_closes_those_that_it_opened(windows: Windows) -> None:
    demo = windows.start("demo", "--demo", "2", "--rounds", "1000000")
    demo.report.wait(lambda line: line["round"] > 1, "it trains")
    assert len(demo.processes()) == 2
    close(demo)
    assert_model_is_whole(demo)
