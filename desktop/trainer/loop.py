"""Local steps: one batch at a time, on a model whose weights are views of one flat vector."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch
from torch import nn

from desktop.bridge.lifecycle import Point
from desktop.tasks import models, table_models
from desktop.tasks.data import Batches, TaskData
from desktop.tasks.samples import ReadsAhead
from desktop.tasks.spec import TaskSpec
from desktop.trainer import wire


def pick_device(backend: str) -> torch.device:
    """The device for "auto", "cpu", "cuda" or "mps"; ValueError when this computer has none of it."""
    have = backends()
    if backend == "auto":
        return torch.device(have[-1])
    if backend not in have:
        raise ValueError(f"this computer has no {backend}; it has {', '.join(have)}")
    return torch.device(backend)


def backends() -> tuple[str, ...]:
    """What this computer can train on; the fastest last."""
    have = ["cpu"]
    if torch.backends.mps.is_available():
        have.append("mps")
    if torch.cuda.is_available():
        have.append("cuda")
    return tuple(have)


def give_back(tensors: Iterable[torch.Tensor]) -> None:
    """Free the memory of tensors that nobody uses any more.

    `set_` does it without the interpreter lock; losing the last reference would hold that for 5 ms per 32 MB.
    """
    with torch.no_grad():
        for tensor in tensors:
            tensor.set_()  # type: ignore[call-overload]


def flatten(model: nn.Module) -> torch.Tensor:
    """Move all parameters into one flat vector [parameters]; the model's parameters become views of it.

    So an exchange is a copy of slices, and nothing has to be collected or scattered.
    """
    parameters = list(model.parameters())
    flat = torch.cat([parameter.detach().reshape(-1) for parameter in parameters])
    start = 0
    for parameter in parameters:
        end = start + parameter.numel()
        old, parameter.data = parameter.data, flat[start:end].view_as(parameter)
        give_back([old])
        start = end
    return flat


class LocalTraining:
    """Model, optimiser and data of this member."""

    def __init__(self, spec: TaskSpec, data: TaskData, backend: str, seed: int) -> None:
        self.spec, self.data = spec, data
        self.device = pick_device(backend)
        self.model = models.build_model(spec, spec.seed).to(self.device)
        self.flat = flatten(self.model)
        self.optimiser = models.build_optimiser(spec, self.model.parameters())
        # Each member draws its own batches: the seed of the task is for what all must share.
        self.batches = Batches(len(data.train), spec.batch, seed)
        self.step_number = 0
        self.planned = 0  # local steps of the round in hand
        self._left = 0
        self._samples = 0

    @property
    def parameters(self) -> int:
        """How many numbers the model learns."""
        return len(self.flat)

    @property
    def running(self) -> bool:
        """Whether local steps are left."""
        return self._left > 0

    @property
    def left(self) -> int:
        """Local steps that are left."""
        return self._left

    def begin(self, steps: int, batch: int, lr: float) -> None:
        """Run `steps` local steps from the weights that are in the model now."""
        self.planned = self._left = steps
        self._samples = 0
        self.batches.batch = min(batch, self.batches.n)
        for group in self.optimiser.param_groups:
            group["lr"] = lr

    def survey(self, round_: int) -> Iterator[None]:
        """Instead of training: let the weights say what my data is like, as one of all members' rows."""
        self.planned = self._left = 0
        yield from table_models.survey(self.model, self.data.train, round_)
        self._samples = len(self.data.train)

    def cancel(self) -> None:
        """Drop the steps that are left."""
        self._left = 0

    def step(self) -> Point:
        """One batch."""
        self.model.train()
        indices = next(self.batches)
        if isinstance(self.data.train, ReadsAhead):
            self.data.train.ahead(self.batches.coming)
        x, y = models.tensors(self.data.train, indices, self.device)
        loss, correct = models.loss_and_correct(self.spec, self.model(x), y)
        loss.backward()
        self.optimiser.step()
        self._drop_gradients()
        self.step_number += 1
        self._left -= 1
        self._samples += len(y)
        return Point(step=self.step_number, loss=loss.item(), accuracy=correct.item() / len(y))

    def _drop_gradients(self) -> None:
        """So that an exchange does not find them in the memory."""
        parameters = list(self.model.parameters())
        give_back(parameter.grad for parameter in parameters if parameter.grad is not None)
        for parameter in parameters:
            parameter.grad = None

    @property
    def samples(self) -> int:
        """Samples seen since `begin`; 0 when the weights are not finite, so that nothing of them is used."""
        return self._samples if wire.finite(self.flat) else 0

    def forget_momentum(self) -> None:
        """Start the optimiser anew: after a divergence its state is not finite either, at the end it is not needed."""
        give_back(value for state in self.optimiser.state.values() for value in state.values()
                  if isinstance(value, torch.Tensor))
        self.optimiser = models.build_optimiser(self.spec, self.model.parameters())

    def free(self) -> None:
        """Give the memory back; nothing can be done with it any more."""
        self.forget_momentum()
        give_back([*self.model.parameters(), self.flat])
