"""Figures of a model on data it does not train on, against scikit-learn's."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest
import torch
from sklearn import metrics
from torch import nn

from desktop.library.evaluate import ClassTally, NumberTally, auc, evaluate, evaluate_all, macro_f1, perplexity
from desktop.tasks import models
from desktop.tasks.builtin import DIGITS, IMAGES
from desktop.tasks.data import ArraySet, load_sample
from desktop.tasks.forward import forward, mixed_precision
from desktop.tasks.spec import Table, TaskSpec, Text


class Given:
    """Samples whose outputs are given: what the model reads is the sample's number."""

    def __init__(self, y: np.ndarray) -> None:
        self.y = y

    def __len__(self) -> int:
        return len(self.y)

    def batch(self, indices: np.ndarray | slice) -> tuple[np.ndarray, np.ndarray]:
        return np.arange(len(self.y))[indices], self.y[indices]


class Look(nn.Module):
    """Gives the outputs that belong to the samples' numbers."""

    def __init__(self, outputs: np.ndarray) -> None:
        super().__init__()
        self.outputs = nn.Parameter(torch.from_numpy(outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.outputs[x]


def table(**form: object) -> TaskSpec:
    return TaskSpec(id="t", title="T", text="", form=Table(label="y", **form), model="mlp")  # type: ignore[arg-type]


@pytest.mark.parametrize("classes", [2, 3, 10])
@pytest.mark.parametrize("batch", [7, 64, 1000])
def test_classes(classes: int, batch: int) -> None:
    rng = np.random.default_rng(classes)
    y = rng.integers(0, classes, 500)
    outputs = (rng.normal(size=(500, classes)) + 1.2 * np.eye(classes)[y]).astype(np.float32)
    spec = IMAGES.with_classes(map(str, range(classes)))
    found = evaluate_all(Look(outputs), spec, Given(y), batch)
    answers = outputs.argmax(axis=1)
    assert found.n == 500
    assert found.loss == pytest.approx(metrics.log_loss(y, np.exp(outputs) / np.exp(outputs).sum(1, keepdims=True)))
    assert found.accuracy == pytest.approx(metrics.accuracy_score(y, answers))
    assert found.figures["f1"] == pytest.approx(metrics.f1_score(y, answers, average="macro"))
    if classes == 2:
        assert found.figures["auc"] == pytest.approx(metrics.roc_auc_score(y, outputs[:, 1] - outputs[:, 0]))
    else:
        assert "auc" not in found.figures


def test_two_classes_from_one_output() -> None:
    rng = np.random.default_rng(1)
    y = rng.integers(0, 2, 300)
    outputs = (rng.normal(size=300) + y).round(1).astype(np.float32)  # with many ties
    tally = ClassTally(2)
    for part in (slice(0, 100), slice(100, 300)):
        tally.add(outputs[part], y[part])
    assert tally.figures() == pytest.approx({"f1": metrics.f1_score(y, outputs > 0, average="macro"),
                                             "auc": metrics.roc_auc_score(y, outputs)})


def test_classes_that_do_not_occur_do_not_count() -> None:
    y, answers = np.array([0, 0, 3, 3]), np.array([0, 3, 3, 3])
    counts = np.zeros((5, 5), np.int64)
    np.add.at(counts, (y, answers), 1)
    assert macro_f1(counts) == pytest.approx(metrics.f1_score(y, answers, average="macro"))


def test_an_area_needs_both_classes_and_numbers() -> None:
    assert auc(np.array([0.1, 0.9], np.float32), np.array([True, True])) is None
    assert auc(np.array([0.1, math.nan], np.float32), np.array([True, False])) is None
    assert auc(np.array([0.5, 0.5, 0.5], np.float32), np.array([True, False, False])) == 0.5


def test_a_number_far_from_zero() -> None:
    """Its spread must not be lost beside its size."""
    rng = np.random.default_rng(2)
    y = (1e6 + rng.normal(size=400)).astype(np.float32)
    outputs = (y + rng.normal(scale=0.5, size=400)).astype(np.float32)
    tally = NumberTally()
    for start in range(0, 400, 30):
        tally.add(outputs[start:start + 30], y[start:start + 30])
    truth, said = y.astype(np.float64), outputs.astype(np.float64)
    assert tally.figures() == pytest.approx({"mae": metrics.mean_absolute_error(truth, said),
                                             "r2": metrics.r2_score(truth, said)}, rel=1e-9)


def test_a_table_with_two_classes() -> None:
    """Its model has one output: the logit of the second class."""
    rng = np.random.default_rng(3)
    y = rng.integers(0, 2, 200)
    outputs = (rng.normal(size=200) + y).astype(np.float32)
    found = evaluate_all(Look(outputs), table(classes=("no", "yes")), Given(y), batch=33)
    assert found.loss == pytest.approx(metrics.log_loss(y, 1 / (1 + np.exp(-outputs.astype(np.float64)))), rel=1e-5)
    assert found.accuracy == pytest.approx(metrics.accuracy_score(y, outputs > 0))
    assert found.figures["auc"] == pytest.approx(metrics.roc_auc_score(y, outputs))


def test_a_table_with_a_number() -> None:
    rng = np.random.default_rng(4)
    y = rng.normal(size=200).astype(np.float32)
    outputs = (y + rng.normal(scale=0.3, size=200)).astype(np.float32)
    found = evaluate_all(Look(outputs), table(goal="number"), Given(y), batch=33)
    assert found.loss == pytest.approx(metrics.mean_squared_error(y, outputs), rel=1e-5)
    assert found.accuracy is None  # nothing is right or wrong
    assert found.figures == pytest.approx({"mae": metrics.mean_absolute_error(y, outputs),
                                           "r2": metrics.r2_score(y, outputs)}, rel=1e-5)


def test_text_counts_tokens() -> None:
    rng = np.random.default_rng(5)
    y = rng.integers(0, 256, (20, 8))
    outputs = (rng.normal(size=(20, 8, 256)) + 4 * np.eye(256)[y]).astype(np.float32)
    spec = TaskSpec(id="t", title="T", text="", form=Text(block=8), model="gpt-nano")
    found = evaluate_all(Look(outputs), spec, Given(y), batch=3)
    assert found.loss is not None
    assert found.loss == pytest.approx(torch.nn.functional.cross_entropy(
        torch.from_numpy(outputs).reshape(-1, 256), torch.from_numpy(y).reshape(-1)).item(), rel=1e-5)
    assert found.accuracy == pytest.approx(metrics.accuracy_score(y.ravel(), outputs.argmax(2).ravel()))
    assert (found.n, found.figures) == (20, {})


def test_a_number_that_is_always_the_same_has_no_r2() -> None:
    tally = NumberTally()
    tally.add(np.array([1.0, 3.0], np.float32), np.array([2.0, 2.0], np.float32))
    assert tally.figures() == {"mae": 1.0}


def test_outputs_that_are_no_numbers_have_no_figures() -> None:
    outputs = np.full(4, np.nan, np.float32)
    assert evaluate_all(Look(outputs), table(goal="number"), Given(np.arange(4, dtype=np.float32))).figures == {}


def test_perplexity() -> None:
    assert perplexity(math.log(256)) == pytest.approx(256)
    assert math.isfinite(perplexity(1e9))


def test_training_and_validation_loss_are_computed_alike() -> None:
    data = load_sample(DIGITS)
    model = models.build_model(DIGITS, 0)
    n = len(data.validation)
    training = forward(DIGITS, model.train(), data.validation, slice(0, n)).loss.item()
    found = evaluate_all(model, DIGITS, data.validation, batch=50)
    assert found.loss == pytest.approx(training, rel=1e-5)
    assert training == pytest.approx(math.log(10), rel=0.02)  # untrained: all ten classes are equally likely


def test_outputs_are_not_kept() -> None:
    n, classes = 20_000, 10
    spec = IMAGES.with_classes(map(str, range(classes)))
    model = nn.Linear(8, classes)
    samples = ArraySet(np.zeros((n, 8), np.uint8), np.zeros(n, np.int64), 1.0)
    slices = evaluate(model, spec, samples, batch=500)
    next(slices)
    tracemalloc.start()
    for _ in slices:
        pass
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < n * classes * 4 / 4


def test_on_the_cpu_nothing_is_rounded() -> None:
    with mixed_precision(torch.device("cpu")):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.float32
