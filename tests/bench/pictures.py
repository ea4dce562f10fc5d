"""Benchmark: many pictures in folders: how soon reading is seen, how smooth the page stays, what the bound costs.

A window shows the Data page while the trainer's thread reads; its lag is that of a timer of 5 ms. `ratio` is the
throughput of training on pictures within the bound, once all are in memory, over training on the same in one array.
With a bound of half the pictures the resident size after each of three epochs is printed, and that throughput as well.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from PySide6.QtCore import QObject, Qt, QThread, QTimer, Signal
from PySide6.QtWidgets import QApplication

from desktop.bridge.lifecycle import DataRead, ForgetData, ReadData
from desktop.state import WindowState
from desktop.tasks.builtin import IMAGES, card
from desktop.tasks.data import ArraySet, Batches, TaskData, load_folder
from desktop.tasks.readers import scan_folder
from desktop.trainer.worker import TrainerWorker
from desktop.ui.main_window import MainWindow
from tests.bench.line import is_quick, print_line
from tests.bench.memory import resident
from tests.tasks.folders import finish

COUNTS = {True: 2_000, False: 20_000}  # by --quick
SIDE = 32
CLASSES = 10
BEAT_MS = 5
LONGEST_S = 900.0
BATCH, STEPS = 64, 30
SPEC = IMAGES.changed(height=SIDE, width=SIDE, validation=0.0, test=0.0)


class Reader(QObject):
    """A window on its Data page, and the trainer's worker in its thread."""

    asking = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        self.window = MainWindow()
        self.window.render(WindowState(page="data", task=card(IMAGES)))
        self.window.show()
        self.said: list[DataRead] = []
        self.thread_, self.worker = QThread(), TrainerWorker("me")
        self.worker.moveToThread(self.thread_)
        self.asking.connect(self.worker.do)
        self.worker.said.connect(self._hear, Qt.ConnectionType.QueuedConnection)
        self.thread_.start()

    def _hear(self, said: object) -> None:
        if isinstance(said, DataRead):
            self.said.append(said)
            self.window.render(WindowState(page="data", task=card(IMAGES), data=said.view))

    def until(self, true: Callable[[], bool], longest_s: float = LONGEST_S) -> float:
        """Seconds until this is so, at most so many."""
        began = time.perf_counter()
        while not true() and time.perf_counter() - began < longest_s:
            QApplication.processEvents()
            time.sleep(0.0005)
        return time.perf_counter() - began

    def end(self) -> None:
        """Close it all."""
        self.thread_.quit()
        self.thread_.wait()
        self.window.close()


def make(folder: Path, count: int) -> Path:
    """`count` PNGs in ten class folders, each different."""
    rng = np.random.default_rng(0)
    for number in range(CLASSES):
        (folder / f"class {number}").mkdir(parents=True)
    for i in range(count):
        noise = rng.integers(0, 256, (SIDE // 4, SIDE // 4, 3), dtype=np.uint8)
        picture = Image.fromarray(noise).resize((SIDE, SIDE), Image.Resampling.BICUBIC)
        picture.save(folder / f"class {i % CLASSES}" / f"{i}.png", compress_level=1)
    return folder


def as_seen(folder: Path) -> dict[str, float]:
    """What a person notices who brings this folder, cancels, and brings it again."""
    reader = Reader()
    lags: list[float] = []
    last = [0.0]

    def beat() -> None:
        now = time.perf_counter()
        lags.append(1000 * (now - last[0]) - BEAT_MS)
        last[0] = now

    timer = QTimer(timerType=Qt.TimerType.PreciseTimer, interval=BEAT_MS)
    timer.timeout.connect(beat)
    command = ReadData(task=SPEC.to_json(), paths=(str(folder),))
    reader.asking.emit(command)
    first = reader.until(lambda: bool(reader.said))
    reader.asking.emit(ForgetData())
    reader.until(lambda: False, 0.3)  # what was said before it was heard
    heard = len(reader.said)
    reader.until(lambda: False, 0.5)
    after = len(reader.said) - heard
    reader.said.clear()
    reader.asking.emit(command)
    last[0] = time.perf_counter()
    timer.start()
    whole = reader.until(lambda: bool(reader.said) and reader.said[-1].view.usable)
    timer.stop()
    reader.end()
    lags.sort()
    return {"first_word_s": round(first, 3), "words_after_cancel": after, "read_s": round(whole, 2),
            "lag_p99_ms": round(lags[int(0.99 * (len(lags) - 1))], 1), "lag_max_ms": round(lags[-1], 1)}


def steps_s(samples: ArraySet) -> float:
    """Seconds of so many steps of training on these."""
    from desktop.trainer.loop import LocalTraining

    data = TaskData(train=samples, validation=samples.only(np.arange(1)), test=samples.only(np.arange(1)), title="",
                    source="")
    local = LocalTraining(SPEC.with_classes([f"class {n}" for n in range(CLASSES)]), data, "cpu", 1)
    local.begin(STEPS, BATCH, 1e-3)
    began = time.perf_counter()
    while local.running:
        local.step()
    took = time.perf_counter() - began
    local.free()
    return took


def loaded(folder: Path, bound: int | None) -> ArraySet:
    """All pictures as what a member trains on."""
    scan = finish(scan_folder(folder))
    return finish(load_folder(SPEC.with_classes(scan.classes), scan, bound)).train


def throughput(folder: Path, count: int) -> tuple[dict[str, Any], dict[str, Any], float]:
    """Figures with everything in memory and with half of it, the baseline, and their ratio."""
    warm, tight = loaded(folder, None), loaded(folder, count * 3 * SIDE * SIDE // 2)
    plain = ArraySet(warm.pixels[np.arange(len(warm))], warm.labels, warm.scale)
    steps_s(plain)  # torch's own first time
    best = {name: min(steps_s(samples) for _ in range(3)) for name, samples in (("plain", plain), ("warm", warm))}
    sizes, batches = [], Batches(len(tight), BATCH, 1)
    began = time.perf_counter()
    for _ in range(3):
        for _ in range(len(tight) // BATCH):
            indices = next(batches)
            tight.ahead(batches.coming)
            tight.batch(indices)
        sizes.append(round(resident("self", "VmRSS") / 1e6, 1))
    read = 3 * len(tight) / (time.perf_counter() - began)
    rate = {name: STEPS * BATCH / seconds for name, seconds in best.items()}
    figures = {"samples_per_s": round(rate["warm"]), "half_mb_after_epochs": sizes, "half_read_per_s": round(read)}
    return figures, {"samples_per_s": round(rate["plain"])}, rate["warm"] / rate["plain"]


def main() -> None:
    quick = is_quick(__doc__ or "")
    torch.set_num_threads(1)  # the window has the other core
    app = QApplication([])
    count = COUNTS[quick]
    with tempfile.TemporaryDirectory() as place:
        folder = make(Path(place) / "pictures", count)
        seen = as_seen(folder)
        figures, baseline, ratio = throughput(folder, count)
    del app
    print_line("pictures", {"pictures": count} | seen | figures, baseline, round(ratio, 3))


if __name__ == "__main__":
    main()
