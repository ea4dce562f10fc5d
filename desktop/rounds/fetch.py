"""Getting committed weights from several members at once, bucket by bucket, while rounds go on.

A bucket once received stays current by itself: the results of later rounds are added to it like everywhere
else. So a fetch always comes to its end, however short the rounds and however large the model.
"""

from __future__ import annotations

from desktop.rounds.actions import DigestBase, Restore
from desktop.rounds.messages import PeerId, SnapshotBucket, SnapshotRequest
from desktop.rounds.room import NEVER, Room

WINDOW = 4  # buckets asked for at a time and source: enough to keep a link busy, little to lose
PATIENCE_S = 5.0  # a source that sends nothing of use for so long is given up for another
MOST_PATIENCE_S = 600.0  # for one that was given up before, or is known to be slow


class Fetch:
    """Asks for buckets whose version is not the room's round, and hands them on as they come."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._asked: dict[int, tuple[PeerId, float]] = {}
        self._moved: dict[PeerId, float] = {}  # when a source last sent something of use
        self._patience: dict[PeerId, float] = {}  # asking a slow one again and again would only make it slower
        self._given_up: dict[int, set[PeerId]] = {}  # whom I asked for a bucket before; it may still come
        self._checking = False

    @property
    def asked(self) -> int:
        """Buckets on their way."""
        return len(self._asked)

    def sources(self) -> tuple[PeerId, ...]:
        """Whom to ask: members that hold the weights themselves, as far as is known; else the leader; else anyone."""
        room = self._room
        others = tuple(peer for peer in room.present() if peer != room.me)
        whole = tuple(peer for peer in others if peer in room.whole_peers)
        return whole or tuple(peer for peer in others if peer == room.view.leader) or others

    def work(self) -> None:
        """Ask for what is missing; when nothing is, have the whole checked by its digest."""
        room = self._room
        sources = self.sources()
        for bucket in [b for b in self._asked if room.versions[b] >= room.round]:
            del self._asked[bucket]  # the room went back to a round whose weights I hold
        late = [
            b for b, (peer, since) in self._asked.items()
            if peer not in sources
            or room.now - max(since, self._moved.get(peer, since)) > self._patience.get(peer, PATIENCE_S)
        ]
        avoid = {self._give_up(bucket) for bucket in late}
        for peer in avoid:
            self._patience[peer] = min(MOST_PATIENCE_S, 2 * self._patience.get(peer, PATIENCE_S))
        missing = [b for b, version in enumerate(room.versions) if version < room.round and b not in self._asked]
        if not missing:
            if not self._asked and room.whole and not self._checking:
                self._checking = True
                room.do(DigestBase(room.round))
            return
        fresh = [peer for peer in sources if peer not in avoid] or list(sources)
        for number, peer in enumerate(fresh):
            free = WINDOW - sum(1 for source, _ in self._asked.values() if source == peer)
            share = missing[number :: len(fresh)][: max(0, free)]
            if share:
                self._asked.update({bucket: (peer, room.now) for bucket in share})
                room.send(peer, SnapshotRequest(tuple(share)))

    def _give_up(self, bucket: int) -> PeerId:
        peer, _ = self._asked.pop(bucket)
        self._given_up.setdefault(bucket, set()).add(peer)
        return peer

    def arrived(self, sender: PeerId, message: SnapshotBucket, payload: object) -> None:
        """Take a bucket that I asked this sender for; others are dropped."""
        room = self._room
        peer, since = self._asked.get(message.bucket, ("", room.now))
        late = sender in self._given_up.get(message.bucket, ()) and room.versions[message.bucket] < room.round
        if sender != peer and not late:
            return
        if sender == peer:
            self._patience[sender] = min(MOST_PATIENCE_S, max(PATIENCE_S, 2 * (room.now - since)))
        newer = message.round > room.versions[message.bucket]
        if newer:
            self._moved[sender] = room.now
            room.versions[message.bucket] = message.round
            room.do(Restore(message.bucket, sender, payload, message.round))
        if message.round >= room.round:
            self._given_up.pop(message.bucket, None)
        elif not newer:
            return  # the sender is behind as well: ask again only after a while
        self._asked.pop(message.bucket, None)  # a round may have been committed while it was on its way
        self.work()

    def again(self, bucket: int | None = None) -> None:
        """Forget one bucket (it could not be used) or all of them (the digest was wrong)."""
        self._checking = False
        self._given_up.clear()
        for number in range(len(self._room.versions)) if bucket is None else (bucket,):
            self._room.versions[number] = NEVER

    def checked(self) -> None:
        """The digest was compared."""
        self._checking = False
