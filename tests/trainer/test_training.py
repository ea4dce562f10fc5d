"""Training over the in-process transport: the real engine, the real numbers, no network and no Qt."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from desktop.bridge.lifecycle import Failed, FinalModel, NotChanged, Noted, Progress, RoundCommitted, Said, Start
from desktop.bridge.loopback import LoopbackHub
from desktop.library.store import load_model
from desktop.rounds.messages import PRECISIONS, Outer, Values
from desktop.rounds.policy import RoomPolicy
from desktop.tasks import models
from desktop.tasks.builtin import DIGITS
from desktop.tasks.data import Batches, TaskData, load_sample
from desktop.tasks.spec import Column, Table, TaskSpec, Text
from desktop.trainer.loop import flatten
from desktop.trainer.training import Training
from tests.rounds.bench import all_of

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
        training = Training(order, self.data(share), self.hub.join(name), self.said[name].append, self.clock, BUCKET)
        self.trainings[name] = training
        training.begin()
        return training

    def data(self, share: int) -> TaskData:
        return load_sample(self.spec, (share, max(self.shares, share)))

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


@pytest.mark.parametrize("precision", PRECISIONS)
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


@pytest.mark.parametrize("precision", PRECISIONS)
def test_an_update_that_is_not_finite_is_refused_and_the_others_go_on(tmp_path: Path, precision: str) -> None:
    room = Room(tmp_path, 3, rounds=2, precision=precision)
    bad = room.trainings["m2"]
    spoil = bad.numbers.update
    bad.numbers.update = lambda bucket: spoil(bucket) * float("inf")  # type: ignore[method-assign]
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


# -- precisions, outer optimiser, weights, changes ------------------------------------------------------


def round_of(room: Room, name: str = "m0") -> int:
    return room.trainings[name].engine.room.round


@pytest.mark.parametrize("outer", ["none", "nesterov"])
@pytest.mark.parametrize("precision", PRECISIONS)
def test_with_one_joining_and_one_leaving_on_the_way_all_end_bit_identical(
    tmp_path: Path, precision: str, outer: str
) -> None:
    room = Room(tmp_path, 3, rounds=10, precision=precision, outer=Outer(outer))
    room.run(lambda: round_of(room) >= 2)
    late = room.add("late", 4)
    room.run(lambda: round_of(room, "late") >= 4)
    gone = room.trainings.pop("m1")
    gone.stop()
    room.trainings["m1"] = gone
    room.run(lambda: gone.ended)
    del room.trainings["m1"]
    room.run(room.all_ended)
    assert set(room.trainings) == {"m0", "m2", "late"}
    assert {round_of(room, name) for name in room.trainings} == {10}
    assert room.digests() == {room.trainings["m0"].engine.room.digest}
    assert late.local.step_number > 0
    assert not [said for name in room.trainings for said in room.said[name]
                if isinstance(said, Noted) and ("differed" in said.text or said.severity == "bad")]


@pytest.mark.parametrize("precision", ["f32", "int8"])
def test_a_reducer_that_dies_does_no_harm_to_momentum_and_rests(tmp_path: Path, precision: str) -> None:
    room = Room(tmp_path, 3, rounds=6, precision=precision, outer=Outer("nesterov"))
    room.run(lambda: round_of(room) >= 2 and room.trainings["m0"].engine.member.phase == "exchanging")
    del room.trainings["m2"]
    room.hub.kill("m2")
    room.run(room.all_ended)
    assert len(room.digests()) == 1
    assert {round_of(room, name) for name in room.trainings} == {6}


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_member_whose_products_round_differently_ends_bit_identical(tmp_path: Path, precision: str) -> None:
    """What a GPU's fused multiply-add does to the velocity: another last bit here and there, in each round."""
    room = Room(tmp_path, 3, rounds=6, precision=precision, outer=Outer("nesterov"))
    state, bits = room.trainings["m1"].numbers.outer, torch.Generator().manual_seed(1)
    follow = state.follow

    def follow_differently(bucket: int, result: torch.Tensor) -> None:
        follow(bucket, result)
        velocity = state.velocity[bucket]
        kind = torch.int32 if velocity.dtype == torch.float32 else torch.int16
        velocity.view(kind).bitwise_xor_(torch.randint(0, 2, velocity.shape, generator=bits, dtype=kind))

    state.follow = follow_differently  # type: ignore[method-assign]
    room.run(room.all_ended)
    mine, its = (room.trainings[name].numbers.outer.velocity for name in ("m0", "m1"))
    assert any(not torch.equal(mine[bucket], its[bucket]) for bucket in mine)
    for bucket, velocity in mine.items():  # the differences do not add up
        assert (velocity - its[bucket]).norm() < (0.02 if precision == "int8" else 1e-5) * velocity.norm()
    assert len(room.digests()) == 1
    assert not [said for each in room.said.values() for said in each
                if isinstance(said, Noted) and "differed" in said.text]


