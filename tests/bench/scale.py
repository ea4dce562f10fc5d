"""Simulated rooms of 2..256 members: bytes, messages and rounds to the same loss, per member and round.

The real round engines of all members in one process, on a virtual clock and a network that only delays (see
`tests.sim.simulator`; its checks after every event are off). Each member trains on a quadratic of its own, with noise
in its gradients: `x` moves towards the mean of all members' optima, and `rounds_to_loss` is when the loss above the
least one is a hundredth of what it was. A bucket stands for 2.5 MB of a model of 40 MB; a message without one counts
what the program's codec makes of the largest of its kind. `messages` leaves out beats, which go by time and not by
rounds: `beats` has them. `payloads` of the messages carry a bucket; how many these are goes by the number of buckets,
and the rest is at most 4 n. `uneven` are rooms whose members' uplinks differ thirtyfold.

`ratio` is the most bytes of any room over the least that an exchange can cost, 2 (n - 1) / n times the model.
"""

from __future__ import annotations

import random
import time
from functools import partial
from math import ceil
from typing import Any

from desktop.bridge.codec import encode
from desktop.rounds.messages import BULK, Beat, Commit, Plan, RoundMessage, Values
from desktop.rounds.policy import RoomPolicy
from tests.bench.line import is_quick, print_line
from tests.sim.simulator import Node, Payload, Simulator

SCHEMA = "0" * 16
BUCKETS = 16
BUCKET_BYTES = 2_500_000
STEPS, LR, NOISE = 5, 0.1, 0.1
DELAY_S, SLOT_S = 0.05, 0.01  # of every message; what arrives within the same slot is delivered in one go
GOAL = 0.01  # of the first loss above the least one
MOST_ROUNDS = 50
FULL, QUICK = (2, 4, 8, 16, 32, 64, 128, 256), (2, 4, 8, 32)
UNEVEN = (4, 16)
UPLINKS_S = (0.01, 0.03, 0.1, 0.3)  # seconds for a bucket


class Learner(Node):
    """Goes down the quadratic `curve[b] / 2 * (x[b] - aim[b])**2`; the curve is the same for all."""

    updates: tuple[float, ...] = ()

    def trained(self, round_: int) -> None:
        if self.training == round_:
            self.training = 0
            rng = random.Random(f"{self.name} {round_}")
            self.updates = tuple(self._down(bucket, x, rng) for bucket, x in enumerate(self.numbers.base))
            self.engine.trained(round_, self.samples, self.now)

    def _down(self, bucket: int, start: float, rng: random.Random) -> float:
        x, aim = start, aims(self.name)[bucket]
        for _ in range(STEPS):
            x -= LR * (curve(bucket) * (x - aim) + rng.gauss(0.0, NOISE))
        return x - start

    def update(self, bucket: int) -> float:
        return self.updates[bucket]


def curve(bucket: int) -> float:
    """From 1/4 to 1."""
    return 0.25 + 0.75 * bucket / (BUCKETS - 1)


def aims(name: str) -> list[float]:
    """Where the loss of this member is least: around 1."""
    rng = random.Random(name)
    return [rng.gauss(1.0, 0.5) for _ in range(BUCKETS)]


