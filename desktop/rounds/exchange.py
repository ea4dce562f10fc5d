"""One attempt of a butterfly exchange as one member sees it: which contributions and results are here."""

from __future__ import annotations

from collections import Counter

from desktop.rounds.messages import PeerId, Plan


class Exchange:
    """Bookkeeping for one `Plan`. Holds names and numbers of buckets, never bytes.

    Every contributor sends bucket b to `plan.reducers[b]`; the reducer combines and sends the result to every
    member. A member that does not contribute only waits for results.
    """

    def __init__(self, me: PeerId, plan: Plan, members: tuple[PeerId, ...]) -> None:
        self.me = me
        self.plan = plan
        self.stamp = plan.stamp
        self.members = members
        self.contributors = tuple(share.peer for share in plan.shares)
        self.mine = {bucket for bucket, reducer in enumerate(plan.reducers) if reducer == me}
        own = {me} if me in self.contributors else set()
        self._here: dict[int, set[PeerId]] = {bucket: set(own) for bucket in self.mine}
        self._reduced: set[int] = set()
        self.results: set[int] = set()
        self.moved = 0
        self.heard: dict[PeerId, float] = {}  # when something of use came from whom

    @property
    def contributes(self) -> bool:
        """Whether my own update is part of the plan."""
        return self.me in self.contributors

    @property
    def complete(self) -> bool:
        """Every result is here."""
        return len(self.results) == len(self.plan.reducers)

    def outgoing(self) -> list[tuple[int, PeerId]]:
        """(bucket, reducer) of all contributions that I owe: each reducer's first bucket, then on in proportion.

        So a reducer gets a bucket from all at about the same time, and does not hold what it cannot reduce yet; and
        one that reduces much is not left for the end. Each contributor begins at another reducer: else that one's
        downlink would be full while the others' are idle.
        """
        if not self.contributes:
            return []
        reducers = self.plan.reducers
        place = {peer: number for number, peer in enumerate(dict.fromkeys((*self.contributors, *reducers)))}
        total = Counter(reducers)
        seen: Counter[PeerId] = Counter()
        owed = []
        for bucket, peer in enumerate(reducers):
            if peer != self.me:
                owed.append((seen[peer] / total[peer], (place[peer] - place[self.me]) % len(place), bucket, peer))
                seen[peer] += 1
        return [(bucket, peer) for _, _, bucket, peer in sorted(owed)]

    def take_contribution(self, peer: PeerId, bucket: int) -> str:
        """"" when it is to be kept, else why not."""
        if bucket not in self.mine:
            return f"bucket {bucket} is not mine to reduce"
        if peer not in self.contributors:
            return "not a contributor of this attempt"
        if peer in self._here[bucket]:
            return "it came twice"
        self._here[bucket].add(peer)
        self.moved += 1
        return ""

    def reducible(self) -> list[int]:
        """My buckets whose contributions are complete and that were not handed out yet."""
        ready = [b for b in sorted(self.mine - self._reduced) if len(self._here[b]) == len(self.contributors)]
        self._reduced.update(ready)
        return ready

    def take_result(self, peer: PeerId, bucket: int) -> str:
        """"" when it is to be kept, else why not."""
        if not 0 <= bucket < len(self.plan.reducers) or self.plan.reducers[bucket] != peer:
            return f"bucket {bucket} is not reduced by this member"
        if bucket in self.results:
            return "it came twice"
        self.results.add(bucket)
        self.moved += 1
        return ""

    def lacking(self) -> tuple[PeerId, ...]:
        """Peers from whom something is still missing: contributions to my buckets, results of theirs."""
        absent: set[PeerId] = set()
        for bucket, here in self._here.items():
            if bucket not in self._reduced:
                absent.update(set(self.contributors) - here)
        for bucket, reducer in enumerate(self.plan.reducers):
            if bucket not in self.results and reducer != self.me:
                absent.add(reducer)
        return tuple(sorted(absent))

    def blamed(self, since: float) -> tuple[PeerId, ...]:
        """Whom of `lacking` to blame when nothing moves: who did not contribute; else who did not reduce.

        A reducer that waits for contributions itself cannot send results, so these say nothing while those are missing.
        Who sent something after `since` is slow rather than silent, and is not blamed while somebody else is to blame.
        """
        own: set[PeerId] = set()
        for bucket, here in self._here.items():
            if bucket not in self._reduced:
                own.update(set(self.contributors) - here)
        silent = {peer for peer in own if self.heard.get(peer, since) <= since}
        return tuple(sorted(silent or own)) or self.lacking()
