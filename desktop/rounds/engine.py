"""The round engine of one member: takes events, gives actions. Same code over WebRTC, loopback and simulator.

Whoever runs it calls one method per event with the time, then carries out `take()` in order. Membership is
settled here; `member` does my part in a round, `leader` drives the rounds while I lead.

A member of a room is outside (wants in), inside, or has left. The longest-standing member leads; when it is
lost, the next one takes over with a higher term. Of two views that meet, the greater one counts (more members,
then the later round, then the higher term) and the members of the other join it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from math import isfinite

from desktop.rounds.actions import Action, Send, SendSnapshot
from desktop.rounds.fetch import WINDOW
from desktop.rounds.leader import Leader
from desktop.rounds.member import Member
from desktop.rounds.messages import (
    LARGEST,
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
    PeerId,
    Plan,
    Ready,
    Refused,
    Result,
    RoundMessage,
    Seat,
    SnapshotBucket,
    SnapshotRequest,
    StaleView,
    Stamp,
    Standing,
    TakeOver,
    Values,
    View,
)
from desktop.rounds.policy import RoomPolicy
from desktop.rounds.room import NEVER, Room

METRICS_KEPT = 16  # rounds


@dataclass(frozen=True, slots=True)
class Status:
    """What a person wants to know of the engine now. Times in seconds."""

    phase: str
    round: int
    view: View
    inside: bool
    leading: bool
    digest: str
    waiting_on: tuple[PeerId, ...]
    waiting_since_s: float
    missing: int
    left_s: float
    deadline_s: float
    quorum: int
    roster: tuple[Seat, ...]
    exchanged: float  # part of the exchange that is done, 0..1
    fetched: float  # part of the weights that is here, 0..1


class RoundEngine:
    """See the module. `founder` founds the room's first view; everyone else asks to be let in."""

    def __init__(
        self, me: PeerId, policy: RoomPolicy, buckets: int, digest: str, *, founder: bool, round_: int = 0
    ) -> None:
        self.room = Room(me, policy, buckets, round=round_, digest=digest, versions=[round_] * buckets)
        self.member = Member(self.room)
        self.leader = Leader(self.room, self.member.catch_up, self.member.enter)
        self._founder = founder
        self._left = False
        self._last_beat = float("-inf")
        self._heard = 0.0  # when the leader was last heard
        self._absent: set[PeerId] = set()  # connected, but left or silent
        self._out: float | None = None  # since when I am out of the view that I was in
        self._asking: dict[PeerId, Join] = {}  # who asked me to be let in since then: they are out as well
        self._leader_beat: Beat | None = None
        self._missing = 0
        self._serial = (0, 0, 0)  # of the latest announcement
        self._waiting: tuple[int, tuple[PeerId, ...], float] = (0, (), 0.0)  # round, for whom, since
        self.metrics: dict[int, dict[PeerId, Metrics]] = {}

    # -- events from the surroundings --

    def begin(self, now: float) -> None:
        """Enter the room: found it, or ask to be let in."""
        self.room.now = self._heard = now
        if self._founder:
            self.leader.found()
            self.leader.boundary()
        else:
            self._ask_in()
        self._settle()

    def connected(self, peer: PeerId, name: str, now: float) -> None:
        """A link to this peer is open."""
        self.room.now = now
        self.room.connected.add(peer)
        if name:
            self.room.names[peer] = name
        self.room.send(peer, Hello(self.room.view, self.room.round))
        if peer == self.room.view.leader and self.room.inside:
            self._join(peer)  # while the link was gone, the leader counted me out
        self._settle()

    def lost(self, peer: PeerId, now: float) -> None:
        """The link to this peer is gone."""
        self.room.now = now
        self.room.connected.discard(peer)
        self._absent.discard(peer)
        self._asking.pop(peer, None)
        self._gone(peer)
        self._settle()

    def received(self, sender: PeerId, message: RoundMessage, payload: object, now: float) -> None:
        """A message of a peer; never raises, whatever the peer says."""
        self.room.now = now
        if not self._left and sender != self.room.me:
            self._dispatch(sender, message, payload)
        self._settle()

    def tick(self, now: float) -> None:
        """Call this at least twice per beat."""
        room = self.room
        room.now = now
        if self._left:
            return
        if now - self._last_beat >= room.policy.beat_s:
            self._last_beat = now
            self._beat()
            if not room.inside:
                self._ask_in()
                self._found_anew()
            if self.member.phase == "syncing":
                self.member.fetch.work()
            if room.inside and not room.leading and now - self._heard > room.policy.silent_s:
                self._heard = now
                self._miss_the_leader()
        if room.leading:
            self.leader.work()
        self._settle()

    def change(self, values: Values, now: float) -> str:
        """Train with these values from the next round on, the whole room; "", or the reason why that cannot be."""
        self.room.now = now
        if self.room.leading and not self._left:
            return self.leader.change(values)
        leader = self.room.view.leader
        return f"{self.room.name(leader)} leads the rounds and decides this" if leader else "I am not in the room"

    def leave(self, now: float) -> None:
        """Go, and say so. Committed weights stay as they are."""
        self.room.now = now
        if not self._left:
            self.room.tell(sorted(self.room.connected), Leave())
            self._left = True
            self.member.out()
        self._settle()

    # -- answers to actions --

    def trained(self, round_: int, samples: int, now: float) -> None:
        """Answer to `Train`."""
        self.room.now = now
        self.member.trained(round_, samples)
        self._settle()

    def reduced(self, stamp: Stamp, bucket: int, now: float) -> None:
        """Answer to `Reduce`."""
        self.room.now = now
        self.member.reduced(stamp, bucket)
        self._settle()

    def unusable(self, stamp: Stamp, peer: PeerId, why: str, now: float) -> None:
        """Answer to `Keep`, `KeepResult` or `Reduce` when a payload cannot be used."""
        self.room.now = now
        self.member.unusable(stamp, peer, why)
        self._settle()

    def unusable_snapshot(self, bucket: int, peer: PeerId, why: str, now: float) -> None:
        """Answer to `Restore` when the payload cannot be used."""
        self.room.now = now
        self.room.note("bad", f"Weights from {self.room.name(peer)} could not be used: {why}.", peer)
        self.member.fetch.again(bucket)
        self._settle()

    def not_applied(self, buckets: tuple[int, ...], now: float) -> None:
        """Answer to `ApplyResults` when results of these buckets turned out to be unusable."""
        self.room.now = now
        self.member.not_applied(buckets)
        self._settle()

    def digested(self, stamp: Stamp, digest: str, now: float) -> None:
        """Answer to `DigestResults`."""
        self.room.now = now
        self.member.digested(stamp, digest)
        self._settle()

    def base_digested(self, round_: int, digest: str, now: float) -> None:
        """Answer to `DigestBase`."""
        self.room.now = now
        self.member.base_digested(round_, digest)
        self._settle()

    def validated(self, metrics: Metrics, now: float) -> None:
        """Answer to `Validate`: tell the room."""
        self.room.now = now
        self._keep_metrics(self.room.me, metrics)
        self.room.tell(self.room.view.members, metrics)
        self._settle()

    # -- what comes out --

    @property
    def has_left(self) -> bool:
        """Whether `leave` was called."""
        return self._left

    def take(self) -> list[Action]:
        """The actions since the last call, in order."""
        actions, self.room.outbox = self.room.outbox, []
        return actions

    def status(self, now: float) -> Status:
        """A snapshot for people."""
        room, member, beat = self.room, self.member, self._leader_beat
        if room.leading:
            waiting, left, deadline, quorum = (
                self.leader.awaited(), self.leader.left_s, self.leader.deadline_s, self.leader.quorum
            )
            roster = self.leader.roster(self.member.phase)
        elif beat is not None and room.inside:
            waiting, left, deadline, quorum, roster = (
                beat.lacking, beat.left_s, beat.deadline_s, beat.quorum, beat.roster
            )
        else:
            waiting, left, deadline, quorum, roster = (), 0.0, 0.0, 1, ()
        if (room.round, waiting) != self._waiting[:2]:
            self._waiting = (room.round, waiting, now)
        exchange = member.exchange
        return Status(
            member.phase, room.round, room.view, room.inside, room.leading, room.digest, waiting,
            now - self._waiting[2], self._missing, left, deadline, quorum, roster,
            len(exchange.results) / max(1, room.buckets) if exchange else 0.0,
            sum(version == room.round for version in room.versions) / max(1, room.buckets),
        )

    def room_metrics(self, round_: int) -> tuple[float, float, int] | None:
        """(loss, accuracy, samples) of the room after a round: members' figures weighted by their samples."""
        known = [m for m in self.metrics.get(round_, {}).values() if m.samples > 0]
        total = sum(m.samples for m in known)
        if not total:
            return None
        loss = sum(m.loss * m.samples for m in known) / total
        return loss, sum(m.accuracy * m.samples for m in known) / total, total

    # -- inside --

    def _settle(self) -> None:
        """Deliver what I sent to myself until nothing of it is left: the leader is a member like any other."""
        room = self.room
        queue = deque(room.outbox)
        outside: list[Action] = []
        while queue:
            action = queue.popleft()
            if isinstance(action, Send) and action.to == room.me:
                room.outbox = []
                if not self._left:
                    self._dispatch(room.me, action.message, None)
                queue.extend(room.outbox)
            else:
                outside.append(action)
        room.outbox = outside

    def _dispatch(self, sender: PeerId, message: RoundMessage, payload: object) -> None:
        room, member, leader = self.room, self.member, self.leader
        match message:
            case Hello():
                self._compare(sender, message.view, message.round)
            case StaleView(view=view):
                if view.order >= room.view.order and room.me not in view.members:
                    self._change_sides(view, sender)
            case Join():
                if room.leading and plausible(message.round):
                    leader.wants_in(sender, message)
                elif not room.inside and sender in room.connected:
                    self._asking[sender] = message
            case Leave():
                self._absent.add(sender)
                self._gone(sender)
            case TakeOver(view=view) | Announce(view=view) | Pause(view=view):
                self._led(sender, message, view)
            case Standing() if room.leading and plausible(message.round):
                leader.stands(sender, message)
            case Ready() if room.leading:
                leader.ready(sender, message)
            case Applied() if room.leading:
                leader.applied(sender, message)
            case Complaint() if room.leading:
                leader.complaint(sender, message)
            case Plan() | Commit():
                if sender == room.view.leader and (message.stamp.term, message.stamp.view) == room.view.order:
                    self._heard = room.now
                    self._follow(message)
            case Beat():
                self._take_beat(sender, message)
            case Contribution() | Result():
                member.bulk(sender, message, payload)
            case SnapshotRequest(buckets=buckets):
                self._serve(sender, buckets)
            case SnapshotBucket():
                if 0 <= message.bucket < room.buckets and message.round <= room.round + 1:
                    member.fetch.arrived(sender, message, payload)
            case Metrics():
                self._keep_metrics(sender, message)
            case Refused(stamp=stamp, why=why) if sender in room.view.members:
                room.note("bad", f"{room.name(sender)} refused what I sent for round {stamp.round}: {why}.", sender)
                member.refused(message)

    def _follow(self, message: Plan | Commit) -> None:
        if isinstance(message, Plan):
            if message.sound and len(message.reducers) == self.room.buckets:
                self.member.planned(message)
            return
        self.member.committed(message)
        if self.room.leading:
            self.leader.committed()

    def _led(self, sender: PeerId, message: TakeOver | Announce | Pause, view: View) -> None:
        """A message that carries a view: it is newer than mine, or mine, or stale."""
        room = self.room
        round_ = 0 if isinstance(message, TakeOver) else message.round
        if view.leader != sender or room.me not in view.members or not plausible(*view.order, round_):
            return
        if isinstance(message, Announce) and not message.values.sound:
            room.note("bad", f"{room.name(sender)} announced values that nobody can train with.", sender)
            return
        rival = view.term == room.view.term and view.leader != room.view.leader
        if room.inside and (view.order < room.view.order or rival):
            room.send(sender, StaleView(room.view))
            return
        if sender != room.me:
            if room.leading:
                self.leader.ousted()
            if view.leader != room.view.leader:
                room.note("info", f"{room.name(sender)} leads the rounds.", sender)
            self._heard = room.now
        entering = not room.inside
        room.enter(view)
        self._out = None
        self._absent.clear()
        self._missing = 0
        if isinstance(message, TakeOver):
            room.send(sender, Standing(view.term, room.round, room.digest, room.whole))
            return
        if self._serial[:2] == view.order and message.serial <= self._serial[2] and not entering:
            return
        self._serial = (*view.order, message.serial)
        if entering:
            base = message.round - 1 if isinstance(message, Announce) else message.round
            self.member.enter(base, message.base_digest)
        if isinstance(message, Announce):
            self.member.announced(message)
        else:
            self._missing = message.missing
            self.member.paused(message)

    def _gone(self, peer: PeerId) -> None:
        """A peer is lost, silent or has left: it may have been the leader, or the one next to lead."""
        room = self.room
        if self._left:
            return
        self.member.lost(peer)
        able = tuple(p for p in room.present() if p not in self._absent)
        if room.inside and able == (room.me,) and not room.whole:
            self._start_over()  # alone and with half of the weights: nothing to lead with
        elif room.leading:
            self.leader.left(peer)
        elif room.inside and able[0] == room.me:
            severity = "info" if room.round >= room.values.rounds else "care"
            room.note(severity, f"{room.name(room.view.leader)} led the rounds and is gone. I lead now.", peer)
            self._absent.clear()
            self.leader.take_over(able)
            self.leader.work()

    def _miss_the_leader(self) -> None:
        """The leader says nothing: the next one takes over; if that says nothing either, the one after it."""
        room = self.room
        silent = next(peer for peer in room.present() if peer not in self._absent)
        if silent == room.me:
            self._start_over()
            return
        duty = "leads" if silent == room.view.leader else "should lead now"
        room.note("care", f"{room.name(silent)} {duty} but has said nothing for a while.", silent)
        self._absent.add(silent)
        self._gone(silent)

    def _start_over(self) -> None:
        self._step_out()
        self._ask_in()

    def _step_out(self) -> None:
        """Leave the view that I am in, to be let into another."""
        if self.room.inside:
            self._out = self.room.now
            self._asking.clear()
        self.leader.ousted()
        self.room.view = View()
        self.member.out()

    def _found_anew(self) -> None:
        """When those who were inside all wait to be let in by each other, the one with the newest weights lets them."""
        room = self.room
        if self._out is None or room.now - self._out < room.policy.silent_s or not room.whole:
            return
        mine = (room.round, room.me)
        if all((join.round, peer) < mine for peer, join in self._asking.items() if join.digest):
            room.note("care", "Nobody leads the rounds any more. I lead now.", room.me)
            self.leader.found()
            self._out = None
            room.tell(sorted(room.connected), Hello(room.view, room.round))
            self.leader.boundary()

    def _compare(self, sender: PeerId, view: View, round_: int) -> None:
        """Two views meet: the members of the lesser one join the greater one."""
        room = self.room
        if not view.members or room.me in view.members:
            return
        if not room.inside:
            self._join(sender)
        elif (
            view.leader != room.view.leader
            and sender not in room.view.members
            and self._weight(view, round_) > self._weight(room.view, room.round)
        ):
            self._change_sides(view, sender)

    def _change_sides(self, view: View, sender: PeerId) -> None:
        room = self.room
        if room.inside:
            room.note("care", f"The room was split. I join the side of {room.name(view.leader)}.", view.leader)
        self._step_out()
        self._join(view.leader if view.leader in room.connected else sender)

    @staticmethod
    def _weight(view: View, round_: int) -> tuple[int, int, int, str]:
        return (len(view.members), round_, view.term, view.leader)

    def _ask_in(self) -> None:
        for peer in sorted(self.room.connected):
            self._join(peer)

    def _join(self, peer: PeerId) -> None:
        room = self.room
        digest = room.digest if room.whole else ""
        room.send(peer, Join(room.round, digest, tuple(sorted(room.connected))))

    def _serve(self, sender: PeerId, buckets: tuple[int, ...]) -> None:
        room = self.room
        for bucket in dict.fromkeys(buckets[:WINDOW]):  # nobody asks one source for more
            if 0 <= bucket < room.buckets and room.versions[bucket] != NEVER:
                room.do(SendSnapshot(sender, room.versions[bucket], bucket))

    def _take_beat(self, sender: PeerId, message: Beat) -> None:
        room = self.room
        if sender not in room.view.members:
            if room.leading:
                room.send(sender, StaleView(room.view))  # it was counted out while it could not hear
            return
        if (message.term, message.view) != room.view.order:
            return
        if sender == room.view.leader:
            self._heard = room.now
            self._absent.discard(sender)
            self._leader_beat = message
            self._learn_who_is_whole(message.roster)
        if room.leading:
            self.leader.beat(sender, message)

    def _beat(self) -> None:
        room, member = self.room, self.member
        if not room.inside:
            return
        exchange = member.exchange
        mine = Beat(
            *room.view.order, room.round, member.phase,
            exchange.moved if exchange else 0, exchange.lacking() if exchange else (),
        )
        if not room.leading:
            room.send(room.view.leader, mine)
            return
        self.leader.beat(room.me, mine)
        leader = self.leader
        self._learn_who_is_whole(leader.roster(member.phase))
        room.tell(
            room.view.members,
            Beat(
                *room.view.order, room.round, leader.machine.state, 0, leader.awaited(),
                leader.deadline_s, leader.left_s, leader.quorum, leader.roster(member.phase),
            ),
        )

    def _learn_who_is_whole(self, roster: tuple[Seat, ...]) -> None:
        self.room.whole_peers = frozenset(seat.peer for seat in roster if seat.phase not in ("", "syncing"))

    def _keep_metrics(self, sender: PeerId, message: Metrics) -> None:
        newest = self.room.round + 1
        usable = isfinite(message.loss) and 0 <= message.accuracy <= 1
        if usable and max(0, newest - METRICS_KEPT) < message.round <= newest:
            self.metrics.setdefault(message.round, {})[sender] = message
            for old in [round_ for round_ in self.metrics if round_ <= newest - METRICS_KEPT]:
                del self.metrics[old]


def plausible(*numbers: int) -> bool:
    """Whether rounds, terms and numbers of views are such that one can go on counting from them."""
    return all(0 <= number <= LARGEST for number in numbers)