def smooth(spec: TaskSpec) -> nn.Module:
    """The digits' model without kinks, of the same shape."""
    return nn.Sequential(
        nn.Conv2d(spec.images.channels, 16, 3, padding=1), nn.GroupNorm(4, 16), nn.Tanh(),
        nn.Conv2d(16, 32, 3, padding=1), nn.GroupNorm(8, 32), nn.Tanh(),
        nn.AvgPool2d(2), nn.Flatten(), nn.Linear(512, 64), nn.Tanh(), nn.Linear(64, 10),
    )


Step = tuple[torch.Tensor, torch.Tensor]  # pictures and labels


def one_process(spec: TaskSpec, steps: list[list[Step]]) -> list[torch.Tensor]:
    """Plain SGD: the weights before each step and at the end. The gradient of a step is the mean of its batches'."""
    model = models.build_model(spec, spec.seed)
    flat = flatten(model)
    weights = [flat.clone()]
    for batches in steps:
        model.zero_grad()
        for x, y in batches:
            (nn.functional.cross_entropy(model(x), y) / len(batches)).backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= spec.lr * parameter.grad  # type: ignore[operator]
        weights.append(flat.clone())
    return weights


def apart(some: list[torch.Tensor], others: list[torch.Tensor]) -> float:
    """The largest difference between any two weights at the same step."""
    return max((a - b).abs().max().item() for a, b in zip(some, others, strict=True))


@pytest.mark.parametrize("model", [smooth, models.MODELS["digits-cnn"]])
def test_with_one_local_step_members_are_one_process_with_their_batches_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: Callable[[TaskSpec], nn.Module]
) -> None:
    """50 rounds of SGD: 4 members with batches of 8 against plain torch with batches of 32.

    The digits' own model has kinks (ReLU, maximum): where a number lies on one, the last bit of a sum decides which
    gradient a picture has. So plain torch alone comes to other weights when it adds up the same four batches in another
    order, and the room is no further off than that. Without kinks there is only rounding.
    """
    monkeypatch.setitem(models.MODELS, "digits-cnn", model)
    members, size, rounds = 4, 8, 50
    spec = DIGITS.changed(optimiser="sgd", lr=0.05, weight_decay=0.0, batch=size)
    room = Room(tmp_path, members, spec, rounds=rounds, local_steps=1)
    drawn: dict[str, list[np.ndarray]] = {name: [] for name in room.trainings}
    for name, training in room.trainings.items():
        training.local.batches = Watched(training.local.batches, drawn[name])
    numbers, committed = room.trainings["m0"].numbers, {}

    def keep() -> bool:
        if len(set(numbers.versions)) == 1 and numbers.versions[0] not in committed:
            committed[numbers.versions[0]] = numbers.committed.clone()
        return room.all_ended()

    room.run(keep)
    assert sorted(committed) == list(range(rounds + 1))
    steps = [[models.tensors(training.local.data.train, drawn[name][step]) for name, training in room.trainings.items()]
             for step in range(rounds)]
    together = one_process(spec, [[tuple(torch.cat(parts) for parts in zip(*step, strict=True))] for step in steps])
    found = apart(list(committed.values()), together)
    if model is smooth:
        assert found <= 1e-5
    else:
        forth, back = one_process(spec, steps), one_process(spec, [step[::-1] for step in steps])
        assert found <= 2 * max(apart(together, forth), apart(together, back), apart(forth, back)) <= 4e-3
    assert apart(together[:1], together[-1:]) > 0.02  # it did learn


