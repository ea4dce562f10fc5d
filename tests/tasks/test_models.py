"""Models: shapes, counts by hand, weights from the seed, losses, and that the digits are learnt."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from desktop.errors import TaskError
from desktop.library.evaluate import Evaluation, evaluate, evaluate_all
from desktop.tasks import models
from desktop.tasks.builtin import DIGITS, IMAGES
from desktop.tasks.data import ArraySet, Batches, TaskData, load_sample
from desktop.tasks.spec import Table, TaskSpec, Text

PETS = IMAGES.with_classes(["cat", "dog"])
TEXT = TaskSpec(id="text", title="Text", text="", form=Text(), model="gpt-nano")


def table(**form: Any) -> TaskSpec:
    """A task for a table."""
    return TaskSpec(id="table", title="Table", text="", form=Table(label="it", **form), model="mlp")


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """The order of additions, and so the last bits, depend on the number of threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_parameters_of_the_digits_model_counted_by_hand() -> None:
    convolutions = (9 * 1 * 16 + 16) + (9 * 16 * 32 + 32)
    norms = 2 * 16 + 2 * 32
    linear = (32 * 4 * 4 * 64 + 64) + (64 * 10 + 10)
    assert models.parameter_count(models.build_model(DIGITS, 0)) == convolutions + norms + linear == 38_378


def test_parameters_of_the_model_for_pictures_counted_by_hand() -> None:
    convolutions = (9 * 3 * 24 + 24) + (9 * 24 * 48 + 48) + (9 * 48 * 64 + 64) + (9 * 64 * 96 + 96)
    norms = 2 * (24 + 48 + 64 + 96)
    assert models.parameter_count(models.build_model(PETS, 0)) == convolutions + norms + (96 * 2 + 2) == 94_850


@pytest.mark.parametrize("spec", [DIGITS, DIGITS.changed(height=9, width=12), PETS, PETS.changed(height=8, width=8),
                                  PETS.changed(height=33, width=70, channels=1)],
                         ids=lambda spec: f"{spec.images.height}")
def test_any_size_gives_a_number_per_class(spec: TaskSpec) -> None:
    x = torch.zeros(2, spec.images.channels, spec.images.height, spec.images.width)
    assert models.build_model(spec, 0)(x).shape == (2, len(spec.classes))


def test_weights_follow_from_the_seed_alone() -> None:
    torch.manual_seed(1)
    first = models.build_model(DIGITS, 7).state_dict()
    torch.manual_seed(2)
    again, other = models.build_model(DIGITS, 7).state_dict(), models.build_model(DIGITS, 8).state_dict()
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["0.weight"], other["0.weight"])


def test_building_does_not_disturb_the_global_generator() -> None:
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    models.build_model(DIGITS, 0)
    assert torch.equal(torch.rand(4), expected)


def test_shapes_are_those_of_the_model() -> None:
    model = models.build_model(PETS, 0)
    assert models.weight_shapes(PETS) == {name: tuple(value.shape) for name, value in model.state_dict().items()}
    assert {value.dtype for value in model.state_dict().values()} == {torch.float32}


def test_no_model_without_classes() -> None:
    with pytest.raises(TaskError, match="classes are not fixed"):
        models.build_model(IMAGES, 0)


@pytest.mark.parametrize(("name", "kind"), [("adamw", torch.optim.AdamW), ("adam", torch.optim.Adam),
                                            ("sgd", torch.optim.SGD)])
def test_optimisers(name: str, kind: type[torch.optim.Optimizer]) -> None:
    parameters = list(models.build_model(DIGITS, 0).parameters())
    optimiser = models.build_optimiser(DIGITS.changed(optimiser=name), parameters)
    assert type(optimiser) is kind
    assert optimiser.param_groups[0]["lr"] == 1e-3
    assert models.build_optimiser(DIGITS, parameters, lr=0.5).param_groups[0]["lr"] == 0.5


def test_loss_is_the_mean_cross_entropy() -> None:
    logits = torch.tensor([[0.0, math.log(3)], [math.log(3), 0.0]], requires_grad=True)
    loss, correct = models.loss_and_correct(PETS, logits, torch.tensor([1, 1]))
    assert loss.item() == pytest.approx((math.log(4 / 3) + math.log(4)) / 2, rel=1e-6)
    assert correct.item() == 1


def test_loss_of_a_table_with_one_logit_is_that_of_two() -> None:
    spec = table(classes=("no", "yes"))
    logit, y = torch.tensor([-2.0, 0.5, 3.0]), torch.tensor([0, 0, 1])
    expected = (math.log(1 + math.exp(-2)) + math.log(1 + math.exp(0.5)) + math.log(1 + math.exp(-3))) / 3
    loss, correct = models.loss_and_correct(spec, logit, y)
    assert loss.item() == pytest.approx(expected, rel=1e-6)
    assert correct.item() == 2
    two = torch.stack((torch.zeros(3), logit), dim=1)  # a class's logit against 0
    assert models.loss_and_correct(spec, two, y)[0].item() == pytest.approx(expected, rel=1e-6)
    assert torch.allclose(models.probabilities(logit), models.probabilities(two))


