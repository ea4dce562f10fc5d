"""The worker in its real thread: what it is asked, and what it says back."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest
from PySide6.QtCore import QObject, QThread, Signal, Slot
from pytestqt.qtbot import QtBot

from desktop.bridge.lifecycle import (
    Begun,
    Command,
    DataRead,
    Failed,
    FinalModel,
    ForgetData,
    Leave,
    ListModels,
    Models,
    Prediction,
    Progress,
    ReadData,
    ReadSample,
    RoundCommitted,
    Said,
    Start,
    Stop,
    TorchReady,
    TryPicture,
    WarmUp,
)
from desktop.rounds.messages import Values
from desktop.rounds.policy import RoomPolicy
from desktop.tasks.builtin import DIGITS, IMAGES
from desktop.trainer.training import Training
from desktop.trainer.worker import TrainerWorker
from tests.tasks.folders import cats_and_dogs

WAIT_MS = 20_000
Kind = TypeVar("Kind", bound=Said)


class Window(QObject):
    """Stands where the window's side stands: asks by signal, writes down what is said, in its own thread."""

    asking = Signal(object)
    shut = Signal()

    def __init__(self, qtbot: QtBot) -> None:
        super().__init__()
        self.qtbot = qtbot
        self.said: list[Said] = []
        self.threads: set[int] = set()
        self.thread_ = QThread()
        self.worker = TrainerWorker("me")
        self.worker.moveToThread(self.thread_)
        self.asking.connect(self.worker.do)
        self.shut.connect(self.worker.shut_down)
        self.worker.said.connect(self.hear)
        self.thread_.start()

    @Slot(object)
    def hear(self, said: Said) -> None:
        self.said.append(said)
        self.threads.add(threading.get_ident())

    def ask(self, command: Command) -> None:
        self.asking.emit(command)

    def all(self, kind: type[Kind]) -> list[Kind]:
        return [said for said in self.said if isinstance(said, kind)]

    def await_(self, kind: type[Kind], true: Callable[[Kind], bool] = lambda said: True) -> Kind:
        """The next message of this kind for which something is true."""
        self.qtbot.waitUntil(lambda: any(true(said) for said in self.all(kind)), timeout=WAIT_MS)
        found = next(said for said in self.all(kind) if true(said))
        self.said.clear()
        return found

    def end(self) -> None:
        self.shut.emit()
        assert self.thread_.wait(WAIT_MS)


@pytest.fixture
def window(qtbot: QtBot) -> Iterator[Window]:
    made = Window(qtbot)
    yield made
    made.end()


def order(folder: Path, rounds: int = 2, **changes: object) -> Start:
    """Train alone."""
    policy = RoomPolicy(Values(rounds=rounds, local_steps=3, batch=16), start_members=1, min_members=1, beat_s=0.05)
    values: dict[str, object] = {
        "task": DIGITS.to_json(), "policy": policy, "backend": "cpu", "founder": True, "name": "Quiet Heron",
        "models_folder": str(folder), **changes,
    }
    return Start(**values)  # type: ignore[arg-type]


def with_sample(window: Window) -> None:
    window.ask(WarmUp(threads=1))
    window.ask(ReadSample(task=DIGITS.to_json()))
    window.await_(DataRead, lambda said: said.view.usable)


def test_torch_is_imported_when_asked(window: Window) -> None:
    window.ask(WarmUp(threads=1))
    ready = window.await_(TorchReady)
    assert ready.backends[0] == "cpu"
    assert ready.version[0].isdigit()
    assert window.threads == {threading.get_ident()}  # it was said in the window's thread


def test_the_sample_is_read(window: Window) -> None:
    window.ask(ReadSample(task=DIGITS.to_json(), share=(2, 3)))
    read = window.await_(DataRead, lambda said: said.view.usable)
    assert read.view.title == "Sample digits, part 2 of 3"
    assert len(read.view.classes) == 10
    assert read.task == DIGITS.to_json()


