"""A transport inside one process: for tests, and for a room of one."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from desktop.bridge.transport import Buffer, TransportListener


class LoopbackHub:
    """Joins transports of one process. Nothing moves until `pump`: the caller decides when things arrive."""

    def __init__(self) -> None:
        self._transports: dict[str, LoopbackTransport] = {}
        self._queue: deque[tuple[str, str, Buffer]] = deque()
        self.bytes_sent: dict[str, int] = {}

    def join(self, me: str) -> LoopbackTransport:
        """A new transport, connected with all that are here."""
        new = LoopbackTransport(self, me)
        for other in self._transports.values():
            other.connect(me)
            new.connect(other.me)
        self._transports[me] = new
        return new

    def kill(self, me: str) -> None:
        """It is gone without a word; what it has on the way is lost."""
        self._transports.pop(me)
        self._queue = deque(item for item in self._queue if me not in item[:2])
        for other in self._transports.values():
            other.disconnect(me, "lost")

    def post(self, sender: str, to: str, data: Buffer) -> None:
        """Put a message on its way."""
        self._queue.append((sender, to, data))
        self.bytes_sent[sender] = self.bytes_sent.get(sender, 0) + len(data)

    def pump(self) -> int:
        """Deliver what is on its way now; the number of messages."""
        due = len(self._queue)
        for _ in range(due):
            if not self._queue:
                break
            sender, to, data = self._queue.popleft()
            if to in self._transports:
                self._transports[to].deliver(sender, data)
        return due


class LoopbackTransport:
    """A `PeerTransport` of a `LoopbackHub`."""

    def __init__(self, hub: LoopbackHub, me: str) -> None:
        self._hub = hub
        self._me = me
        self._peers: dict[str, str] = {}
        self._listener: TransportListener | None = None

    @property
    def me(self) -> str:
        return self._me

    @property
    def peers(self) -> dict[str, str]:
        return self._peers

    def listen(self, listener: TransportListener | None) -> None:
        self._listener = listener

    def send(self, peer: str, data: Buffer, *, bulk: bool) -> None:
        if peer in self._peers:
            self._hub.post(self._me, peer, data)

    def unsent(self, peer: str) -> int:
        return 0

    def measure_uplink(self) -> float:
        return 0.0

    def connect(self, peer: str) -> None:
        """The hub says that a peer is there."""
        self._peers[peer] = peer
        if self._listener:
            self._listener.peer_connected(peer, peer)

    def disconnect(self, peer: str, reason: str) -> None:
        """The hub says that a peer is gone."""
        if self._peers.pop(peer, None) is not None and self._listener:
            self._listener.peer_lost(peer, reason)

    def deliver(self, sender: str, data: Buffer) -> None:
        """The hub brings a message."""
        if self._listener:
            self._listener.received(sender, memoryview(data))


def connect_all(names: Iterable[str]) -> tuple[LoopbackHub, dict[str, LoopbackTransport]]:
    """A hub and one transport per name."""
    hub = LoopbackHub()
    return hub, {name: hub.join(name) for name in names}
