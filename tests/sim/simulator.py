"""A room of real round engines on virtual clocks and a seeded network that delays, repeats, cuts and kills."""

from __future__ import annotations

import hashlib
import heapq
import itertools
import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from desktop.rounds import actions as act
from desktop.rounds.engine import RoundEngine
from desktop.rounds.messages import (
    BULK,
    Applied,
    Beat,
    Commit,
    Contribution,
    Join,
    Metrics,
    Plan,
    Result,
    RoundMessage,
    SnapshotBucket,
    SnapshotRequest,
    Stamp,
    View,
)
from desktop.rounds.policy import RoomPolicy
from desktop.rounds.room import NEVER

Payload = tuple[object, ...]
LANES = 3  # for bulk: what goes over one may overtake what goes over another
LOOK_S = 0.05  # virtual, between two looks whether a run is over
LOST_S = 100.0  # for so long nobody holds whole weights, before a run may end with that
SLACK_S = 3.0  # between the moment at which somebody should act and the tick at which it does, with what is in between


class InvariantBroken(AssertionError):
    """One of the promises of the design's section 4 did not hold; the text says which and when."""

    trace: list[str] = []  # noqa: RUF012 - set by who plays a case


@dataclass
class Numbers:
    """Stands where the trainer's numbers stand: per bucket one float, so that sums can be checked by hand."""

    buckets: int
    base: list[float] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)
    update: float = 0.0
    plan: Plan | None = None
    kept: dict[int, dict[str, float]] = field(default_factory=dict)
    results: dict[int, float] = field(default_factory=dict)

    def digest(self, values: list[float]) -> str:
        return hashlib.sha256(repr(values).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Clock:
    """A member's own clock: it was set differently, and goes a little faster or slower."""

    offset: float = 0.0
    drift: float = 0.0

    def read(self, now: float) -> float:
        return self.offset + now * (1.0 + self.drift)


class Node:
    """One member: an engine and its numbers."""

    honest = True

    def __init__(self, sim: Simulator, name: str, founder: bool, samples: int, speed: float, clock: Clock) -> None:
        self.sim, self.name, self.samples, self.speed, self.clock = sim, name, samples, speed, clock
        self.numbers = Numbers(sim.buckets, [0.0] * sim.buckets, [0] * sim.buckets)
        self.alive = True
        self.asleep = False
        self.missed: list[Callable[[], None]] = []  # what came while it slept
        self.uplink_s = 0.0  # what a bucket takes on its way out, one after the other
        self.finished = False
        self.left = False
        self.notes: list[act.Note] = []
        self.training: int = 0
        self.view = View()  # before the event in hand
        self.seen: set[str] = set()  # who ever was in a view of its
        start = self.numbers.digest(self.numbers.base)
        self.engine = RoundEngine(name, sim.policy, sim.buckets, start, founder=founder)

    @property
    def now(self) -> float:
        """What this member's clock says."""
        return self.clock.read(self.sim.now)

    def event(self, what: Callable[[], None]) -> None:
        """Something happens to this member; one that sleeps sees it when it wakes up."""
        if not self.alive:
            return
        if self.asleep:
            self.missed.append(what)
            return
        what()
        self.run()
        self.sim.check(self)

    def run(self) -> None:
        """Carry out what the engine asks for."""
        while self.alive and (todo := self.engine.take()):
            for action in todo:
                if self.alive:
                    self.carry_out(action)

    def say(self, to: str, message: RoundMessage, payload: Payload | None = None) -> None:
        """Hand a message to the network."""
        self.sim.transmit(self.name, to, message, payload)

    def carry_out(self, action: act.Action) -> None:
        n, sim, now = self.numbers, self.sim, self.now
        match action:
            case act.Send(to, message):
                self.say(to, message)
            case act.Train(round_, _):
                self.training = round_
                sim.after(sim.rng.uniform(0.5, 1.5) * self.speed, partial(self.event, partial(self.trained, round_)))
            case act.StopTraining():
                self.training = 0
            case act.BeginExchange(plan):
                n.plan, n.kept, n.results = plan, {}, {}
            case act.Contribute(stamp, bucket, to, _):
                if n.plan and n.plan.stamp == stamp:
                    self.say(to, Contribution(stamp, bucket), ("c", self.name, stamp, self.update(bucket)))
            case act.Keep(stamp, bucket, peer, payload):
                self.keep(stamp, bucket, peer, payload)
            case act.Reduce(stamp, bucket, shares, to, _):
                if n.plan and n.plan.stamp == stamp:
                    self.reduce(stamp, bucket, shares, to)
            case act.KeepResult(stamp, bucket, peer, payload):
                kind, its, result = payload  # type: ignore[misc]
                if kind != "r" or its != stamp:
                    raise InvariantBroken(f"2: a result of {its} kept as one of {stamp}")
                if not math.isfinite(result):
                    self.engine.unusable(stamp, peer, "it is not finite", now)
                else:
                    n.results[bucket] = result
            case act.DigestResults(stamp):
                if n.plan and n.plan.stamp == stamp and len(n.results) == n.buckets:
                    added = [a + n.results[b] for b, a in enumerate(n.base)]
                    self.engine.digested(stamp, n.digest(added), now)
            case act.DigestBase(round_):
                self.engine.base_digested(round_, n.digest(n.base), now)
            case act.ApplyResults(round_, buckets):
                self.apply(round_, buckets)
            case act.Validate(round_):
                self.engine.validated(Metrics(round_, 1.0, 0.5, self.samples), now)
            case act.SendSnapshot(to, _, bucket):
                self.say(to, SnapshotBucket(n.versions[bucket], bucket), ("s", n.base[bucket], n.versions[bucket]))
            case act.Restore(bucket, _, payload):
                _, n.base[bucket], n.versions[bucket] = payload  # type: ignore[misc]
            case act.Note():
                self.notes.append(action)
                sim.log(f"{self.name}: {action.text}")
            case act.Finished():
                self.finished = True

    def keep(self, stamp: Stamp, bucket: int, peer: str, payload: object) -> None:
        """Invariants 2 and 3: a contribution counts once, where it belongs, and only if it can be used."""
        kind, owner, its, value = payload  # type: ignore[misc]
        if owner != peer or its != stamp or kind != "c":
            raise InvariantBroken(f"2: {owner} of {its} kept as {peer} of {stamp}")
        if peer in self.numbers.kept.setdefault(bucket, {}):
            raise InvariantBroken(f"2: contribution of {peer} counted twice in {stamp}")
        if math.isfinite(value):
            self.numbers.kept[bucket][peer] = value
        else:
            self.engine.unusable(stamp, peer, "it is not finite", self.now)

    def reduce(self, stamp: Stamp, bucket: int, shares: tuple[tuple[str, float], ...], to: tuple[str, ...]) -> None:
        mine = {**self.numbers.kept.pop(bucket, {}), self.name: self.update(bucket)}
        if any(peer not in mine for peer, _ in shares):
            return  # one of them could not be used: the leader was told and plans anew
        if abs(sum(weight for _, weight in shares) - 1.0) > 1e-9:
            raise InvariantBroken(f"2: the weights of {stamp} do not sum to 1: {shares}")
        value = sum(weight * mine[peer] for peer, weight in shares)
        self.numbers.results[bucket] = value
        for peer in to:
            self.say(peer, Result(stamp, bucket), ("r", stamp, value))
        self.engine.reduced(stamp, bucket, self.now)

    def apply(self, round_: int, buckets: tuple[int, ...]) -> None:
        n = self.numbers
        missing = tuple(bucket for bucket in buckets if bucket not in n.results)
        for bucket in buckets:
            if n.versions[bucket] == round_ - 1 and bucket in n.results:
                n.base[bucket] += n.results[bucket]
                n.versions[bucket] = round_
        if missing:
            self.engine.not_applied(missing, self.now)
        self.sim.committed(self, round_)

    def update(self, bucket: int) -> float:
        """What the local steps added to this bucket."""
        return self.numbers.update

    def trained(self, round_: int) -> None:
        """The local steps of a round end: the update is a number that nobody else has."""
        if self.training == round_:
            self.training = 0
            self.numbers.update = float(int.from_bytes(hashlib.sha256(f"{self.name}/{round_}".encode()).digest()[:2]))
            self.engine.room.uplink = 1 / self.uplink_s if self.uplink_s else 0.0
            self.engine.trained(round_, self.samples, self.now)


class Simulator:
    """Virtual time, seeded faults, and the checks after every event."""

    def __init__(
        self, seed: int, members: int, policy: RoomPolicy, *,
        buckets: int = 5, repeat: float = 0.02, loss: float = 0.0, speeds: bool = False, clocks: bool = False,
        kinds: dict[str, type[Node]] | None = None, rogues_begin_s: float = 6.0,
    ) -> None:
        self.rng = random.Random(seed)
        self.policy, self.buckets, self.repeat, self.loss = policy, buckets, repeat, loss
        self.clocks, self.kinds = clocks, kinds or {}
        self.rogues_begin_s = rogues_begin_s  # by default the room has come together until then
        self.now = 0.0
        self.events = 0
        self._order = itertools.count()
        self._queue: list[tuple[float, int, Callable[[], object]]] = []
        self._arrival: dict[tuple[str, str, int], float] = {}
        self._sent: dict[str, float] = {}  # when a member's uplink is free again
        self._epoch: dict[frozenset[str], int] = {}
        self.linked: set[frozenset[str]] = set()
        self.nodes: dict[str, Node] = {}
        self.messages: dict[str, int] = {}
        self.crashes: dict[str, int] = {}  # after so many messages a member crashes
        self.commits: dict[tuple[int, int, int], str] = {}
        self.leaders: dict[tuple[int, int], str] = {}
        self._applied: dict[Stamp, set[str]] = {}  # who said so, and it came to the leader
        self._heard: dict[tuple[str, str], float] = {}  # (from, to): when a beat came last
        self._planned: dict[Stamp, tuple[float, Plan, float]] = {}
        self._asked: dict[str, float] = {}  # when a member last asked for weights, or to be let in
        self._held: dict[int, set[str]] = {}  # by round: who ever held its weights whole
        self._lost_at = math.inf  # since when nobody holds whole weights
        self.trace: list[str] = []
        for number in range(members):
            self.add(f"m{number}", founder=number == 0, speed=self.rng.choice((1, 1, 3)) if speeds else 1.0)

    def after(self, seconds: float, what: Callable[[], object]) -> None:
        """Do something later."""
        heapq.heappush(self._queue, (self.now + seconds, next(self._order), what))

    def log(self, text: str) -> None:
        """A line of the trace that is printed when a promise is broken."""
        self.trace.append(f"{self.now:8.2f} {text}")

    def add(self, name: str, *, founder: bool = False, speed: float = 1.0) -> Node:
        """A member starts and gets links to everybody who lives."""
        clock = Clock(self.rng.uniform(-1e6, 1e6), self.rng.uniform(-0.01, 0.01)) if self.clocks else Clock()
        node = self.kinds.get(name, Node)(self, name, founder, self.rng.randint(50, 500), speed, clock)
        self.nodes[name] = node
        node.event(lambda: node.engine.begin(node.now))
        for other in self.nodes.values():
            if other is not node and other.alive:
                self.after(self.rng.uniform(0.01, 0.5), partial(self.link, node.name, other.name))
        self.after(0.0, partial(self.tick, node))
        return node

    def tick(self, node: Node) -> None:
        if node.alive:
            if not node.asleep:
                node.event(lambda: node.engine.tick(node.now))
            self.after(self.policy.beat_s / 2 / (1.0 + node.clock.drift), partial(self.tick, node))

    # -- faults --

    def link(self, a: str, b: str) -> None:
        """A link opens."""
        pair = frozenset((a, b))
        if pair in self.linked or not (self.nodes[a].alive and self.nodes[b].alive):
            return
        self.linked.add(pair)
        self._epoch[pair] = self._epoch.get(pair, 0) + 1
        for one, other in ((a, b), (b, a)):
            node = self.nodes[one]
            node.event(partial(self._linked, node, other))

    @staticmethod
    def _linked(node: Node, other: str) -> None:
        node.engine.connected(other, other, node.now)

    def cut(self, a: str, b: str, again_s: float | None) -> None:
        """A link dies: what is under way is lost; each end notices in its own time."""
        pair = frozenset((a, b))
        if pair not in self.linked:
            return
        self.linked.discard(pair)
        self.log(f"cut {a} {b}")
        noticed = 0.0
        for one, other in ((a, b), (b, a)):
            delay = self.rng.uniform(0.1, 8.0)
            noticed = max(noticed, delay)
            self.after(delay, partial(self._notice, one, other))
        if again_s is not None:
            self.after(noticed + again_s, partial(self.link, a, b))

    def _notice(self, one: str, other: str) -> None:
        node = self.nodes[one]
        node.event(lambda: node.engine.lost(other, node.now))

    def kill(self, name: str) -> None:
        """SIGKILL."""
        if not self.nodes[name].alive:
            return
        self.log(f"kill {name}")
        self.nodes[name].alive = False
        for other in self.nodes:
            if other != name:
                self.cut(name, other, None)

    def freeze(self, name: str) -> None:
        """SIGSTOP: it says and does nothing any more, but its links stay up."""
        self.log(f"freeze {name}")
        self.nodes[name].alive = False

    def sleep(self, name: str, seconds: float, cut: bool) -> None:
        """The computer sleeps for a while; its links stay up, or are lost and come back when it wakes."""
        node = self.nodes[name]
        if not node.alive or node.asleep:
            return
        self.log(f"{name} sleeps for {seconds:.1f} s{', links lost' if cut else ''}")
        node.asleep = True
        if cut:
            for other in self.nodes:
                if other != name:
                    self.cut(name, other, max(0.0, seconds - 7.0))
        self.after(seconds, partial(self._wake, node))

    def _wake(self, node: Node) -> None:
        self.log(f"{node.name} wakes")
        node.asleep = False
        missed, node.missed = node.missed, []
        for what in missed:
            node.event(what)

    def part(self, side: list[str], seconds: float) -> None:
        """All links between this side and the others die, and come back after a while."""
        for one in side:
            for other in sorted(set(self.nodes) - set(side)):
                self.cut(one, other, seconds)

    def leave(self, name: str) -> None:
        """A member says good-bye; its weights must be the last committed ones."""
        node = self.nodes[name]
        if not node.alive or node.left:
            return
        self.log(f"leave {name}")
        node.event(lambda: node.engine.leave(node.now))
        node.left = True
        held, phase = node.numbers.versions, node.engine.member.phase
        whole = held == [node.engine.room.round] * self.buckets and phase != "syncing"
        if whole and node.numbers.digest(node.numbers.base) != node.engine.room.digest:
            raise InvariantBroken(f"5: {name} left with other weights than the committed ones")

    # -- the network --

    def transmit(self, sender: str, to: str, message: RoundMessage, payload: Payload | None) -> None:
        """Reliable per link until the link dies, and in order per lane: control has one, bulk several.

        What is lost on the way comes later, with all that follows on its lane; now and then something comes twice.
        """
        self.messages[sender] = self.messages.get(sender, 0) + 1
        if self.messages[sender] == self.crashes.get(sender):
            self.kill(sender)
        if isinstance(message, (Join, SnapshotRequest)):
            self._asked[sender] = self.now
        pair = frozenset((sender, to))
        if isinstance(message, (Plan, Commit)) and self.nodes[sender].honest:
            self.announced(sender, message)
        if pair not in self.linked:
            return
        bulk = isinstance(message, BULK)
        lane = self.rng.randint(1, LANES) if bulk else 0
        leaves = self.now
        if bulk and (uplink_s := self.nodes[sender].uplink_s):
            leaves = self._sent[sender] = max(self.now, self._sent.get(sender, 0.0)) + uplink_s
        delay = self.rng.expovariate(20.0)
        if self.loss and self.rng.random() < self.loss:
            delay += self.rng.uniform(0.2, 2.0)
        at = max(self._arrival.get((sender, to, lane), 0.0), leaves + delay)
        self._arrival[(sender, to, lane)] = at
        deliver = partial(self._deliver, pair, self._epoch[pair], sender, to, message, payload)
        self.after(at - self.now, deliver)
        if self.rng.random() < self.repeat:
            self.after(at - self.now + self.rng.expovariate(1.0), deliver)

    def _deliver(
        self, pair: frozenset[str], epoch: int, sender: str, to: str, message: RoundMessage, payload: Payload | None
    ) -> None:
        if pair in self.linked and self._epoch[pair] == epoch:
            if isinstance(message, Applied):
                self._applied.setdefault(message.stamp, set()).add(sender)
            node = self.nodes[to]
            if isinstance(message, Beat) and not node.asleep:
                self._heard[(sender, to)] = self.now
            node.event(lambda: node.engine.received(sender, message, payload, node.now))

    # -- what must always hold --

    def announced(self, sender: str, message: Plan | Commit) -> None:
        """A commit needs the digests of all contributors that can still speak, or a deadline that has passed."""
        if isinstance(message, Plan):
            deadline_s = self.nodes[sender].engine.leader.deadline_s  # by the commit it is that of the next round
            self._planned.setdefault(message.stamp, (self.now, message, deadline_s))
            return
        planned = self._planned.get(message.stamp)
        if planned is None:
            raise InvariantBroken(f"1: {sender} commits {message.stamp}, which was never planned")
        since, plan, deadline_s = planned
        present = self.nodes[sender].engine.leader.present_members()
        for share in plan.shares:
            node = self.nodes[share.peer]
            can_speak = node.alive and not node.left and frozenset((sender, share.peer)) in self.linked
            said = share.peer == sender or share.peer in self._applied.get(message.stamp, set())
            gone = share.peer not in present
            late = self.now - since >= 0.97 * deadline_s
            if can_speak and not said and not gone and not late:
                raise InvariantBroken(f"1: {sender} commits {message.stamp} without the digest of {share.peer}")

    def committed(self, node: Node, round_: int) -> None:
        """Invariant 1: whoever commits a round in a view holds the same weights."""
        if all(version == round_ for version in node.numbers.versions):
            digest = node.numbers.digest(node.numbers.base)
            if digest == node.engine.room.digest:
                key = (*node.engine.room.view.order, round_)
                if self.commits.setdefault(key, digest) != digest:
                    raise InvariantBroken(f"1: {node.name} committed round {round_} with other weights")

    def check(self, node: Node) -> None:
        """After every event, for the member that it happened to."""
        if node.honest and node.alive and not node.left:
            self._check_weights(node)
            self._check_lead(node)
            self._check_times(node)
            self._check_memory(node)
        node.view = node.engine.room.view

    def _check_weights(self, node: Node) -> None:
        """Invariants 1 and 5: who trains, trains from the weights whose digest the room has."""
        room, phase, n = node.engine.room, node.engine.member.phase, node.numbers
        if not all(map(math.isfinite, n.base)):
            raise InvariantBroken(f"3: {node.name} holds numbers that are not finite")
        if phase in ("training", "ready", "done") and room.whole:
            if n.digest(n.base) != room.digest:
                raise InvariantBroken(
                    f"1: {node.name} is {phase} with other weights than the room's of round {room.round}"
                )
            self._held.setdefault(room.round, set()).add(node.name)

    def _check_lead(self, node: Node) -> None:
        """Nobody leads before those who were there longer, and of each view there is one leader."""
        before, view = node.view, node.engine.room.view
        if view == before:
            return
        self.log(f"{node.name}: view {view.order} {view.members}")
        known = self.leaders.setdefault(view.order, view.leader) if view.members else ""
        if known != view.leader and self.nodes[view.leader].honest and self.nodes[known].honest:
            raise InvariantBroken(f"1: {view.leader} and {known} both lead view {view.order}")
        if before.members and view.members and view.leader != before.leader and self._led_well(node, before):
            raise InvariantBroken(f"lead: {node.name} follows {view.leader} while {before.leader} leads it")
        if view.members:
            new = [peer for peer in view.members if peer not in node.seen]
            if view.term == before.term and new and view.members[-len(new) :] != tuple(new):
                old = [peer for peer in view.members if peer in before.members]
                if old and view.members.index(new[0]) < view.members.index(old[0]):
                    raise InvariantBroken(f"lead: a newcomer comes first: {before.members}, then {view.members}")
            node.seen.update(view.members)

    def _led_well(self, node: Node, view: View) -> bool:
        """Whether the leader of this view still leads, and this member hears it; for itself: whether most follow it."""
        if view.leader != node.name:
            if frozenset((view.leader, node.name)) not in self.linked:
                return False
            leader = self.nodes[view.leader]
            heard = self.now - self._heard.get((view.leader, node.name), float("-inf")) < 2.0
            return heard and leader.honest and leader.alive and not leader.left and leader.engine.room.leading
        others = [self.nodes[peer] for peer in view.members if peer in self.nodes and peer != node.name]
        follow = [
            other for other in others if other.honest and other.engine.room.view.term == view.term
            and self.now - self._heard.get((other.name, node.name), float("-inf")) < 2.0
        ]
        return len(follow) * 2 > len(others)

    def _check_times(self, node: Node) -> None:
        """Invariant 4: nobody who is ready waits longer than the deadline, unless what it waits for moves."""
        engine = node.engine
        if engine.room.leading and engine.leader.overdue_s > SLACK_S + self.policy.beat_s:
            raise InvariantBroken(f"4: {node.name} {engine.leader.machine.state} waits for {engine.leader.awaited()}, "
                                  f"{engine.leader.overdue_s:.1f} s over the deadline")

    def _check_memory(self, node: Node) -> None:
        """Invariant 6: what a member holds is a multiple of the model, whatever the number of members.

        The buckets that it reduces, added up as they come; all results; and what came before its plan.
        """
        n = node.numbers
        kept = len(n.kept) + len(n.results)
        early = node.engine.member.early
        if kept > 2 * self.buckets or early > 2 * (self.buckets + len(self.nodes)):
            raise InvariantBroken(f"6: {node.name} holds {kept} buckets, and {early} that came before their plan")

    # -- running --

    def run(self, until: float, done: Callable[[], bool]) -> None:
        """Go on until `done`; invariant 4: that is before `until` (virtual seconds)."""
        look_at = 0.0
        while self._queue:
            if self.now >= look_at:  # not after every event: it asks all members
                if done():
                    return
                look_at = self.now + LOOK_S
            self.now, _, what = heapq.heappop(self._queue)
            self.events += 1
            if self.now > until:
                states = {n.name: (n.engine.member.phase, n.engine.leader.machine.state, n.engine.room.round,
                                   n.engine.room.view) for n in self.living()}
                raise InvariantBroken(f"4: not done after {until} s: {states}")
            what()

    def living(self) -> list[Node]:
        """Members that still take part and mean well; one that came when nobody was there any more waits."""
        here = {node.name for node in self.nodes.values() if node.alive and not node.left}
        company = set().union(*(pair for pair in self.linked if pair <= here))
        return [node for node in self.nodes.values() if node.honest and node.name in here
                and (node.seen or node.name in company)]

    def all_finished(self) -> bool:
        """Everyone who lives has all rounds."""
        return all(node.finished for node in self.living())

    def agreed(self) -> bool:
        """Everyone who lives has all rounds, and holds the same weights; or the weights are lost, see there."""
        return len(self._kinds()) <= 1 if self.all_finished() else self.lost_weights()

    def lost_weights(self) -> bool:
        """All who held the room's weights are gone, and those who were still fetching them wait for one to come back.

        That may not hide a hang: nobody who is here may have anything to go on from, and all must say so and ask.
        """
        living = self.living()
        if not living or any(node.engine.room.whole for node in living):
            self._lost_at = math.inf
            return False
        self._lost_at = min(self._lost_at, self.now)
        if self.now - self._lost_at < LOST_S:
            return False
        self._must_be_lost(living)
        return True

    def _must_be_lost(self, living: list[Node]) -> None:
        newest = max(self._held)
        if keepers := {node.name for node in living} & self._held[newest]:
            raise InvariantBroken(f"4: {keepers} had round {newest}, and nobody goes on from it")
        reach = {bucket for node in living for bucket, version in enumerate(node.engine.room.versions)
                 if version >= newest}
        if len(reach) == self.buckets:
            raise InvariantBroken(f"4: together they hold round {newest}, and nobody goes on from it")
        for node in living:
            versions = set(node.engine.room.versions)
            if len(versions) == 1 and versions != {NEVER}:
                raise InvariantBroken(f"4: {node.name} holds round {versions}, and nobody goes on from it")
            if node.engine.member.phase != "syncing" and node.engine.room.inside:
                raise InvariantBroken(f"4: {node.name} is {node.engine.member.phase} and does not say what it lacks")
            company = any(node.name in pair for pair in self.linked if all(self.nodes[one].alive for one in pair))
            if company and self._asked.get(node.name, -math.inf) < self._lost_at:
                raise InvariantBroken(f"4: {node.name} lacks weights and asks nobody")

    def _kinds(self) -> set[tuple[int, tuple[float, ...]]]:
        return {(node.engine.room.round, tuple(node.numbers.base)) for node in self.living()}

    def check_equal(self) -> None:
        """Invariant 1 at the end: the same round and bit-identical weights everywhere."""
        if len(self._kinds()) > 1:
            living = self.living()
            raise InvariantBroken(f"1: {[(n.name, n.engine.room.round, n.numbers.base[:2]) for n in living]}")
