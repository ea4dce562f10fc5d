"""How good a model is on data that it does not train on, found out in slices."""

from __future__ import annotations

import math
from collections.abc import Generator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from torch import nn

    from desktop.tasks.forward import Passed
    from desktop.tasks.samples import Samples
    from desktop.tasks.spec import TaskSpec


BATCH = 64  # small enough that freeing a layer's output does not hold the interpreter lock for long


class Evaluation(NamedTuple):
    """Mean loss and share of right answers (0..1) over `n` samples; None when there are none, or it has no meaning.

    `figures` are those that fit the task, each left out where it is not defined:

    classes     "f1": mean of the classes' F1, 0..1; for two classes "auc", 0..1
    a number    "mae": mean absolute error, "r2": coefficient of determination, 1 or less
    text        none: the loss in nats per token says it all; see `perplexity`
    """

    loss: float | None
    accuracy: float | None
    n: int
    figures: dict[str, float] = {}  # noqa: RUF012 - never changed


def evaluate(model: nn.Module, spec: TaskSpec, samples: Samples, batch: int = BATCH
             ) -> Generator[int, None, Evaluation]:
    """Goes through `samples` in batches, yields how many are done after each, returns an Evaluation.

    The model is in eval mode, and gradients off, only within a slice: between two of them the caller may train,
    or drop the generator. Outputs are not kept, but for 5 bytes a sample where there are two classes.
    """
    n, loss, score, answers = len(samples), 0.0, 0.0, 0
    tally = _tally(spec)
    for start in range(0, n, batch):
        end = min(start + batch, n)
        passed = _slice(model, spec, samples, slice(start, end))
        loss += float(passed.loss) * (end - start)
        score += passed.score
        answers += passed.answers
        if tally:
            tally.add(passed.outputs.float().cpu().numpy(), passed.y.cpu().numpy())
        yield end
    if not n:
        return Evaluation(None, None, 0)
    accuracy = None if isinstance(tally, NumberTally) else score / answers
    figures = tally.figures() if tally else {}
    return Evaluation(loss / n, accuracy, n, {name: value for name, value in figures.items() if math.isfinite(value)})


def _slice(model: nn.Module, spec: TaskSpec, samples: Samples, which: slice) -> Passed:
    """One batch, as training does it."""
    import torch

    from desktop.tasks.forward import forward

    training = model.training
    model.eval()
    try:
        with torch.no_grad():
            return forward(spec, model, samples, which)
    finally:
        model.train(training)


def evaluate_all(model: nn.Module, spec: TaskSpec, samples: Samples, batch: int = BATCH) -> Evaluation:
    """The same in one go."""
    slices = evaluate(model, spec, samples, batch)
    while True:
        try:
            next(slices)
        except StopIteration as end:
            result: Evaluation = end.value
            return result


def perplexity(loss: float) -> float:
    """As hard to guess as one of so many equally likely tokens: e to the loss in nats per token; at most e to 700."""
    return math.exp(min(loss, 700.0))


# -- figures ------------------------------------------------------------------------------------------


def _tally(spec: TaskSpec) -> ClassTally | NumberTally | None:
    from desktop.tasks.forward import predicts_number

    if predicts_number(spec):
        return NumberTally()
    return ClassTally(len(spec.classes)) if spec.classes else None


class ClassTally:
    """Counts of how classes were taken for each other; of two classes also how sure the model was."""

    def __init__(self, classes: int) -> None:
        self._counts = np.zeros((classes, classes), np.int64)  # [truth, answer]
        self._scores: list[npt.NDArray[np.float32]] = []
        self._second: list[npt.NDArray[np.bool_]] = []

    def add(self, outputs: npt.NDArray[np.float32], y: npt.NDArray[np.int64]) -> None:
        """Outputs [n, classes], or [n] for the second of two, with the classes y [n]."""
        if len(self._counts) == 2:
            outputs = outputs[:, 1] - outputs[:, 0] if outputs.ndim == 2 else outputs
            self._scores.append(outputs)
            self._second.append(y == 1)
        answers = np.argmax(outputs, axis=1) if outputs.ndim == 2 else (outputs > 0).astype(np.int64)
        np.add.at(self._counts, (y, answers), 1)

    def figures(self) -> dict[str, float]:
        """See Evaluation."""
        found = {"f1": macro_f1(self._counts)}
        if self._scores:
            area = auc(np.concatenate(self._scores), np.concatenate(self._second))
            if area is not None:
                found["auc"] = area
        return found


def macro_f1(counts: npt.NDArray[np.int64]) -> float:
    """Mean F1 of the classes that occur among truths or answers; `counts` [truth, answer].

    F1 of a class = 2 right / (how often it is true + how often it is answered).
    """
    right, occurs = np.diag(counts), counts.sum(axis=0) + counts.sum(axis=1)
    return float(np.mean(2 * right[occurs > 0] / occurs[occurs > 0]))


def auc(scores: npt.NDArray[np.float32], positive: npt.NDArray[np.bool_]) -> float | None:
    """How likely a positive sample scores above a negative one, ties counting half; None without one of them.

    From the rank sum of the positives (Mann and Whitney 1947).
    """
    positives = int(positive.sum())
    negatives = len(positive) - positives
    if not positives or not negatives or not np.isfinite(scores).all():
        return None
    _, place, count = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(count) - (count - 1) / 2)[place]  # of equal ones their mean
    return float((ranks[positive].sum() - positives * (positives + 1) / 2) / (positives * negatives))


class NumberTally:
    """Sums of errors, and of the truth's spread by the method of Chan et al. 1983, which does not cancel out."""

    def __init__(self) -> None:
        self._n = 0
        self._mean = self._spread = self._absolute = self._squared = 0.0

    def add(self, outputs: npt.NDArray[np.float32], y: npt.NDArray[np.float32]) -> None:
        """Outputs and truth, [n] each."""
        truth = y.astype(np.float64)
        errors = outputs.astype(np.float64) - truth
        self._absolute += float(np.abs(errors).sum())
        self._squared += float((errors**2).sum())
        n, mean, whole = len(truth), float(truth.mean()), self._n + len(truth)
        apart = mean - self._mean
        self._spread += float(((truth - mean) ** 2).sum()) + apart**2 * self._n * n / whole
        self._mean += apart * n / whole
        self._n = whole

    def figures(self) -> dict[str, float]:
        """See Evaluation."""
        found = {"mae": self._absolute / self._n}
        if self._spread > 0:
            found["r2"] = 1 - self._squared / self._spread
        return found
