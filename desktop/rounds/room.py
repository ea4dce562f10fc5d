"""What the parts of one engine share: who is in, which weights I hold, the clock reading, and the outbox."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from desktop.rounds.actions import Action, Note, Send
from desktop.rounds.messages import PeerId, RoundMessage, Values, View
from desktop.rounds.policy import RoomPolicy

NEVER = -1  # version of a bucket that has not been received
MOST_NOTES = 30  # about one peer in NOTES_S: what it says must not fill the log
NOTES_S = 60.0
MOST_TEXT = 300  # characters of a note: parts of it may be a peer's own words


@dataclass
class Room:
    """State of the room as this member sees it. `now` is set by the engine before anything else happens."""

    me: PeerId
    policy: RoomPolicy
    buckets: int
    view: View = field(default_factory=View)
    connected: set[PeerId] = field(default_factory=set)
    values: Values = field(default_factory=Values)  # as announced last; before that those of the policy
    round: int = 0  # last committed round that I know of
    digest: str = ""  # digest of the room's weights after that round
    versions: list[int] = field(default_factory=list)  # per bucket: the round whose weights I hold
    uplink: float = 0.0  # what I can send, in bytes per second, as last measured; 0: not known
    begun: bool = False  # a first round was announced: from then on `min_members` counts, not `start_members`
    now: float = 0.0
    outbox: list[Action] = field(default_factory=list)
    whole_peers: frozenset[PeerId] = frozenset()  # members whose weights are whole, by the leader's last roster
    names: dict[PeerId, str] = field(default_factory=dict)
    newest_term: int = 0  # of all views that I was in
    _noted: dict[PeerId, deque[float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.values = self.policy.values

    @property
    def inside(self) -> bool:
        """Whether I am a member of the view."""
        return self.me in self.view.members

    @property
    def leading(self) -> bool:
        """Whether I am the leader."""
        return self.view.leader == self.me and bool(self.me)

    @property
    def whole(self) -> bool:
        """Whether all my buckets are those of the last committed round."""
        return all(version == self.round for version in self.versions)

    def enter(self, view: View) -> None:
        """This is the view from now on. Who is not in it any more is named, unless its link is lost: that is known."""
        stay = set(view.members)
        for peer in self.view.members:
            if peer not in stay and peer in self.connected:
                self.note("info", f"{self.name(peer)} takes part no more.", peer)
        self.view = view
        self.newest_term = max(self.newest_term, view.term)

    def do(self, action: Action) -> None:
        """Put an action into the outbox."""
        self.outbox.append(action)

    def send(self, to: PeerId, message: RoundMessage) -> None:
        """Send to one peer; to a peer that is not connected nothing is sent (its loss is known)."""
        if to == self.me or to in self.connected:
            self.outbox.append(Send(to, message))

    def tell(self, peers: Iterable[PeerId], message: RoundMessage) -> None:
        """Send to several peers, never to myself."""
        for peer in peers:
            if peer != self.me:
                self.send(peer, message)

    def note(self, severity: str, text: str, peer: PeerId = "") -> None:
        """Tell the person; what is said too often about one peer is not."""
        if peer:
            times = self._noted.setdefault(peer, deque(maxlen=MOST_NOTES))
            if len(times) == MOST_NOTES and self.now - times[0] < NOTES_S:
                return
            times.append(self.now)
        self.outbox.append(Note(severity, text[:MOST_TEXT], peer))

    def name(self, peer: PeerId) -> str:
        """What people call this peer."""
        return self.names.get(peer) or peer[:8]

    def present(self) -> tuple[PeerId, ...]:
        """Members of the view that I can talk to, in order of standing."""
        return tuple(peer for peer in self.view.members if peer == self.me or peer in self.connected)
