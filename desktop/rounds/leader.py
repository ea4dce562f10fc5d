"""The leader's part: announce, collect, plan, watch the exchange, commit. It holds no more weights than anyone.

{diagram}
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from zlib import crc32

from desktop.rounds.machine import Machine, Table, every
from desktop.rounds.messages import (
    Announce,
    Applied,
    Beat,
    Commit,
    Complaint,
    Join,
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
from desktop.rounds.policy import Deadline
from desktop.rounds.room import Room

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
        self._deadline = Deadline(room.policy)
        self._newcomers: dict[PeerId, tuple[float, Join]] = {}  # in order of arrival, with the time of the first asking
        self._admitted: dict[PeerId, float] = {}
        self._unsynced: set[PeerId] = set()
        self._ready: dict[PeerId, int] = {}
        self._applied: dict[PeerId, str] = {}
        self._banned: set[PeerId] = set()  # for the round in hand only
        self._stands: dict[PeerId, Standing] = {}
        self._beats: dict[PeerId, Beat] = {}
        self._heard: dict[PeerId, float] = {}
        self._view_since = 0.0
        self._moved: dict[PeerId, tuple[int, float]] = {}  # per member: buckets moved, and when that last grew
        self._gone: set[PeerId] = set()  # left or lost since the last boundary
        self._shares: tuple[Share, ...] = ()
        self._wanted: Values | None = None  # from the next announcement on
        self._serial = 0
        self._stamp = Stamp(0, 0, 0)
        self._since = 0.0
        self._limit = self._deadline.seconds  # of the round in hand: fixed at its start, not by its own fastest member
        self._asked_since = 0.0

    # -- who is in --

    def found(self) -> None:
        """The first member of a room founds its first view; or one founds it anew."""
        room = self._room
        room.enter(View(next_term(room.newest_term, room.me) if room.newest_term else 1, 1, (room.me,)))
        self.machine.fire("founded")

    def take_over(self, members: tuple[PeerId, ...]) -> None:
        """The members before me are lost: ask the rest where they stand."""
        room = self._room
        room.enter(View(next_term(room.newest_term, room.me), room.view.number + 1, members))
        self.machine.fire("took over")
        self._stands = {room.me: Standing(room.view.term, room.round, room.digest, room.whole)}
        self._forget_round()
        self._newcomers.clear()
        self._gone.clear()
        self._asked_since = self._view_since = room.now
        room.tell(room.view.members, TakeOver(room.view))

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
            if now - self._admitted.get(peer, 0.0) < REACH_S:
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
        if self.machine.state == "asking":
            self._stands[peer] = message
        elif message.synced and message.round > self._room.round and self.machine.fire("overtaken"):
            # It committed a round that I announce once more: learn of it as after a take-over.
            self._stands = {room_member: message for room_member in self._here()}
        self.work()

    def left(self, peer: PeerId) -> None:
        """A member is gone: nothing waits for it any more; it is off the list at the next boundary.

        One that comes back meanwhile has missed messages, so it is a newcomer then.
        """
        room = self._room
        self._newcomers.pop(peer, None)
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

    def _here(self) -> tuple[PeerId, ...]:
        return tuple(peer for peer in self._room.present() if peer not in self._gone)

    # -- the round --

    def boundary(self) -> None:
        """Between two rounds: take newcomers in, the lost out, and announce the next round if enough are here."""
        room = self._room
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
        missing = max(0, needed - len(members))
        if over or missing:
            if over:
                self.machine.fire("over")
            pause = Pause(room.view, self._serial, room.round, room.digest, 0 if over else missing)
            for peer in members:
                room.send(peer, pause)
            return
        self._change_values()
        self.machine.fire("enough")
        self._stamp = Stamp(room.round + 1, *room.view.order)
        self._since, self._limit = room.now, self._deadline.seconds
        announce = Announce(room.view, self._serial, room.round + 1, room.digest, room.values)
        for peer in members:
            room.send(peer, announce)

    def change(self, values: Values) -> str:
        """Train with these values from the next round on; "", or the reason why that cannot be."""
        room = self._room
        in_hand = room.round + (self.machine.state in ("collecting", "exchanging", "committing"))
        if not values.sound:
            return "nobody can train with these values"
        if in_hand >= room.values.rounds:
            return "the last round is done" if in_hand == room.round else "the last round is under way"
        if values.rounds <= in_hand:
            state = "done" if in_hand == room.round else "under way"
            return f"round {in_hand} is {state}, so there must be more rounds"
        self._wanted = values
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
        if self.machine.state != "collecting" or message.stamp != self._stamp or peer not in self._here():
            return
        self._unsynced.discard(peer)
        if message.samples <= 0:
            self._banned.add(peer)  # it has nothing that could be used, but needs the results like everyone
            self.work()
        elif peer not in self._ready:
            self._ready[peer] = message.samples
            self._deadline.arrived(self._room.now - self._since)
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
        return ()

    def _able(self) -> tuple[PeerId, ...]:
        return tuple(peer for peer in self._here() if peer not in self._unsynced and peer not in self._banned)

    @property
    def quorum(self) -> int:
        """Contributions without which this round does not go on."""
        return self._room.policy.quorum(max(1, len(self._able())))

    @property
    def left_s(self) -> float:
        """Seconds until the round goes on without those that it waits for."""
        return max(0.0, self._since + self._limit - self._room.now)

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
        elif state == "collecting":
            able = self._able()
            if not able and self._admissible():  # nobody here has the weights, but a newcomer may
                self.machine.fire("too few")
                self.boundary()
                return
            late = self.left_s == 0.0
            all_in = all(peer in self._ready for peer in able) and bool(self._ready or self._banned)
            if all_in or (late and len(self._ready) >= self.quorum):
                for peer in self.awaited():
                    self._room.note("care", f"Round {self._stamp.round} goes on without {self._room.name(peer)}.", peer)
                self._plan(tuple(peer for peer in able if peer in self._ready))
        elif state == "exchanging":
            if self._all_applied():
                self._commit()
            elif self._stalled():
                self._ban_the_stalled()

    def _miss_the_silent(self) -> None:
        """A member whose link is up but who says nothing (a stopped process, a hung trainer) is counted out."""
        room = self._room
        for peer in self._here():
            heard = max(self._heard.get(peer, 0.0), self._view_since)
            if peer != room.me and room.now - heard > room.policy.silent_s:
                room.note("care", f"{room.name(peer)} has said nothing for {room.policy.silent_s:.0f} s.", peer)
                self.left(peer)

    def _plan(self, contributors: tuple[PeerId, ...]) -> None:
        room = self._room
        if not contributors:
            self.machine.fire("too few")
            self.boundary()
            return
        weights = {peer: room.values.weight(self._ready[peer]) for peer in contributors}
        total = sum(weights.values())
        self._shares = tuple(Share(peer, weight / total) for peer, weight in weights.items())
        turn = self._stamp.round
        reducers = tuple(contributors[(bucket + turn) % len(contributors)] for bucket in range(room.buckets))
        self._applied.clear()
        self._moved.clear()
        self._since = room.now
        self.machine.fire("planned")
        plan = Plan(self._stamp, self._shares, reducers, room.values.precision, room.values.outer)
        for peer in room.present():
            room.send(peer, plan)

    def _replan(self, why: str) -> None:
        attempt = self._stamp.attempt + 1
        self._stamp = Stamp(self._stamp.round, self._stamp.term, self._stamp.view, attempt)
        self._room.note("care", f"Round {self._stamp.round}: the exchange begins anew, {why}.")
        self._plan(tuple(peer for peer in self._able() if peer in self._ready))

    def complaint(self, sender: PeerId, message: Complaint) -> None:
        """A member cannot exchange with another one: go on without the latter in this round."""
        current = self.machine.state == "exchanging" and message.stamp == self._stamp
        if current and sender in self._here() and message.peer in self._here():
            self._ban(message.peer, f"{self._room.name(message.peer)}: {message.why}")

    def _ban(self, peer: PeerId, why: str) -> None:
        self._banned.add(peer)
        self._ready.pop(peer, None)
        self._replan(why)

    def beat(self, peer: PeerId, message: Beat) -> None:
        """What a member does, and how many buckets it has moved."""
        self._beats[peer] = message
        self._heard[peer] = self._room.now
        done, _ = self._moved.get(peer, (-1, 0.0))
        if message.round == self._room.round and message.done > done:
            self._moved[peer] = (message.done, self._room.now)

    def _stalled(self) -> tuple[PeerId, ...]:
        """Awaited members that moved no bucket for a whole deadline; a transfer that still moves is never late."""
        room, limit = self._room, self._limit
        if room.now - self._since < limit:
            return ()
        return tuple(peer for peer in self.awaited() if room.now - self._moved.get(peer, (0, self._since))[1] >= limit)

    def _ban_the_stalled(self) -> None:
        stalled = self._stalled()
        named = Counter(
            peer for member in stalled if member in self._beats
            for peer in self._beats[member].lacking if peer in self._here() and peer != self._room.me
        )
        guilty = named.most_common(1)[0][0] if named else next((p for p in stalled if p != self._room.me), "")
        if guilty:
            self._ban(guilty, f"{self._room.name(guilty)} did not move for {self._limit:.0f} s")
        else:
            self._since = self._room.now

    def applied(self, peer: PeerId, message: Applied) -> None:
        """A member holds all results."""
        if self.machine.state == "exchanging" and message.stamp == self._stamp and peer in self._here():
            self._applied[peer] = message.digest
            self.work()

    def _all_applied(self) -> bool:
        able = self._able()
        return bool(self._applied) and all(peer in self._applied for peer in able)

    def _commit(self) -> None:
        room = self._room
        counted = Counter(self._applied.values())
        most = max(counted.values())
        mine = self._applied.get(room.me, "")
        digest = mine if counted.get(mine) == most else min(d for d, times in counted.items() if times == most)
        commit = Commit(self._stamp, digest)
        self.machine.fire("agreed")  # the boundary comes when I, as a member, have committed
        for peer in room.present():
            room.send(peer, commit)

    def committed(self) -> None:
        """My own commit is done: the next round can be announced."""
        if self.machine.fire("committed"):
            self.boundary()

    def _resume(self) -> None:
        """After a take-over: the highest committed round whose weights somebody holds counts; go on from there."""
        if self.awaited() and self._room.now - self._asked_since < self._room.policy.silent_s:
            return
        best = max(self._stands.values(), key=lambda standing: (standing.synced, standing.round))
        self.machine.fire("all stand")
        if best.round > self._room.round:
            self._catch_up(best.round, best.digest)
        elif best.synced and not self._room.whole:
            self._go_back(best.round, best.digest)
        if not self._room.whole:
            self._unsynced.add(self._room.me)
        self.boundary()

    def roster(self, my_phase: str) -> tuple[Seat, ...]:
        """What each member does, as far as I was told."""
        return tuple(self._seat(peer, my_phase) for peer in self._here())

    def _seat(self, peer: PeerId, my_phase: str) -> Seat:
        if peer == self._room.me:
            return Seat(peer, my_phase, self._room.round)
        beat = self._beats.get(peer)
        return Seat(peer, beat.phase if beat else "", beat.round if beat else 0)

    def _forget_round(self) -> None:
        self._ready.clear()
        self._applied.clear()
        self._banned.clear()
        self._moved.clear()
        self._shares = ()
