"""Local steps: a batch at a time, in pieces where it is large, on a model whose weights are views of one vector."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from desktop.bridge.lifecycle import Point
from desktop.errors import MemoryShortError
from desktop.tasks import models, table_models
from desktop.tasks.data import Batches, TaskData
from desktop.tasks.forward import forward, predicts_number
from desktop.tasks.samples import Indices, ReadsAhead
from desktop.tasks.spec import TaskSpec
from desktop.trainer import schedule, wire

PIECE_S = 0.5  # a piece of a batch is no larger than what takes so long: messages and a stop wait for it
FIRST_PIECE = 8  # samples, until it is known how long they take


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


def memory_ran_out(error: BaseException) -> bool:
    """Whether an allocator said so. That of the CPU raises a plain RuntimeError."""
    words = ("can't allocate memory", "not enough memory", "out of memory", "bad_alloc")
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or (
        isinstance(error, RuntimeError) and any(word in str(error) for word in words))


@dataclass
class Batch:
    """A batch in hand: its samples, how many of them are done, and what came of these (see `forward.Passed`)."""

    indices: Indices
    done: int = 0
    loss: float = 0.0
    score: float = 0.0
    answers: int = 0


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
        self._batch: Batch | None = None
        self._lr = spec.lr
        self._before = self._whole = 0  # steps of the room's training before this round, and of all of it
        self._fits = len(data.train)  # samples that memory holds at a time, as far as is known
        self._pace = float("inf")  # seconds that a sample takes, the least that was measured

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

    @property
    def piece(self) -> int:
        """Samples that go through the model at a time: what memory holds and what is done in `PIECE_S`."""
        in_time = FIRST_PIECE if self._pace == float("inf") else max(1, int(PIECE_S / self._pace))
        return min(self._fits, in_time)

    def begin(self, steps: int, batch: int, lr: float, before: int = 0, whole: int = 0) -> None:
        """Run `steps` local steps from the weights that are in the model now.

        For the schedule: the room's training is `whole` steps (0: these alone), of which `before` come before these.
        """
        self.planned = self._left = steps
        self._before, self._whole = before, whole or steps
        self._samples = 0
        self._lr = lr
        self.batches.batch = min(batch, self.batches.n)

    def survey(self, round_: int) -> Iterator[None]:
        """Instead of training: let the weights say what my data is like, as one of all members' rows."""
        self.planned = self._left = 0
        yield from table_models.survey(self.model, self.data.train, round_)
        self._samples = len(self.data.train)

    def cancel(self) -> None:
        """Drop the steps that are left."""
        self._left = 0
        self._drop_batch()

    def step(self) -> Point | None:
        """The next piece of a batch; what the batch gave once that is whole.

        The gradient is that of the whole batch, however many pieces it takes. Where memory does not hold a piece, the
        batch begins anew with pieces of half the size; MemoryShortError when it does not even hold one sample.
        """
        batch = self._batch = self._batch or Batch(next(self.batches))
        indices, later = np.split(batch.indices[batch.done:], [self.piece])
        if isinstance(self.data.train, ReadsAhead):
            self.data.train.ahead(later[:self.piece] if len(later) else self.batches.coming)
        try:
            self._learn_from(batch, indices)
            return self._finish(batch) if batch.done == len(batch.indices) else None
        except (RuntimeError, MemoryError) as error:
            if not memory_ran_out(error):
                raise
        self.shrink(len(indices))
        return None

    def _learn_from(self, batch: Batch, indices: Indices) -> None:
        """Add a piece's part to the gradient of the batch."""
        began = time.perf_counter()
        self.model.train()
        passed = forward(self.spec, self.model, self.data.train, indices)
        share = len(indices) / len(batch.indices)
        (passed.loss * share).backward()
        batch.loss += passed.loss.item() * share
        batch.score += passed.score
        batch.answers += passed.answers
        batch.done += len(indices)
        self._pace = min(self._pace, (time.perf_counter() - began) / len(indices))

    def _finish(self, batch: Batch) -> Point:
        """Step along the batch's gradient."""
        if self.spec.clip:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.spec.clip)
        at = self._before + self.planned - self._left
        for group in self.optimiser.param_groups:
            group["lr"] = self._lr * schedule.factor(self.spec, at, self._whole)
        self.optimiser.step()
        self._drop_batch()
        self.step_number += 1
        self._left -= 1
        self._samples += len(batch.indices)
        mean = batch.score / batch.answers
        if predicts_number(self.spec):
            return Point(step=self.step_number, loss=batch.loss, error=mean)
        return Point(step=self.step_number, loss=batch.loss, accuracy=mean)

    def shrink(self, samples: int) -> None:
        """So many samples do not fit into memory: half of them are tried next. MemoryShortError for one sample.

        A batch in hand begins anew, its half-made gradient is dropped.
        """
        if self._batch is not None:
            self._batch = Batch(self._batch.indices)
        self._drop_gradients()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
        if samples == 1:
            raise MemoryShortError(model=self.spec.model, parameters=f"{self.parameters:,}")
        self._fits = samples // 2

    def _drop_batch(self) -> None:
        self._batch = None
        self._drop_gradients()

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
