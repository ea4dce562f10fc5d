"""The models for benchmarks have the sizes that they are named after, and can be trained."""

from __future__ import annotations

import pytest
import torch

from desktop.tasks import models
from desktop.tasks.builtin import DIGITS
from desktop.tasks.data import load_sample
from desktop.trainer.loop import LocalTraining
from tests.bench.wide_models import wide


@pytest.mark.parametrize(("size", "parameters"), [("10m", 9_952_842), ("124m", 124_205_876)])
def test_sizes(size: str, parameters: int) -> None:
    with torch.device("meta"):
        assert models.parameter_count(wide(DIGITS, size)) == parameters


def test_the_program_builds_and_trains_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(models.MODELS, "digits-cnn", lambda spec: wide(spec, "10m"))
    torch.set_num_threads(1)
    training = LocalTraining(DIGITS, load_sample(DIGITS), "cpu", seed=1)
    training.begin(2, batch=8, lr=1e-3)
    losses = []
    while training.running:
        if point := training.step():  # else it was a piece of the batch
            losses.append(point.loss)
    assert len(losses) == 2
    assert all(0 < loss < 100 for loss in losses)
    assert training.samples == 16
