"""The adapter over two real threads: buffers cross by reference, digests are checked, what is unsent is counted."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest
from PySide6.QtCore import QObject, QThread, Signal, Slot
from pytestqt.qtbot import QtBot

from desktop.bridge.adapter import PeerPort, QtTransport, digest_of

WAIT_MS = 5000


class FakeMesh:
    """Stands where the mesh stands: writes down what it is handed, and in which thread."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, object, bytes, bool, int, QThread]] = []
        self.dropped: list[tuple[str, str]] = []
        self.received: list[object] = []  # receipts

    def taken(self, receipt: object) -> None:
        self.received.append(receipt)

    def send(self, peer: str, data: object, digest: bytes, *, bulk: bool, token: int) -> None:
        self.sent.append((peer, data, digest, bulk, token, QThread.currentThread()))

    def drop(self, peer: str, reason: str) -> None:
        self.dropped.append((peer, reason))


class Listener:
    """Writes down what the trainer's side is told, and in which thread."""

    def __init__(self) -> None:
        self.all: list[tuple[object, ...]] = []
        self.threads: set[QThread] = set()

    def note(self, *what: object) -> None:
        self.all.append(what)
        self.threads.add(QThread.currentThread())

    def peer_connected(self, peer: str, name: str) -> None:
        self.note("connected", peer, name)

    def peer_lost(self, peer: str, reason: str) -> None:
        self.note("lost", peer, reason)

    def received(self, peer: str, data: memoryview) -> None:
        self.note("received", peer, data)


class Doer(QObject):
    """Lives in the trainer's thread and does there what it is asked."""

    asked = Signal(object)

    @Slot(object)
    def do(self, what: Callable[[], None]) -> None:
        what()


class Rig:
    """Both halves of the adapter, the second one in a thread of its own."""

    def __init__(self, qtbot: QtBot) -> None:
        self.qtbot = qtbot
        self.here = QThread.currentThread()
        self.thread = QThread()
        self.woken = 0
        self.now = 0.0
        self.transport = QtTransport("me", self._wake, lambda: self.now)
        self.doer = Doer()
        for each in (self.transport, self.doer):
            each.moveToThread(self.thread)
        self.doer.asked.connect(self.doer.do)
        self.port = PeerPort()
        self.mesh = FakeMesh()
        self.port.mesh = self.mesh
        self.transport.join(self.port)
        self.listener = Listener()
        self.transport.listen(self.listener)
        self.thread.start()

    def _wake(self) -> None:
        self.woken += 1

    def there(self, what: Callable[[], None]) -> None:
        """Do something in the trainer's thread, and wait until it is done."""
        done: list[bool] = []
        self.doer.asked.emit(lambda: (what(), done.append(True)))
        self.until(lambda: bool(done))

    def until(self, true: Callable[[], bool]) -> None:
        self.qtbot.waitUntil(true, timeout=WAIT_MS)

    def connect(self, peer: str, name: str = "Name") -> None:
        self.port.peer_connected(peer, SimpleNamespace(name=name))
        self.until(lambda: peer in self.transport.peers)

    def end(self) -> None:
        self.thread.quit()
        assert self.thread.wait(WAIT_MS)


@pytest.fixture
def rig(qtbot: QtBot) -> Iterator[Rig]:
    made = Rig(qtbot)
    yield made
    made.end()


def test_the_digest_is_blake2b_of_16_bytes() -> None:
    assert digest_of(b"") == bytes.fromhex("cae66941d9efbd404e4d88758ea67670")
    assert digest_of(bytearray(b"abc")) == hashlib.blake2b(b"abc", digest_size=16).digest()


def test_what_arrives_crosses_by_reference_and_is_heard_in_the_trainers_thread(rig: Rig) -> None:
    rig.connect("p")
    data = bytearray(1_000_000)
    rig.port.received("p", data, digest_of(data), "receipt")
    rig.until(lambda: len(rig.listener.all) == 2)
    kind, peer, view = rig.listener.all[1]
    assert (kind, peer) == ("received", "p")
    assert isinstance(view, memoryview)
    assert view.obj is data
    assert rig.listener.threads == {rig.thread}
    rig.until(lambda: rig.mesh.received == ["receipt"])


def test_a_view_of_a_larger_buffer_crosses_by_reference_as_well(rig: Rig) -> None:
    rig.connect("p")
    whole = bytearray(b"head and body")
    rig.port.received("p", memoryview(whole)[9:], digest_of(b"body"), "receipt")
    rig.until(lambda: len(rig.listener.all) == 2)
    view = rig.listener.all[1][2]
    assert isinstance(view, memoryview)
    assert (view.obj is whole, bytes(view)) == (True, b"body")


def test_what_is_sent_crosses_by_reference_with_its_digest(rig: Rig) -> None:
    rig.connect("p")
    data = bytearray(b"weights")
    rig.there(lambda: rig.transport.send("p", data, bulk=True))
    rig.until(lambda: bool(rig.mesh.sent))
    peer, sent, digest, bulk, token, thread = rig.mesh.sent[0]
    assert sent is data
    assert (peer, digest, bulk, thread) == ("p", digest_of(data), True, rig.here)
    assert token > 0


def test_messages_keep_their_order(rig: Rig) -> None:
    rig.connect("p")
    rig.there(lambda: [rig.transport.send("p", bytes([n]), bulk=False) for n in range(50)] and None)
    rig.until(lambda: len(rig.mesh.sent) == 50)
    assert [sent[1] for sent in rig.mesh.sent] == [bytes([n]) for n in range(50)]
    assert len({sent[4] for sent in rig.mesh.sent}) == 50


