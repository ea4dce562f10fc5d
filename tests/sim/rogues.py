"""Members that have the room's key and do not keep to the rules, each in its own way."""

from __future__ import annotations

import dataclasses
import math

from desktop.rounds.messages import (
    Announce,
    Applied,
    Beat,
    Commit,
    Complaint,
    Contribution,
    Hello,
    Join,
    Leave,
    Metrics,
    Pause,
    Ready,
    Refused,
    Result,
    RoundMessage,
    SnapshotRequest,
    StaleView,
    Stamp,
    Standing,
    TakeOver,
    Values,
    View,
)
from tests.sim.simulator import Node, Payload

FAR = 2**61


class Rogue(Node):
    """A member that the others cannot trust; whether it ever has all rounds does not matter."""

    honest = False
    every_s = 0.5  # how often it misbehaves of its own accord
    began = False

    def run(self) -> None:
        if not self.began:
            self.began = True
            self.sim.after(self.sim.rogues_begin_s, self.again)
        super().run()

    def again(self) -> None:
        if self.alive and not self.left:
            for peer in sorted(self.engine.room.connected):
                self.misbehave(peer)
            self.sim.after(self.every_s, self.again)

    def misbehave(self, peer: str) -> None:
        """Say something to this peer that nobody asked for."""

    @property
    def stamp(self) -> Stamp:
        """Of the round in hand."""
        exchange = self.engine.member.exchange
        room = self.engine.room
        return exchange.stamp if exchange else Stamp(room.round + 1, *room.view.order)


class Idler(Rogue):
    """Beats and is never ready."""

    def trained(self, round_: int) -> None:
        pass


class Mute(Rogue):
    """Says ready and then sends none of its numbers."""

    def say(self, to: str, message: RoundMessage, payload: Payload | None = None) -> None:
        if not isinstance(message, (Contribution, Result)):
            super().say(to, message, payload)


class Inventor(Rogue):
    """Invents samples, progress, rounds and figures."""

    def say(self, to: str, message: RoundMessage, payload: Payload | None = None) -> None:
        count = self.sim.messages.get(self.name, 0)
        match message:
            case Ready():
                message = dataclasses.replace(message, samples=2**62)
            case Beat():
                message = dataclasses.replace(message, done=count, round=self.engine.room.round)
            case Standing():
                message = dataclasses.replace(message, round=message.round + 1000, digest="invented", synced=True)
            case Applied():
                message = dataclasses.replace(message, digest="invented")
            case Metrics():
                message = dataclasses.replace(message, loss=math.nan, samples=2**62)
        super().say(to, message, payload)

    def misbehave(self, peer: str) -> None:
        room = self.engine.room
        self.say(peer, Standing(room.view.term, room.round, room.digest, True))


class Usurper(Rogue):
    """Says that it leads, in whatever way there is."""

    def misbehave(self, peer: str) -> None:
        room = self.engine.room
        others = tuple(p for p in room.view.members if p not in (self.name, peer))
        term = self.sim.rng.choice((room.view.term, room.view.term + 1, FAR))
        claim = View(term, room.view.number + 1, (self.name, peer, *others))
        alone = View(term, FAR, (self.name, *others, "x", "y", "z"))
        stamp = Stamp(room.round + 1, *room.view.order)
        self.say(peer, self.sim.rng.choice((
            TakeOver(claim), Announce(claim, FAR, room.round + 5, "invented", Values()), Hello(alone, FAR),
            Pause(claim, FAR, room.round, "invented", 3, Values()), StaleView(alone, FAR),
            Commit(stamp, "invented"),
            Announce(room.view, FAR, room.round + 5, "invented", Values()),
        )))


class Plaintiff(Rogue):
    """Complains about everybody, and says that it waits for them."""

    def say(self, to: str, message: RoundMessage, payload: Payload | None = None) -> None:
        if isinstance(message, Applied):
            return
        if isinstance(message, Beat):
            message = dataclasses.replace(message, lacking=tuple(sorted(self.engine.room.connected)))
        super().say(to, message, payload)

    def misbehave(self, peer: str) -> None:
        about = self.sim.rng.choice(sorted(self.engine.room.connected))
        self.say(peer, Complaint(self.stamp, about, "it sent rubbish"))
        self.say(peer, Refused(self.stamp, "it is rubbish"))


class Poisoner(Rogue):
    """Sends numbers that are none, and other results to each."""

    def say(self, to: str, message: RoundMessage, payload: Payload | None = None) -> None:
        chance = self.sim.rng.random()
        if isinstance(message, Contribution) and payload and chance < 0.5:
            payload = (*payload[:-1], math.nan)
        elif isinstance(message, Result) and payload:
            payload = (*payload[:-1], math.nan if chance < 0.3 else self.sim.rng.random())
        super().say(to, message, payload)


class Flooder(Rogue):
    """Says all kinds of things out of place, again and again."""

    every_s = 0.2

    def misbehave(self, peer: str) -> None:
        room, stamp, rng = self.engine.room, self.stamp, self.sim.rng
        old = dataclasses.replace(stamp, round=max(0, stamp.round - rng.randint(0, 2)), attempt=rng.randint(0, 2))
        members = sorted(room.connected)
        for _ in range(3):
            self.say(peer, rng.choice((
                Ready(old, rng.randint(0, 640)), Applied(old, room.digest), Commit(old, room.digest),
                Join(room.round, room.digest, tuple(members)), SnapshotRequest(tuple(range(self.sim.buckets))),
                Standing(room.view.term, room.round, room.digest, rng.random() < 0.5), Hello(View(), 0),
                Beat(*room.view.order, room.round, "training"), Hello(room.view, room.round),
            )))


class Revolver(Rogue):
    """Leaves and comes back all the time."""

    every_s = 1.5

    def misbehave(self, peer: str) -> None:
        room = self.engine.room
        self.say(peer, Leave())
        self.say(peer, Join(room.round, room.digest, tuple(sorted(room.connected))))


class Crammer(Rogue):
    """Sends numbers for plans that nobody has made yet, all that there can be, to fill the others' memory."""

    def misbehave(self, peer: str) -> None:
        stamp = dataclasses.replace(self.stamp, attempt=self.sim.rng.randint(1, 99))
        for bucket in range(self.sim.buckets):
            self.say(peer, Contribution(stamp, bucket), ("c", self.name, stamp, math.nan))
            self.say(peer, Result(stamp, bucket), ("r", stamp, math.nan))


ROGUES: tuple[type[Rogue], ...] = (Idler, Mute, Inventor, Usurper, Plaintiff, Poisoner, Flooder, Revolver)
ALL_ROGUES = (*ROGUES, Crammer)