def test_folders_are_read_in_slices_and_a_host_gets_its_classes_from_them(window: Window, tmp_path: Path) -> None:
    window.ask(ReadData(task=IMAGES.to_json(), paths=(str(cats_and_dogs(tmp_path)),)))
    window.qtbot.waitUntil(lambda: any(said.view.usable for said in window.all(DataRead)), timeout=WAIT_MS)
    *reading, read = window.all(DataRead)
    assert all(said.view.reading and said.view.error == "" for said in reading)
    assert reading  # the first word comes at once, further ones as time passes
    assert reading[0].view.progress == 1 / 24
    assert '"classes":["cat","dog"]' in read.task


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda folder: folder / "nowhere", "nowhere"),
        (lambda folder: folder, "folder"),
        (lambda folder: broken(folder), "pictures"),
    ],
)
def test_a_folder_that_cannot_be_used_is_a_sentence_on_the_data_page(
    window: Window, tmp_path: Path, make: Callable[[Path], Path], sentence: str
) -> None:
    window.ask(ReadData(task=IMAGES.to_json(), paths=(str(make(tmp_path)),)))
    read = window.await_(DataRead, lambda said: said.view.error != "")
    assert sentence in read.view.error
    assert read.view.error.endswith(".")
    assert not read.view.usable
    window.ask(order(tmp_path))
    assert "no data" in window.await_(Failed).sentence


def broken(folder: Path) -> Path:
    for name in ("cat", "dog"):
        (folder / name).mkdir()
        for number in range(6):
            (folder / name / f"{number}.png").write_bytes(b"not a picture")
    return folder


def test_alone_it_trains_to_the_end_saves_and_says_each_step(window: Window, tmp_path: Path) -> None:
    with_sample(window)
    window.ask(order(tmp_path, rounds=2))
    window.qtbot.waitUntil(lambda: bool(window.all(FinalModel)), timeout=WAIT_MS)
    begun, final = window.all(Begun)[0], window.all(FinalModel)[0]
    assert (begun.backend, begun.parameters) == ("cpu", 38_378)
    assert (final.complete, final.round) == (True, 2)
    assert Path(final.path).parent == tmp_path
    assert final.test_samples > 200
    assert final.samples[0].startswith(b"\x89PNG")
    points = [point.step for said in window.all(Progress) for point in said.points]
    assert points == [1, 2, 3, 4, 5, 6]
    assert {said.round for said in window.all(RoundCommitted)} == {1, 2}
    assert window.all(Progress)[-1].digest == final.digest
    window.said.clear()
    window.ask(ListModels(folder=str(tmp_path)))
    (row,) = window.await_(Models).rows
    assert row.path == final.path


def test_stop_in_the_middle_keeps_what_was_committed(window: Window, tmp_path: Path) -> None:
    with_sample(window)
    window.ask(order(tmp_path, rounds=1_000_000))
    committed = window.await_(Progress, lambda said: said.round >= 2)
    window.ask(Stop())
    window.ask(Stop())  # pressing it twice does no harm
    final = window.await_(FinalModel)
    assert not final.complete
    assert final.round >= committed.round
    assert Path(final.path).is_file()
    assert final.test_accuracy is not None


def test_stop_before_anything_was_committed_saves_nothing(window: Window, tmp_path: Path) -> None:
    with_sample(window)
    policy = RoomPolicy(Values(rounds=3), start_members=2, beat_s=0.05)
    window.ask(order(tmp_path, policy=policy))
    assert window.await_(Progress).missing == 1
    window.ask(Stop())
    final = window.await_(FinalModel)
    assert (final.complete, final.round, final.path, final.test_accuracy) == (False, 0, "", None)


def test_start_without_data_is_a_sentence(window: Window, tmp_path: Path) -> None:
    window.ask(order(tmp_path))
    assert window.await_(Failed).sentence == "There is no data to train on yet. Choose your data first."


