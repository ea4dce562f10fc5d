"""How good a model is on data that it does not train on, found out in slices."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from torch import nn

    from desktop.tasks.samples import Samples
    from desktop.tasks.spec import TaskSpec


BATCH = 64  # small enough that freeing a layer's output does not hold the interpreter lock for long


class Evaluation(NamedTuple):
    """Mean loss (nats) and share of right answers (0..1) over `n` samples; None when there are none."""

    loss: float | None
    accuracy: float | None
    n: int


def evaluate(model: nn.Module, spec: TaskSpec, samples: Samples, batch: int = BATCH
             ) -> Generator[int, None, Evaluation]:
    """Goes through `samples` in batches, yields how many are done after each, returns an Evaluation.

    The model is in eval mode, and gradients off, only within a slice: between two of them the caller may train,
    or drop the generator.
    """
    total_loss, total_correct = 0.0, 0
    for start in range(0, len(samples), batch):
        loss, correct, count = _slice(model, spec, samples, slice(start, start + batch))
        total_loss += loss * count
        total_correct += correct
        yield start + count
    n = len(samples)
    return Evaluation(total_loss / n, total_correct / n, n) if n else Evaluation(None, None, 0)


def _slice(model: nn.Module, spec: TaskSpec, samples: Samples, which: slice) -> tuple[float, int, int]:
    """Mean loss, right answers and size of one batch."""
    import torch

    from desktop.tasks import models

    training = model.training
    model.eval()
    try:
        with torch.no_grad():
            x, y = models.tensors(samples, which, next(model.parameters()).device)
            loss, correct = models.loss_and_correct(spec, model(x), y)
            return float(loss), int(correct), len(y)
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
