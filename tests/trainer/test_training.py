"""Training over the in-process transport: the real engine, the real numbers, no network and no Qt."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from desktop.bridge.lifecycle import Failed, FinalModel, Noted, Said, Start
from desktop.bridge.loopback import LoopbackHub
from desktop.rounds.messages import Values
from desktop.rounds.policy import RoomPolicy
from desktop.tasks.builtin import DIGITS
from desktop.tasks.data import load_sample
from desktop.tasks.spec import TaskSpec
from desktop.trainer.training import Training

BUCKET = 40_000  # bytes: four buckets for the digits model


class Clock:
    """Time that moves only when the test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Room:
    """Several trainings in one process."""

    def __init__(self, folder: Path, members: int, spec: TaskSpec = DIGITS, **policy: object) -> None:
        self.clock, self.hub, self.folder, self.spec = Clock(), LoopbackHub(), folder, spec
        values = Values(**{"rounds": 3, "local_steps": 5, "batch": spec.batch, "lr": spec.lr, **policy})  # type: ignore[arg-type]
        self.policy = RoomPolicy(values=values, start_members=members, min_members=1)
        self.said: dict[str, list[Said]] = {}
        self.trainings: dict[str, Training] = {}
        self.shares = members
        torch.set_num_threads(1)
        for number in range(members):
            self.add(f"m{number}", number + 1)

    def add(self, name: str, share: int) -> Training:
        order = Start(task=self.spec.to_json(), policy=self.policy, backend="cpu", founder=not self.trainings,
                      name=name, models_folder=str(self.folder / name))
        (self.folder / name).mkdir()
        self.said[name] = []
        data = load_sample(self.spec, (share, max(self.shares, share)))
        training = Training(order, data, self.hub.join(name), self.said[name].append, self.clock, BUCKET)
        self.trainings[name] = training
        training.begin()
        return training

    def run(self, done: Callable[[], bool], most: int = 20_000) -> None:
        for _ in range(most):
            if done():
                return
            for training in list(self.trainings.values()):
                training.slice()
            self.hub.pump()
            self.clock.now += 0.01
        states = {n: (t.engine.member.phase, t.engine.room.round) for n, t in self.trainings.items()}
        pytest.fail(f"not done: {states}")

    def all_ended(self) -> bool:
        return all(training.ended for training in self.trainings.values())

    def last(self, name: str, kind: type[Said]) -> Said:
        return next(said for said in reversed(self.said[name]) if isinstance(said, kind))

    def digests(self) -> set[str]:
        return {hashlib.sha256(t.numbers.committed.numpy().tobytes()).hexdigest() for t in self.trainings.values()}


@pytest.mark.parametrize("precision", ["f32", "f16"])
@pytest.mark.parametrize("members", [1, 2, 3])
def test_all_members_end_with_bit_identical_weights_and_say_so(tmp_path: Path, members: int, precision: str) -> None:
    room = Room(tmp_path, members, precision=precision)
    room.run(room.all_ended)
    finals = [room.last(name, FinalModel) for name in room.trainings]
    assert {final.round for final in finals} == {3}  # type: ignore[attr-defined]
    assert room.digests() == {final.digest for final in finals}  # type: ignore[attr-defined]
    noted = [said for each in room.said.values() for said in each if isinstance(said, Noted)]
    assert not [said for said in noted if said.severity == "bad"]


def test_one_round_is_the_mean_of_the_members_updates_weighted_by_samples(tmp_path: Path) -> None:
    room = Room(tmp_path, 3, rounds=1, local_steps=1)
    updates: dict[str, tuple[np.ndarray, int]] = {}
    start = room.trainings["m0"].numbers.committed.numpy().copy()

    def trained() -> bool:
        for name, training in room.trainings.items():
            if name not in updates and training.engine.member.phase in ("ready", "exchanging"):
                updates[name] = (training.local.flat.detach().numpy() - start, training.local.samples)
        return room.all_ended()

    room.run(trained)
    total = sum(samples for _, samples in updates.values())
    expected = start + sum(update * (samples / total) for update, samples in updates.values())
    assert len(updates) == 3
    np.testing.assert_allclose(room.trainings["m0"].numbers.committed.numpy(), expected, atol=1e-6)


