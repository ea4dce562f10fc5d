"""A room of real round engines on a virtual clock and a seeded network that delays, repeats, cuts and kills."""

from __future__ import annotations

import hashlib
import heapq
import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from desktop.rounds import actions as act
from desktop.rounds.engine import RoundEngine
from desktop.rounds.messages import Contribution, Metrics, Result, SnapshotBucket
from desktop.rounds.policy import RoomPolicy

Payload = tuple[object, ...]


class InvariantBroken(AssertionError):
    """One of the promises of the design's section 4 did not hold; the text says which and when."""


@dataclass
class Numbers:
    """Stands where the trainer's numbers stand: per bucket one float, so that sums can be checked by hand."""

    buckets: int
    base: list[float] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)
    update: float = 0.0
    plan: act.BeginExchange | None = None
    kept: dict[int, dict[str, float]] = field(default_factory=dict)
    results: dict[int, float] = field(default_factory=dict)

    def digest(self, values: list[float]) -> str:
        return hashlib.sha256(repr(values).encode()).hexdigest()[:16]


class Node:
    """One member: an engine and its numbers."""

    def __init__(self, sim: Simulator, name: str, founder: bool, samples: int, speed: float) -> None:
        self.sim, self.name, self.samples, self.speed = sim, name, samples, speed
        self.numbers = Numbers(sim.buckets, [0.0] * sim.buckets, [0] * sim.buckets)
        self.alive = True
        self.finished = False
        self.left = False
        self.notes: list[act.Note] = []
        self.training: int = 0
        start = self.numbers.digest(self.numbers.base)
        self.engine = RoundEngine(name, sim.policy, sim.buckets, start, founder=founder)

    def run(self) -> None:
        """Carry out what the engine asks for."""
        while self.alive and (todo := self.engine.take()):
            for action in todo:
                self.carry_out(action)

    def carry_out(self, action: act.Action) -> None:
        n, sim, now = self.numbers, self.sim, self.sim.now
        match action:
            case act.Send(to, message):
                sim.transmit(self.name, to, message, None)
            case act.Train(round_, _):
                self.training = round_
                sim.after(sim.rng.uniform(0.5, 1.5) * self.speed, lambda: self.trained(round_))
            case act.StopTraining():
                self.training = 0
            case act.BeginExchange():
                n.plan, n.kept, n.results = action, {}, {}
            case act.Contribute(stamp, bucket, to, _):
                if n.plan and n.plan.plan.stamp == stamp:
                    sim.transmit(self.name, to, Contribution(stamp, bucket), ("c", self.name, stamp, n.update))
            case act.Keep(stamp, bucket, peer, payload):
                kind, owner, its, value = payload  # type: ignore[misc]
                if owner != peer or its != stamp or kind != "c":
                    raise InvariantBroken(f"2: {owner} of {its} kept as {peer} of {stamp}")
                if peer in n.kept.setdefault(bucket, {}):
                    raise InvariantBroken(f"2: contribution of {peer} counted twice in {stamp}")
                n.kept[bucket][peer] = value
            case act.Reduce(stamp, bucket, shares, to, _):
                assert n.plan is not None
                if n.plan.plan.stamp != stamp:
                    return
                mine = {**n.kept.get(bucket, {}), self.name: n.update}
                value = sum(weight * mine[peer] for peer, weight in shares)
                n.results[bucket] = value
                for peer in to:
                    sim.transmit(self.name, peer, Result(stamp, bucket), ("r", stamp, value))
                self.engine.reduced(stamp, bucket, now)
            case act.KeepResult(stamp, bucket, _, payload):
                n.results[bucket] = payload[2]  # type: ignore[index]
            case act.DigestResults(stamp):
                if n.plan and n.plan.plan.stamp == stamp:
                    added = [a + n.results[b] for b, a in enumerate(n.base)]
                    self.engine.digested(stamp, n.digest(added), now)
            case act.DigestBase(round_):
                self.engine.base_digested(round_, n.digest(n.base), now)
            case act.ApplyResults(round_, buckets):
                for bucket in buckets:
                    if n.versions[bucket] == round_ - 1:
                        n.base[bucket] += n.results[bucket]
                        n.versions[bucket] = round_
                sim.committed(self, round_)
            case act.Validate(round_):
                self.engine.validated(Metrics(round_, 1.0, 0.5, self.samples), now)
            case act.SendSnapshot(to, _, bucket):
                message = SnapshotBucket(n.versions[bucket], bucket)
                sim.transmit(self.name, to, message, ("s", n.base[bucket], n.versions[bucket]))
            case act.Restore(bucket, _, payload):
                _, n.base[bucket], n.versions[bucket] = payload  # type: ignore[misc]
            case act.Note():
                self.notes.append(action)
            case act.Finished():
                self.finished = True

    def trained(self, round_: int) -> None:
        """The local steps of a round end: the update is a number that nobody else has."""
        if self.alive and self.training == round_:
            self.training = 0
            self.numbers.update = float(int.from_bytes(hashlib.sha256(f"{self.name}/{round_}".encode()).digest()[:2]))
            self.engine.trained(round_, self.samples, self.sim.now)
            self.run()


