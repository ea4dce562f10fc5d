"""The adapter itself: the mesh's events as queued Qt signals to the trainer thread, and its buffers back.

    GUI thread                                   trainer thread
    Mesh --MeshEvents--> PeerPort ==signals==> QtTransport --TransportListener--> Trainer
    Mesh <----send------ PeerPort <==signals== QtTransport <------send----------- Trainer

Buffers cross by reference (`Signal(object)`), never by copy. Digests are made and checked on the trainer's side.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any, Protocol

from PySide6.QtCore import QObject, Signal, Slot

from desktop.bridge.transport import Buffer, TransportListener, digest_of
from desktop.bridge.uplink import Uplink

OWN_GOODBYE = "the room was left"  # the reason for losing peers when it was I who went

log = logging.getLogger(__name__)


class Sender(Protocol):
    """What the port needs of a mesh."""

    def send(self, peer: str, data: Buffer, digest: bytes, *, bulk: bool, token: int) -> None:
        """Hand a message over."""

    def taken(self, receipt: Any) -> None:
        """The trainer has the message that came with this receipt."""

    def drop(self, peer: str, reason: str) -> None:
        """End the link to a peer that broke the protocol."""


class PeerPort(QObject):
    """GUI-thread half. Give it to the mesh as its `MeshEvents`."""

    connected = Signal(str, str)
    lost = Signal(str, str)
    arrived = Signal(str, object, object, object)
    acknowledged = Signal(str, int)
    faulted = Signal(str, str, str)  # severity, text, peer: for the window

    def __init__(self) -> None:
        super().__init__()
        self.mesh: Sender | None = None
        self._open: dict[str, str] = {}

    # -- MeshEvents, called by the mesh on the loop --

    def peer_connected(self, peer: str, info: Any) -> None:
        self._open[peer] = info.name
        self.connected.emit(peer, info.name)

    def peer_lost(self, peer: str, reason: str) -> None:
        self._open.pop(peer, None)
        self.lost.emit(peer, reason)

    def received(self, peer: str, data: memoryview | bytearray, digest: bytes, receipt: Any) -> None:
        self.arrived.emit(peer, data, digest, receipt)

    def sent(self, peer: str, token: int) -> None:
        self.acknowledged.emit(peer, token)

    def failed(self, peer: str, token: int, reason: str) -> None:
        log.info("message %d to %s failed: %s", token, peer, reason)
        self.acknowledged.emit(peer, token)

    def fault(self, severity: str, text: str, peer: str) -> None:
        self.faulted.emit(severity, text, peer)

    # -- from the trainer's half --

    @Slot(str, object, object, bool, int)
    def send(self, peer: str, data: Buffer, digest: bytes, bulk: bool, token: int) -> None:
        """A buffer of the trainer. To a peer that is gone meanwhile nothing is sent."""
        if self.mesh is not None and peer in self._open:
            self.mesh.send(peer, data, digest, bulk=bulk, token=token)
        else:
            self.acknowledged.emit(peer, token)

    @Slot(object)
    def taken(self, receipt: object) -> None:
        """The trainer's half has a message: the peer may send more."""
        if self.mesh is not None:
            self.mesh.taken(receipt)

    @Slot(str, str)
    def drop(self, peer: str, reason: str) -> None:
        """The trainer's half found that a peer breaks the protocol."""
        if self.mesh is not None:
            self.mesh.drop(peer, reason)

    @Slot()
    def mesh_closed(self) -> None:
        """The room was left: every peer is lost."""
        for peer in list(self._open):
            self.peer_lost(peer, OWN_GOODBYE)
        self.mesh = None


class QtTransport(QObject):
    """Trainer-thread half: a `PeerTransport`."""

    outgoing = Signal(str, object, object, bool, int)
    took = Signal(object)
    broken = Signal(str, str)

    def __init__(self, me: str, woken: Callable[[], None], clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._me = me
        self._woken = woken
        self._peers: dict[str, str] = {}
        self._listener: TransportListener | None = None
        self._token = 0
        self._hashed: tuple[Buffer, bytes] = (b"", digest_of(b""))  # the last buffer sent, with its digest
        self._unsent: dict[str, dict[int, int]] = {}
        self._uplink = Uplink(clock)
        self._bulk: set[int] = set()  # tokens of what counts for that

    @property
    def me(self) -> str:
        return self._me

    @property
    def peers(self) -> dict[str, str]:
        return self._peers

    def join(self, port: PeerPort) -> None:
        """Connect both halves. Call it after this half was moved to the trainer's thread."""
        port.connected.connect(self._on_connected)
        port.lost.connect(self._on_lost)
        port.arrived.connect(self._on_arrived)
        port.acknowledged.connect(self._on_acknowledged)
        self.outgoing.connect(port.send)
        self.took.connect(port.taken)
        self.broken.connect(port.drop)

    def leave(self, port: PeerPort) -> None:
        """Cut both halves apart: nothing of this one reaches the mesh any more."""
        port.connected.disconnect(self._on_connected)
        port.lost.disconnect(self._on_lost)
        port.arrived.disconnect(self._on_arrived)
        port.acknowledged.disconnect(self._on_acknowledged)
        self.outgoing.disconnect(port.send)
        self.took.disconnect(port.taken)
        self.broken.disconnect(port.drop)

    def listen(self, listener: TransportListener | None) -> None:
        self._listener = listener

    def send(self, peer: str, data: Buffer, *, bulk: bool) -> None:
        if peer not in self._peers:
            return
        if data is not self._hashed[0]:  # a result goes to all members: one buffer, hashed once
            self._hashed = (data, digest_of(data))
        self._token += 1
        self._unsent.setdefault(peer, {})[self._token] = len(data)
        if bulk:
            self._bulk.add(self._token)
            self._uplink.handed(len(data))
        self.outgoing.emit(peer, data, self._hashed[1], bulk, self._token)

    def unsent(self, peer: str) -> int:
        return sum(self._unsent.get(peer, {}).values())

    def measure_uplink(self) -> float:
        return self._uplink.measure()

    @Slot(str, str)
    def _on_connected(self, peer: str, name: str) -> None:
        self._peers[peer] = name
        if self._listener:
            self._listener.peer_connected(peer, name)
        self._woken()

    @Slot(str, str)
    def _on_lost(self, peer: str, reason: str) -> None:
        for token, size in self._unsent.pop(peer, {}).items():
            if token in self._bulk:
                self._bulk.discard(token)
                self._uplink.dropped(size)
        if self._peers.pop(peer, None) is not None and self._listener:
            self._listener.peer_lost(peer, reason)
        self._woken()

    @Slot(str, object, object, object)
    def _on_arrived(self, peer: str, data: memoryview | bytearray, digest: bytes, receipt: object) -> None:
        if digest_of(data) != digest:
            self.broken.emit(peer, "a message came with a wrong digest")
            return
        if self._listener and peer in self._peers:
            self._listener.received(peer, memoryview(data))
            self._woken()
        self.took.emit(receipt)

    @Slot(str, int)
    def _on_acknowledged(self, peer: str, token: int) -> None:
        size = self._unsent.get(peer, {}).pop(token, 0)
        if size and token in self._bulk:
            self._bulk.discard(token)
            self._uplink.taken(size)
        self._woken()
