"""Late work in simulated rooms: with "carry" each piece of it arrives once, or is said to be left out."""

from __future__ import annotations

from functools import partial

import pytest

from desktop.rounds import actions as act
from desktop.rounds.messages import Result, Stamp, Values
from desktop.rounds.policy import RoomPolicy
from tests.sim.faults import PATIENCE_S, trouble
from tests.sim.simulator import Node, Simulator

DIGIT = 3  # bits in which it is counted how often a piece of work came in
ROUNDS = 12


def digit(name: str, round_: int) -> int:
    """Which digit counts the work of this member for this round."""
    return ROUNDS * (int(name[1:]) + (16 if name[0] == "n" else 0)) + round_ - 1


class Piecewise(Node):
    """A member whose work of each round can be told apart in the room's weights: a digit of its own counts it.

    Results are sums, not means. Its numbers stand where the trainer's stand, and treat late work as these do.
    """

    def __init__(self, sim: Simulator, *args: object) -> None:
        super().__init__(sim, *args)  # type: ignore[arg-type]
        self.work = self.carried = 0
        self.numbers.base = [0] * sim.buckets  # type: ignore[list-item] # whole numbers are exact
        self.engine.room.digest = self.numbers.digest(self.numbers.base)

    def carry_out(self, action: act.Action) -> None:
        match action:
            case act.Train(round_):
                self.work = 1 << DIGIT * digit(self.name, round_)
            case act.ApplyResults(_, _, "carried"):
                self.carried += self.work
            case act.ApplyResults(_, _, "counted") | act.DropCarried():
                self.carried = 0
        super().carry_out(action)

    def trained(self, round_: int) -> None:
        if self.training == round_:
            self.training = 0
            self.numbers.update = self.work + self.carried
            self.engine.trained(round_, self.samples, self.now)

    def reduce(self, stamp: Stamp, bucket: int, shares: tuple[tuple[str, float], ...], to: tuple[str, ...]) -> None:
        mine = {**self.numbers.kept.pop(bucket, {}), self.name: self.numbers.update}
        if all(peer in mine for peer, _ in shares):
            value = self.numbers.results[bucket] = sum(mine[peer] for peer, _ in shares)
            for peer in to:
                self.say(peer, Result(stamp, bucket), ("r", stamp, value))
            self.engine.reduced(stamp, bucket, self.now)

    def counted(self, name: str, round_: int) -> int:
        """How often the work of this member for this round came into my weights."""
        (weights,) = set(self.numbers.base)
        return int(weights) >> DIGIT * digit(name, round_) & (1 << DIGIT) - 1


class Evens(Piecewise):
    """Trains too long in every odd round but not in the even ones."""

    def carry_out(self, action: act.Action) -> None:
        if isinstance(action, act.Train):
            self.speed = 1.0 if action.round % 2 == 0 else 1000.0
        super().carry_out(action)


@pytest.mark.parametrize(("late", "odd"), [("carry", 1), ("drop", 0)])
@pytest.mark.parametrize("seed", range(3))
def test_the_work_of_one_that_misses_every_second_plan_arrives_once_or_not(seed: int, late: str, odd: int) -> None:
    policy = RoomPolicy(Values(rounds=ROUNDS, late=late), 3, 2, first_deadline_s=4.0, least_deadline_s=4.0)
    sim = Simulator(seed, 3, policy, kinds={"m0": Piecewise, "m1": Piecewise, "m2": Evens})
    sim.run(900, sim.all_finished)
    sim.check_equal()
    m0 = sim.nodes["m0"]
    assert isinstance(m0, Piecewise)
    assert [m0.counted("m2", round_) for round_ in range(1, ROUNDS + 1)] == [odd, 1] * (ROUNDS // 2)
    assert {m0.counted(name, round_) for name in ("m0", "m1") for round_ in range(1, ROUNDS + 1)} == {1}


@pytest.mark.parametrize("seed", range(25))
def test_whatever_goes_wrong_no_work_is_counted_twice(seed: int) -> None:
    nothing_twice(seed)


@pytest.mark.long
@pytest.mark.parametrize("block", range(8))
def test_in_many_seeds_no_work_is_counted_twice(block: int) -> None:
    for seed in range(1000 + 250 * block, 1250 + 250 * block):
        nothing_twice(seed)


def nothing_twice(seed: int) -> None:
    """A room in which up to five things go wrong, and late work is carried."""
    case = trouble(seed)
    names = [*(f"m{number}" for number in range(16)), *(f"n{number}" for number in range(5))]
    values = Values(rounds=case.rounds, late="carry")
    policy = RoomPolicy(values, case.start, case.least, beat_s=1.0, first_deadline_s=5.0, least_deadline_s=2.0)
    sim = Simulator(seed, case.members, policy, loss=case.loss, speeds=True, clocks=case.clocks,
                    kinds=dict.fromkeys(names, Piecewise))
    for fault in case.faults:
        sim.after(fault.at, partial(fault.strike, sim))
    over = max((fault.at + 1.0 for fault in case.faults), default=0.0)
    sim.run(PATIENCE_S, lambda: sim.now > over and sim.agreed())
    if not sim.lost_weights():
        for node in sim.living():
            assert isinstance(node, Piecewise)
            for name in names:
                for round_ in range(1, case.rounds + 1):
                    assert node.counted(name, round_) <= 1, f"{node.name}: {name}, round {round_}, seed {seed}"
