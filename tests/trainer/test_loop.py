"""Local steps on a model whose weights are views of one vector, in pieces or whole: the same as without it."""

from __future__ import annotations

import copy
import re
import sys
from pathlib import Path

import msgspec
import numpy as np
import pytest
import torch
from torch import nn

from desktop.bridge.lifecycle import Point
from desktop.errors import MemoryShortError
from desktop.tasks import models
from desktop.tasks.builtin import DIGITS, IMAGES
from desktop.tasks.data import ArraySet, Batches, TaskData, load_sample
from desktop.tasks.samples import Samples
from desktop.trainer import memory
from desktop.trainer.loop import LocalTraining, backends, flatten, memory_ran_out, pick_device


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


def local(**changes: object) -> LocalTraining:
    spec = DIGITS.changed(**changes)
    return LocalTraining(spec, load_sample(spec), "cpu", seed=5)


def a_step(training: LocalTraining) -> Point:
    """All pieces of one batch."""
    while (point := training.step()) is None:
        pass
    return point


def test_the_parameters_become_views_of_one_vector_with_the_same_numbers() -> None:
    model = models.build_model(DIGITS, 1)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    flat = flatten(model)
    assert flat.shape == (38_378,)
    at = 0
    for parameter, old in zip(model.parameters(), before, strict=True):
        assert torch.equal(parameter, old)
        assert parameter.data_ptr() == flat[at:].data_ptr()
        at += parameter.numel()
    assert at == len(flat)


def test_what_is_written_into_the_vector_the_model_has() -> None:
    model = models.build_model(DIGITS, 1)
    flat = flatten(model)
    flat.zero_()
    assert not any(bool(parameter.any()) for parameter in model.parameters())


@pytest.mark.parametrize("optimiser", ["adamw", "adam", "sgd"])
def test_steps_are_those_of_the_same_model_that_was_not_flattened(optimiser: str) -> None:
    training = local(optimiser=optimiser, lr=0.01, batch=16, weight_decay=0.1)
    plain = copy.deepcopy(models.build_model(training.spec, training.spec.seed))
    steps = models.build_optimiser(training.spec, plain.parameters())
    batches = Batches(len(training.data.train), 16, 5)
    training.begin(4, batch=16, lr=0.01)
    for _ in range(4):
        a_step(training)
        x, y = training.data.train.batch(next(batches))
        steps.zero_grad()
        torch.nn.functional.cross_entropy(plain(torch.from_numpy(x)), torch.from_numpy(y)).backward()
        steps.step()
    expected = torch.cat([parameter.detach().reshape(-1) for parameter in plain.parameters()])
    np.testing.assert_allclose(training.flat.numpy(), expected.numpy(), rtol=1e-4, atol=1e-5)


def test_the_optimiser_moves_the_vector() -> None:
    training = local()
    before = training.flat.clone()
    training.begin(1, batch=32, lr=0.001)
    a_step(training)
    assert not torch.equal(training.flat, before)


def test_a_point_tells_loss_and_accuracy_of_its_batch() -> None:
    training = local()
    training.begin(1, batch=32, lr=0.001)
    point = a_step(training)
    assert point.step == 1
    assert point.loss == pytest.approx(np.log(10), abs=0.2)  # untrained: all ten classes are equally likely
    assert point.accuracy is not None
    assert 0 <= point.accuracy <= 1
    assert (point.accuracy * 32) % 1 == pytest.approx(0)


def test_it_learns() -> None:
    training = local()
    training.begin(60, batch=32, lr=0.003)
    points = [a_step(training) for _ in range(60)]
    assert points[-1].loss < points[0].loss / 2


def test_steps_and_samples_are_counted() -> None:
    training = local()
    assert not training.running
    training.begin(3, batch=16, lr=0.001)
    for left in (2, 1, 0):
        a_step(training)
        assert training.left == left
    assert (training.running, training.samples, training.step_number) == (False, 48, 3)
    training.begin(5, batch=8, lr=0.001)
    a_step(training)
    training.cancel()
    assert (training.running, training.samples, training.step_number) == (False, 8, 4)


def test_batch_and_learning_rate_can_change_between_rounds() -> None:
    training = local()
    training.begin(1, batch=10_000_000, lr=0.5)
    assert training.batches.batch == len(training.data.train)
    a_step(training)
    assert [group["lr"] for group in training.optimiser.param_groups] == [0.5]


def test_weights_that_are_not_finite_count_for_nothing() -> None:
    training = local()
    training.begin(1, batch=32, lr=0.001)
    a_step(training)
    assert training.samples == 32
    training.flat[17] = float("nan")
    assert training.samples == 0


