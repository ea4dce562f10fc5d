"""Composition root: builds everything, wires every signal, owns shutdown. No logic."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import logging.handlers
import os
import secrets
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication

from desktop.bridge.adapter import PeerPort
from desktop.garbage import GuiCollector
from desktop.intents import Quit
from desktop.options import Options
from desktop.paths import Folders
from desktop.peers.eventloop import LoopLag, make_loop
from desktop.rooms.nearby import Browser, local_addresses
from desktop.session.controller import Controller
from desktop.session.report import Report
from desktop.session.trainer_thread import TrainerThread, any_left_behind
from desktop.settings import Settings
from desktop.state import LoopLag as Lag
from desktop.ui.main_window import MainWindow

log = logging.getLogger(__name__)

RENDER_MS = 100  # the window is updated at most this often
REPORT_MS = 1000
PATHS_MS = 3000
FIRST_PAINT_S = 0.03
CLOSE_S = 4.0  # after this the process ends whatever still hangs


class App:
    """One window with all that belongs to it."""

    def __init__(self, options: Options, settings: Settings, folders: Folders, loop: asyncio.AbstractEventLoop) -> None:
        self.options, self.settings = options, settings
        self.exit_code = 0
        self.pictured = False
        self.closing = asyncio.Event()
        me = secrets.token_hex(16)
        report = Report(options.report) if options.report else None  # refused before anything runs
        self.collector = GuiCollector()  # before there is a second thread
        self.port = PeerPort()
        self.trainer = TrainerThread(me, self.port)
        self.controller = Controller(me, options, settings, folders, self.port, self.trainer, report)
        self.lag = LoopLag(loop, time.perf_counter)
        self.window = MainWindow()
        self.browser = Browser(self.controller.nearby_changed, loopback=options.loopback, trouble=log.info)
        self._wire()

    def _wire(self) -> None:
        self.window.intent.connect(self._intend)
        self.controller.changed.connect(self._render_soon)
        self.controller.finished.connect(self._finished)
        self.controller.theme_changed.connect(self.window.set_theme)
        self.controller.torch_ready.connect(self._torch_is_here)
        self.render_timer = _timer(RENDER_MS, self._render, repeat=False)
        self.live_timer = _timer(RENDER_MS * 5, self._render_soon)
        self.report_timer = _timer(REPORT_MS, self._each_second)
        self.paths_timer = _timer(PATHS_MS, self.controller.look_at_paths)

    def _intend(self, intent: object) -> None:
        if isinstance(intent, Quit):
            self.closing.set()
        else:
            self.controller.intend(intent)  # type: ignore[arg-type]
            self._render()  # what a person does shows at once

    def _render_soon(self) -> None:
        if not self.render_timer.isActive():
            self.render_timer.start()

    def _render(self) -> None:
        state = self.controller.snapshot()
        self.window.render(state)
        if state.session.final is not None:
            self._take_picture()

    def _take_picture(self) -> None:
        """When training has ended and everyone is still there; else when the window closes."""
        if self.options.screenshot and not self.pictured:
            self.pictured = True
            self.window.picture().save(str(self.options.screenshot))

    def _each_second(self) -> None:
        self._take_lag()
        self.controller.write_report()

    def _take_lag(self) -> None:
        lag = self.lag
        self.controller.record.lag = Lag(p50=round(lag.p50, 2), p99=round(lag.p99, 2), max=round(lag.max, 2))

    def _finished(self, code: int) -> None:
        self.exit_code = code
        self.closing.set()

    def _torch_is_here(self) -> None:
        """Loop lag counts from here on; the one gap of the import is reported apart."""
        self.collector.settle()
        self.controller.record.import_gap_ms = round(self.lag.max, 1)
        self.lag.reset()

    async def run(self) -> int:
        """From the first paint until everything is shut down; the exit code."""
        if self.options.window_size:
            self.window.resize(*self.options.window_size)
        self.window.set_theme(self.settings.theme)
        self.controller.addresses = local_addresses(self.options.loopback)
        self._render()
        self.window.show()
        self.lag.start()
        await asyncio.sleep(FIRST_PAINT_S)  # then the libraries that take long
        self.window.warm_up()
        await self.browser.open()
        self.controller.begin()
        self.live_timer.start()
        self.report_timer.start()
        self.paths_timer.start()
        await self.closing.wait()
        await self._shut_down()
        return self.exit_code

    async def _shut_down(self) -> None:
        self._take_lag()
        self.lag.stop()
        self._render()
        self._take_picture()
        self.controller.changed.disconnect(self._render_soon)
        for timer in (self.render_timer, self.live_timer, self.report_timer, self.paths_timer):
            timer.stop()
        self.window.intent.disconnect(self._intend)
        await asyncio.gather(self.controller.shut_down(), self.browser.close())
        self.collector.stop()
        self.window.allow_close()


def _timer(milliseconds: int, what: Callable[[], None], *, repeat: bool = True) -> QTimer:
    timer = QTimer()
    timer.setInterval(milliseconds)
    timer.setSingleShot(not repeat)
    timer.timeout.connect(what)
    return timer


def main(options: Options) -> int:
    """Start the window and stay until it is closed."""
    folders = Folders.find(options.profile).make()
    settings = Settings.load(folders.settings)
    for key, text in options.settings().items():
        settings.override(key, text)
    _log_to(folders, settings)
    application = QApplication.instance() or QApplication([sys.argv[0]])
    assert isinstance(application, QApplication)
    application.setApplicationName("Peerloom")
    application.setDesktopFileName("peerloom")
    application.setQuitOnLastWindowClosed(False)
    with asyncio.Runner(loop_factory=lambda: make_loop(application)) as runner:
        code = runner.run(_run(options, settings, folders))
    if any_left_behind():  # a trainer that hangs must not keep the process
        logging.shutdown()
        os._exit(code)
    return code


async def _run(options: Options, settings: Settings, folders: Folders) -> int:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(_loop_failed)
    app = App(options, settings, folders, loop)
    for number in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError, ValueError):
            signal.signal(number, lambda *_: loop.call_soon_threadsafe(app.closing.set))
    guard = loop.create_task(_end_for_sure(app))
    try:
        return await app.run()
    finally:
        guard.cancel()


async def _end_for_sure(app: App) -> None:
    """A window that was closed is gone, even if a library or a thread hangs on the way out."""
    await app.closing.wait()
    timer = threading.Timer(CLOSE_S, lambda: os._exit(app.exit_code or 1))
    timer.daemon = True
    timer.start()


def _loop_failed(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    log.error("%s", context.get("message"), exc_info=context.get("exception"))


def _log_to(folders: Folders, settings: Settings) -> None:
    handler = logging.handlers.RotatingFileHandler(folders.log / "peerloom.log", maxBytes=1_000_000, backupCount=3,
                                                   encoding="utf-8", delay=True)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=settings.log_level.upper(), handlers=[handler], force=True)
    sys.excepthook = lambda kind, error, trace: log.error("not caught", exc_info=(kind, error, trace))
