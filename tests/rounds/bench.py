"""One round engine at a time, talked to by hand: what it is told, and the exact list of what it asks for."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from desktop.rounds.actions import Action, Send
from desktop.rounds.engine import RoundEngine, Status
from desktop.rounds.leader import next_term
from desktop.rounds.messages import (
    Announce,
    Beat,
    Contribution,
    Hello,
    Join,
    PeerId,
    Plan,
    Ready,
    Result,
    RoundMessage,
    Share,
    Stamp,
    Values,
    View,
)
from desktop.rounds.policy import RoomPolicy

D0, D1 = "digest 0", "digest 1"
VALUES = Values(rounds=3, local_steps=4)
SECOND_TERM = next_term(1, "b")  # when b takes over from a


def view(members: str, number: int = 0, term: int = 1) -> View:
    """View of members "abc": each letter is one. They came one after the other, so its number is how many they are."""
    return View(term, number or len(members), tuple(members))


def plan(stamp: Stamp, shares: dict[str, float], reducers: str) -> Plan:
    """What everyone weighs, and "bca": b reduces bucket 0, c bucket 1, a bucket 2."""
    return Plan(stamp, tuple(Share(*share) for share in shares.items()), tuple(reducers), "f32")


def first_stamp(members: int, attempt: int = 0) -> Stamp:
    """Of round 1, in the view of so many members."""
    return Stamp(1, 1, members, attempt)


def all_of(values: Values) -> dict[str, Any]:
    """Every value, as `Values.changed` takes it."""
    each = {field.name: getattr(values, field.name) for field in fields(values)}
    outer = values.outer
    return {**each, "outer": outer.kind, "outer_lr": outer.lr, "outer_momentum": outer.momentum}


class Bench:
    """An engine. Every call returns the actions that it led to; beats are left out."""

    def __init__(self, me: str, *, founder: bool = False, buckets: int = 2, start: int = 2, least: int = 2) -> None:
        policy = RoomPolicy(VALUES, start_members=start, min_members=least)
        self.engine = RoundEngine(me, policy, buckets, D0, founder=founder)
        self.now = 0.0
        self.engine.begin(self.now)
        self.first = self.did()

    def did(self) -> list[Action]:
        taken = self.engine.take()
        return [action for action in taken if not (isinstance(action, Send) and isinstance(action.message, Beat))]

    def connect(self, peer: PeerId) -> list[Action]:
        self.engine.connected(peer, peer.upper(), self.now)
        return self.did()

    def lose(self, peer: PeerId) -> list[Action]:
        self.engine.lost(peer, self.now)
        return self.did()

    def hear(self, sender: PeerId, message: RoundMessage, payload: object = None) -> list[Action]:
        self.engine.received(sender, message, payload, self.now)
        return self.did()

    def wait(self, seconds: float) -> list[Action]:
        """Time passes, and the engine's clock ticks all the while."""
        until = self.now + seconds
        while self.now < until:
            self.now = min(until, self.now + 0.5)
            self.engine.tick(self.now)
        return self.did()

    def sleep(self, seconds: float) -> list[Action]:
        """Time passes without this engine: its clock ticks once after that."""
        self.now += seconds
        self.engine.tick(self.now)
        return self.did()

    def trained(self, samples: int, round_: int = 1) -> list[Action]:
        self.engine.trained(round_, samples, self.now)
        return self.did()

    def reduced(self, stamp: Stamp, bucket: int) -> list[Action]:
        self.engine.reduced(stamp, bucket, self.now)
        return self.did()

    def digested(self, stamp: Stamp, digest: str) -> list[Action]:
        self.engine.digested(stamp, digest, self.now)
        return self.did()

    @property
    def status(self) -> Status:
        return self.engine.status(self.now)


def leader_in_round(others: str, buckets: int = 2, least: int = 2) -> Bench:
    """a leads; everyone trains for round 1."""
    bench = Bench("a", founder=True, buckets=buckets, start=1 + len(others), least=least)
    for peer in others:
        bench.connect(peer)
    for peer in others:
        bench.hear(peer, Join(0, D0, tuple(sorted({"a", *others} - {peer}))))
    return bench


def leader_in_exchange(others: str, buckets: int = 2, least: int = 2) -> Bench:
    """a leads; all have trained, on 10 samples each, and the plan of round 1 is out."""
    bench = leader_in_round(others, buckets, least)
    bench.trained(10)
    for peer in others:
        bench.hear(peer, Ready(first_stamp(1 + len(others)), 10))
    return bench


def member_in_round(me: str, members: str, buckets: int = 2, least: int = 2) -> Bench:
    """One of several members, the first of whom leads, trains for round 1."""
    bench = Bench(me, buckets=buckets, least=least)
    for peer in members:
        if peer != me:
            bench.connect(peer)
    leader = members[0]
    bench.hear(leader, Hello(view(leader, 1), 0))
    bench.hear(leader, Announce(view(members), len(members), 1, D0, VALUES))
    return bench


def member_in_exchange(me: str, members: str, reducers: str, least: int = 2) -> tuple[Bench, Plan]:
    """It has trained and heard the plan, in which all contribute alike."""
    bench = member_in_round(me, members, len(reducers), least)
    bench.trained(10)
    its = plan(first_stamp(len(members)), {peer: 1 / len(members) for peer in members}, reducers)
    bench.hear(members[0], its)
    return bench, its


def finish_exchange(bench: Bench, its: Plan, digest: str = D1) -> list[Action]:
    """Everything that the member needs comes in; the actions of the last step."""
    me = bench.engine.room.me
    for bucket, reducer in enumerate(its.reducers):
        if reducer == me:
            for share in its.shares:
                if share.peer != me:
                    bench.hear(share.peer, Contribution(its.stamp, bucket), "numbers")
            bench.reduced(its.stamp, bucket)
        else:
            bench.hear(reducer, Result(its.stamp, bucket), "numbers")
    return bench.digested(its.stamp, digest)


def said_to(peer: PeerId, actions: list[Action]) -> list[RoundMessage]:
    """The messages among the actions that go to this peer."""
    return [action.message for action in actions if isinstance(action, Send) and action.to == peer]