def test_a_late_joiner_gets_the_weights_and_counts_from_the_next_boundary(tmp_path: Path) -> None:
    room = Room(tmp_path, 2, rounds=6)
    room.run(lambda: room.trainings["m0"].engine.room.round >= 2)
    late = room.add("late", 3)
    room.run(room.all_ended)
    assert late.engine.room.round == 6
    assert len(room.digests()) == 1
    assert late.local.step_number > 0


def test_a_member_that_dies_in_the_exchange_does_not_stop_the_others(tmp_path: Path) -> None:
    room = Room(tmp_path, 3, rounds=4)
    room.run(lambda: any(t.engine.member.phase == "exchanging" for t in room.trainings.values()))
    del room.trainings["m2"]
    room.hub.kill("m2")
    room.run(room.all_ended)
    assert len(room.digests()) == 1
    assert {t.engine.room.round for t in room.trainings.values()} == {4}


def test_the_leader_dies_and_the_next_one_takes_over(tmp_path: Path) -> None:
    room = Room(tmp_path, 3, rounds=4)
    room.run(lambda: room.trainings["m0"].engine.room.round == 1)
    del room.trainings["m0"]
    room.hub.kill("m0")
    room.run(room.all_ended)
    assert len(room.digests()) == 1
    assert {t.engine.room.round for t in room.trainings.values()} == {4}
    assert {t.engine.room.view.leader for t in room.trainings.values()} <= {"m1", "m2"}


def test_stop_keeps_the_last_committed_weights_and_saves_them(tmp_path: Path) -> None:
    from safetensors.numpy import load_file

    room = Room(tmp_path, 2, rounds=50)
    room.run(lambda: room.trainings["m1"].engine.room.round >= 2 and room.trainings["m1"].local.running)
    stopped = room.trainings["m1"]
    committed = stopped.numbers.committed.numpy().copy()
    stopped.stop()
    room.run(lambda: stopped.ended)
    final = room.last("m1", FinalModel)
    assert isinstance(final, FinalModel)
    assert not final.complete
    saved = load_file(final.path)
    flat = np.concatenate([saved[name].reshape(-1) for name in stopped.local.model.state_dict()])
    np.testing.assert_array_equal(flat, committed)


def test_the_others_go_on_when_one_stops(tmp_path: Path) -> None:
    room = Room(tmp_path, 3, rounds=5)
    room.run(lambda: room.trainings["m2"].engine.room.round >= 1)
    room.trainings["m2"].stop()
    room.run(room.all_ended)
    assert {room.trainings[name].engine.room.round for name in ("m0", "m1")} == {5}


def test_an_update_that_is_not_finite_is_refused_and_the_others_go_on(tmp_path: Path) -> None:
    room = Room(tmp_path, 3, rounds=2, precision="f16")
    bad = room.trainings["m2"]
    spoil = bad.numbers.update
    bad.numbers.update = lambda bucket: spoil(bucket) + 70_000.0  # type: ignore[method-assign] # over f16's 65,504
    room.run(lambda: all(room.trainings[name].ended for name in ("m0", "m1")))
    texts = [said.text for said in room.said["m2"] if isinstance(said, Noted)]
    assert any("not finite" in text for text in texts), texts
    assert len({room.trainings[n].engine.room.digest for n in ("m0", "m1")}) == 1
    assert bool(torch.isfinite(room.trainings["m0"].numbers.committed).all())


def test_a_learning_rate_that_explodes_ends_in_a_sentence(tmp_path: Path) -> None:
    room = Room(tmp_path, 1, DIGITS.changed(optimiser="sgd", lr=10.0, batch=1), local_steps=400)
    room.run(room.all_ended)
    failed = room.last("m0", Failed)
    assert isinstance(failed, Failed)
    assert "learning rate" in failed.sentence


def test_a_member_with_another_task_is_not_averaged(tmp_path: Path) -> None:
    room = Room(tmp_path, 2, rounds=2)
    room.spec = DIGITS.changed(model="small-cnn")
    other = room.add("other", 3)
    room.run(lambda: room.trainings["m0"].ended and room.trainings["m1"].ended)
    assert other.engine.room.round == 0
    assert any("another task" in said.text for said in room.said["m0"] if isinstance(said, Noted))
