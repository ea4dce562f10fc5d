"""What every way of finding each other offers: who is there, and sealed bytes to and from them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

log = logging.getLogger(__name__)

EARLY_SIGNALS = 128  # kept for the first listener; more than a room of that size sends at once


class RendezvousListener(Protocol):
    """Told on the event loop what happens at a rendezvous."""

    def peer_seen(self, peer: str) -> None:
        """`peer` can be reached now."""

    def peer_gone(self, peer: str) -> None:
        """`peer` cannot be reached any more. It may still be a member: links do not need a rendezvous."""

    def signal(self, sender: str, payload: bytes) -> None:
        """`sender` sent `payload`, still sealed."""

    def closed(self, reason: str) -> None:
        """The rendezvous has ended, for whatever reason; nothing follows."""


class Rendezvous(Protocol):
    """A place where members of one room find each other. Listeners are called on the loop, never from within
    `subscribe` or `send`."""

    @property
    def peers(self) -> frozenset[str]:
        """Who can be reached through it now, without this member."""

    def subscribe(self, listener: RendezvousListener) -> None:
        """Tells `listener` of all that follows, and first of everyone who is there. The first listener also gets
        the signals that came before it; one that comes after the end gets `closed`."""

    def send(self, to: str, payload: bytes) -> bool:
        """Hands over sealed bytes for a peer. False: it cannot be reached here, or `payload` is too large."""

    async def close(self) -> None:
        """Ends it; listeners get `closed`. May be called from any state, and again."""


class Listeners:
    """The listening half of a Rendezvous: who is there, who listens, and `closed` exactly once."""

    def __init__(self) -> None:
        self.peers: frozenset[str] = frozenset()
        self.ended: str | None = None  # the reason
        self._listeners: list[RendezvousListener] = []
        self._early: list[tuple[str, bytes]] = []
        self._any = False

    def subscribe(self, listener: RendezvousListener) -> None:
        """As `Rendezvous.subscribe`."""
        # Not at once: who subscribes may not be ready to be called before its own call has returned.
        asyncio.get_running_loop().call_soon(self._introduce, listener)

    def _introduce(self, listener: RendezvousListener) -> None:
        first, self._any = not self._any, True
        for peer in sorted(self.peers):
            self._call(listener.peer_seen, peer)
        if first:
            early, self._early = self._early, []
            for sender, payload in early:
                self._call(listener.signal, sender, payload)
        if self.ended is not None:
            self._call(listener.closed, self.ended)
        else:
            self._listeners.append(listener)

    def seen(self, peer: str) -> None:
        if self.ended is None and peer not in self.peers:
            self.peers |= {peer}
            for listener in list(self._listeners):
                self._call(listener.peer_seen, peer)

    def gone(self, peer: str) -> None:
        if self.ended is None and peer in self.peers:
            self.peers -= {peer}
            for listener in list(self._listeners):
                self._call(listener.peer_gone, peer)

    def signal(self, sender: str, payload: bytes) -> None:
        if self.ended is not None:
            return
        if not self._any and len(self._early) < EARLY_SIGNALS:
            self._early.append((sender, payload))
        for listener in list(self._listeners):
            self._call(listener.signal, sender, payload)

    def closed(self, reason: str) -> None:
        if self.ended is None:
            self.ended = reason
            self.peers = frozenset()
            listeners, self._listeners = self._listeners, []
            for listener in listeners:
                self._call(listener.closed, reason)

    def _call(self, function: Callable[..., None], *arguments: object) -> None:
        try:
            function(*arguments)
        except Exception:  # a listener's fault must not end the connections of the whole room
            log.exception("a listener of a rendezvous failed")
