"""The outer optimiser: a step of SGD with momentum on the mean update of a bucket, and the state that follows from it.

Only the reducer of a bucket takes the step, once a round; its rounded result is what all apply. With learning rate
`lr`, momentum `m`, velocity `v` and mean update `d` it is what torch's SGD does with the gradient `-d`:

    v' = m v + d      result = lr v'  (momentum)      result = lr (d + m v')  (Nesterov)

Nobody sends a velocity. Solved for v', these say what each member does with the result:

    v' = result / lr  (momentum)      v' = m/(1+m) v + result / (lr (1+m))  (Nesterov)

So any member can reduce any bucket next time. The factor m/(1+m) is below 1/2: what a newcomer lacks, and what other
rounding adds, is halved with each round. Who comes anew, or got a bucket as a snapshot, therefore begins with 0.
"""

from __future__ import annotations

import torch

from desktop.rounds.messages import Outer
from desktop.trainer.loop import give_back


class OuterState:
    """Velocities by bucket [numbers of the bucket]; none where there is nothing to remember.

    They are float32, or bfloat16 where updates travel as int8: that rounds more than this does, and saves memory.
    """

    def __init__(self) -> None:
        self.how = Outer()
        self.kind = torch.float32
        self.velocity: dict[int, torch.Tensor] = {}

    def use(self, how: Outer, kind: torch.dtype = torch.float32) -> None:
        """From the attempt in hand on. Velocities do not depend on the learning rate, so they outlive its change."""
        self.how, self.kind = how, kind
        if how.kind == "none":
            self.free()

    def step(self, bucket: int, mean: torch.Tensor) -> torch.Tensor:
        """What to apply for a mean update; takes `mean` over, and leaves the velocity as it is."""
        how = self.how
        if how.kind == "none":
            return mean
        if bucket not in self.velocity:
            return mean.mul_(how.lr * (1 + how.momentum) if how.kind == "nesterov" else how.lr)
        velocity = self.velocity[bucket].to(torch.float32)
        ahead = mean.add_(velocity, alpha=how.momentum)  # the velocity to be
        if how.kind == "momentum":
            return ahead.mul_(how.lr)
        # lr (d + m v') with d = v' - m v
        return ahead.mul_(1 + how.momentum).sub_(velocity, alpha=how.momentum).mul_(how.lr)

    def follow(self, bucket: int, result: torch.Tensor) -> None:
        """The result of a bucket was committed: the velocity is what it tells."""
        how = self.how
        if how.kind == "none":
            return
        if how.kind == "momentum":
            seen, kept = 1 / how.lr, 0.0
        else:
            seen, kept = 1 / (how.lr * (1 + how.momentum)), how.momentum / (1 + how.momentum)
        new = result * seen
        if bucket in self.velocity:
            new.add_(self.velocity[bucket].to(torch.float32), alpha=kept)
        self.forget(bucket)
        self.velocity[bucket] = new.to(self.kind)

    def forget(self, bucket: int) -> None:
        """Begin a bucket anew."""
        velocity = self.velocity.pop(bucket, None)
        if velocity is not None:
            give_back([velocity])

    def free(self) -> None:
        """Begin all buckets anew."""
        for bucket in list(self.velocity):
            self.forget(bucket)