class Simulator:
    """Virtual time, seeded faults, and the checks after every commit."""

    def __init__(
        self, seed: int, members: int, policy: RoomPolicy, *,
        buckets: int = 5, repeat: float = 0.02, speeds: bool = False,
    ) -> None:
        self.rng = random.Random(seed)
        self.policy, self.buckets, self.repeat = policy, buckets, repeat
        self.now = 0.0
        self._order = itertools.count()
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._arrival: dict[tuple[str, str], float] = {}
        self._epoch: dict[frozenset[str], int] = {}
        self.linked: set[frozenset[str]] = set()
        self.nodes: dict[str, Node] = {}
        self.messages: dict[str, int] = {}
        self.commits: dict[tuple[int, int, int], str] = {}
        self.trace: list[str] = []
        for number in range(members):
            self.add(f"m{number}", founder=number == 0, speed=self.rng.choice((1, 1, 3)) if speeds else 1.0)

    def after(self, seconds: float, what: Callable[[], None]) -> None:
        """Do something later."""
        heapq.heappush(self._queue, (self.now + seconds, next(self._order), what))

    def add(self, name: str, *, founder: bool = False, speed: float = 1.0) -> Node:
        """A member starts and gets links to everybody who lives."""
        node = Node(self, name, founder, self.rng.randint(50, 500), speed)
        self.nodes[name] = node
        node.engine.begin(self.now)
        node.run()
        for other in self.nodes.values():
            if other is not node and other.alive:
                self.after(self.rng.uniform(0.01, 0.5), lambda other=other: self.link(node.name, other.name))
        self.after(0.0, lambda: self.tick(node))
        return node

    def tick(self, node: Node) -> None:
        if node.alive:
            node.engine.tick(self.now)
            node.run()
            self.after(self.policy.beat_s / 2, lambda: self.tick(node))

    def link(self, a: str, b: str) -> None:
        """A link opens."""
        pair = frozenset((a, b))
        if pair in self.linked or not (self.nodes[a].alive and self.nodes[b].alive):
            return
        self.linked.add(pair)
        self._epoch[pair] = self._epoch.get(pair, 0) + 1
        for one, other in ((a, b), (b, a)):
            self.nodes[one].engine.connected(other, other, self.now)
            self.nodes[one].run()

    def cut(self, a: str, b: str, again_s: float | None) -> None:
        """A link dies: what is under way is lost; each end notices in its own time."""
        pair = frozenset((a, b))
        if pair not in self.linked:
            return
        self.linked.discard(pair)
        self.trace.append(f"{self.now:.2f} cut {a} {b}")
        noticed = 0.0
        for one, other in ((a, b), (b, a)):
            delay = self.rng.uniform(0.1, 8.0)
            noticed = max(noticed, delay)
            self.after(delay, lambda one=one, other=other: self._notice(one, other))
        if again_s is not None:
            self.after(noticed + again_s, lambda: self.link(a, b))

    def _notice(self, one: str, other: str) -> None:
        node = self.nodes[one]
        if node.alive:
            node.engine.lost(other, self.now)
            node.run()

    def kill(self, name: str) -> None:
        """SIGKILL."""
        self.trace.append(f"{self.now:.2f} kill {name}")
        self.nodes[name].alive = False
        for other in self.nodes:
            if other != name:
                self.cut(name, other, None)

    def freeze(self, name: str) -> None:
        """SIGSTOP: it says and does nothing any more, but its links stay up."""
        self.trace.append(f"{self.now:.2f} freeze {name}")
        self.nodes[name].alive = False

    def part(self, side: list[str], seconds: float) -> None:
        """All links between this side and the others die, and come back after a while."""
        for one in side:
            for other in sorted(set(self.nodes) - set(side)):
                self.cut(one, other, seconds)

    def leave(self, name: str) -> None:
        """A member says good-bye; its weights must be the last committed ones."""
        self.trace.append(f"{self.now:.2f} leave {name}")
        node = self.nodes[name]
        node.engine.leave(self.now)
        node.run()
        node.left = True

    def transmit(self, sender: str, to: str, message: object, payload: Payload | None) -> None:
        """Ordered and reliable per link, as WebRTC is, until the link dies; now and then something comes twice."""
        self.messages[sender] = self.messages.get(sender, 0) + 1
        pair = frozenset((sender, to))
        if pair not in self.linked:
            return
        epoch = self._epoch[pair]
        at = max(self._arrival.get((sender, to), 0.0), self.now + self.rng.expovariate(20.0))
        self._arrival[(sender, to)] = at

        def deliver() -> None:
            node = self.nodes[to]
            if pair in self.linked and self._epoch[pair] == epoch and node.alive:
                node.engine.received(sender, message, payload, self.now)  # type: ignore[arg-type]
                node.run()

        self.after(at - self.now, deliver)
        if self.rng.random() < self.repeat:
            self.after(at - self.now + self.rng.expovariate(1.0), deliver)

    def committed(self, node: Node, round_: int) -> None:
        """Invariant 1: whoever commits a round in a view holds the same weights."""
        if all(version == round_ for version in node.numbers.versions):
            digest = node.numbers.digest(node.numbers.base)
            if digest == node.engine.room.digest:
                key = (*node.engine.room.view.order, round_)
                if self.commits.setdefault(key, digest) != digest:
                    raise InvariantBroken(f"1: {node.name} committed round {round_} with other weights")

    def run(self, until: float, done: Callable[[], bool]) -> None:
        """Go on until `done`; invariant 4: that is before `until` (virtual seconds)."""
        while self._queue and not done():
            self.now, _, what = heapq.heappop(self._queue)
            if self.now > until:
                states = {n.name: (n.engine.member.phase, n.engine.leader.machine.state, n.engine.room.round,
                                   n.engine.room.view) for n in self.living()}
                raise InvariantBroken(f"4: not done after {until} s: {states}; {self.trace}")
            what()

    def living(self) -> list[Node]:
        """Members that still take part."""
        return [node for node in self.nodes.values() if node.alive and not node.left]

    def all_finished(self) -> bool:
        """Everyone who lives has all rounds."""
        return all(node.finished for node in self.living())

    def check_equal(self) -> None:
        """Invariant 1 at the end: the same round and bit-identical weights everywhere."""
        living = self.living()
        kinds = {(node.engine.room.round, tuple(node.numbers.base)) for node in living}
        if len(kinds) != 1:
            raise InvariantBroken(f"1: {[(n.name, n.engine.room.round, n.numbers.base[:2]) for n in living]}")

