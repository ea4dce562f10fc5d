"""Models of a given size for benchmarks: layers as GPT-2 has them, which read the pictures of the task "digits"."""

from __future__ import annotations

import torch
from torch import nn

from desktop.tasks.spec import TaskSpec

# Width, blocks, and outputs of the one large layer: the last is GPT-2 small with its vocabulary.
SHAPES = {"1m": (128, 4, 1_600), "10m": (256, 8, 13_600), "124m": (768, 12, 50_257)}


class Block(nn.Module):
    """The weights of a transformer's block, for one vector [n, width] without attention."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.mixed = nn.Sequential(nn.GroupNorm(1, width), nn.Linear(width, 3 * width), nn.ReLU())
        self.back = nn.Linear(width, width)
        self.wide = nn.Sequential(nn.GroupNorm(1, width), nn.Linear(width, 4 * width), nn.ReLU(),
                                  nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query, key, value = self.mixed(x).chunk(3, dim=1)
        x = x + self.back(query + key + value)
        return x + torch.as_tensor(self.wide(x))


def wide(spec: TaskSpec, size: str) -> nn.Module:
    """[n, channels, height, width] -> [n, classes]: 1,022,474, 9,952,842 or 124,205,876 parameters for the digits."""
    width, blocks, outputs = SHAPES[size]
    return nn.Sequential(
        nn.Flatten(), nn.Linear(spec.images.channels * spec.images.height * spec.images.width, width),
        *(Block(width) for _ in range(blocks)),
        nn.GroupNorm(1, width), nn.Linear(width, outputs, bias=False), nn.ReLU(), nn.Linear(outputs, len(spec.classes)),
    )


def parameters(size: str) -> int:
    """How many a model for the digits has."""
    from desktop.tasks import models
    from desktop.tasks.builtin import DIGITS

    return models.parameter_count(wide(DIGITS, size))
