"""What the learning rate is multiplied by at each step, as a task's schedule says."""

from __future__ import annotations

import math

from desktop.tasks.spec import TaskSpec


def factor(spec: TaskSpec, step: int, steps: int) -> float:
    """Above 0, at most 1, for step 0, 1, ... of `steps` in the room's whole training.

    It depends on the step alone: who joins late is where the others are. Warm-up rises in equal parts and reaches 1
    with step `warmup_steps`; "cosine" (Loshchilov and Hutter 2017) then falls along half a wave to 0 at the end.
    """
    if step < spec.warmup_steps:
        return (step + 1) / spec.warmup_steps
    if spec.schedule == "constant":
        return 1.0
    after = (step - spec.warmup_steps) / max(1, steps - spec.warmup_steps)
    return (1 + math.cos(math.pi * min(after, 1.0))) / 2