class Watched(Batches):
    """Writes down the batches that another draws."""

    def __init__(self, batches: Batches, drawn: list[np.ndarray]) -> None:
        self.__dict__.update(batches.__dict__)
        self._into = drawn

    def __next__(self) -> np.ndarray:
        batch = super().__next__()
        self._into.append(batch)
        return batch


def test_by_epochs_each_member_goes_through_its_own_data(tmp_path: Path) -> None:
    room = Room(tmp_path, 2, rounds=2, local_epochs=1.0, batch=50)
    room.run(room.all_ended)
    for training in room.trainings.values():
        train = len(training.local.data.train)
        assert training.local.step_number == 2 * -(-train // 50)
        assert training.local.planned == -(-train // 50)
    assert len(room.digests()) == 1


@pytest.mark.parametrize("weighting", ["samples", "equal"])
def test_members_with_more_data_weigh_more_or_not(tmp_path: Path, weighting: str) -> None:
    values = Values(rounds=1, local_epochs=1.0, batch=50, weighting=weighting)
    room = Two(tmp_path, RoomPolicy(values=values, start_members=2))
    weights: dict[str, float] = {}

    def watch() -> bool:
        exchange = room.trainings["all"].engine.member.exchange
        if exchange is not None:
            weights.update({share.peer: share.weight for share in exchange.plan.shares})
        return room.all_ended()

    room.run(watch)
    steps = {name: training.local.step_number for name, training in room.trainings.items()}
    assert steps["all"] == 28  # 1,374 of 1,797 digits are there to train on: 50 at a time
    assert steps["third"] == 10
    expected = {"all": 28 / 38, "third": 10 / 38} if weighting == "samples" else {"all": 0.5, "third": 0.5}
    assert weights == pytest.approx(expected)


class Two(Room):
    """One member with all of the sample data, one with a third."""

    def __init__(self, folder: Path, policy: RoomPolicy) -> None:
        super().__init__(folder, 0)
        self.policy = policy
        self.shares = 1
        self.add("all", 1)
        self.shares = 3
        self.add("third", 3)


def test_values_change_at_a_boundary_for_the_whole_room(tmp_path: Path) -> None:
    room = Room(tmp_path, 3, rounds=12)
    values = room.policy.values
    wanted = [
        dataclasses.replace(values, precision="int8", local_steps=2, outer=Outer("nesterov")),
        dataclasses.replace(values, precision="f16", batch=8, lr=0.0005, outer=Outer("momentum")),
        dataclasses.replace(values, precision="f32", weighting="equal", rounds=9),
    ]
    for round_, each in zip((2, 4, 6), wanted, strict=True):
        room.run(lambda round_=round_: round_of(room) >= round_)
        room.trainings["m0"].change(all_of(each))
    room.run(room.all_ended)
    assert {round_of(room, name) for name in room.trainings} == {9}
    assert len(room.digests()) == 1
    for name, training in room.trainings.items():
        assert training.engine.room.values == wanted[-1]
        told = [said.text for said in room.said[name] if isinstance(said, Noted) and "on: " in said.text]
        assert len(told) == 3, told
        assert "precision int8" in told[0]
    assert not [said for each in room.said.values() for said in each if isinstance(said, NotChanged)]


def test_a_change_that_cannot_be_is_said_with_the_values_that_stay(tmp_path: Path) -> None:
    room = Room(tmp_path, 2, rounds=4)
    room.run(lambda: round_of(room, "m1") >= 1)
    room.trainings["m1"].change({"precision": "int8"})
    said = room.last("m1", NotChanged)
    assert isinstance(said, NotChanged)
    assert "m0 leads the rounds" in said.sentence
    assert said.values == room.policy.values
    room.run(room.all_ended)
    assert {t.engine.room.values for t in room.trainings.values()} == {room.policy.values}


# -- other tasks, the end ---------------------------------------------------------------------------------


class Arrays:
    """Samples from two arrays."""

    def __init__(self, x: np.ndarray, y: np.ndarray) -> None:
        self.x, self.y = x, y

    def __len__(self) -> int:
        return len(self.x)

    def batch(self, indices: np.ndarray | slice) -> tuple[np.ndarray, np.ndarray]:
        return self.x[indices].copy(), self.y[indices].copy()


class RoomOf(Room):
    """Two members with data of another kind, half of it each."""

    def __init__(self, folder: Path, spec: TaskSpec, x: np.ndarray, y: np.ndarray, **policy: object) -> None:
        self.x, self.y = x, y
        super().__init__(folder, 2, spec, **policy)

    def data(self, share: int) -> TaskData:
        part = Arrays(self.x[share - 1::self.shares], self.y[share - 1::self.shares])
        return TaskData(train=part, validation=part, test=part, title="", source="")


def test_a_number_is_learnt_and_judged_by_its_error(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(200, 2)).astype(np.float32)
    spec = TaskSpec(id="n", title="N", text="", form=Table(label="y", goal="number", columns=(
        Column(name="x", role="number"),)), model="mlp", widths=(16,), lr=0.02)
    room = RoomOf(tmp_path, spec, x, x @ np.array([2, -1], np.float32) + 1, local_steps=30, rounds=6)
    room.run(room.all_ended)
    for name, training in room.trainings.items():
        points = [point for said in room.said[name] if isinstance(said, Progress) for point in said.points]
        assert {point.accuracy for point in points} == {None}
        assert points[0].error > 1 > 0.5 > points[-1].error  # type: ignore[operator]
        final, committed = room.last(name, FinalModel), room.last(name, RoundCommitted)
        assert isinstance(final, FinalModel)
        assert isinstance(committed, RoundCommitted)
        assert final.test_accuracy is committed.accuracy is committed.room_accuracy is None
        answers = training.local.model(torch.from_numpy(training.local.data.test.x)).detach().numpy()  # type: ignore[attr-defined]
        expected = np.abs(answers - training.local.data.test.y).mean()  # type: ignore[attr-defined]
        assert final.test_figures["mae"] == pytest.approx(expected, rel=1e-4)
        assert final.test_figures["r2"] > 0.9
        assert load_model(Path(final.path))[0].test_figures == final.test_figures
    fifth = [[said for said in each if isinstance(said, RoundCommitted) and said.round == 5][-1]
             for each in room.said.values()]
    for said in fifth:
        assert said.room_figures["mae"] == pytest.approx(sum(each.figures["mae"] for each in fifth) / 2)


def test_text_is_learnt_and_judged_by_its_perplexity(tmp_path: Path) -> None:
    tokens = np.resize(np.frombuffer(b"the cat sat on the mat; ", np.uint8), 20 * 16 + 1).astype(np.int64)
    x, y = tokens[:-1].reshape(20, 16), tokens[1:].reshape(20, 16)
    spec = TaskSpec(id="t", title="T", text="", form=Text(block=16), model="gpt-nano", lr=3e-3, batch=4, clip=1.0)
    room = RoomOf(tmp_path, spec, x, y, rounds=2, local_steps=8)
    room.run(room.all_ended)
    first = next(said for said in room.said["m0"] if isinstance(said, Progress) and said.points).points[0]
    assert first.loss == pytest.approx(np.log(256), rel=0.02)
    committed, final = room.last("m0", RoundCommitted), room.last("m0", FinalModel)
    assert isinstance(committed, RoundCommitted)
    assert isinstance(final, FinalModel)
    assert committed.room_figures == {"perplexity": pytest.approx(np.exp(committed.room_loss))}
    assert final.test_figures["perplexity"] < 200  # 256 before
    assert final.test_accuracy is not None
    assert final.samples == ()


def test_a_room_that_learns_no_more_ends_early_for_all(tmp_path: Path) -> None:
    room = Room(tmp_path, 3, DIGITS.changed(patience=2, optimiser="sgd", weight_decay=0.0), rounds=50, lr=1e-30)
    room.run(room.all_ended)  # with such a rate no round is better than the first
    assert {round_of(room, name) for name in room.trainings} == {5}  # 3 is no better; 4 was under way
    assert len(room.digests()) == 1
    for name in room.trainings:
        final = room.last(name, FinalModel)
        assert isinstance(final, FinalModel)
        assert final.complete
        told = [said.text for said in room.said[name] if isinstance(said, Noted)]
        assert any(text.startswith("The room's validation loss has not become better for 2 rounds.") for text in told)
        assert any("Training ends early, after round 5." in text for text in told) == (name == "m0")
        assert "From round 5 on: rounds 5." in told


def test_without_patience_it_goes_on(tmp_path: Path) -> None:
    room = Room(tmp_path, 2, DIGITS.changed(optimiser="sgd", weight_decay=0.0), rounds=6, lr=1e-30)
    room.run(room.all_ended)
    assert {round_of(room, name) for name in room.trainings} == {6}


def test_without_a_validation_and_a_test_part_nothing_is_judged(tmp_path: Path) -> None:
    room = Room(tmp_path, 2, DIGITS.changed(validation=0.0, test=0.0, patience=1), rounds=4)
    room.run(room.all_ended)
    assert {round_of(room, name) for name in room.trainings} == {4}
    committed, final = room.last("m0", RoundCommitted), room.last("m0", FinalModel)
    assert isinstance(committed, RoundCommitted)
    assert isinstance(final, FinalModel)
    assert committed.loss is committed.accuracy is committed.room_loss is committed.room_accuracy is None
    assert (final.test_accuracy, final.test_samples, final.test_figures) == (None, 0, {})
    assert final.path


def test_a_model_that_does_not_fit_into_memory_ends_in_a_sentence(tmp_path: Path) -> None:
    room = Room(tmp_path, 1, rounds=3)
    room.run(lambda: round_of(room) >= 1)
    model = room.trainings["m0"].local.model
    ask = model.register_forward_pre_hook(lambda *_: torch.empty(2**60, dtype=torch.uint8) and None)
    room.run(lambda: any(isinstance(said, Failed) for said in room.said["m0"]))
    ask.remove()
    room.run(room.all_ended)
    failed, final = room.last("m0", Failed), room.last("m0", FinalModel)
    assert isinstance(failed, Failed)
    assert "Choose a smaller model" in failed.sentence
    assert isinstance(final, FinalModel)
    assert final.path  # the weights of the last finished round


def test_validation_takes_fewer_samples_at_a_time_where_memory_ends(tmp_path: Path) -> None:
    room = Room(tmp_path, 1, rounds=2)
    training = room.trainings["m0"]
    seen = []

    def ask(_: nn.Module, inputs: tuple[torch.Tensor]) -> None:
        if not training.local.model.training:
            seen.append(len(inputs[0]))
            if len(inputs[0]) > 5:
                torch.empty(2**60, dtype=torch.uint8)

    training.local.model.register_forward_pre_hook(ask)
    room.run(room.all_ended)
    assert not any(isinstance(said, Failed) for said in room.said["m0"])
    assert max(seen) > 5 >= seen[-1]
    committed = room.last("m0", RoundCommitted)
    assert isinstance(committed, RoundCommitted)
    assert committed.loss is not None


def test_with_a_bound_no_member_moves_the_room_further_in_a_round(tmp_path: Path) -> None:
    room = Room(tmp_path, 2, DIGITS.changed(privacy_clip=0.01), rounds=4)
    numbers, seen = room.trainings["m0"].numbers, {}

    def keep() -> bool:
        if len(set(numbers.versions)) == 1:
            seen.setdefault(numbers.versions[0], numbers.committed.clone())
        return room.all_ended()

    room.run(keep)
    moved = [(seen[round_] - seen[round_ - 1]).norm().item() for round_ in range(1, 5)]
    assert all(0.001 < each <= 0.01001 for each in moved)  # the members' updates point into different directions
    assert len(room.digests()) == 1


def test_with_noise_all_end_bit_identical(tmp_path: Path) -> None:
    room = Room(tmp_path, 3, DIGITS.changed(privacy_clip=1.0, privacy_noise=0.01), precision="int8")
    room.run(room.all_ended)
    assert len(room.digests()) == 1
    assert {round_of(room, name) for name in room.trainings} == {3}
    assert Noted(severity="info", text="What I learn in a round is brought down to a norm of 1 before it leaves, then "
                 "noise of 0.01 times that is added.") in room.said["m2"]
    assert not [said for each in room.said.values() for said in each
                if isinstance(said, Noted) and "differed" in said.text]
