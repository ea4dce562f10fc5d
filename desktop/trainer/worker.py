"""The QObject that lives in the trainer's QThread: takes commands, works in slices, says what happens.

torch is imported here, by `WarmUp`, after the window is on screen: nothing on top of this file may import it.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from PySide6.QtCore import QObject, Qt, QTimer, Signal, Slot

from desktop.bridge.adapter import QtTransport
from desktop.bridge.lifecycle import (
    Change,
    Command,
    DataRead,
    Failed,
    ForgetData,
    Leave,
    ListModels,
    Measure,
    Measured,
    Models,
    Noted,
    Prediction,
    ReadData,
    ReadSample,
    Start,
    Stop,
    TorchReady,
    TryPicture,
    WarmUp,
)
from desktop.errors import PeerloomError
from desktop.library import store
from desktop.tasks import data as task_data
from desktop.tasks import reading
from desktop.tasks.data import TaskData
from desktop.tasks.spec import TaskSpec

if TYPE_CHECKING:
    from desktop.trainer.training import Training

log = logging.getLogger(__name__)

TELL_S = 0.05  # between two words about how far reading has come
NICE = 10  # training gives way to windows, this one's and others': on busy cores it cuts the window's lag by half


class EndedByForce(BaseException):
    """Raised inside the trainer's thread, from outside, when it did not answer Stop in time."""


