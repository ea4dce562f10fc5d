"""Local steps on a model whose weights are views of one vector: the same as without it."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

from desktop.bridge.lifecycle import Point
from desktop.tasks import models
from desktop.tasks.builtin import DIGITS
from desktop.tasks.data import Batches, load_sample
from desktop.trainer.loop import LocalTraining, backends, flatten, pick_device


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
