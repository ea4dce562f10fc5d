"""Each built-in task for pictures and text: two members read data of its kind and train a round together."""

from __future__ import annotations

import math
import random
from pathlib import Path

import pytest
import torch

from desktop.bridge.lifecycle import Begun, FinalModel, Noted, Start
from desktop.bridge.loopback import LoopbackHub
from desktop.library import store
from desktop.library.evaluate import evaluate_all
from desktop.rounds.messages import Values
from desktop.rounds.policy import RoomPolicy
from desktop.tasks import models, reading
from desktop.tasks.builtin import SHAKESPEARE, TASKS
from desktop.tasks.data import TaskData
from desktop.tasks.spec import TaskSpec
from desktop.trainer.training import Training
from tests.tasks.folders import fill, finish
from tests.trainer.test_training import Clock

PARAMETERS = {  # counted by hand in tests/tasks/test_models.py
    "digits": 38_378, "mnist": 54_986, "mnist-mlp": 101_770, "lus_covid": 19_314, "cifar10": 215_642,
    "simple_face": 1_709_922, "images": 94_850, "shakespeare": 103_344,
}


def data_of_its_kind(spec: TaskSpec, folder: Path, seed: int) -> Path:
    """A few pictures for each class, or a few pages of text."""
    if spec.kind == "images":
        for i, name in enumerate(spec.classes or ("cat", "dog")):
            fill(folder / name, 5, seed=100 * seed + i)
        return folder
    folder.mkdir()
    words = random.Random(seed).choices(["the", "cat", "sat", "on", "a", "mat", "and", "saw", "nine"], k=3000)
    (folder / "pages.txt").write_text(" ".join(words))
    return folder


def two_members(spec: TaskSpec, folder: Path) -> tuple[TaskSpec, list[TaskData]]:
    """What the host's window and a guest's read, and the task as the host's data has fixed it."""
    found = []
    for i, name in enumerate(("host", "guest")):
        if spec.sample:
            read = finish(reading.read_sample(spec, (i + 1, 2)))
        else:
            read = finish(reading.read(spec, (data_of_its_kind(spec, folder / name, i),), ()))
        assert read.data is not None, read.view.error
        assert read.view.usable
        spec = read.spec
        found.append(read.data)
    return spec, found


def train(spec: TaskSpec, members: list[TaskData], folder: Path, **values: object) -> list[list[object]]:
    """All rounds, over the transport within a process; what each member says."""
    torch.set_num_threads(1)
    hub, clock = LoopbackHub(), Clock()
    given = {"rounds": 1, "local_steps": spec.local_steps, "local_epochs": spec.local_epochs, "batch": spec.batch,
             "lr": spec.lr}
    policy = RoomPolicy(values=Values(**(given | values)), start_members=len(members), min_members=1)  # type: ignore[arg-type]
    said: list[list[object]] = []
    trainings = []
    for i, data in enumerate(members):
        order = Start(task=spec.to_json(), policy=policy, backend="cpu", founder=not i, name=f"m{i}",
                      models_folder=str(folder / f"models{i}"))
        (folder / f"models{i}").mkdir()
        said.append([])
        trainings.append(Training(order, data, hub.join(f"m{i}"), said[-1].append, clock))
        trainings[-1].begin()
    for _ in range(20_000):
        if all(training.ended for training in trainings):
            return said
        for training in trainings:
            training.slice()
        hub.pump()
        clock.now += 0.01
    pytest.fail("training did not end")


@pytest.mark.parametrize("task", [task for task in TASKS.values() if task.kind != "table"], ids=lambda task: task.id)
def test_two_members_train_a_round(task: TaskSpec, tmp_path: Path) -> None:
    spec, members = two_members(task, tmp_path)
    said = train(spec, members, tmp_path, **({} if spec.local_epochs else {"local_steps": 2}))
    finals = [next(each for each in of if isinstance(each, FinalModel)) for of in said]
    assert [final.round for final in finals] == [1, 1]
    assert finals[0].digest == finals[1].digest
    assert not [each.text for of in said for each in of if isinstance(each, Noted) and each.severity == "bad"]
    begun = next(each for each in said[0] if isinstance(each, Begun))
    if task.id in PARAMETERS:
        assert begun.parameters == PARAMETERS[task.id]
    card, model = store.open_model(Path(finals[0].path))
    assert card.task.form == spec.form
    found = evaluate_all(model, spec, members[0].test)
    assert found.loss is not None
    assert math.isfinite(found.loss)
    assert bool(finals[0].samples) == (spec.kind == "images")


def play_learnt(folder: Path, members: list[TaskData], **values: object) -> float:
    """Validation loss of the play in nats per character (each is a byte) after training by these members."""
    untrained = models.build_model(SHAKESPEARE, SHAKESPEARE.seed)
    for data in members:
        assert evaluate_all(untrained, SHAKESPEARE, data.validation).loss == pytest.approx(math.log(256), rel=0.02)
    said = train(SHAKESPEARE, members, folder, **values)
    final = next(each for each in said[0] if isinstance(each, FinalModel))
    _, model = store.open_model(Path(final.path))
    losses = [evaluate_all(model, SHAKESPEARE, data.validation) for data in members]
    return sum((found.loss or 0) * found.n for found in losses) / sum(found.n for found in losses)


def test_the_play_is_learnt(tmp_path: Path) -> None:
    """From the frequencies of its letters alone the play has 3.34 nats per character."""
    whole = finish(reading.read_sample(SHAKESPEARE, (1, 1))).data
    assert whole is not None
    assert play_learnt(tmp_path, [whole], rounds=1, local_steps=150, lr=2e-3) < 2.6


@pytest.mark.long
@pytest.mark.timeout(300)
def test_the_play_is_learnt_by_two_members_with_the_values_of_its_task(tmp_path: Path) -> None:
    _, members = two_members(SHAKESPEARE, tmp_path)
    assert play_learnt(tmp_path, members, rounds=7) < 2.6
