"""The leader's part: announce, collect, plan, watch the exchange, commit. It holds no more weights than anyone.

{diagram}
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any
from zlib import crc32

from desktop.rounds import shares
from desktop.rounds.machine import Machine, Table, every
from desktop.rounds.messages import (
    Announce,
    Applied,
    Beat,
    Commit,
    Complaint,
    Join,
    Outer,
    Pause,
    PeerId,
    Plan,
    Ready,
    Seat,
    Share,
    Stamp,
    Standing,
    TakeOver,
    Values,
    View,
)
from desktop.rounds.policy import Deadline, Patience, weights
from desktop.rounds.room import Room

ASIDE = "aside"  # what the roster says of a member that is not waited for
NEVER_HEARD = float("-inf")
LISTEN_S = 3.0  # who has said nothing for so long may be gone; it is not taken for lost yet
MOST_STALLS = 3  # so often an exchange that stalls gets twice as long with its next attempt: links may be that slow
MOST_DEADLINES = 8  # that an exchange may take in all, however well it moves, where a few hold up the others
REACH_S = 6.0  # how long a newcomer may take to get its links to all members before it is let in without them

DUTIES = Table(
    "off",
    {
        ("off", "founded"): "gathering",
        ("off", "took over"): "asking",
        ("asking", "all stand"): "gathering",
        **every(("collecting", "exchanging"), "overtaken", "asking"),
        ("gathering", "enough"): "collecting",
        ("collecting", "too few"): "gathering",
        ("collecting", "planned"): "exchanging",
        ("exchanging", "planned"): "exchanging",
        ("exchanging", "agreed"): "committing",
        ("committing", "committed"): "gathering",
        ("exchanging", "too few"): "gathering",
        **every(("gathering", "collecting", "exchanging"), "over", "over"),
        ("over", "reopened"): "gathering",
        **every(("asking", "gathering", "collecting", "exchanging", "committing", "over"), "ousted", "off"),
    },
)
__doc__ = (__doc__ or "").replace("{diagram}", DUTIES.diagram())


def next_term(term: int, leader: PeerId) -> int:
    """A term after `term` that nobody but this leader takes: two that lost each other can both come to lead.

    The upper half counts, the lower half is drawn from the leader's id.
    """
    return ((term >> 32) + 1 << 32) + crc32(leader.encode())


class Leader:
    """Drives the rounds while I am the first of the view; off otherwise."""

    def __init__(
        self, room: Room, catch_up: Callable[[int, str], None], go_back: Callable[[int, str], None]
    ) -> None:
        self._room = room
        self._catch_up, self._go_back = catch_up, go_back
        self.machine = Machine(DUTIES)
        self._deadline = Deadline(room.policy)  # from the announcement until a member is ready
        self._moving = Deadline(room.policy)  # from the plan until a member has everything
        self._stalls = 0  # of the exchange in hand
        self._newcomers: dict[PeerId, tuple[float, Join]] = {}  # in order of arrival, with the time of the first asking
        self._admitted: dict[PeerId, float] = {}
        self._unsynced: set[PeerId] = set()
        self._ready: dict[PeerId, int] = {}
        self._uplinks: dict[PeerId, float] = {}  # as members said with their latest `Ready`
        self._applied: dict[PeerId, str] = {}
        self._patience = Patience()
        self._missing = 0  # members, by the last pause
        self._banned: set[PeerId] = set()  # for the round in hand only
        self._disputes: set[frozenset[PeerId]] = set()  # two of whom one says that it cannot exchange with the other
        self._fresh = False  # whether the round in hand was announced for the first time: its arrivals are measured
        # The values of the rounds whose arrivals were measured, and whether they were surveys.
        self._measured: tuple[Values, bool] | None = None
        self._announced_at = 0.0
        self._overtook: set[PeerId] = set()  # who said in this term that it is further than I
        self._sure = False  # whether I committed a round in this term: from then on nobody can be ahead of me
        self._stands: dict[PeerId, Standing] = {}
        self._stood_at: dict[PeerId, float] = {}  # when each answered in this term: it follows me
        self._beats: dict[PeerId, Beat] = {}
        self._heard: dict[PeerId, float] = {}  # when each was heard, not counting time that I slept since
        self._beat_at: dict[PeerId, float] = {}  # when its last beat came
        self._view_since = 0.0
        self._moved: dict[PeerId, tuple[int, float]] = {}  # per member: buckets moved, and when that last grew
        self._to_move: dict[PeerId, int] = {}  # per member: buckets that it needs of others, or reduces itself
        self._marks: dict[PeerId, int] = {}  # per member: buckets moved when the pace was looked at last
        self._marked_at = 0.0  # when that was
        self._half_s = 0.0  # after so many seconds of the exchange half of all had everything, 0 before that
        self._gone: set[PeerId] = set()  # left or lost since the last boundary
        self._shares: tuple[Share, ...] = ()
        self._wanted: Values | None = None  # from the next announcement on
        self._serial = 0
        self._stamp = Stamp(0, 0, 0)
        self._since = 0.0
        self._limit = self._deadline.seconds  # of the round in hand: fixed at its start, not by its own fastest member
        self._asked_since = self._asked_at = 0.0
        self._refused: set[PeerId] = set()  # members that follow somebody else, by what they answered to my taking over

    # -- who is in --

    def found(self, *, anew: bool = False) -> None:
        """The first member of a room founds its first view; or one founds it anew, in a term of its own."""
        room = self._room
        room.enter(View(next_term(room.newest_term, room.me) if anew else 1, 1, (room.me,)))
        self._view_since = room.now
        self.machine.fire("founded")
        self._sure = False

    def take_over(self, members: tuple[PeerId, ...]) -> None:
        """The members before me are lost: ask the rest where they stand."""
        room = self._room
        room.enter(View(next_term(room.newest_term, room.me), room.view.number + 1, members))
        self.machine.fire("took over")
        self._forget_round()
        self._newcomers.clear()
        self._gone.clear()
        self._sure = False
        self._overtook.clear()
        self._stood_at.clear()
        self._view_since = room.now
        self._ask()

    def _ask(self) -> None:
        """Ask all where they stand."""
        room = self._room
        self._stands = {room.me: Standing(room.view.term, room.round, room.digest, room.whole)}
        self._refused.clear()
        self._asked_since = self._asked_at = room.now
        room.tell(room.view.members, TakeOver(room.view))

    def followers(self) -> set[PeerId]:
        """Members that follow me, as far as I have just heard; while I take over, all that did not refuse.

        At first who refuses counts as well: it may only not have noticed yet that the one before me is gone.
        """
        room = self._room
        if self.asking:
            refused = self._refused if self._answered else set()
            return set(self._here()) - refused - {room.me}
        since = {peer: self._beat_at[peer] for peer, beat in self._beats.items() if beat.term == room.view.term}
        return {
            peer for peer in self._here()
            if room.now - max(at.get(peer, NEVER_HEARD) for at in (since, self._admitted, self._stood_at)) < LISTEN_S
        }

    def supported(self, without: PeerId) -> bool:
        """Whether at least half of the members, without this one and me, follow me."""
        others = set(self._room.view.members) - {self._room.me, without}
        return bool(others) and 2 * len(others & self.followers()) >= len(others)

    def slept(self, seconds: float) -> None:
        """I heard nothing for so long because I slept."""
        for peer in self._heard:
            self._heard[peer] += seconds
        for peer, (done, at) in self._moved.items():
            self._moved[peer] = (done, at + seconds)
        self._since += seconds
        self._marked_at += seconds
        self._announced_at += seconds
        self._view_since += seconds
        self._asked_since += seconds

    def refused(self, peer: PeerId) -> None:
        """A member follows somebody else and does not want me to lead; it may change its mind while I ask."""
        if peer in self._here():
            self._refused.add(peer)

    @property
    def asking(self) -> bool:
        """Whether I have taken over and ask where the others stand."""
        return self.machine.state == "asking"

    @property
    def unwanted(self) -> bool:
        """Whether I wanted to take over, and most others follow somebody else."""
        others = len(self._here()) - 1
        return self.asking and self._answered and len(self._refused) * 2 > others > 0

    @property
    def _answered(self) -> bool:
        """Whether those whom I ask have had the time to notice what I noticed."""
        return self._room.now - self._asked_since >= self._room.policy.silent_s / 2

    def ousted(self) -> None:
        """Somebody else leads now."""
        self.machine.fire("ousted")
        if self._wanted is not None:
            self._wanted = None
            self._room.note("care", "Somebody else leads the rounds: the room goes on training as before.")
        self._newcomers.clear()
        self._unsynced.clear()
        self._forget_round()

    def wants_in(self, peer: PeerId, message: Join) -> None:
        """A newcomer is let in at the next boundary; a member that asks again has missed something."""
        now = self._room.now
        if peer in self._here():
            if now - self._admitted.get(peer, NEVER_HEARD) < REACH_S:
                return  # sent before it knew that it is in
            self.left(peer)
        since, _ = self._newcomers.get(peer, (now, message))
        self._newcomers[peer] = (since, message)
        if self.machine.state in ("gathering", "over") and self._admissible():
            self.boundary()

    def _admissible(self) -> list[PeerId]:
        """Newcomers that can exchange with everyone; one that cannot is let in after a while all the same."""
        inside = list(self._here())
        admitted: list[PeerId] = []
        for peer, (since, message) in self._newcomers.items():
            waited = self._room.now - since >= REACH_S
            if peer in self._room.connected and (waited or {*inside, *admitted, peer} <= {*message.reach, peer}):
                admitted.append(peer)
        return admitted

    def stands(self, peer: PeerId, message: Standing) -> None:
        """Where a member stands: asked for after a take-over, or told because its weights are whole or not."""
        if message.term != self._room.view.term or peer not in self._here():
            return
        (self._unsynced.discard if message.synced else self._unsynced.add)(peer)
        self._stood_at[peer] = self._room.now
        if self.machine.state == "asking":
            self._stands[peer] = message
            self._refused.discard(peer)
        elif (
            message.synced and message.round > self._room.round and not self._sure and peer not in self._overtook
            and self.machine.fire("overtaken")
        ):
            self._overtook.add(peer)  # each can say so once: it may not be true
            self._ask()  # it committed a round that I announce once more: learn of it as after a take-over
            self._stands[peer] = message
        self.work()

    def left(self, peer: PeerId) -> None:
        """A member is gone: nothing waits for it any more; it is off the list at the next boundary.

        One that comes back meanwhile has missed messages, so it is a newcomer then.
        """
        room = self._room
        self._newcomers.pop(peer, None)
        self._uplinks.pop(peer, None)
        if peer in room.view.members:
            self._gone.add(peer)
        self._ready.pop(peer, None)
        self._applied.pop(peer, None)
        self._stands.pop(peer, None)
        self._beats.pop(peer, None)
        state = self.machine.state
        if state in ("gathering", "over"):
            self.boundary()
        elif state in ("collecting", "exchanging") and len(self._here()) < room.policy.min_members:
            self.machine.fire("too few")
            self.boundary()
        elif state == "exchanging" and any(share.peer == peer for share in self._shares) and not self._all_applied():
            self._replan(f"{room.name(peer)} is gone")
        else:
            self.work()

    def present_members(self) -> tuple[PeerId, ...]:
        """Members whose answers count now."""
        return self._able()

    def _here(self) -> tuple[PeerId, ...]:
        return tuple(peer for peer in self._room.present() if peer not in self._gone)

    # -- the round --

    def boundary(self) -> None:
        """Between two rounds: take newcomers in, the lost out, and announce the next round if enough are here."""
        room = self._room
        self._patience.release(room.now)
        here, admitted = self._here(), self._admissible()
        joins = [self._newcomers[peer][1] for peer in admitted]
        if not any(peer not in self._unsynced for peer in here) and any(join.digest for join in joins):
            self._adopt(max((join for join in joins if join.digest), key=lambda join: join.round))
        for peer in admitted:
            _, asked = self._newcomers.pop(peer)
            self._admitted[peer] = room.now
            same = (asked.round, asked.digest) == (room.round, room.digest)
            (self._unsynced.discard if same else self._unsynced.add)(peer)
        members = (*(peer for peer in here if peer not in admitted), *admitted)
        self._gone.clear()
        if members != room.view.members:
            room.enter(View(room.view.term, room.view.number + 1, members))
            self._view_since = room.now
        self._serial += 1
        self._unsynced &= set(members)
        self._forget_round()
        over = room.round >= room.values.rounds
        needed = room.policy.min_members if room.begun else room.policy.start_members
        self._missing = 0 if over else max(0, needed - sum(not self._patience.aside(peer) for peer in members))
        if over or self._missing:
            if over:
                self.machine.fire("over")
            pause = Pause(room.view, self._serial, room.round, room.digest, self._missing, room.values)
            for peer in members:
                room.send(peer, pause)
            return
        self._change_values()
        self.machine.fire("enough")
        self._announce()

    def _announce(self) -> None:
        room = self._room
        survey = room.round < room.policy.survey_rounds
        if self._measured != (room.values, survey):  # otherwise: what was measured says nothing of this round
            self._measured = (room.values, survey)
            self._deadline.forget()
            self._moving.forget()
        self._fresh = self._stamp.round != room.round + 1
        self._stamp = Stamp(room.round + 1, *room.view.order)
        self._since, self._limit = room.now, self._deadline.seconds
        if self._fresh:
            self._announced_at = room.now
        announce = Announce(room.view, self._serial, room.round + 1, room.digest, room.values)
        for peer in room.view.members:
            room.send(peer, announce)

    @property
    def _in_hand(self) -> int:
        """The round under way, else the last one that is done."""
        return self._room.round + (self.machine.state in ("collecting", "exchanging", "committing"))

    def end_early(self) -> int:
        """See RoundEngine. What was to change with the next round still does."""
        last = self._in_hand + 1
        if last >= self.wanted.rounds:
            return 0
        self._wanted = replace(self.wanted, rounds=last)
        return last

    @property
    def wanted(self) -> Values:
        """With what the room will train from the next announcement on."""
        return self._wanted or self._room.values

    def change(self, new: Mapping[str, Any]) -> str:
        """Train so from the next round on; "", or the reason why that cannot be.

        What was wanted before and not announced yet stays wanted: edits follow each other faster than rounds.
        """
        room, values, in_hand = self._room, self.wanted.changed(new), self._in_hand
        if not values.sound:
            return "nobody can train with these values"
        over = self.machine.state == "over" and values.rounds > room.round  # else the room goes on for more rounds
        if in_hand >= room.values.rounds and not over:
            return "the last round is done" if in_hand == room.round else "the last round is under way"
        if values.rounds <= in_hand:
            state = "done" if in_hand == room.round else "under way"
            return f"round {in_hand} is {state}, so there must be more rounds"
        self._wanted = values
        if over:
            self._change_values()
            self.machine.fire("reopened")
            self.boundary()
        return ""

    def _change_values(self) -> None:
        room, wanted = self._room, self._wanted
        self._wanted = None
        if wanted is not None and wanted.rounds > room.round and (changes := room.values.changes(wanted)):
            room.values = wanted
            room.note("info", f"From round {room.round + 1} on: {changes}.", room.me)

    def _adopt(self, join: Join) -> None:
        """Nobody here holds the room's weights any more, but a newcomer holds some: go on from those."""
        self._room.note("care", f"The weights of round {self._room.round} are lost; going on from round {join.round}.")
        self._go_back(join.round, join.digest)
        self.machine.fire("reopened")

    def ready(self, peer: PeerId, message: Ready) -> None:
        """A member has trained on `samples` samples; 0 says that its work cannot be used."""
        if peer not in self._here():
            return
        if self.machine.state == "gathering":
            self._ready_after_all(peer, message)
        elif self.machine.state == "collecting" and message.stamp == self._stamp:
            self._unsynced.discard(peer)
            self._uplinks[peer] = message.uplink
            if message.samples <= 0:
                self._banned.add(peer)  # it has nothing that could be used, but needs the results like everyone
                self.work()
            elif peer not in self._ready and self._patience.came(peer):
                self._count_ready(peer, message.samples)

    def _ready_after_all(self, peer: PeerId, message: Ready) -> None:
        """The round pauses for want of members, and one that was set aside for being late is ready now."""
        stamp = message.stamp
        current = (stamp.round, stamp.term) == (self._room.round + 1, self._room.view.term)
        waited_for = bool(self._missing) and self._patience.aside(peer)
        if current and message.samples > 0 and waited_for and self._patience.came(peer):
            self._deadline.arrived(self._room.now - self._announced_at)
            self.boundary()

    def _count_ready(self, peer: PeerId, samples: int) -> None:
        seconds = self._room.now - self._since
        if not self._ready:
            self._limit = self._deadline.after_first(seconds, self._limit)
        if self._fresh:
            self._deadline.arrived(seconds)
        self._ready[peer] = samples
        self.work()

    def awaited(self) -> tuple[PeerId, ...]:
        """Members whose answer is missing now, in order of standing."""
        state = self.machine.state
        if state == "collecting":
            return tuple(peer for peer in self._able() if peer not in self._ready)
        if state == "exchanging":
            return tuple(peer for peer in self._able() if peer not in self._applied)
        if state == "asking":
            return tuple(peer for peer in self._room.present() if peer not in self._stands)
        if state == "gathering" and self._missing:
            return tuple(peer for peer in self._here() if self._patience.aside(peer))
        return ()

    def _able(self) -> tuple[PeerId, ...]:
        """Members that are waited for."""
        out = self._unsynced | self._banned
        return tuple(peer for peer in self._here() if peer not in out and not self._patience.aside(peer))

    @property
    def quorum(self) -> int:
        """Contributions without which this round does not go on."""
        return self._room.policy.quorum(max(1, len(self._able())))

    @property
    def left_s(self) -> float:
        """Seconds until the round goes on without those that it waits for."""
        return max(0.0, self._since + self._limit - self._room.now)

    @property
    def overdue_s(self) -> float:
        """Seconds for which somebody has waited longer than it should; 0 while all is well or things still move."""
        since = self._since
        if self.machine.state == "exchanging":
            since = max([since, *(self._moved.get(peer, (0, since))[1] for peer in self.awaited())])
        elif self.machine.state != "collecting" or not self._ready:
            return 0.0
        return max(0.0, self._room.now - since - self._limit)

    @property
    def deadline_s(self) -> float:
        """The deadline in force."""
        return self._limit

    def work(self) -> None:
        """Go on if nothing more is to be waited for."""
        self._miss_the_silent()
        state = self.machine.state
        if state == "asking":
            self._resume()
        elif state == "gathering":
            if self._missing and any(peer in self._here() for peer in self._patience.due(self._room.now)):
                self.boundary()
        elif state == "collecting":
            self._collect()
        elif state == "exchanging":
            if self._all_applied():
                self._commit()
            elif late := self._stalled():
                self._go_on_without(late)
            elif slow := self._crawling():
                self._stalls += 1
                self._ban_all(slow, f"would make it last longer than {MOST_DEADLINES * self._limit:.0f} s")

    def _collect(self) -> None:
        able = self._able()
        if not able and self._admissible():  # nobody here has the weights, but a newcomer may
            self.machine.fire("too few")
            self.boundary()
            return
        late = self.left_s == 0.0 and bool(self._ready)  # while nobody is ready, nobody is held up
        all_in = all(peer in self._ready for peer in able) and bool(self._ready or self._banned)
        if not all_in and not late:
            return
        enough = all_in or len(self._ready) >= self.quorum
        for peer in self.awaited():
            self._room.note("care", f"Round {self._stamp.round} goes on without {self._room.name(peer)}.", peer)
            self._missed(peer, late=True, at_once=not enough)
        counted = sum(not self._patience.aside(peer) for peer in self._here())
        if not enough and counted < self._room.policy.min_members:
            self.machine.fire("too few")
            self.boundary()
        else:
            self._plan(tuple(peer for peer in able if peer in self._ready))

    def _missed(self, peer: PeerId, *, late: bool, at_once: bool = False) -> None:
        """A member let a deadline pass: when that comes again and again, nobody waits for it any more."""
        room = self._room
        if self._patience.missed(peer, room.now, self._limit, late=late, at_once=at_once):
            why = "was not ready" if late else "sent too little of use"
            room.note("care", f"{room.name(peer)} {why} within {self._limit:.0f} s and is set aside; it takes part "
                              "again when it is ready in time.", peer)

    def _miss_the_silent(self) -> None:
        """A member whose link is up but who says nothing (a stopped process, a hung trainer) is counted out."""
        room = self._room
        for peer in self._here():
            heard = max(self._heard.get(peer, NEVER_HEARD), self._view_since)
            if peer != room.me and room.now - heard >= room.policy.silent_s:
                room.note("care", f"{room.name(peer)} has said nothing for {room.policy.silent_s:.0f} s.", peer)
                self.left(peer)

    @property
    def _surveys(self) -> bool:
        """Whether the round in hand is one of those that train nothing: their mean is exact, by all samples."""
        return self._stamp.round <= self._room.policy.survey_rounds

    def _plan(self, contributors: tuple[PeerId, ...]) -> None:
        room = self._room
        if not contributors:
            self.machine.fire("too few")
            self.boundary()
            return
        ready = {peer: self._ready[peer] for peer in contributors}
        survey = self._surveys
        counted = ready if survey else weights(ready, room.values.most_samples)
        for peer in contributors:
            if counted[peer] < self._ready[peer]:
                room.note("bad", f"{room.name(peer)} says that it trained on {self._ready[peer]} samples; "
                                 f"{counted[peer]} are counted.", peer)
        weighed = counted if survey else {peer: room.values.weight(counted[peer]) for peer in contributors}
        total = sum(weighed.values())
        self._shares = tuple(Share(peer, weight / total) for peer, weight in weighed.items())
        self._applied.clear()
        self._moved.clear()
        self._since, self._half_s = room.now, 0.0
        self._limit = self._moving.seconds * 2 ** min(self._stalls, MOST_STALLS)
        self.machine.fire("planned")
        reducers = self._reducers(contributors)
        how = ("f32", Outer()) if survey else (room.values.precision, room.values.outer)
        plan = Plan(self._stamp, self._shares, reducers, *how)
        mine, contributions = Counter(reducers), len(contributors)
        self._to_move = {peer: room.buckets + mine[peer] * (contributions - (peer in contributors))
                         for peer in room.view.members}
        self._marks, self._marked_at = {}, room.now
        for peer in room.present():
            room.send(peer, plan)

    def _reducers(self, contributors: tuple[PeerId, ...]) -> tuple[PeerId, ...]:
        """Who of the contributors reduces each bucket."""
        room = self._room
        able = [peer for peer in contributors if not self._disputed(peer)] or list(contributors)
        if room.values.topology == "star":
            return (able[0],) * room.buckets  # I, unless I have nothing to contribute
        rates = shares.uplinks({peer: self._uplinks.get(peer, 0.0) for peer in able})
        return shares.reducers(shares.shares(rates, len(self._here())), room.buckets, self._stamp.round)

    def _replan(self, why: str) -> None:
        attempt = self._stamp.attempt + 1
        self._stamp = Stamp(self._stamp.round, self._stamp.term, self._stamp.view, attempt)
        self._room.note("care", f"Round {self._stamp.round}: the exchange begins anew, {why}.")
        self._plan(tuple(peer for peer in self._able() if peer in self._ready))

    def complaint(self, sender: PeerId, message: Complaint) -> None:
        """A member cannot exchange with another one.

        What I see myself is believed, and so is what a member says of itself. Of two others either may be lying, or the
        link between them be broken: from then on in this round neither reduces, so they need each other no more. Who
        is in two such disputes, or says it of me, is left out of the round.
        """
        me, peer = self._room.me, message.peer
        here = self._able()
        if self.machine.state != "exchanging" or message.stamp != self._stamp or sender not in here or peer not in here:
            return
        if sender in (me, peer):
            self._ban(peer, f"{self._room.name(peer)}: {message.why}")
        elif peer == me:
            self._ban(sender, f"{self._room.name(sender)}: {message.why}")
        else:
            self._dispute(sender, peer, message.why)

    def _dispute(self, sender: PeerId, peer: PeerId, why: str) -> None:
        if frozenset((sender, peer)) in self._disputes:
            return
        self._disputes.add(frozenset((sender, peer)))
        names = f"{self._room.name(sender)} and {self._room.name(peer)} cannot exchange: {why}"
        worst = max((peer, sender), key=self._disputed)
        contributors = [share.peer for share in self._shares]
        if self._disputed(worst) > 1:
            self._ban(worst, names)
        elif all(self._disputed(one) for one in contributors):
            self._ban(sender, names)  # nobody would be left to reduce
        else:
            self._replan(names)

    def _disputed(self, peer: PeerId) -> int:
        return sum(peer in pair for pair in self._disputes)

    def _ban(self, peer: PeerId, why: str) -> None:
        self._leave_out(peer)
        self._replan(why)

    def _leave_out(self, peer: PeerId) -> None:
        """It has no part in the round in hand any more."""
        self._banned.add(peer)
        self._ready.pop(peer, None)
        self._disputes = {pair for pair in self._disputes if peer not in pair}
        self._missed(peer, late=False)

    def beat(self, peer: PeerId, message: Beat) -> None:
        """What a member does, and how many buckets it has moved."""
        self._beats[peer] = message
        self._heard[peer] = self._beat_at[peer] = self._room.now
        done, _ = self._moved.get(peer, (-1, 0.0))
        most = self._room.buckets * (len(self._shares) + 1)  # all contributions and all results
        if message.round == self._room.round and done < message.done <= most:
            self._moved[peer] = (message.done, self._room.now)

    def _stalled(self) -> tuple[PeerId, ...]:
        """Awaited members that moved no bucket for a whole deadline; a transfer that still moves is never late.

        But when half of the room has everything, the others get no more than as long again and a deadline: what they
        wait for exists, and they can fetch it later.
        """
        room, limit = self._room, self._limit
        taken = room.now - self._since
        if taken < limit:
            return ()
        if self._half_s and taken >= 2 * self._half_s + limit:
            return self.awaited()
        return self._idle(limit)

    def _crawling(self) -> list[PeerId]:
        """Who moves, but at the pace of the latest deadline would make the exchange last longer than `MOST_DEADLINES`.

        They are fewer than half of the members, and most of the others lack something from them. Where all are slow,
        nobody is late: that is how long it takes.
        """
        room, awaited = self._room, self.awaited()
        window = room.now - self._marked_at
        if self._half_s or window < self._limit:
            return []
        marks, self._marks = self._marks, {peer: self._moved.get(peer, (0, 0.0))[0] for peer in awaited}
        self._marked_at = room.now
        left_s = self._limit * MOST_DEADLINES - (room.now - self._since)
        if not any((self._to_move[peer] - moved) * window > left_s * max(0, moved - marks.get(peer, 0))
                   for peer, moved in self._marks.items()):
            return []
        able = self._able()
        lacking = Counter(
            other for peer in awaited if peer in self._beats
            for other in self._beats[peer].lacking if other != peer and other in able
        )
        slow = sorted(peer for peer, count in lacking.items() if 2 * count > len(awaited))
        return slow if 2 * len(slow) < len(able) else []

    def _idle(self, seconds: float) -> tuple[PeerId, ...]:
        since = self._room.now - seconds
        return tuple(peer for peer in self.awaited() if self._moved.get(peer, (0, self._since))[1] <= since)

    @property
    def _half_applied(self) -> bool:
        able, me = self._able(), self._room.me
        return 2 * len(self._applied) >= len(able) and (me in self._applied or me not in able)

    def _go_on_without(self, stalled: tuple[PeerId, ...]) -> None:
        """Nothing moves any more. When half of the room and I have everything, the rest is left behind and fetches it.

        Else the exchange begins anew without whom I miss something from, or most do. One member's word is not enough
        for that: see `complaint`.
        """
        me = self._room.me
        able = self._able()
        if self._applied and self._half_applied:
            for peer in stalled:
                self._room.note("care", f"{self._room.name(peer)} did not get all results in time.", peer)
                self._leave_out(peer)
            self.work()
            return
        why = f"did not move for {self._limit:.0f} s"
        blames = {
            peer: {other for other in self._beats[peer].lacking if other in able and other != peer}
            for peer in {me, *self._idle(self._limit / 2)} if peer in self._beats and peer not in self._applied
        }
        votes = Counter(other for others in blames.values() for other in others)
        mine = blames.get(me, set())
        self._stalls += 1
        if mine:
            del votes[me]  # what I miss from others, I cannot send on: that is not my fault
        guilty = [peer for peer, count in votes.items() if count > len(blames) / 2 and (count > 1 or peer in mine)]
        if not guilty and mine:
            guilty = [max(sorted(mine), key=votes.__getitem__)]
        accusers = [peer for peer in stalled if peer != me]
        if guilty:
            self._ban_all(guilty, why)
        elif accusers and (named := sorted(blames.get(accusers[0], set()) - {me})):
            self._dispute(accusers[0], named[0], why)
        elif accusers:
            self._ban_all(accusers[:1], why)
        else:
            self._since = self._room.now

    def _ban_all(self, guilty: list[PeerId], why: str) -> None:
        for peer in guilty:
            self._leave_out(peer)
        self._replan(f"{' and '.join(self._room.name(peer) for peer in guilty)} {why}")

    def applied(self, peer: PeerId, message: Applied) -> None:
        """A member holds all results."""
        if self.machine.state == "exchanging" and message.stamp == self._stamp and peer in self._here():
            self._applied[peer] = message.digest
            self._moving.arrived(self._room.now - self._since)
            if not self._half_s and self._half_applied:
                self._half_s = self._room.now - self._since
            self.work()

    def _all_applied(self) -> bool:
        able = self._able()
        return bool(self._applied) and all(peer in self._applied for peer in able)

    def _commit(self) -> None:
        room = self._room
        counted = Counter(self._applied.values())
        # What I have counts, if I have everything; else what most have. Who has something else fetches it.
        digest = self._applied.get(room.me) or min(counted, key=lambda digest: (-counted[digest], digest))
        commit = Commit(self._stamp, digest)
        self.machine.fire("agreed")  # the boundary comes when I, as a member, have committed
        self._sure = True
        for share in self._shares:
            self._patience.contributed(share.peer)
        for peer in room.present():
            room.send(peer, commit)

    def committed(self) -> None:
        """My own commit is done: the next round can be announced."""
        if self.machine.fire("committed"):
            self.boundary()

    def _resume(self) -> None:
        """After a take-over: the highest committed round whose weights somebody holds counts; go on from there."""
        room = self._room
        if self.awaited() and room.now - self._asked_since < room.policy.silent_s:
            if room.now - self._asked_at >= LISTEN_S / 3:  # who heard the lost leader later did not agree at first
                self._asked_at = room.now
                room.tell(self.awaited(), TakeOver(room.view))
            return
        best = self._furthest()
        self.machine.fire("all stand")
        if best.round > self._room.round:
            self._catch_up(best.round, best.digest)
        elif best.synced and not self._room.whole:
            self._go_back(best.round, best.digest)
        if not self._room.whole:
            self._unsynced.add(self._room.me)
        self.boundary()

    def _furthest(self) -> Standing:
        """The best standing that can be: a commit that only some know of is one round further than where most stand.

        So fewer than half cannot invent rounds.
        """
        stands = list(self._stands.values())
        rounds = sorted((standing.round for standing in stands), reverse=True)
        believed = rounds[(len(rounds) - 1) // 2] + (len(rounds) > 2)
        possible = [standing for standing in stands if standing.round <= max(believed, self._room.round + 1)]
        return max(possible, key=lambda standing: (standing.synced, standing.round))

    def roster(self, my_phase: str) -> tuple[Seat, ...]:
        """What each member does, as far as I was told."""
        return tuple(self._seat(peer, my_phase) for peer in self._here())

    def _seat(self, peer: PeerId, my_phase: str) -> Seat:
        beat = self._beats.get(peer)
        phase, round_ = (beat.phase, beat.round) if beat else ("", 0)
        if peer == self._room.me:
            phase, round_ = my_phase, self._room.round
        return Seat(peer, ASIDE if self._patience.aside(peer) and phase not in ("", "syncing") else phase, round_)

    def _forget_round(self) -> None:
        self._ready.clear()
        self._applied.clear()
        self._banned.clear()
        self._disputes.clear()
        self._stalls = 0
        self._moved.clear()
        self._shares = ()