def test_start_after_the_data_was_forgotten_is_a_sentence(window: Window, tmp_path: Path) -> None:
    with_sample(window)
    window.ask(ForgetData())
    window.ask(order(tmp_path))
    assert "no data" in window.await_(Failed).sentence


def test_a_backend_that_is_not_there_is_a_sentence(window: Window, tmp_path: Path) -> None:
    with_sample(window)
    window.ask(order(tmp_path, backend="quantum"))
    assert "this computer has no quantum" in window.await_(Failed).sentence


@pytest.mark.allow_log("the trainer failed")
def test_an_exception_in_a_slice_is_said_and_the_worker_still_answers(
    window: Window, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_sample(window)
    monkeypatch.setattr(Training, "_batch", lambda self: 1 // 0)
    window.ask(order(tmp_path))
    assert "unexpected error: ZeroDivisionError" in window.await_(Failed).sentence
    assert window.worker.transport._listener is None  # the room was left as well
    monkeypatch.undo()
    window.ask(order(tmp_path))
    assert window.await_(FinalModel).complete


@pytest.mark.allow_log("ReadSample failed")
def test_an_exception_in_a_command_is_said_and_the_worker_still_answers(window: Window) -> None:
    window.ask(ReadSample(task=None))  # type: ignore[arg-type]
    assert "unexpected" in window.await_(DataRead).view.error
    window.ask(ReadSample(task="{}"))
    assert "The task cannot be used" in window.await_(DataRead).view.error
    window.ask(ReadSample(task=DIGITS.to_json()))
    window.await_(DataRead, lambda said: said.view.usable)


def test_pictures_are_read_by_the_trained_model(window: Window, tmp_path: Path) -> None:
    with_sample(window)
    window.ask(TryPicture(index=0))
    assert "no trained model yet" in window.await_(Prediction).error
    window.ask(order(tmp_path / "models"))
    window.await_(FinalModel)
    window.ask(TryPicture(index=0))
    shown = window.await_(Prediction)
    assert shown.error == ""
    assert shown.picture.startswith(b"\x89PNG")
    assert sum(confidence.value for confidence in shown.confidences) == pytest.approx(1)
    assert len(shown.confidences) == 10
    picture = tmp_path / "drawn.png"
    picture.write_bytes(shown.picture)
    window.ask(TryPicture(path=str(picture)))
    assert window.await_(Prediction).name == "drawn.png"
    window.ask(TryPicture(path=str(tmp_path / "none.png")))
    assert "none.png" in window.await_(Prediction).error


def test_a_second_run_follows_the_first(window: Window, tmp_path: Path) -> None:
    with_sample(window)
    for rounds in (1, 2):
        window.ask(order(tmp_path, rounds=rounds))
        assert window.await_(FinalModel).round == rounds
    window.ask(Leave())
    window.ask(ListModels(folder=str(tmp_path)))
    assert len(window.await_(Models).rows) == 2


def test_leave_in_the_middle_ends_as_stop_does(window: Window, tmp_path: Path) -> None:
    with_sample(window)
    window.ask(order(tmp_path, rounds=1_000_000))
    window.await_(Progress, lambda said: said.round >= 1)
    window.ask(Leave())
    assert not window.await_(FinalModel).complete


def test_it_can_be_shut_down_in_the_middle_of_training(window: Window, tmp_path: Path) -> None:
    with_sample(window)
    window.ask(order(tmp_path, rounds=1_000_000))
    window.await_(Progress, lambda said: said.round >= 1)
    window.end()
    assert window.thread_.isFinished()


def test_commands_that_come_when_there_is_nothing_to_do_do_no_harm(window: Window) -> None:
    for command in (Stop(), Leave(), ForgetData(), TryPicture(index=99)):
        window.ask(command)
    window.ask(ListModels(folder="/nowhere"))
    assert window.await_(Models).rows == ()
