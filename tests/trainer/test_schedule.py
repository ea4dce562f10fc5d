"""Schedules of the learning rate, against torch's own."""

from __future__ import annotations

import pytest
import torch
from torch.optim import lr_scheduler

from desktop.tasks.builtin import DIGITS
from desktop.trainer.schedule import factor


def optimiser() -> torch.optim.Optimizer:
    return torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)


def rates(schedule: lr_scheduler.LRScheduler, steps: int) -> list[float]:
    """The rate of each step, as torch's schedule sets it."""
    found = []
    for _ in range(steps):
        found.append(schedule.optimizer.param_groups[0]["lr"])
        schedule.optimizer.step()
        schedule.step()
    return found


def test_constant_is_the_rate_itself() -> None:
    assert [factor(DIGITS, step, 10) for step in range(10)] == [1.0] * 10


def test_cosine_is_that_of_torch() -> None:
    spec = DIGITS.changed(schedule="cosine")
    expected = rates(lr_scheduler.CosineAnnealingLR(optimiser(), T_max=40), 40)
    assert [factor(spec, step, 40) for step in range(40)] == pytest.approx(expected)


def test_warm_up_then_cosine_is_that_of_torch() -> None:
    spec = DIGITS.changed(schedule="cosine", warmup_steps=10)
    sgd = optimiser()
    warm = lr_scheduler.LinearLR(sgd, start_factor=0.1, total_iters=9)
    fall = lr_scheduler.CosineAnnealingLR(sgd, T_max=30)
    expected = rates(lr_scheduler.SequentialLR(sgd, [warm, fall], [10]), 40)
    assert [factor(spec, step, 40) for step in range(40)] == pytest.approx(expected)


def test_warm_up_alone() -> None:
    spec = DIGITS.changed(warmup_steps=4)
    assert [factor(spec, step, 6) for step in range(6)] == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]


@pytest.mark.parametrize(("warmup", "steps"), [(0, 1), (1, 1), (5, 5), (9, 5), (10_000_000, 5)])
def test_it_is_a_share_of_the_rate_however_short_the_training(warmup: int, steps: int) -> None:
    spec = DIGITS.changed(schedule="cosine", warmup_steps=warmup)
    assert all(0 < factor(spec, step, steps) <= 1 for step in range(steps))
    assert 0 <= factor(spec, steps + 7, steps) <= 1  # rounds may be taken away while they run