def test_a_wrong_digest_is_dropped_and_the_peer_reported(rig: Rig) -> None:
    rig.connect("p")
    rig.port.received("p", bytearray(b"altered"), digest_of(b"original"), "receipt")
    rig.until(lambda: rig.mesh.dropped == [("p", "a message came with a wrong digest")])
    assert [kind for kind, *_ in rig.listener.all] == ["connected"]
    assert rig.mesh.received == []


def test_the_uplink_is_what_peers_took_of_bulk_in_the_time_that_it_took(rig: Rig) -> None:
    rig.connect("p")
    rig.connect("q")
    rig.there(lambda: [rig.transport.send(peer, bytes(600_000), bulk=True) for peer in "ppq"] and None)
    rig.there(lambda: rig.transport.send("p", bytes(900_000), bulk=False))
    rig.until(lambda: len(rig.mesh.sent) == 4)
    rig.now += 2.0
    rig.port.sent("p", rig.mesh.sent[3][4])
    rig.port.sent("p", rig.mesh.sent[0][4])
    rig.port.sent("q", rig.mesh.sent[2][4])
    rig.port.peer_lost("p", "gone")
    rig.until(lambda: "p" not in rig.transport.peers and not rig.transport.unsent("q"))
    rig.now += 60.0
    found: list[float] = []
    rig.there(lambda: found.append(rig.transport.measure_uplink()))
    assert found == [600_000]


def test_what_is_unsent_goes_down_with_each_acknowledgement(rig: Rig) -> None:
    rig.connect("p")
    rig.there(lambda: [rig.transport.send("p", bytes(size), bulk=True) for size in (100, 10, 1)] and None)
    rig.until(lambda: len(rig.mesh.sent) == 3)
    assert rig.transport.unsent("p") == 111
    tokens = [sent[4] for sent in rig.mesh.sent]
    rig.port.sent("p", tokens[0])
    rig.until(lambda: rig.transport.unsent("p") == 11)
    rig.port.sent("p", tokens[0])  # once more
    rig.port.failed("p", tokens[2], "the link was lost")
    rig.until(lambda: rig.transport.unsent("p") == 10)
    assert rig.transport.unsent("q") == 0


def test_a_lost_peer_has_nothing_unsent_and_gets_nothing_more(rig: Rig) -> None:
    rig.connect("p")
    rig.there(lambda: rig.transport.send("p", bytes(100), bulk=True))
    rig.port.peer_lost("p", "silent for 8 s")
    rig.until(lambda: "p" not in rig.transport.peers)
    assert rig.listener.all == [("connected", "p", "Name"), ("lost", "p", "silent for 8 s")]
    assert rig.transport.unsent("p") == 0
    handed = len(rig.mesh.sent)
    rig.there(lambda: rig.transport.send("p", b"?", bulk=False))
    rig.port.received("p", bytearray(b"late"), digest_of(b"late"), "receipt")
    rig.there(lambda: None)
    assert len(rig.mesh.sent) == handed
    assert len(rig.listener.all) == 2


def test_what_is_handed_over_while_the_peer_is_lost_counts_as_done(rig: Rig) -> None:
    rig.connect("p")
    rig.port._open.pop("p")  # the port knows already; the news is still on its way to the trainer
    rig.there(lambda: rig.transport.send("p", bytes(100), bulk=True))
    rig.until(lambda: rig.transport.unsent("p") == 0)
    assert rig.mesh.sent == []


def test_when_the_room_is_left_every_peer_is_lost_once(rig: Rig) -> None:
    rig.connect("p")
    rig.connect("q")
    rig.port.mesh_closed()
    rig.until(lambda: not rig.transport.peers)
    assert sorted(str(what[1]) for what in rig.listener.all if what[0] == "lost") == ["p", "q"]
    rig.port.mesh_closed()
    rig.there(lambda: None)
    assert len(rig.listener.all) == 4


def test_every_event_wakes_the_trainer(rig: Rig) -> None:
    rig.connect("p")
    assert rig.woken == 1
    rig.port.received("p", bytearray(b"x"), digest_of(b"x"), "receipt")
    rig.port.sent("p", 1)
    rig.port.peer_lost("p", "")
    rig.until(lambda: rig.woken == 4)


def test_while_nobody_listens_what_comes_is_dropped_and_peers_are_known(rig: Rig) -> None:
    rig.there(lambda: rig.transport.listen(None))
    rig.connect("p", "Quiet Heron")
    rig.port.received("p", bytearray(b"x"), digest_of(b"x"), "receipt")
    rig.until(lambda: rig.mesh.received == ["receipt"])  # or the peer would wait for ever
    assert rig.listener.all == []
    assert rig.transport.peers == {"p": "Quiet Heron"}


def test_after_the_halves_were_cut_apart_nothing_crosses(rig: Rig) -> None:
    rig.connect("p")
    rig.there(lambda: rig.transport.leave(rig.port))
    rig.port.received("p", bytearray(b"x"), digest_of(b"x"), "receipt")
    rig.there(lambda: rig.transport.send("p", b"x", bulk=False))
    rig.there(lambda: None)
    assert len(rig.listener.all) == 1
    assert rig.mesh.sent == []


def test_faults_go_to_the_window_alone(rig: Rig) -> None:
    with rig.qtbot.waitSignal(rig.port.faulted, timeout=WAIT_MS) as told:
        rig.port.fault("care", "The link to Ann is slow.", "p")
    assert told.args == ["care", "The link to Ann is slow.", "p"]
    assert rig.listener.all == []