class Wide(Simulator):
    """Counts what is sent, and does not check what the simulator's own runs check."""

    def __init__(self, members: int, rounds: int) -> None:
        self.bytes = self.payloads = self.sent = self.beats = 0
        self.free: dict[str, float] = {}  # when an uplink is free again
        self.slots: dict[int, list[tuple[Node, str, RoundMessage, Payload | None]]] = {}
        self.sizes: dict[tuple[type, int], int] = {}
        names = [f"m{number}" for number in range(members)]
        values = Values(rounds=rounds, weighting="equal")
        super().__init__(members, members, RoomPolicy(values, members), buckets=BUCKETS, repeat=0.0,
                         kinds=dict.fromkeys(names, Learner))
        self.least = [sum(aims(name)[bucket] for name in names) / members for bucket in range(BUCKETS)]
        self.losses: list[float] = [self.loss_of([0.0] * BUCKETS)]
        self.ended: list[float] = []

    def loss_of(self, x: list[float]) -> float:
        """Mean loss of all members, above the least that it can be."""
        return sum(curve(b) / 2 * (x[b] - self.least[b]) ** 2 for b in range(BUCKETS))

    def check(self, node: Node) -> None:
        """Nothing: it is what the simulator's own runs are for."""

    def announced(self, sender: str, message: Plan | Commit) -> None:
        """Nothing, as above."""

    def committed(self, node: Node, round_: int) -> None:
        if node.name == "m0":
            self.losses.append(self.loss_of(node.numbers.base))
            self.ended.append(self.now)
            if round_ == 1:  # how a room comes together is not part of a round
                self.bytes = self.payloads = self.sent = self.beats = 0

    def transmit(self, sender: str, to: str, message: RoundMessage, payload: Payload | None) -> None:
        self.bytes += self.size(message)
        if isinstance(message, Beat):
            self.beats += 1
        else:
            self.sent += 1
            self.payloads += payload is not None
        leaves = self.now
        if payload is not None and (uplink_s := self.nodes[sender].uplink_s):
            leaves = self.free[sender] = max(self.now, self.free.get(sender, 0.0)) + uplink_s
        at = ceil((leaves + DELAY_S) / SLOT_S)
        if at not in self.slots:
            self.slots[at] = []
            self.after(at * SLOT_S - self.now, partial(self.deliver, at))
        self.slots[at].append((self.nodes[to], sender, message, payload))

    def deliver(self, slot: int) -> None:
        """All that arrives at the same time: nobody dies here, and no link is lost."""
        for node, sender, message, payload in self.slots.pop(slot):
            node.engine.received(sender, message, payload, node.now)
            if node.engine.room.outbox:
                node.run()

    def size(self, message: RoundMessage) -> int:
        """Bytes of a message; made once for each kind and length of roster."""
        kind = (type(message), len(message.roster) if isinstance(message, Beat) else 0)
        if kind not in self.sizes:
            bulk = BUCKET_BYTES if isinstance(message, BULK) else 0
            self.sizes[kind] = bulk + len(encode(message, SCHEMA))
        return self.sizes[kind]


def measure(members: int, uplinks_s: tuple[float, ...] = (0.0,)) -> dict[str, Any]:
    """Figures of one room, all from the second round on."""
    wall, cpu = time.perf_counter(), time.process_time()
    sim = Wide(members, MOST_ROUNDS)
    for number, node in enumerate(sim.nodes.values()):
        node.uplink_s = uplinks_s[number % len(uplinks_s)]
    sim.run(100_000.0, partial(lambda host: host.finished, sim.nodes["m0"]))
    rounds = len(sim.ended) - 1
    each = members * rounds
    reached = next((number for number, loss in enumerate(sim.losses) if loss <= GOAL * sim.losses[0]), None)
    return {
        "members": members, "rounds": rounds + 1, "rounds_to_loss": reached,
        "mb": round(sim.bytes / each / 1e6, 2), "messages": round(sim.sent / each, 1),
        "payloads": round(sim.payloads / each, 1), "beats": round(sim.beats / each, 1),
        "round_s": round((sim.ended[-1] - sim.ended[0]) / rounds, 2),
        "wall_s": round(time.perf_counter() - wall, 1), "cpu_s": round(time.process_time() - cpu, 1),
    }


def main() -> None:
    """Prints the line."""
    quick = is_quick(__doc__ or "")
    rooms = [measure(members) for members in (QUICK if quick else FULL)]
    uneven = [measure(members, UPLINKS_S) for members in UNEVEN]
    model = BUCKETS * BUCKET_BYTES / 1e6
    least = {room["members"]: round(2 * model * (room["members"] - 1) / room["members"], 2) for room in rooms}
    figures = {"unit": "per member and round", "rooms": rooms, "uneven": uneven}
    ratio = max(room["mb"] / least[room["members"]] for room in rooms)
    print_line("scale", figures, {"what": "the least MB of an exchange", **least}, round(ratio, 3))


if __name__ == "__main__":
    main()
