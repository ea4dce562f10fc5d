"""What is done to an update before it leaves."""

from __future__ import annotations

import pytest
import torch

from desktop.trainer.privacy import guard

SLICES = [slice(0, 3), slice(3, 4)]


def guarded(update: list[float], clip: float, noise: float = 0.0) -> torch.Tensor:
    """The update that is left of this one."""
    committed = torch.tensor([1.0, 2.0, 3.0, 4.0])
    weights = committed + torch.tensor(update)
    for _ in guard(weights, committed, SLICES, clip, noise):
        pass
    return weights - committed


def test_a_long_update_keeps_its_direction_and_gets_the_length() -> None:
    assert guarded([3.0, 0.0, 0.0, 4.0], clip=1.0).tolist() == pytest.approx([0.6, 0.0, 0.0, 0.8], abs=1e-6)


def test_a_short_one_stays_as_it_is() -> None:
    assert guarded([0.25, 0.0, -0.5, 0.0], clip=1.0).tolist() == [0.25, 0.0, -0.5, 0.0]
    assert guarded([0.0, 0.0, 0.0, 0.0], clip=1.0).tolist() == [0.0, 0.0, 0.0, 0.0]


def test_noise_has_the_deviation_that_was_asked_for_in_every_slice() -> None:
    n = 200_000
    committed = torch.zeros(n)
    found = []
    for _ in range(2):
        weights = committed.clone()
        for _ in guard(weights, committed, [slice(0, n // 2), slice(n // 2, n)], clip=0.5, noise=2.0):
            pass
        found.append(weights)
    for weights in found:
        for half in weights.split(n // 2):
            assert half.mean().item() == pytest.approx(0.0, abs=0.02)  # six deviations of the mean
            assert half.std().item() == pytest.approx(1.0, rel=0.02)
            assert (half.abs() > 1.96).float().mean().item() == pytest.approx(0.05, abs=0.005)  # it is Gaussian
    assert torch.corrcoef(torch.stack([found[0], found[1]]))[0, 1].abs() < 0.02  # and another one each time
    first, second = found[0].split(n // 2)
    assert torch.corrcoef(torch.stack([first, second]))[0, 1].abs() < 0.02


def test_it_is_done_in_slices() -> None:
    committed = torch.zeros(4)
    assert len(list(guard(torch.ones(4), committed, SLICES, 1.0, 1.0))) == 2 * len(SLICES)
