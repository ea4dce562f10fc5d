"""What a member does to its update before it leaves: its norm is bounded, and noise is added."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence

import torch


def guard(weights: torch.Tensor, committed: torch.Tensor, slices: Sequence[slice], clip: float, noise: float
          ) -> Iterator[None]:
    """Change `weights` [parameters], in slices, so that their update `weights - committed` is fit to leave.

    The update's norm is brought down to `clip`; then each number of it gets Gaussian noise with a deviation of
    `noise * clip` (McMahan et al. 2018, "Learning Differentially Private Recurrent Language Models"). It is drawn once
    for a round: however often the update is sent, the noise cannot be averaged away.

    No epsilon is claimed. It would depend on how members are drawn and on all rounds together, and the generator is
    not one for cryptography. What else leaves is not covered: how many samples a member has, its figures, and the sums
    of its table in the rounds that survey it.
    """
    squares = 0.0
    for part in slices:
        update = weights[part].detach().cpu() - committed[part]
        squares += float(update.double().square_().sum())
        yield
    scale = min(1.0, clip / math.sqrt(squares)) if squares else 1.0
    generator = torch.Generator().manual_seed(int.from_bytes(os.urandom(8)))
    for part in slices:
        update = (weights[part].detach().cpu() - committed[part]).mul_(scale)
        if noise:
            update.add_(torch.randn(len(update), generator=generator), alpha=noise * clip)
        weights[part] = committed[part] + update
        yield
