"""The program, which writes down when an exchange begins and ends, and first sends the same bytes without an exchange.

`python -m tests.bench.round_time_window ORDER [options of the program]`, where ORDER is JSON, see `Order`.
"""

from __future__ import annotations

import functools
import json
import os
import sys
import time
from collections import Counter, deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from desktop.__main__ import main
from desktop.bridge.lifecycle import WarmUp
from desktop.rounds.exchange import Exchange
from desktop.rounds.messages import Plan, Share, Stamp
from desktop.trainer.worker import TrainerWorker
from tests.bench.wide import widen

MEET, BYTES = b"meet", b"byte"  # how messages begin that are no rounds' messages; those begin with a length


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What is measured."""

    size: str  # of the model, see `wide_models`
    buckets: int  # it is cut into so many
    folder: str  # where each window writes down its times, in a file of its own
    bare: bool = True  # send nothing but bytes before each exchange
    equal: bool = False  # say nothing of the uplink, so that all reduce alike


class Bare:
    """Nothing but bytes: each member sends as much to each other one as in an exchange with equal shares."""

    def __init__(self, round_: int, training: Any, sizes: list[int], done: Callable[[str], None]) -> None:
        self.round, self._transport, self._done = round_, training._transport, done
        me = self._transport.me
        members = tuple(sorted([me, *self._transport.peers]))
        self._peers = [peer for peer in members if peer != me]
        reducers = tuple(members[bucket % len(members)] for bucket in range(len(sizes)))
        plan = Plan(Stamp(round_, 0, 0), tuple(Share(peer, 1.0) for peer in members), reducers, "f32")
        data = memoryview(BYTES + bytes([round_ % 256]) + os.urandom(max(sizes)))
        self._met: set[str] = set()
        self._queues: dict[str, deque[memoryview]] = {peer: deque() for peer in self._peers}
        for bucket, peer in Exchange(me, plan, members).outgoing():
            self._queues[peer].append(data[: sizes[bucket]])
        for bucket in (bucket for bucket, reducer in enumerate(reducers) if reducer == me):
            result = data[: sizes[bucket]]  # one for all, as in an exchange
            for peer in self._peers:
                self._queues[peer].append(result)
        mine = sum(size for size, reducer in zip(sizes, reducers, strict=True) if reducer == me)
        self._missing = mine * len(self._peers) + sum(sizes) - mine
        self._begun = False
        for peer in self._peers:
            self._transport.send(peer, MEET + bytes([round_ % 256]), bulk=False)

    def heard(self, peer: str, data: memoryview) -> None:
        """Somebody is there too, or bytes came."""
        if data[:4] == MEET:
            self._met.add(peer)
        else:
            self._missing -= len(data)

    def piece(self, high_water: int) -> bool:
        """Do one thing; whether there was one."""
        if not self._met.issuperset(self._peers):
            return False
        if not self._begun:
            self._begun = True
            self._done("bare begins")
        unsent = {peer: self._transport.unsent(peer) for peer, waiting in self._queues.items() if waiting}
        peer = min(unsent, key=unsent.__getitem__, default="")
        if not peer or unsent[peer] >= high_water:
            return False
        self._transport.send(peer, self._queues[peer].popleft(), bulk=True)
        return True

    @property
    def ended(self) -> bool:
        """Everything is here, and mine is with the others."""
        sent = not any(self._queues.values()) and not any(map(self._transport.unsent, self._peers))
        return self._begun and self._missing == 0 and sent


def measured(order: Order) -> type[Any]:
    """The trainer's run of a window, measured."""
    from desktop.rounds import actions as act
    from desktop.trainer.training import HIGH_WATER, Training

    class Measured(Training):
        def __init__(self, *arguments: Any, **named: Any) -> None:
            from tests.bench.wide_models import parameters

            step = -(-parameters(order.size) // order.buckets)
            super().__init__(*arguments, **named, bucket_bytes=4 * step)
            self._bare: Bare | None = None
            self._early: list[tuple[str, memoryview]] = []  # of who is a round's bytes ahead of me
            self._log = (Path(order.folder) / f"{self._transport.me}.times").open("w")

        def _note(self, round_: int, what: str) -> None:
            self._log.write(json.dumps([round_, what, time.monotonic()]) + "\n")
            self._log.flush()

        def received(self, peer: str, data: memoryview) -> None:
            if data[:4] not in (MEET, BYTES):
                super().received(peer, data)
            elif self._bare is not None and data[4] == self._bare.round % 256:
                self._bare.heard(peer, data)
            else:
                self._early.append((peer, data))

        def _trained(self) -> None:
            if not order.bare:
                super()._trained()
                return
            round_ = self._training_round
            sizes = [4 * self.numbers.count(bucket) for bucket in range(len(self.numbers))]
            self._bare = Bare(round_, self, sizes, functools.partial(self._note, round_))
            early, self._early = self._early, []
            for peer, data in early:
                self.received(peer, data)

        def _one_piece(self) -> bool:
            if self._bare is None:
                return super()._one_piece()
            if self._bare.ended:
                self._note(self._bare.round, "bare ends")
                self._bare = None
                super()._trained()
                return True
            return self._bare.piece(HIGH_WATER)

        def _carry_out(self, action: act.Action) -> None:
            match action:
                case act.BeginExchange(plan):
                    self._note(plan.stamp.round, "plan")
                    self._note(plan.stamp.round, f"shares {sorted(Counter(plan.reducers).values())}")
                case act.DigestResults(stamp):
                    self._note(stamp.round, "all results")
                case act.ApplyResults(round_, _):
                    self._note(round_, "commit")
                case act.Validate(round_):
                    self._note(round_, "applied")
            super()._carry_out(action)

    return Measured


def install(order: Order) -> None:
    """From the moment that torch is imported."""
    widen(order.size)
    warm_up = TrainerWorker._warm_up

    def warm_up_measured(self: TrainerWorker, command: WarmUp) -> None:
        warm_up(self, command)
        from desktop.trainer import training

        training.Training = measured(order)  # type: ignore[misc]
        if order.equal:
            self.transport.measure_uplink = lambda: 0.0  # type: ignore[method-assign]

    TrainerWorker._warm_up = warm_up_measured  # type: ignore[method-assign]


if __name__ == "__main__":
    install(msgspec.json.decode(sys.argv.pop(1), type=Order))
    sys.exit(main())