def test_after_a_divergence_the_optimiser_starts_anew() -> None:
    training = local()
    training.begin(2, batch=32, lr=0.001)
    a_step(training)
    assert training.optimiser.state
    training.forget_momentum()
    assert not training.optimiser.state
    a_step(training)
    assert training.optimiser.state


def test_members_start_from_the_same_weights_and_draw_other_batches() -> None:
    spec = DIGITS
    data = load_sample(spec)
    one, other = LocalTraining(spec, data, "cpu", seed=1), LocalTraining(spec, data, "cpu", seed=2)
    assert torch.equal(one.flat, other.flat)
    assert not np.array_equal(next(one.batches), next(other.batches))


def test_devices() -> None:
    assert backends()[0] == "cpu"
    assert pick_device("cpu").type == "cpu"
    assert pick_device("auto").type == backends()[-1]
    with pytest.raises(ValueError, match=r"this computer has no quantum; it has cpu"):
        pick_device("quantum")


def test_gradients_are_not_kept_after_a_step() -> None:
    training = local()
    training.begin(1, batch=16, lr=0.01)
    a_step(training)
    assert all(parameter.grad is None for parameter in training.model.parameters())


def test_what_is_given_back_holds_no_memory() -> None:
    training = local()
    training.begin(1, batch=16, lr=0.01)
    a_step(training)
    states = [value for state in training.optimiser.state.values() for value in state.values()]
    training.free()
    left = [*training.model.parameters(), training.flat, *states]
    assert len(states) == 3 * len(list(training.model.parameters()))
    assert sum(tensor.untyped_storage().nbytes() for tensor in left) == 0


# -- the learning rate ----------------------------------------------------------------------------------


def test_the_schedule_runs_over_all_rounds_and_multiplies_what_the_room_sets() -> None:
    training = local(schedule="cosine", warmup_steps=2)
    rates = []
    for round_, lr in ((1, 0.01), (2, 0.01), (3, 0.1)):  # the leader changes the rate after two rounds
        training.begin(2, batch=8, lr=lr, before=2 * (round_ - 1), whole=6)
        for _ in range(2):
            a_step(training)
            rates.append(training.optimiser.param_groups[0]["lr"])
    # Two steps of warm-up, then half a wave over four steps: 1, (2 + √2) / 4, 1/2, (2 - √2) / 4.
    assert rates == pytest.approx([0.005, 0.01, 0.01, 0.00853553, 0.05, 0.0146447], rel=1e-5)


def test_who_joins_late_is_where_the_others_are() -> None:
    training = local(schedule="cosine")
    training.begin(5, batch=8, lr=1.0, before=10, whole=20)
    a_step(training)
    assert training.optimiser.param_groups[0]["lr"] == pytest.approx(0.5)  # step 10 of 20


def test_clipping_bounds_the_gradient() -> None:
    training = local(optimiser="sgd", weight_decay=0.0, clip=0.25)
    before = training.flat.clone()
    training.begin(1, batch=32, lr=1.0)
    a_step(training)
    assert torch.linalg.vector_norm(training.flat - before).item() == pytest.approx(0.25, rel=1e-4)


def test_a_small_gradient_is_not_clipped() -> None:
    one, other = local(optimiser="sgd", clip=1e6), local(optimiser="sgd")
    for training in (one, other):
        training.begin(1, batch=32, lr=0.01)
        a_step(training)
    assert torch.equal(one.flat, other.flat)


# -- large batches --------------------------------------------------------------------------------------


class Hungry(nn.Module):
    """Asks the real allocator for more than there is when it gets more than `most` samples."""

    def __init__(self, model: nn.Module, most: int) -> None:
        super().__init__()
        self.model, self.most, self.seen = model, most, list[int]()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen.append(len(x))
        if len(x) > self.most:
            torch.empty(2**60, dtype=torch.uint8)
        return self.model(x)


def test_a_batch_in_pieces_gives_the_step_of_the_whole_batch() -> None:
    whole, pieces = (local(optimiser="sgd", clip=0.5) for _ in range(2))
    whole._pace = 1e-9
    pieces.model = hungry = Hungry(pieces.model, most=3)
    points = []
    for training in (whole, pieces):
        training.begin(3, batch=50, lr=0.5)
        points.append([a_step(training) for _ in range(3)])
    assert hungry.seen[:5] == [8, 4, 2, 2, 2]  # what does not fit is halved, and the batch begins anew
    assert max(hungry.seen[2:]) == 2
    np.testing.assert_allclose(pieces.flat.numpy(), whole.flat.numpy(), rtol=1e-4, atol=1e-6)
    for one, other in zip(*points, strict=True):
        assert one.loss == pytest.approx(other.loss, rel=1e-5)
        assert (one.step, one.accuracy) == (other.step, other.accuracy)
    assert pieces.samples == whole.samples == 150


