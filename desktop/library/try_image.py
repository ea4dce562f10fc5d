"""Lets a model read one picture, from a file or from the held-out part."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from desktop.errors import BrokenImageError, PictureError
from desktop.state import Confidence
from desktop.tasks import pictures
from desktop.tasks.data import ArraySet, Floats, png
from desktop.tasks.samples import Samples

if TYPE_CHECKING:
    from torch import nn

    from desktop.tasks.spec import TaskSpec

SIDE = 192  # points a side of the pictures shown


class Sample(NamedTuple):
    """A held-out picture: as PNG, enlarged; the index of its class; and what the model reads, float32 [C, H, W]."""

    png: bytes
    label: int
    x: Floats


def predict(model: nn.Module, spec: TaskSpec, path: Path) -> tuple[tuple[Confidence, ...], bytes]:
    """How sure the model is of each class, surest first, and what it saw as PNG, enlarged to 192 points.

    The picture is prepared as for training: upright, 8 bits, the whole of it in its proportions. For digits that
    means bright strokes on black: a dark digit on light paper (its border brighter than what it surrounds) is
    inverted, and cut out when it does not fill the height. PictureError when the file cannot be read.
    """
    if not path.is_file():
        raise PictureError(place=path.name or str(path), why="it is not a file")
    try:
        points = pictures.pixels(path, spec)
    except BrokenImageError as error:
        raise PictureError(place=path.name, why=error.details["why"]) from error
    one = ArraySet(points[np.newaxis], np.zeros(1, np.int64), 1 / 255)
    return predict_array(model, spec, one.batch(slice(0, 1))[0][0]), pictures.png(points, SIDE)


def predict_array(model: nn.Module, spec: TaskSpec, x: Floats) -> tuple[Confidence, ...]:
    """How sure the model is of each class for x float32 [C, H, W] in 0..1: surest first, together 1."""
    import torch

    training = model.training
    model.eval()
    try:
        with torch.no_grad():
            device = next(model.parameters()).device
            logits = model(torch.from_numpy(x[np.newaxis].copy()).to(device))
            values = torch.softmax(logits[0].double(), dim=0).tolist()
    finally:
        model.train(training)
    rows = [Confidence(name=name, value=value) for name, value in zip(spec.classes, values, strict=True)]
    return tuple(sorted(rows, key=lambda row: -row.value))


def sample_pictures(samples: Samples, k: int) -> tuple[Sample, ...]:
    """`k` pictures (or all, when there are fewer), of as many classes as possible, always the same ones.

    None where the samples are not pictures.
    """
    if not isinstance(samples, ArraySet):
        return ()
    rank = np.zeros(len(samples), np.int64)  # the first of each class, then the second of each, ...
    for label in np.unique(samples.labels):
        of_class = samples.labels == label
        rank[of_class] = np.arange(np.count_nonzero(of_class))
    chosen = np.lexsort((samples.labels, rank))[:k]
    return tuple(Sample(png(samples, int(i), SIDE), int(samples.labels[i]), samples.batch(slice(i, i + 1))[0][0])
                 for i in chosen)
