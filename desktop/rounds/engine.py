"""The round engine of one member: takes events, gives actions. Same code over WebRTC, loopback and simulator.

Whoever runs it calls one method per event with the time, then carries out `take()` in order. Membership is
settled here; `member` does my part in a round, `leader` drives the rounds while I lead.

A member of a room is outside (wants in), follows, leads, or has left. The longest-standing member leads; when it is
lost, the next one takes over with a higher term. Of two views that meet, the greater one counts (more members,
then the later round, then the higher term) and the members of the other join it.

Not everyone who has the room's key may mean well. While a view works, nobody else than its leader is followed,
whatever it claims; a view that somebody claims counts only those members that I have a link to and that are not with
me already. What cannot be defended: a leader that lies, a room in which liars are half of it or more (a newcomer
included, which can only believe whom it meets first), and updates that look right and are not.

{diagram}
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from desktop.rounds.actions import Action, Send, SendSnapshot
from desktop.rounds.fetch import WINDOW
from desktop.rounds.leader import ASIDE, LISTEN_S, Leader
from desktop.rounds.machine import Machine, Table, every
from desktop.rounds.member import Member
from desktop.rounds.messages import (
    LARGEST,
    MOST_FIGURES,
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
ROSTER_MEMBERS = 32  # in a room of more, not every beat has a roster: to each a line for each grows with the square
COMPARE_S = 2.0  # how often a leader says where it stands to those who are not with it
SILENT_S = 5.0  # who sent nothing of an exchange for so long is named to the leader before those that are only slow
SERVED_S = 4.0  # before a bucket of weights is sent to the same peer again, at first; less than `fetch.PATIENCE_S`
SERVED = 10_000  # how many such times are remembered
STANDING = Table(
    "outside",
    {
        ("outside", "founded"): "leading",
        ("outside", "let in"): "following",
        ("following", "took over"): "leading",
        ("leading", "ousted"): "following",
        **every(("following", "leading"), "out", "outside"),
        **every(("outside", "following", "leading"), "left", "left"),
    },
)
__doc__ = (__doc__ or "").replace("{diagram}", STANDING.diagram())


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
        self.machine = Machine(STANDING)
        self._last_beat = float("-inf")
        self._beats = 0  # that I sent as the leader
        self._heard = 0.0  # when the leader was last heard, or began to be waited for
        self._alive = 0.0  # when anything happened last
        self._led_at = 0.0  # when a leader was really heard
        self._compared = float("-inf")  # when I last said where I stand to those who are not with me
        self._absent: set[PeerId] = set()  # connected, but left or silent
        self._out = 0.0  # since when I am outside
        self._was_inside = False
        self._spoken: dict[PeerId, float] = {}  # when connected peers last said something: who never did has not begun
        self._views: dict[PeerId, float] = {}  # who says that it leads a view, and when it said so last
        self._says: dict[PeerId, tuple[PeerId, float]] = {}  # whom connected peers follow, and when they said so
        self._told: dict[PeerId, float] = {}  # when I said so to somebody outside
        self._heard_of = False  # whether anybody ever said so
        self._asking: dict[PeerId, tuple[Join, float]] = {}  # who asked me to be let in, and when: they are out as well
        self._served: dict[tuple[PeerId, int, int], tuple[float, float]] = {}  # to whom, which bucket, version: when
        self._aside = False  # whether nobody waits for me, by the leader's roster
        self._leader_beat: Beat | None = None
        self._missing = 0
        self._serial = (0, 0, 0)  # of the latest announcement
        self._waiting: tuple[int, tuple[PeerId, ...], float] = (-1, (), 0.0)  # round, for whom, since
        self.metrics: dict[int, dict[PeerId, Metrics]] = {}

    # -- events from the surroundings --

    def begin(self, now: float) -> None:
        """Enter the room: found it, or ask to be let in."""
        self.room.now = self._heard = self._led_at = self._out = self._alive = now
        if self._founder:
            self.machine.fire("founded")
            self.leader.found()
            self.leader.boundary()
        else:
            self._ask_in()
        self._settle()

    def connected(self, peer: PeerId, name: str, now: float) -> None:
        """A link to this peer is open."""
        self._advance(now)
        self.room.connected.add(peer)
        if name:
            self.room.names[peer] = name
        self.room.send(peer, Hello(self.room.view, self.room.round))
        if peer == self.room.view.leader and self.room.inside:
            self._join(peer)  # while the link was gone, the leader counted me out
        self._settle()

    def lost(self, peer: PeerId, now: float) -> None:
        """The link to this peer is gone."""
        self._advance(now)
        self.room.connected.discard(peer)
        self._absent.discard(peer)
        self._asking.pop(peer, None)
        self._views.pop(peer, None)
        self._says.pop(peer, None)
        self._told.pop(peer, None)
        self._spoken.pop(peer, None)
        self._gone(peer)
        self._settle()

    def received(self, sender: PeerId, message: RoundMessage, payload: object, now: float) -> None:
        """A message of a peer; never raises, whatever the peer says."""
        self._advance(now)
        if not self._left and sender != self.room.me:
            self._dispatch(sender, message, payload)
        self._settle()

    def _advance(self, now: float) -> None:
        """It is later. When nothing happened for long, I slept (or the computer did): nobody was silent meanwhile."""
        slept = now - self._alive - 2 * self.room.policy.beat_s
        self.room.now = self._alive = now
        if slept > 0:
            self._heard += slept
            self._out += slept
            self.leader.slept(slept)

    def tick(self, now: float) -> None:
        """Call this at least twice per beat."""
        room = self.room
        self._advance(now)
        if self._left:
            return
        if now - self._last_beat >= room.policy.beat_s:
            self._last_beat = now
            self._beat()
            if not room.inside:
                self._ask_in()
                self._found_anew()
            elif room.leading and now - self._compared >= COMPARE_S:
                self._compared = now
                room.tell(sorted(room.connected - set(room.view.members)), Hello(room.view, room.round))
            if self.member.phase == "syncing":
                self.member.fetch.work()
            if room.inside and not room.leading and now - self._heard > room.policy.silent_s:
                self._heard = now
                self._miss_the_leader()
        if room.leading:
            self.leader.work()
            if self.leader.unwanted:
                room.note("care", "Most members follow somebody else; I ask to be let in.", room.me)
                self._start_over()
        self._settle()

    @property
    def wanted(self) -> Values:
        """How the room will train from the next round on, as far as I know."""
        return self.leader.wanted

    def change(self, new: Mapping[str, Any], now: float) -> str:
        """Train so from the next round on, the whole room; "", or the reason why that cannot be.

        `new` names what is to be another (see `Values.changed`); the rest stays as it is wanted already.
        """
        self._advance(now)
        if self.room.leading and not self._left:
            why = self.leader.change(new)
            self._settle()
            return why
        leader = self.room.view.leader
        return f"{self.room.name(leader)} leads the rounds and decides this" if leader else "I am not in the room"

    def leave(self, now: float) -> None:
        """Go, and say so. Committed weights stay as they are."""
        self._advance(now)
        if not self._left:
            self.room.tell(sorted(self.room.connected), Leave())
            self.machine.fire("left")
            self.member.drop_carried("I leave")
            self.member.out()
        self._settle()

    # -- answers to actions --

    def trained(self, round_: int, samples: int, now: float) -> None:
        """Answer to `Train`."""
        self._advance(now)
        self.member.trained(round_, samples)
        self._settle()

    def reduced(self, stamp: Stamp, bucket: int, now: float) -> None:
        """Answer to `Reduce`."""
        self._advance(now)
        self.member.reduced(stamp, bucket)
        self._settle()

    def unusable(self, stamp: Stamp, peer: PeerId, why: str, now: float) -> None:
        """Answer to `Keep`, `KeepResult` or `Reduce` when a payload cannot be used."""
        self._advance(now)
        self.member.unusable(stamp, peer, why)
        self._settle()

    def unusable_snapshot(self, bucket: int, peer: PeerId, why: str, now: float) -> None:
        """Answer to `Restore` when the payload cannot be used."""
        self._advance(now)
        self.room.note("bad", f"Weights from {self.room.name(peer)} could not be used: {why}.", peer)
        self.member.fetch.again(bucket)
        self._settle()

    def not_applied(self, buckets: tuple[int, ...], now: float) -> None:
        """Answer to `ApplyResults` when results of these buckets turned out to be unusable."""
        self._advance(now)
        self.member.not_applied(buckets)
        self._settle()

    def digested(self, stamp: Stamp, digest: str, now: float) -> None:
        """Answer to `DigestResults`."""
        self._advance(now)
        self.member.digested(stamp, digest)
        self._settle()

    def base_digested(self, round_: int, digest: str, now: float) -> None:
        """Answer to `DigestBase`."""
        self._advance(now)
        self.member.base_digested(round_, digest)
        self._settle()

    def validated(self, metrics: Metrics, now: float) -> None:
        """Answer to `Validate`: tell the room."""
        self._advance(now)
        self._keep_metrics(self.room.me, metrics)
        self.room.tell(self.room.view.members, metrics)
        self._settle()

    # -- what comes out --

    @property
    def has_left(self) -> bool:
        """Whether `leave` was called."""
        return self._left

    @property
    def _left(self) -> bool:
        return self.machine.state == "left"

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

    def room_metrics(self, round_: int) -> Metrics | None:
        """The room's figures after a round: the mean of its members' (that have it), weighted by their samples.

        So loss, accuracy and absolute error are those of all samples together; F1, AUC and R² are means of members'.
        """
        known = [m for m in self.metrics.get(round_, {}).values() if m.samples > 0]
        if not known:
            return None
        names = dict.fromkeys(name for m in known for name in m.figures)
        figures = {name: mean([(m.figures[name], m.samples) for m in known if name in m.figures])
                   for name in list(names)[:MOST_FIGURES]}
        right = [(m.accuracy, m.samples) for m in known if m.accuracy is not None]
        return Metrics(round_, mean([(m.loss, m.samples) for m in known]), mean(right) if right else None,
                       sum(m.samples for m in known), figures)

    def end_early(self, now: float) -> int:
        """The next round that is announced is the last; its number, or 0 when I do not lead or so few are left."""
        self._advance(now)
        return self.leader.end_early() if self.room.leading and not self._left else 0

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
        if sender in room.connected:
            self._spoken[sender] = room.now
        match message:
            case Hello(view=view, round=round_):
                if plausible(*view.order, round_):
                    self._compare(sender, view, round_)
            case StaleView(view=view, round=round_):
                if plausible(*view.order, round_):
                    self._not_followed(sender, view, round_)
            case Join():
                if plausible(message.round):
                    self._asked(sender, message)
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
                    self._heard = self._led_at = room.now
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
        if not isinstance(message, TakeOver) and not message.values.sound:
            room.note("bad", f"{room.name(sender)} announced values that nobody can train with.", sender)
            return
        rival = view.term == room.view.term and view.leader != room.view.leader
        if not self._may_lead(sender) or (room.inside and (view.order < room.view.order or rival)):
            if room.inside:
                room.send(sender, StaleView(room.view, room.round))
            return
        if sender != room.me:
            if room.leading:
                self.machine.fire("ousted")
                self.leader.ousted()
            if view.leader != room.view.leader:
                room.note("info", f"{room.name(sender)} leads the rounds.", sender)
            self._heard = self._led_at = room.now
        entering = not room.inside
        room.enter(view)
        if entering:
            self.machine.fire("let in")
        self._was_inside = True
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
            self.machine.fire("took over")
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
            self._was_inside = True
        self.machine.fire("out")
        self.leader.ousted()
        self.room.view = View()
        self.member.out()

    def _asked(self, sender: PeerId, join: Join) -> None:
        """Somebody wants in. Who asks is outside, even if it led me until now."""
        room = self.room
        if sender in room.connected:
            self._asking[sender] = (join, room.now)
            self._views.pop(sender, None)
        if room.leading:
            self.leader.wants_in(sender, join)
        elif room.inside and sender not in room.view.members:
            if room.now - self._told.get(sender, float("-inf")) >= COMPARE_S:
                self._told[sender] = room.now
                room.send(sender, Hello(room.view, room.round))  # so that it knows whom most follow here
        elif room.inside and sender == room.view.leader and room.now - self._led_at > 2 * room.policy.beat_s:
            self._absent.add(sender)
            self._gone(sender)

    def _found_anew(self) -> None:
        """When all wait to be let in by each other, the one with the newest weights lets them.

        That is so at once when everybody asks, and after a while when nobody leads. Who was never inside leads only
        when everybody asks: the host may just not have begun. But a host that was there and is gone is not waited for.
        """
        room = self.room
        known = self._was_inside or self._heard_of
        speaking = {peer for peer, at in self._spoken.items() if room.now - at < room.policy.silent_s}
        never = set() if known else room.connected - set(self._spoken)
        others = room.connected & speaking | never
        asking = {peer: join for peer, (join, at) in self._asking.items() if room.now - at < LISTEN_S}
        all_ask = bool(others) and all(peer in asking for peer in others)
        led = any(room.now - at < 2 * COMPARE_S for at in self._views.values())
        if led or not room.whole or not (all_ask or self._was_inside):
            return
        waited = room.now - self._out
        if waited < (LISTEN_S if all_ask and self._was_inside else room.policy.silent_s):
            return
        if known and waited > 2 * room.policy.silent_s:
            asking.clear()  # the better one does not do it: it may still wait for somebody whom I know to be gone
        mine = (room.round, room.me)
        if all((join.round, peer) < mine for peer, join in asking.items() if join.digest):
            room.note("care", "Nobody leads the rounds any more. I lead now.", room.me)
            self.machine.fire("founded")
            self.leader.found(anew=True)
            room.tell(sorted(room.connected), Hello(room.view, room.round))
            self.leader.boundary()

    def _may_lead(self, sender: PeerId) -> bool:
        """Whether I may follow this one: it leads me, or whom I follow and all before it are gone, as far as I see.

        While a view works, nobody can take it over, whatever terms it claims; least of all who is not in it.
        """
        room = self.room
        if not room.inside:
            return self._most_follow(sender)
        if sender == room.view.leader:
            return True
        if room.leading:  # a stranger that leads others says Hello, and its view is compared with mine
            return sender in room.view.members and not self.leader.supported(sender)
        quiet = room.now - self._led_at
        if sender not in room.view.members or quiet > room.policy.silent_s:
            return quiet > room.policy.silent_s
        before = room.view.members[: room.view.members.index(sender)]
        return not any(
            peer == room.me or (peer in room.connected and peer not in self._absent and
                                not (peer == room.view.leader and quiet > LISTEN_S))
            for peer in before
        )

    def _most_follow(self, sender: PeerId) -> bool:
        """Whether no other leader has more followers among those that I have just heard from."""
        room = self.room
        votes = Counter(
            leader for peer, (leader, at) in self._says.items()
            if peer != sender and leader in room.connected and room.now - at < 3 * COMPARE_S
        )
        mine = votes.pop(sender, 0) + 1
        return mine >= max(votes.values(), default=0)

    def _not_followed(self, sender: PeerId, view: View, round_: int) -> None:
        """What I said for my view was not followed: this one is followed instead."""
        room = self.room
        if not room.inside or view.leader == room.view.leader == room.me:
            return
        if room.leading:
            self.leader.refused(sender)
            if not self.leader.asking and not self._compare(sender, view, round_):
                room.send(sender, Hello(room.view, room.round))
        elif sender == room.view.leader and room.me not in view.members:
            self._change_sides(view, sender)

    def _compare(self, sender: PeerId, view: View, round_: int) -> bool:
        """Two views meet: the members of the lesser one join the greater one. True when I do.

        Of a view that somebody claims only those count whom I have a link to and who are not with me.
        """
        room = self.room
        if not view.members:
            return False
        if sender in room.connected:
            self._says[sender] = (view.leader, room.now)
        if sender == view.leader and sender in room.connected:
            self._views[sender] = room.now
            self._heard_of = True
        if not room.inside:
            self._out = max(self._out, room.now) if not self._was_inside else self._out
            self._join(sender)
            return False
        if view.leader == room.view.leader:
            return False
        if room.leading and self.leader.asking and view.leader not in room.connected:
            return False  # whom I take over from; if most still follow it they refuse me, and I give up then
        mine = self._with_me()
        theirs = (room.connected & set(view.members)) - mine
        if (len(theirs), round_, view.term, view.leader) <= (len(mine), room.round, room.view.term, room.view.leader):
            return False
        self._change_sides(view, sender)
        return True

    def _with_me(self) -> set[PeerId]:
        """Members of my view, as far as I see that it works."""
        room = self.room
        if room.leading:
            return {room.me, *self.leader.followers()}
        quiet = room.now - self._led_at
        if room.view.leader in room.connected and quiet < LISTEN_S:
            return set(room.view.members)
        return set(room.present()) if quiet < room.policy.silent_s else {room.me}

    def _change_sides(self, view: View, sender: PeerId) -> None:
        room = self.room
        if room.inside:
            room.note("care", f"The room was split. I join the side of {room.name(view.leader)}.", view.leader)
        self._step_out()
        self._join(view.leader if view.leader in room.connected else sender)

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
            if 0 <= bucket < room.buckets and room.versions[bucket] != NEVER and self._may_have(sender, bucket):
                room.do(SendSnapshot(sender, room.versions[bucket], bucket))

    def _may_have(self, peer: PeerId, bucket: int) -> bool:
        """Who asks for the same again and again gets it less and less often: it may still be on its way."""
        what = (peer, bucket, self.room.versions[bucket])
        at, wait_s = self._served.pop(what, (float("-inf"), SERVED_S / 2))
        enough = self.room.now - at >= wait_s
        self._served[what] = (self.room.now, 2 * wait_s) if enough else (at, wait_s)
        if len(self._served) > SERVED:
            del self._served[next(iter(self._served))]
        return enough

    def _take_beat(self, sender: PeerId, message: Beat) -> None:
        room = self.room
        if sender not in room.view.members:
            if room.leading:
                room.send(sender, StaleView(room.view, room.round))  # it was counted out while it could not hear
            return
        if (message.term, message.view) != room.view.order:
            return
        if sender == room.view.leader:
            self._heard = self._led_at = room.now
            self._absent.discard(sender)
            self._take_roster(message)
        if room.leading:
            self.leader.beat(sender, message)

    def _take_roster(self, message: Beat) -> None:
        """What the leader's beat tells me of all members; between two rosters the last one counts."""
        if message.roster or self._leader_beat is None:
            self._learn_who_is_whole(message.roster)
            self._learn_whether_aside(message.roster)
        else:
            message = replace(message, roster=self._leader_beat.roster)
        self._leader_beat = message

    def _beat(self) -> None:
        room, member = self.room, self.member
        if not room.inside:
            return
        exchange = member.exchange
        mine = Beat(
            *room.view.order, room.round, member.phase,
            exchange.moved if exchange else 0, exchange.blamed(room.now - SILENT_S) if exchange else (),
        )
        if not room.leading:
            room.send(room.view.leader, mine)
            return
        self.leader.beat(room.me, mine)
        leader = self.leader
        roster = leader.roster(member.phase)
        self._learn_who_is_whole(roster)
        self._beats += 1
        if self._beats % (1 + len(roster) // ROSTER_MEMBERS):
            roster = ()
        room.tell(
            room.view.members,
            Beat(
                *room.view.order, room.round, leader.machine.state, 0, leader.awaited(),
                leader.deadline_s, leader.left_s, leader.quorum, roster,
            ),
        )

    def _learn_who_is_whole(self, roster: tuple[Seat, ...]) -> None:
        self.room.whole_peers = frozenset(seat.peer for seat in roster if seat.phase not in ("", "syncing"))

    def _learn_whether_aside(self, roster: tuple[Seat, ...]) -> None:
        aside = any(seat.peer == self.room.me and seat.phase == ASIDE for seat in roster)
        if aside and not self._aside:
            self.room.note("care", "I was late and the others go on without me; I take part again when I am ready in "
                                   "time.", self.room.me)
        self._aside = aside

    def _keep_metrics(self, sender: PeerId, message: Metrics) -> None:
        newest = self.room.round + 1
        if message.sound and max(0, newest - METRICS_KEPT) < message.round <= newest:
            self.metrics.setdefault(message.round, {})[sender] = message
            for old in [round_ for round_ in self.metrics if round_ <= newest - METRICS_KEPT]:
                del self.metrics[old]


def mean(weighted: list[tuple[float, int]]) -> float:
    """Mean of values by their weights above 0."""
    total = sum(weight for _, weight in weighted)
    return sum(value * (weight / total) for value, weight in weighted)


def plausible(*numbers: int) -> bool:
    """Whether rounds, terms and numbers of views are such that one can go on counting from them."""
    return all(0 <= number <= LARGEST for number in numbers)
