"""What a model of a table has besides its layers: means and spreads of the numbers, which the room agrees on.

They are weights that nobody trains. Before the first training round all members survey their rows: in a first round
each member's update is the mean of its own rows, in a second one their mean square about the room's mean. The room's
weighted mean of these is exact for all rows together, since each member weighs by how many it has. Where values are
missing, sums are taken over those that are there and the share that is missing is agreed on along with them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from desktop.tasks.samples import Samples
from desktop.tasks.spec import Table

Floats = npt.NDArray[Any]

SURVEY_BATCH = 8192  # rows
NO_SPREAD = 1e-6  # of the mean: less is what rounding makes of a constant


class Scale(nn.Module):
    """Means and spreads of `n` numbers, from weights float32 [n].

    `mean` and `square` are means over all rows with 0 in place of what is missing, `missing` the share of that:
    center = mean / (1 - missing), spread = sqrt(square / (1 - missing)), 1 where nothing varies or is known yet.
    """

    def __init__(self, n: int) -> None:
        super().__init__()
        self.mean = nn.Parameter(torch.empty(n), requires_grad=False)
        self.missing = nn.Parameter(torch.empty(n), requires_grad=False)
        self.square = nn.Parameter(torch.empty(n), requires_grad=False)

    def center(self) -> torch.Tensor:
        """Means of the values that are there, [n]."""
        return self.mean / self._there()

    def spread(self) -> torch.Tensor:
        """Their standard deviations, [n], all above 0."""
        found = (self.square / self._there()).clamp(min=0).sqrt()
        return torch.where(found > NO_SPREAD * self.center().abs(), found, torch.ones_like(found))

    def _there(self) -> torch.Tensor:
        there = 1 - self.missing
        return torch.where(there > 0, there, torch.ones_like(there))


class Standardise(Scale):
    """Numbers of a row [batch, inputs] to mean 0 and spread 1; a missing one becomes the mean. The rest stays."""

    def __init__(self, form: Table) -> None:
        at = [at for column, at in zip(form.columns, form.places, strict=True) if column.role == "number"]
        super().__init__(len(at))
        self.at = at

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        at = torch.tensor(self.at, dtype=torch.int64, device=x.device)
        values, missing = x[:, at], x[:, at + 1]
        return x.index_copy(1, at, (values - self.center() * (1 - missing)) / self.spread())


class Restore(Scale):
    """Takes outputs [batch] of mean 0 and spread 1 to the numbers that are to be predicted."""

    def __init__(self) -> None:
        super().__init__(1)

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        # The gradient is passed on as if the loss were that of standardised numbers: a squared error of dollars would
        # else make steps of SGD, and what clipping bounds, depend on the currency.
        spread = self.spread()
        return self.center() + z / spread + (z * (spread - 1 / spread)).detach()


def build(form: Table, layers: nn.Module) -> nn.Sequential:
    """The model of a table around its layers."""
    return nn.Sequential(Standardise(form), layers, *([Restore()] if form.goal == "number" else []))


def clear(model: nn.Module) -> None:
    """Nothing is agreed on yet: numbers pass as they are."""
    for layer in model.modules():
        if isinstance(layer, Scale):
            for parameter in layer.parameters():
                nn.init.zeros_(parameter)


def survey(model: nn.Module, samples: Samples, round_: int) -> Iterator[None]:
    """Put what my rows say into the weights that the round `round_` (1 or 2) agrees on; yields now and then."""
    scales = [layer for layer in model.modules() if isinstance(layer, Scale)]
    names = ("mean", "missing") if round_ == 1 else ("square",)
    sums = [{name: np.zeros(len(scale.mean)) for name in names} for scale in scales]
    for start in range(0, len(samples), SURVEY_BATCH):
        x, y = samples.batch(slice(start, start + SURVEY_BATCH))
        for scale, total in zip(scales, sums, strict=True):
            values, missing = _seen(scale, x, y)
            apart = (values - scale.center().double().cpu().numpy()) * (1 - missing)
            for name, found in (("mean", values), ("missing", missing), ("square", apart**2)):
                if name in total:
                    total[name] += found.sum(axis=0)
        yield
    for scale, total in zip(scales, sums, strict=True):
        for name, found in total.items():
            getattr(scale, name).data.copy_(torch.from_numpy(found / len(samples)))


def _seen(scale: Scale, x: Floats, y: Floats) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Values [n, numbers], and 1 where one is missing. In float64: sums of many must stay exact."""
    if isinstance(scale, Standardise):
        return x[:, scale.at].astype(np.float64), x[:, [at + 1 for at in scale.at]].astype(np.float64)
    return y[:, None].astype(np.float64), np.zeros((len(y), 1))
