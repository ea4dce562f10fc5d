"""What happens to a room, written down before it happens, so that a failing run can be told by its fewest faults."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

from desktop.rounds.messages import Values
from desktop.rounds.policy import RoomPolicy
from tests.sim.rogues import ALL_ROGUES, ROGUES
from tests.sim.simulator import InvariantBroken, Node, Simulator

KINDS = ("kill", "crash", "freeze", "sleep", "cut", "part", "leave", "join", "slow", "uplink")
LAST_LINES = 60  # of a trace that are printed
PATIENCE_S = 3000.0  # virtual; within that a room must have done all its rounds, whatever happened


@dataclass(frozen=True)
class Fault:
    """One thing that happens: to whom, when, and for how long or how much."""

    at: float
    kind: str
    who: tuple[str, ...]
    amount: float = 0.0

    def strike(self, sim: Simulator) -> None:
        """Let it happen."""
        one = self.who[0]
        node = sim.nodes.get(one)
        match self.kind:
            case "kill":
                sim.kill(one)
            case "crash":
                sim.crashes[one] = sim.messages.get(one, 0) + int(self.amount)
            case "depose":
                self._depose(sim, one)
            case "freeze":
                sim.freeze(one)
            case "sleep":
                sim.sleep(one, self.amount, cut=len(self.who) > 1)
            case "cut":
                sim.cut(one, self.who[1], self.amount)
            case "part":
                sim.part(list(self.who), self.amount)
            case "leave":
                sim.leave(one)
            case "join":
                sim.add(one)
            case "slow" if node:
                node.speed = self.amount
            case "uplink" if node:
                node.uplink_s = self.amount

    @staticmethod
    def _depose(sim: Simulator, one: str) -> None:
        """The leader dies, once the room has come together, unless one that lies would lead then.

        A lying leader is not defended, nor a newcomer that can only believe whom it meets first: see `engine`.
        """
        members = sim.nodes[one].engine.room.view.members
        together = all(node.name in members for node in sim.living())
        heir = next((sim.nodes[peer] for peer in members[1:] if sim.nodes[peer].alive), None)
        if together and heir and heir.honest:
            sim.kill(one)


@dataclass(frozen=True)
class Case:
    """A run that can be done again: same case, same run."""

    seed: int
    members: int
    faults: tuple[Fault, ...] = ()
    rogues: tuple[tuple[str, type[Node]], ...] = ()
    rounds: int = 4
    start: int = 1  # the first round waits for so many
    least: int = 1
    loss: float = 0.0
    clocks: bool = True
    rogues_begin_s: float = 6.0

    def simpler(self) -> Iterator[Case]:
        """Cases that lack one thing that this one has."""
        for part in ("faults", "rogues"):
            things = getattr(self, part)
            for number in range(len(things)):
                yield replace(self, **{part: things[:number] + things[number + 1 :]})
        if self.loss:
            yield replace(self, loss=0.0)
        if self.clocks:
            yield replace(self, clocks=False)
        if self.rounds > 1:
            yield replace(self, rounds=self.rounds - 1)


def play(case: Case) -> Simulator:
    """Let it happen, until everyone who lives has all rounds and the same weights.

    InvariantBroken when a promise does not hold; its `trace` tells what happened until then.
    """
    policy = RoomPolicy(Values(rounds=case.rounds), case.start, case.least, beat_s=1.0)
    sim = Simulator(
        case.seed, case.members, policy, loss=case.loss, speeds=True, clocks=case.clocks, kinds=dict(case.rogues),
        rogues_begin_s=case.rogues_begin_s,
    )
    for fault in case.faults:
        sim.after(fault.at, partial(fault.strike, sim))
    try:
        over = max((fault.at + 1.0 for fault in case.faults), default=0.0)
        sim.run(PATIENCE_S, lambda: sim.now > over and sim.agreed())
    except InvariantBroken as broken:
        broken.trace = sim.trace
        raise
    return sim


def shortest(case: Case, broken: InvariantBroken) -> tuple[Case, InvariantBroken]:
    """The case with everything taken away without which it still fails."""
    for simpler in case.simpler():
        try:
            play(simpler)
        except InvariantBroken as still:
            return shortest(simpler, still)
    return case, broken


def must_hold(case: Case) -> Simulator:
    """Play it; when a promise is broken, say so with the shortest trace that shows it."""
    try:
        return play(case)
    except InvariantBroken as broken:
        simplest, why = shortest(case, broken)
        trace = "\n".join(why.trace[-LAST_LINES:])
        raise InvariantBroken(f"{why}\nseed {case.seed}, simplest case:\n{simplest}\n{trace}") from None


# -- cases: all that follows from a seed --------------------------------------------------------------------


def trouble(seed: int) -> Case:
    """Up to five things go wrong in a room of 2 to 16 whose members all mean well."""
    rng = random.Random(f"trouble {seed}")
    members = rng.choice((2, 2, 3, 3, 3, 4, 4, 5, 5, 6, 7, 8, 10, 12, 14, 16))
    names = [f"m{number}" for number in range(members)]
    mortal = rng.sample(names, members - 1)  # one survives
    faults = [fault(rng, names, mortal, number) for number in range(rng.randint(0, 5))]
    start = rng.randint(1, len(mortal) + 1)
    return Case(seed, members, tuple(faults), start=start, loss=rng.choice((0.0, 0.01, 0.05)))


def fault(rng: random.Random, names: list[str], mortal: list[str], number: int) -> Fault:
    """Something that can happen to one of these; who dies of it is taken off `mortal`."""
    kind, at = rng.choice(KINDS), rng.uniform(0.0, 15.0)
    one = rng.choice(names)
    if kind in ("kill", "crash", "freeze", "leave"):
        if not mortal:
            return Fault(at, "slow", (one,), 5.0)
        return Fault(at, kind, (mortal.pop(),), rng.randint(1, 60))
    match kind:
        case "sleep":
            return Fault(at, kind, (one, "links") if rng.random() < 0.5 else (one,), rng.choice((2.0, 8.0, 40.0)))
        case "cut":
            return Fault(at, kind, tuple(rng.sample(names, 2)), rng.uniform(0.0, 10.0))
        case "part":
            return Fault(at, kind, tuple(rng.sample(names, rng.randint(1, len(names) - 1))), rng.uniform(0.0, 30.0))
        case "join":
            return Fault(at, kind, (f"n{number}",))
        case "slow":
            return Fault(at, kind, (one,), rng.choice((3.0, 10.0, 40.0)))
        case _:
            return Fault(at, "uplink", (one,), rng.choice((0.2, 1.0, 5.0)))


def rogues(seed: int) -> Case:
    """Members that do not keep to the rules, fewer than half, in a room whose host is well."""
    rng = random.Random(f"rogues {seed}")
    members = rng.choice((3, 3, 4, 5, 5, 6, 7, 9))
    names = [f"m{number}" for number in range(members)]
    bad = names[members - rng.randint(1, (members - 1) // 2) :]
    good = [name for name in names[1:] if name not in bad]
    faults = []
    for _ in range(rng.randint(0, 2)):
        kind, one = rng.choice(("slow", "uplink", "cut", "sleep")), rng.choice(good)
        who: tuple[str, ...] = (one,)
        amount = rng.choice((1.0, 3.0))
        if kind == "cut":
            who = (one, rng.choice([name for name in names[1:] if name != one]))
        faults.append(Fault(rng.uniform(0.0, 15.0), kind, who, amount))
    kinds = tuple((name, rng.choice(ROGUES)) for name in bad)
    return Case(seed, members, tuple(faults), kinds, start=members - len(bad))


def hostile(seed: int) -> Case:
    """Members that do not keep to the rules from their first moment on, newcomers among them, and a host that dies."""
    rng = random.Random(f"hostile {seed}")
    members = rng.choice((4, 4, 5, 6, 7, 8, 10, 12, 16))
    bad = rng.randint(1, (members - 2) // 2)  # fewer than half, even when the host is dead
    late = rng.randint(0, bad)
    at_once = members - late  # who is there from the start
    names = [f"m{number}" for number in range(at_once)]
    liars = [*names[members - bad :], *(f"n{number}" for number in range(late))]
    faults = [Fault(rng.uniform(0.0, 15.0), "join", (name,)) for name in liars if name not in names]
    if rng.random() < 0.6:
        faults.append(Fault(rng.uniform(2.0, 15.0), "depose", ("m0",)))
    if rng.random() < 0.5:
        faults.append(Fault(rng.uniform(0.0, 15.0), rng.choice(("slow", "uplink", "sleep")), ("m1",), 3.0))
    kinds = tuple((name, rng.choice(ALL_ROGUES)) for name in liars)
    return Case(seed, at_once, tuple(faults), kinds, start=members - bad, rogues_begin_s=0.0)