def test_loss_of_a_number_is_the_squared_error() -> None:
    loss, correct = models.loss_and_correct(table(goal="number"), torch.tensor([1.0, 4.0]), torch.tensor([1.5, 2.0]))
    assert loss.item() == pytest.approx((0.25 + 4) / 2)
    assert correct.item() == 0


def test_loss_of_text_is_the_mean_over_its_tokens() -> None:
    outputs = torch.zeros(2, 3, 256, dtype=torch.bfloat16)
    outputs[0, 1, 7] = 100
    y = torch.tensor([[1, 7, 2], [3, 4, 5]])
    loss, correct = models.loss_and_correct(TEXT, outputs, y)
    assert loss.item() == pytest.approx(5 / 6 * math.log(256), rel=1e-6)
    assert correct.item() == 1


@pytest.fixture(scope="module")
def data() -> TaskData:
    return load_sample(DIGITS)


@pytest.mark.parametrize("seed", range(5))
def test_an_untrained_model_takes_all_classes_for_equally_likely(data: TaskData, seed: int) -> None:
    model = models.build_model(DIGITS, seed)
    x, y = models.tensors(data.train, slice(0, 200))
    assert models.loss_and_correct(DIGITS, model(x), y)[0].item() == pytest.approx(math.log(10), rel=0.02)
    for part in (data.train, data.validation, data.test):
        assert evaluate_all(model, DIGITS, part).loss == pytest.approx(math.log(10), rel=0.02)


def test_training_and_validation_loss_are_computed_alike(data: TaskData) -> None:
    model = models.build_model(DIGITS, 0)
    x, y = models.tensors(data.train, slice(0, len(data.train)))
    loss, correct = models.loss_and_correct(DIGITS, model(x), y)
    for batch in (7, 256, 5000):
        found = evaluate_all(model, DIGITS, data.train, batch)
        assert found.loss == pytest.approx(loss.item(), rel=1e-5)
        assert found.accuracy == pytest.approx(int(correct) / len(data.train))
        assert found.n == len(data.train)


def test_evaluation_in_slices_leaves_training_as_it_was(data: TaskData) -> None:
    model = models.build_model(DIGITS, 0)
    slices = evaluate(model, DIGITS, data.test, batch=100)
    assert next(slices) == 100
    assert model.training
    assert torch.is_grad_enabled()
    assert list(slices) == [200, 270]
    model.eval()
    next(evaluate(model, DIGITS, data.test))
    assert not model.training


def test_evaluation_of_nothing(data: TaskData) -> None:
    nothing = ArraySet(data.test.pixels[:0], data.test.labels[:0], data.test.scale)
    assert evaluate_all(models.build_model(DIGITS, 0), DIGITS, nothing) == Evaluation(None, None, 0)


def test_the_digits_are_learnt_alone(data: TaskData) -> None:
    model = models.build_model(DIGITS, DIGITS.seed)
    optimiser = models.build_optimiser(DIGITS, model.parameters())
    batches = Batches(len(data.train), DIGITS.batch, seed=1)
    for _ in range(240):  # 12 rounds of 20 local steps
        x, y = models.tensors(data.train, next(batches))
        loss, _ = models.loss_and_correct(DIGITS, model(x), y)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    found = evaluate_all(model, DIGITS, data.test)
    assert found.accuracy is not None
    assert found.accuracy >= 0.95


def test_pictures_are_learnt() -> None:
    """Stripes that stand and stripes that lie, of any colour: 64 × 64."""
    rng = np.random.default_rng(0)
    labels = np.arange(64) % 2
    pixels = rng.integers(0, 256, (64, 3, 64, 64), dtype=np.uint8) // 4
    for picture, label in zip(pixels, labels, strict=True):
        striped = picture if label else picture.transpose(0, 2, 1)
        striped[rng.integers(3), rng.integers(6)::6] += 128
    samples = ArraySet(pixels, labels.astype(np.int64), 1 / 255)
    model = models.build_model(PETS, 1)
    optimiser = models.build_optimiser(PETS, model.parameters())
    batches = Batches(48, 16, seed=1)
    for _ in range(30):
        x, y = models.tensors(samples, next(batches))
        loss, _ = models.loss_and_correct(PETS, model(x), y)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert evaluate_all(model, PETS, samples.only(np.arange(48, 64))).accuracy == 1.0