class Ahead:
    """Samples that say what they were told to read ahead."""

    def __init__(self, samples: Samples) -> None:
        self.samples, self.told = samples, list[list[int]]()

    def __len__(self) -> int:
        return len(self.samples)

    def batch(self, indices: np.ndarray | slice) -> tuple[np.ndarray, np.ndarray]:
        return self.samples.batch(indices)

    def ahead(self, indices: np.ndarray) -> None:
        self.told.append(indices.tolist())


def test_the_next_piece_is_read_ahead_and_after_the_last_one_the_next_batch() -> None:
    few = load_sample(DIGITS)
    training = LocalTraining(DIGITS, msgspec.structs.replace(few, train=(ahead := Ahead(few.train))), "cpu", seed=5)
    training._fits = 4
    training.begin(2, batch=10, lr=0.01)
    a_step(training)
    first, second = (next(batches) for batches in [Batches(len(few.train), 10, 5)] for _ in range(2))
    assert ahead.told == [first[4:8].tolist(), first[8:].tolist(), second.tolist()]


def test_memory_that_runs_out_in_the_middle_of_a_batch_leaves_no_half_gradient() -> None:
    whole, pieces = (local(optimiser="sgd") for _ in range(2))
    whole._pace = 1e-9
    pieces.model = hungry = Hungry(pieces.model, most=8)
    for training in (whole, pieces):
        training.begin(1, batch=32, lr=0.5)
    assert pieces.step() is None  # 8 of 32
    hungry.most = 5
    a_step(pieces)
    a_step(whole)
    np.testing.assert_allclose(pieces.flat.numpy(), whole.flat.numpy(), rtol=1e-4, atol=1e-6)


def test_a_single_sample_that_does_not_fit_is_told_in_words() -> None:
    training = local()
    training.model = Hungry(training.model, most=0)
    training.begin(1, batch=4, lr=0.01)
    with pytest.raises(MemoryShortError, match=r"memory does not hold the model digits-cnn \(38,378 weights\)"):
        a_step(training)


def test_other_errors_are_not_taken_for_a_lack_of_memory() -> None:
    training = local()
    training.model = nn.Sequential(nn.Flatten(), nn.Linear(63, 10))
    training.begin(1, batch=4, lr=0.01)
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        a_step(training)


@pytest.mark.parametrize("error", [torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
                                   RuntimeError("MPS backend out of memory (MPS allocated: 9.07 GB)"), MemoryError()])
def test_what_other_allocators_say(error: BaseException) -> None:
    assert memory_ran_out(error)


def test_a_batch_of_65536_is_done_in_pieces_that_take_no_longer_than_a_person_waits() -> None:
    spec = DIGITS
    few = load_sample(spec)
    many = few.train.only(np.resize(np.arange(len(few.train)), 65_536))
    training = LocalTraining(spec, msgspec.structs.replace(few, train=many), "cpu", seed=5)
    training.begin(1, batch=65_536, lr=0.01)
    pieces = 0
    while training.step() is None and pieces < 8:
        pieces += 1
    assert pieces == 8  # it was not done at once
    assert training._batch is not None
    assert 8 < training.piece < 65_536  # as many as are done in half a second
    training.cancel()  # a stop in the middle
    assert (training.running, training.samples, training.step_number) == (False, 0, 0)
    assert all(parameter.grad is None for parameter in training.model.parameters())


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux bounds the memory of a process")
def test_the_memory_of_a_process_really_runs_out() -> None:
    import resource

    spec = IMAGES.changed(classes=["a", "b"], height=256, width=256, optimiser="sgd")
    pixels = np.random.default_rng(0).integers(0, 255, (16, 3, 256, 256)).astype(np.uint8)
    samples = ArraySet(pixels, np.arange(16) % 2, 1 / 255)
    data = TaskData(train=samples, validation=samples, test=samples, title="", source="")
    free, bound = (LocalTraining(spec, data, "cpu", seed=5) for _ in range(2))
    bound.begin(1, batch=16, lr=0.1)
    memory.trim()
    in_use = int(re.search(r"VmSize:\s+(\d+)", Path("/proc/self/status").read_text())[1]) * 1024  # type: ignore[index]
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (in_use + 200 * 1024 * 1024, before[1]))
    try:
        a_step(bound)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
    assert bound.piece < 8
    free.begin(1, batch=16, lr=0.1)
    a_step(free)
    np.testing.assert_allclose(bound.flat.numpy(), free.flat.numpy(), rtol=1e-4, atol=1e-6)
