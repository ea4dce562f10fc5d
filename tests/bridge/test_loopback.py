"""The transport inside one process: what is connected, what arrives when, and what is lost."""

from __future__ import annotations

from desktop.bridge.loopback import LoopbackHub, connect_all


class Heard:
    """Writes down what it is told."""

    def __init__(self) -> None:
        self.all: list[tuple[object, ...]] = []

    def peer_connected(self, peer: str, name: str) -> None:
        self.all.append(("connected", peer, name))

    def peer_lost(self, peer: str, reason: str) -> None:
        self.all.append(("lost", peer, reason))

    def received(self, peer: str, data: memoryview) -> None:
        self.all.append(("received", peer, data.obj))


def test_everybody_is_connected_with_everybody() -> None:
    _, transports = connect_all("abc")
    assert {name: sorted(transport.peers) for name, transport in transports.items()} == {
        "a": ["b", "c"], "b": ["a", "c"], "c": ["a", "b"]
    }
    assert transports["a"].me == "a"


def test_who_listens_hears_of_those_who_come_later() -> None:
    hub = LoopbackHub()
    heard = Heard()
    hub.join("a").listen(heard)
    hub.join("b")
    assert heard.all == [("connected", "b", "b")]


def test_nothing_moves_until_it_is_pumped_and_then_by_reference_in_order() -> None:
    hub, transports = connect_all("ab")
    heard = Heard()
    transports["b"].listen(heard)
    first, second = bytearray(b"first"), bytearray(b"second")
    transports["a"].send("b", first, bulk=False)
    transports["a"].send("b", second, bulk=True)
    assert heard.all == []
    assert hub.pump() == 2
    assert [kind for kind, *_ in heard.all] == ["received"] * 2
    assert heard.all[0][2] is first
    assert heard.all[1][2] is second
    assert hub.bytes_sent == {"a": 11}


def test_an_answer_waits_for_the_next_pump() -> None:
    hub, transports = connect_all("ab")

    class Answering(Heard):
        def received(self, peer: str, data: memoryview) -> None:
            super().received(peer, data)
            transports["b"].send(peer, b"answer", bulk=False)

    heard = Heard()
    transports["a"].listen(heard)
    transports["b"].listen(Answering())
    transports["a"].send("b", b"question", bulk=False)
    assert hub.pump() == 1
    assert heard.all == []
    assert hub.pump() == 1
    assert len(heard.all) == 1


def test_who_is_killed_is_lost_once_with_all_that_was_on_its_way() -> None:
    hub, transports = connect_all("abc")
    heard = {name: Heard() for name in transports}
    for name, transport in transports.items():
        transport.listen(heard[name])
    transports["b"].send("a", b"never arrives", bulk=False)
    transports["a"].send("b", b"nor this", bulk=False)
    hub.kill("b")
    transports["a"].send("b", b"nor this", bulk=False)
    assert hub.pump() == 0
    assert heard["a"].all == [("lost", "b", "lost")]
    assert heard["c"].all == [("lost", "b", "lost")]


def test_to_a_stranger_nothing_is_sent_and_nobody_listening_drops() -> None:
    hub, transports = connect_all("ab")
    transports["a"].send("x", b"?", bulk=False)
    assert hub.pump() == 0
    transports["a"].send("b", b"?", bulk=False)
    assert hub.pump() == 1
    assert transports["a"].unsent("b") == 0