class TrainerWorker(QObject):
    """Owns everything that trains. All slots run in its thread."""

    said = Signal(object)  # a lifecycle.Said

    def __init__(self, me: str) -> None:
        super().__init__()
        self.transport = QtTransport(me, self._wake)
        self.transport.setParent(self)  # so that it moves to the thread along with this
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setTimerType(Qt.TimerType.PreciseTimer)
        self._timer.timeout.connect(self._slice)
        self._reading: Iterator[object] | None = None
        self._data: TaskData | None = None
        self._task = ""
        self._training: Training | None = None
        self.ident = 0  # of the thread, as Python counts; an exception can be sent to it

    @Slot()
    def begin(self) -> None:
        """The first thing that runs in the thread."""
        self.ident = threading.get_ident()
        if sys.platform == "linux":  # where Qt's own thread priorities do nothing
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)

    @Slot(object)
    def do(self, command: Command) -> None:
        """Carry a command out, or begin to."""
        handlers: dict[type[Command], Callable[[Any], None]] = {
            WarmUp: self._warm_up,
            ListModels: self._list_models,
            Measure: self._measure,
            ReadSample: self._read_sample,
            ReadData: self._read_data,
            ForgetData: self._forget,
            Start: self._start,
            Change: self._change,
            Stop: self._stop,
            Leave: self._leave,
            TryPicture: self._try,
        }
        try:
            handlers[type(command)](command)
        except PeerloomError as error:
            self._refuse(command, error.sentence)
        except EndedByForce:
            self._end_by_force()
            return
        except Exception as error:  # whatever it is, the window must hear of it and stay usable
            log.exception("%s failed", type(command).__name__)
            self._refuse(command, f"Something unexpected went wrong: {error!r}.")
        self._wake()

    def _refuse(self, command: Command, sentence: str) -> None:
        """Say what went wrong where it belongs: only a failed Start ends a run."""
        match command:
            case Start():
                self.said.emit(Failed(sentence=sentence))
            case ReadSample() | ReadData():
                source = ", ".join(command.paths) if isinstance(command, ReadData) else "sample"
                self.said.emit(DataRead(view=task_data.refused(source, sentence)))
            case TryPicture():
                self.said.emit(Prediction(picture=b"", name=Path(command.path).name, error=sentence))
            case _:
                self.said.emit(Noted(severity="bad", text=sentence))

    @Slot()
    def shut_down(self) -> None:
        """Leave the room, then end the thread."""
        self._timer.stop()
        self._reading = None
        if self._training is not None and not self._training.left:
            self._training.leave()
        self._training = None
        self.thread().quit()

    # -- slices --

    def _wake(self) -> None:
        if self._training is not None or self._reading is not None:
            self._timer.start(0)

    @Slot()
    def _slice(self) -> None:
        try:
            wait = self._one_slice()
        except EndedByForce:
            self._end_by_force()
            return
        except Exception as error:
            log.exception("the trainer failed")
            self._give_up()
            self.said.emit(Failed(sentence=f"Training ended with an unexpected error: {error!r}."))
            return
        if wait is not None:
            self._timer.start(round(wait * 1000))

    def _give_up(self) -> None:
        """Drop what failed. The room hears of it, or it would wait for a member that does nothing any more."""
        training, self._training, self._reading = self._training, None, None
        if training is not None and not training.left:
            try:
                training.leave()
            except Exception:
                log.exception("leaving the room failed too")
                self.transport.listen(None)

    def _end_by_force(self) -> None:
        log.info("the trainer was ended by force")
        self._reading = self._training = None
        self.thread().quit()

    def _one_slice(self) -> float | None:
        if self._reading is not None:
            if next(self._reading, self) is self:
                self._reading = None
            return 0.0
        training = self._training
        if training is None or (training.ended and training.left):
            return None
        return training.slice()

    # -- commands --

    def _warm_up(self, command: WarmUp) -> None:
        # Threads that spin after their work take the window's core away.
        os.environ.setdefault("KMP_BLOCKTIME", "0")
        import torch

        from desktop.tasks import models
        from desktop.trainer import loop, training  # noqa: F401 - imported now, so that Start does not wait for it

        torch.set_num_threads(command.threads)
        models.warm_up()
        self.said.emit(TorchReady(backends=loop.backends(), version=torch.__version__))

    def _list_models(self, command: ListModels) -> None:
        self.said.emit(Models(rows=store.list_models(Path(command.folder))))

    def _measure(self, command: Measure) -> None:
        from desktop.trainer.measure import measure

        try:
            parameters, samples_per_s = measure(TaskSpec.from_json(command.task))
        except RuntimeError as error:  # torch cannot do it on this computer, or its memory does not suffice
            log.info("not measured: %s", error)
            parameters, samples_per_s = None, None
        self.said.emit(Measured(task=command.task, parameters=parameters, samples_per_s=samples_per_s))

    def _read_sample(self, command: ReadSample) -> None:
        self._data = None
        self._reading = self._read(reading.read_sample(TaskSpec.from_json(command.task), command.share), "sample")

    def _forget(self, _: ForgetData) -> None:
        self._reading, self._data = None, None

    def _read_data(self, command: ReadData) -> None:
        self._data = None
        steps = reading.read(TaskSpec.from_json(command.task), tuple(map(Path, command.paths)), command.edits)
        self._reading = self._read(steps, ", ".join(command.paths), command.edits)

    def _read(self, steps: Any, source: str, edits: reading.Edits = ()) -> Iterator[object]:
        """Read in slices; what is wrong becomes a sentence on the data page."""
        try:
            read = yield from self._watched(source, steps)
        except PeerloomError as error:
            view = task_data.refused(source, error.sentence)
            self.said.emit(DataRead(view=msgspec.structs.replace(view, edits=edits)))
            return
        self._data, self._task = read.data, read.spec.to_json() if read.data else ""
        self.said.emit(DataRead(view=msgspec.structs.replace(read.view, edits=edits), task=self._task))

    def _watched(self, source: str, steps: Any) -> Any:
        told = float("-inf")
        while True:
            try:
                progress = next(steps)
            except StopIteration as end:
                return end.value
            now = time.monotonic()
            if now - told >= TELL_S:  # thousands of files a second would keep the window busy with their numbers
                told = now
                self.said.emit(DataRead(view=task_data.reading(source, progress)))
            yield

    def _start(self, command: Start) -> None:
        from desktop.trainer.training import Training

        if self._data is None:
            self.said.emit(Failed(sentence="There is no data to train on yet. Choose your data first."))
            return
        training = Training(command, self._data, self.transport, self.said.emit)
        if self._training is not None:
            if not self._training.left:
                self._training.leave()  # of an earlier run, whose room may still hear it
            self._training.free()
        self._training = training
        training.begin()

    def _change(self, command: Change) -> None:
        if self._training is not None and not self._training.left:
            self._training.change(command.new)

    def _stop(self, _: Stop) -> None:
        if self._training is not None:
            self._training.stop()

    def _leave(self, _: Leave) -> None:
        if self._training is not None and not self._training.left:
            if self._training.ended:
                self._training.leave()
            else:
                self._training.stop()

    def _try(self, command: TryPicture) -> None:
        training = self._training
        if training is None or not training.ended:
            self.said.emit(Prediction(picture=b"", name="", error="There is no trained model yet. Train one first."))
            return
        from desktop.library import try_image

        model, spec = training.local.model, training.spec
        if command.index >= 0:
            samples = try_image.sample_pictures(training.local.data.test, 12)
            if command.index < len(samples):
                sample = samples[command.index]
                confidences = try_image.predict_array(model, spec, sample.x)
                name = f"held-out picture of “{spec.classes[sample.label]}”"
                self.said.emit(Prediction(picture=sample.png, name=name, confidences=confidences))
            return
        path = Path(command.path)
        try:
            confidences, picture = try_image.predict(model, spec, path)
        except PeerloomError as error:
            self.said.emit(Prediction(picture=b"", name=path.name, error=error.sentence))
            return
        self.said.emit(Prediction(picture=picture, name=path.name, confidences=confidences))
