"""Members whose transfers move, but slowly: honest slow links are waited for, within bounds."""

from __future__ import annotations

from itertools import pairwise

import pytest

from desktop.rounds.leader import MOST_DEADLINES
from desktop.rounds.messages import BULK, RoundMessage, Values
from desktop.rounds.policy import RoomPolicy
from tests.sim.simulator import Node, Payload, Simulator

DEADLINE_S, BUCKETS = 10.0, 40


class Crawler(Node):
    """Sends each thing a moment before it would count as one that does not move."""

    honest = False
    next_s = 0.0

    def say(self, to: str, message: RoundMessage, payload: Payload | None = None) -> None:
        if not isinstance(message, BULK):
            super().say(to, message, payload)
            return
        self.next_s = max(self.next_s, self.sim.now) + 0.8 * DEADLINE_S / (len(self.sim.nodes) - 1)
        self.sim.after(self.next_s - self.sim.now, lambda: Node.say(self, to, message, payload))


def commits(
    members: int, uplinks: dict[str, float], kinds: dict[str, type[Node]], rounds: int = 4
) -> tuple[list[float], Simulator]:
    """Seconds from commit to commit, as m1 sees them."""
    policy = RoomPolicy(Values(rounds=rounds), members, 2, first_deadline_s=DEADLINE_S)
    sim = Simulator(3, members, policy, buckets=BUCKETS, kinds=kinds)
    for name, node in sim.nodes.items():
        node.uplink_s = uplinks.get(name, 0.02)
    times = [0.0]
    committed = sim.committed

    def noting(node: Node, round_: int) -> None:
        if node.name == "m1":
            times.append(sim.now)
        committed(node, round_)

    sim.committed = noting  # type: ignore[method-assign]
    sim.run(10_000, lambda: sim.nodes["m1"].finished)
    return [b - a for a, b in pairwise(times)], sim


@pytest.mark.parametrize("members", [3, 4, 8])
def test_one_that_just_keeps_moving_is_left_out_within_the_bound(members: int) -> None:
    times, sim = commits(members, {}, {f"m{members - 1}": Crawler})
    assert max(times) < MOST_DEADLINES * DEADLINE_S
    assert members == 8 or max(times) < 4 * DEADLINE_S  # the slower it is, the sooner that is known
    assert any(f"m{members - 1} would make it last longer than" in line for line in sim.trace)


def test_a_leader_whose_link_crawls_leaves_itself_out() -> None:
    times, sim = commits(4, {"m0": 2.4}, {}, rounds=1)
    assert times[0] < MOST_DEADLINES * DEADLINE_S
    assert any("m0 would make it last longer than" in line for line in sim.trace)


@pytest.mark.parametrize(("slow", "uplink_s"), [(["m3"], 0.9), (["m2", "m3"], 2.2), (["m0", "m1", "m2", "m3"], 1.6)])
def test_links_that_take_several_deadlines_are_waited_for(slow: list[str], uplink_s: float) -> None:
    """One that is slow may need up to `MOST_DEADLINES`; where half of them are or more, nobody is late."""
    times, sim = commits(4, dict.fromkeys(slow, uplink_s), {})
    assert times[0] > (MOST_DEADLINES if len(slow) > 1 else 3) * DEADLINE_S
    assert not any("begins anew" in line for line in sim.trace)
