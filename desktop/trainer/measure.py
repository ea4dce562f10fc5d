"""How large a task's model is, and about how fast this computer trains it, before any data is there."""

from __future__ import annotations

import math
import time

import torch

from desktop.errors import TaskError
from desktop.tasks import models
from desktop.tasks.spec import Images, Table, TaskSpec, Text

LARGEST = 5_000_000  # parameters of a model that is tried out: a step of a larger one takes seconds
BATCH = 8
STEPS = 3


def measure(spec: TaskSpec) -> tuple[int | None, float | None]:
    """(parameters, samples per second of training); None for what is not known. Takes about a second at most."""
    try:
        spec = _with_stand_ins(spec)
        parameters = sum(math.prod(shape) for shape in models.weight_shapes(spec).values())
    except TaskError:
        return None, None
    return parameters, _speed(spec) if parameters <= LARGEST else None


def _with_stand_ins(spec: TaskSpec) -> TaskSpec:
    """Two classes where data decides; a table's columns cannot be guessed."""
    match spec.form:
        case Images(classes=()):
            return spec.changed(classes=("a", "b"))
        case Table(columns=()):
            raise TaskError(why="its columns are not fixed yet")
    return spec


def _speed(spec: TaskSpec) -> float:
    model = models.build_model(spec, spec.seed)
    optimiser = models.build_optimiser(spec, model.parameters())
    x, y = _batch(spec)
    took = math.inf
    for _ in range(STEPS):  # the first one is slower: it allocates
        began = time.perf_counter()
        loss, _right = models.loss_and_correct(spec, model(x), y)
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
        took = min(took, time.perf_counter() - began)
    return BATCH / max(took, 1e-6)


def _batch(spec: TaskSpec) -> tuple[torch.Tensor, torch.Tensor]:
    """Any numbers of the right form."""
    match spec.form:
        case Images(channels=channels, height=height, width=width):
            return torch.rand(BATCH, channels, height, width), torch.zeros(BATCH, dtype=torch.int64)
        case Table(goal=goal) as form:
            y = torch.zeros(BATCH, dtype=torch.int64 if goal == "classes" else torch.float32)
            return torch.rand(BATCH, form.inputs), y
        case Text(block=block):
            tokens = torch.zeros(BATCH, block, dtype=torch.int64)
            return tokens, tokens
