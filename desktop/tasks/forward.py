"""One pass of samples through a model: the same for training and validation, so that their curves compare."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

import torch
from torch import nn

from desktop.tasks import models
from desktop.tasks.samples import Indices, Samples
from desktop.tasks.spec import Table, TaskSpec


class Passed(NamedTuple):
    """What came of `n` samples.

    `loss` is their mean, of no dimension, and can be differentiated. `score` sums over all `answers` (n, or n × block
    for text): right ones, or absolute errors where a number is predicted. `outputs` are detached.
    """

    loss: torch.Tensor
    score: float
    answers: int
    outputs: torch.Tensor
    y: torch.Tensor


def forward(spec: TaskSpec, model: nn.Module, samples: Samples, indices: Indices | slice) -> Passed:
    """The samples at `indices` through the model, on its device."""
    device = next(model.parameters()).device
    x, y = models.tensors(samples, indices, device)
    with mixed_precision(device):
        outputs = model(x)
    loss, right = models.loss_and_correct(spec, outputs, y)
    found = outputs.detach()
    score = float((found - y).abs().sum()) if predicts_number(spec) else float(right)
    return Passed(loss, score, y.numel(), found, y)


def predicts_number(spec: TaskSpec) -> bool:
    """Whether the task has no right answers, only near ones."""
    return isinstance(spec.form, Table) and spec.form.goal == "number"


def mixed_precision(device: torch.device) -> AbstractContextManager[object]:
    """bfloat16 where it is fast: CUDA that has it. Weights, gradients and the loss stay float32."""
    if device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False):
        return torch.autocast("cuda", dtype=torch.bfloat16)
    return nullcontext()
