"""What one difficult member does to the time of a round: `python -m tests.sim.costs` prints a table, virtual time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from desktop.rounds.messages import Values
from desktop.rounds.policy import RoomPolicy
from tests.sim.rogues import Idler, Mute
from tests.sim.simulator import Node, Simulator

MEMBERS, ROUNDS, UPLINK_S = 4, 30, 0.05


def slower(node: Node) -> None:
    """Trains ten times slower than the rest."""
    node.speed = 10.0


def narrow(node: Node) -> None:
    """Its uplink is a tenth of the others'."""
    node.uplink_s = 10 * UPLINK_S


def nothing(node: Node) -> None:
    """A member like the others."""


CASES: dict[str, tuple[Callable[[Node], None], type[Node]]] = {
    "like the others": (nothing, Node),
    "trains ten times slower": (slower, Node),
    "uplink a tenth": (narrow, Node),
    "never ready": (nothing, Idler),
    "ready, sends nothing": (nothing, Mute),
}


def round_times(change: Callable[[Node], None], kind: type[Node], seed: int = 1) -> list[float]:
    """Seconds from commit to commit, as the host sees them."""
    policy = RoomPolicy(Values(rounds=ROUNDS), MEMBERS, 2)
    sim = Simulator(seed, MEMBERS, policy, kinds={"m3": kind})
    for node in sim.nodes.values():
        node.uplink_s = UPLINK_S
    change(sim.nodes["m3"])
    commits: list[float] = []
    committed = sim.committed

    def noting(node: Node, round_: int) -> None:
        if node.name == "m0":
            commits.append(sim.now)
        committed(node, round_)

    sim.committed = noting  # type: ignore[method-assign]
    sim.run(10_000, partial(lambda host: host.finished, sim.nodes["m0"]))
    return [b - a for a, b in zip([0.0, *commits], commits, strict=False)]


def main() -> None:
    """Print the table."""
    print(f"| one of {MEMBERS} members | round 1 | median | mean of {ROUNDS} | longest after round 1 |")
    print("|---|---|---|---|---|")
    for name, (change, kind) in CASES.items():
        times = round_times(change, kind)
        middle, mean = sorted(times)[len(times) // 2], sum(times) / len(times)
        print(f"| {name} | {times[0]:.1f} s | {middle:.1f} s | {mean:.1f} s | {max(times[1:]):.1f} s |")


if __name__ == "__main__":
    main()
