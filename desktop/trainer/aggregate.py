"""The numbers of an exchange: committed weights, contributions, results; combined bucket by bucket.

Devices round products differently (fused multiply-add), so what every member repeats is one addition of
float32 per weight: `committed + result`. Weighting and the outer optimiser's step are done once, by the bucket's
reducer, and the reducer's *rounded* result is what everyone adds, the reducer included. So all members end
bit-identical.

What int8 rounds away is not lost but sent with the next round (error feedback): each member keeps the rest of its own
contributions, and each reducer that of its results. Where late work is carried, a member also keeps the updates that
no round has counted, and adds them to its next contribution: one more float32 per weight, while there is any. All of
this, and the outer optimiser's velocity, changes at the commit alone, so an exchange that begins anew counts nothing
twice. A contribution weighs by the samples of its own round; what is carried adds none.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch

from desktop.rounds.messages import Outer, Stamp
from desktop.trainer import wire
from desktop.trainer.loop import give_back
from desktop.trainer.outer import OuterState


@dataclass
class Gathered:
    """What has come of one bucket that I reduce: the first contribution as it came, from the second on the sum of all.

    The first is not added up at once since it takes less than a sum where it came as f16 or int8. A reducer holds no
    more than one of each bucket, whatever the number of members and however late the last is.
    """

    peers: set[str] = field(default_factory=set)
    first: tuple[wire.Payload, float] | None = None  # with its weight
    total: torch.Tensor | None = None  # float32: the weighted sum of all but `first`

    def add(self, numbers: torch.Tensor, weight: float) -> None:
        """Count one more; takes `numbers` over: the first become the sum where they lie."""
        if self.total is None:
            self.total = numbers.mul_(weight)
        else:
            self.total.add_(numbers, alpha=weight)

    def add_first(self, precision: str) -> None:
        """Count the first too, if it is still as it came."""
        if self.first is not None:
            payload, weight = self.first
            self.first = None
            self.add(wire.trusted(payload, precision), weight)


class Aggregation:
    """Flat float32 CPU vectors cut into buckets.

    `committed` [parameters] are the weights of the last committed round (per bucket: `versions`); `current` is
    the vector that the model trains in. Between commits `current - committed` is my update.
    """

    def __init__(self, current: torch.Tensor, bucket_bytes: int = wire.BUCKET_BYTES) -> None:
        self.current = current
        self.committed = current.detach().to("cpu", torch.float32).clone()
        self.slices = wire.bucket_slices(len(self.committed), bucket_bytes)
        self.versions = [0] * len(self.slices)
        self.stamp: Stamp | None = None
        self.precision = "f32"
        self._gathered: dict[int, Gathered] = {}  # by bucket that I reduce
        self._results: dict[int, wire.Payload] = {}
        self._digest, self._digested = hashlib.sha256(), 0  # of the weights to be; so many buckets are in it
        self._dropped: list[object] = []
        self.outer = OuterState()
        self._contributes = False  # to the attempt in hand
        # As int8 themselves: what that loses is a 250th of a rounding error, and a rest takes a quarter of the memory.
        self._rests: dict[int, wire.Payload] = {}  # by bucket: of my contributions
        self._owed: dict[int, wire.Payload] = {}  # by bucket: of my results
        self._owed_next: dict[int, wire.Payload] = {}  # by bucket that I reduced: the same once that is committed
        self._carried: dict[int, torch.Tensor] = {}  # by bucket: my updates that no round has counted

    def __len__(self) -> int:
        """How many buckets there are."""
        return len(self.slices)

    def count(self, bucket: int) -> int:
        """Numbers in a bucket."""
        part = self.slices[bucket]
        return int(part.stop - part.start)

    # -- an exchange --

    def begin(self, stamp: Stamp, precision: str, outer: Outer | None = None, *, contributes: bool = True) -> None:
        """A new attempt: contributions and results of earlier ones are forgotten, my update is kept."""
        self._forget()
        self.stamp, self.precision, self._contributes = stamp, precision, contributes
        self.outer.use(outer or Outer(), torch.bfloat16 if precision == "int8" else torch.float32)

    def _forget(self) -> None:
        self.stamp = None
        self._dropped += [*self._results.values(), *self._gathered.values()]
        self._begin_digest()
        self._gathered, self._results, self._owed_next = {}, {}, {}

    def freeing(self) -> Iterator[None]:
        """Give back what was forgotten, bucket by bucket: a whole model's would hold the interpreter lock for long."""
        while self._dropped:
            self._dropped.pop()
            yield

    def update(self, bucket: int) -> torch.Tensor:
        """My update of one bucket: what I trained, what is carried, and what earlier contributions left unsaid."""
        update = self._trained(bucket)
        if bucket in self._carried:
            update.add_(self._carried[bucket])
        rest = self._rests.get(bucket)
        return update if rest is None else update.add_(wire.trusted(rest, "int8"))

    def _trained(self, bucket: int) -> torch.Tensor:
        part = self.slices[bucket]
        return self.current[part].detach().to("cpu") - self.committed[part]

    def keep(self, bucket: int, peer: str, payload: object, weight: float) -> None:
        """Count a contribution, once for each peer; ValueError when it cannot be used."""
        usable = wire.checked(payload, self.count(bucket), self.precision)
        here = self._gathered.setdefault(bucket, Gathered())
        if here.peers:
            here.add_first(self.precision)
            here.add(wire.trusted(usable, self.precision), weight)
        else:
            here.first = (usable, weight)
        here.peers.add(peer)

    def has_all(self, bucket: int, shares: tuple[tuple[str, float], ...], me: str) -> bool:
        """Whether every contribution to a bucket is here; my own always is."""
        here = self._gathered.get(bucket, Gathered())
        return all(peer == me or peer in here.peers for peer, _ in shares)

    def reduce(self, bucket: int, shares: tuple[tuple[str, float], ...], me: str, out: memoryview) -> None:
        """The outer step on the weighted sum of the contributions, in the order in which they came; kept as result.

        It is rounded to the wire into `out`. ValueError with the reason when my own update, or the sum, is not finite.
        """
        here = self._gathered.pop(bucket, Gathered())
        here.add_first(self.precision)
        for peer, weight in shares:
            if peer == me:
                here.add(self._mine(bucket), weight)
        assert here.total is not None
        step = self.outer.step(bucket, here.total)
        if bucket in self._owed:
            step.add_(wire.trusted(self._owed[bucket], "int8"))
        wire.encode(step, self.precision, out)
        wire.checked(out, len(step), self.precision)  # a sum that is not finite must not leave this member
        self._results[bucket] = out
        self._owed_next[bucket] = self._left_over(step, wire.trusted(out, self.precision))

    def _left_over(self, wanted: torch.Tensor, sent: torch.Tensor) -> wire.Payload:
        """What to send later; takes `wanted` over. f32 and f16 leave nothing that would be worth it."""
        if self.precision != "int8":
            return b""
        rest = memoryview(bytearray(wire.size(len(wanted), "int8")))
        wire.encode(wanted.sub_(sent), "int8", rest)
        return rest

    def _mine(self, bucket: int) -> torch.Tensor:
        """My update as the others would have got it: rounded to the wire, and refused for the same reasons."""
        return wire.rounded(self.update(bucket), self.precision)

    def keep_result(self, bucket: int, payload: object) -> None:
        """Keep a result until the commit; ValueError when it cannot be used."""
        self._results[bucket] = wire.checked(payload, self.count(bucket), self.precision)

    def _with_result(self, bucket: int) -> torch.Tensor:
        """What is in `_results` was checked when it came: the sum is made twice, for the digest and for the commit."""
        return self.committed[self.slices[bucket]] + wire.trusted(self._results[bucket], self.precision)

    def _begin_digest(self) -> None:
        self._digest, self._digested = hashlib.sha256(), 0

    def digest_ahead(self) -> bool:
        """Take the next bucket into the digest, if its result is here; while others still come there is time for it."""
        if self._digested not in self._results:
            return False
        self._digest.update(wire.view(self._with_result(self._digested)))
        self._digested += 1
        return True

    def digest_with_results(self) -> Iterator[str]:
        """Digest of committed weights plus results; yields "" per bucket that it lacked, at last the hex digest.

        Yields nothing more as soon as a result is missing (a new attempt has begun).
        """
        stamp = self.stamp
        while self.stamp == stamp and self.digest_ahead():
            yield ""
        if self.stamp == stamp and self._digested == len(self):
            yield self._digest.hexdigest()

    def apply(self, round_: int, buckets: tuple[int, ...], work: str = "") -> Iterator[None]:
        """Commit: add the results, and let the model go on from there. `work`: see `rounds.actions.ApplyResults`."""
        if work == "carried":
            yield from self._keep_late(round_)
        for bucket in buckets:
            if self.versions[bucket] == round_ - 1 and bucket in self._results:
                self._carry(bucket)
                self.outer.follow(bucket, wire.trusted(self._results[bucket], self.precision))
                self.committed[self.slices[bucket]] = self._with_result(bucket)
                self.versions[bucket] = round_
                self.rewind(bucket)
                del self._results[bucket]
            yield
        if work == "counted":
            self.drop_carried()
        self._forget()
        yield from self.freeing()

    def _keep_late(self, round_: int) -> Iterator[None]:
        """What I trained for this round is added to what is carried, where it is of use."""
        for bucket, version in enumerate(self.versions):
            update = self._trained(bucket)
            if version == round_ - 1 and wire.finite(update):
                self._carried[bucket] = update.add_(self._carried.pop(bucket, torch.zeros(())))
            yield

    def drop_carried(self) -> None:
        """Forget the work that is carried: it was counted, or never will be."""
        give_back(self._carried.values())
        self._carried = {}

    def _carry(self, bucket: int) -> None:
        """What the committed attempt has left unsaid of a bucket; my update is still the one that I sent."""
        if self._contributes and (self.precision == "int8" or bucket in self._rests):
            update = self.update(bucket)
            _replace(self._rests, bucket, self._left_over(update, wire.rounded(update, self.precision)))
        if bucket in self._owed_next:
            _replace(self._owed, bucket, self._owed_next.pop(bucket))

    def free(self) -> None:
        """Give the memory back; nothing can be done with it any more."""
        self.outer.free()
        give_back([self.committed])
        self.drop_carried()
        self._rests, self._owed, self._owed_next = {}, {}, {}

    # -- committed weights --

    def rewind(self, bucket: int) -> None:
        """Take the model's weights of a bucket back to the committed ones."""
        part = self.slices[bucket]
        self.current[part] = self.committed[part].to(self.current.device)

    def digest(self) -> Iterator[str]:
        """Digest of the committed weights: SHA-256 of all as little-endian float32; yields "" per bucket before."""
        digest = hashlib.sha256()
        for part in self.slices:
            digest.update(wire.view(self.committed[part]))
            yield ""
        yield digest.hexdigest()

    def snapshot(self, bucket: int, out: memoryview) -> None:
        """A bucket of committed weights as float32 bytes."""
        wire.encode(self.committed[self.slices[bucket]], "f32", out)

    def restore(self, bucket: int, round_: int, payload: object) -> None:
        """Take a bucket of committed weights from a snapshot; ValueError when it cannot be used."""
        self.committed[self.slices[bucket]] = wire.decode(payload, self.count(bucket), "f32")
        self._begin_digest()
        self.versions[bucket] = round_
        self.rewind(bucket)
        # What was committed meanwhile may have held these rests: to leave one out costs no more than to count it twice.
        self._rests.pop(bucket, None)
        self._owed.pop(bucket, None)
        self.outer.forget(bucket)


def _replace(rests: dict[int, wire.Payload], bucket: int, rest: wire.Payload) -> None:
    """Put a rest in the place of the one before."""
    if len(rest):
        rests[bucket] = rest
    else:
        rests.pop(bucket, None)
