"""Meshes over real WebRTC on loopback: who dials whom, relaying, sealing, loss and return, bounds, sentences."""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any

import msgspec
import pytest

from desktop.bridge.transport import PROTOCOL, digest_of
from desktop.errors import NoNetworkError
from desktop.peers import mesh as mesh_module
from desktop.peers import via as via_module
from desktop.peers.link import Link
from desktop.peers.mesh import CARRIED_BYTES, Mesh
from desktop.peers.packet import VERSION, Kind
from desktop.peers.packet import cut as cut_up
from desktop.peers.said import SIGNAL_BURST, Forward, Members, PeerInfo
from tests.peers.doubles import QUICK, HashSealer, Member, Place, Watched, close_members, cut, lane_of


def not_bc(a: str, b: str) -> bool:
    return {a, b} != {"b", "c"}


def link_of(member: Member, peer: str) -> Link:
    link = member.mesh._remotes[peer].link
    assert link is not None
    return link


def vanish(member: Member) -> None:
    """The program is gone without a word: its sockets closed, its rendezvous deaf, its timers stopped."""
    member.mesh._ears.clear()
    for remote in member.mesh._remotes.values():
        member.mesh._stop_timers(remote)
        remote.barred = "?"
        for link in remote.attempts:
            cut(link)


# -- finding each other -----------------------------------------------------------------------------


async def test_three_members_connect_and_know_each_other() -> None:
    place = Place()
    members = [Member(peer, place) for peer in "abc"]
    for member in members:
        await member.connected_to(*({"a", "b", "c"} - {member.peer}))
    a = members[0]
    assert {call[1:] for call in a.heard.of("connected")} == {
        ("b", PeerInfo("b", "Member B", "cpu", "0.1")), ("c", PeerInfo("c", "Member C", "cpu", "0.1")),
    }
    row = a.row("b")
    assert (row.name, row.backend, row.state, row.path) == ("Member B", "cpu", "open", "direct")
    await close_members(*members)
    for member in members:
        assert len(member.heard.of("connected")) == len(member.heard.of("lost")) == 2
        assert member.heard.faults == []


async def test_one_offer_for_each_pair() -> None:
    """The smaller id offers; nothing crosses, whoever comes first."""
    place = Place()
    late = Member("b", place)
    early = Member("a", place)
    await early.connected_to("b")
    await late.connected_to("a")
    assert place.passed == 2  # an offer and an answer
    await close_members(early, late)


async def test_the_larger_id_asks_for_an_offer_when_none_comes() -> None:
    place = Place()
    place.untold.add("a")  # the one who should offer does not know of the other
    a, b = Member("a", place), Member("b", place)
    await b.connected_to("a")
    await a.connected_to("b")
    await close_members(a, b)


async def test_members_relay_signalling_when_the_rendezvous_is_gone() -> None:
    place = Place(not_bc)
    a = Member("a", place)
    b = Member("b", place)
    await a.connected_to("b")
    c = Member("c", place)
    await a.connected_to("b", "c")
    place.end()
    await b.connected_to("a", "c")
    await c.connected_to("a", "b")
    data = os.urandom(100_000)
    b.mesh.send("c", data, digest_of(data), bulk=True, token=5)
    await c.heard.until(lambda: c.heard.messages == [("b", data, digest_of(data))])
    await close_members(a, b, c)


async def test_altered_offers_are_refused_and_said() -> None:
    place = Place()
    place.alter = lambda payload: payload[:-1] + bytes([payload[-1] ^ 1])
    a, b = Member("a", place, open_s=0.5), Member("b", place, open_s=0.5)
    await b.heard.until(lambda: ("care", "Altered on the way.", "a") in b.heard.faults)
    assert b.mesh.connected == frozenset()
    await a.heard.until(lambda: any("cannot be reached" in text for _, text, _ in a.heard.faults))
    place.alter = lambda payload: payload
    await a.connected_to("b")
    await close_members(a, b)


async def test_other_key_cannot_come_in() -> None:
    place = Place()
    a, thief = Member("a", place, open_s=0.5), Member("b", place, key=b"guessed", open_s=0.5)
    await thief.heard.until(lambda: len(thief.heard.faults) >= 1)
    await a.heard.until(lambda: any(fault[0] == "care" for fault in a.heard.faults))
    assert a.mesh.connected == thief.mesh.connected == frozenset()
    await close_members(a, thief)


# -- messages ---------------------------------------------------------------------------------------


async def test_messages_are_acknowledged_and_counted() -> None:
    place = Place()
    a, b = Member("a", place), Member("b", place)
    await a.connected_to("b")
    await b.connected_to("a")
    big, small = os.urandom(1_000_000), b""
    a.mesh.send("b", big, digest_of(big), bulk=True, token=1)
    a.mesh.send("b", small, digest_of(small), bulk=False, token=2)
    await a.heard.until(lambda: len(a.heard.of("sent")) == 2)
    assert a.row("b").unsent_bytes == 0
    assert [call[2] for call in a.heard.of("sent")] == [2, 1]
    assert b.heard.messages == [("a", small, digest_of(small)), ("a", big, digest_of(big))]
    a.mesh.send("nobody", b"x", digest_of(b"x"), bulk=False, token=3)
    assert a.heard.of("failed") == []  # never from within send
    await a.heard.until(lambda: a.heard.of("failed") == [("failed", "nobody", 3, "not connected")])
    await close_members(a, b)


async def test_digest_is_passed_on_unchecked() -> None:
    """The trainer's side checks it, off the thread of the window."""
    place = Place()
    a, b = Member("a", place), Member("b", place)
    await a.connected_to("b")
    await b.connected_to("a")
    a.mesh.send("b", b"data", bytes(16), bulk=True, token=1)
    await b.heard.until(lambda: b.heard.messages == [("a", b"data", bytes(16))])
    await close_members(a, b)


# -- leaving, loss and return -------------------------------------------------------------------------


async def test_goodbye_is_not_a_loss() -> None:
    place = Place()
    members = a, b, c = [Member(peer, place) for peer in "abc"]
    for member in members:
        await member.connected_to(*({"a", "b", "c"} - {member.peer}))
    del place.doors["c"]
    await c.mesh.close("the window was closed")
    await c.mesh.close("again")
    await a.connected_to("b")
    await b.connected_to("a")
    assert a.heard.of("lost") == [("lost", "c", "the window was closed")]
    assert [row.peer for row in a.mesh.rows()] == ["b"]
    await asyncio.sleep(1.0)  # nobody dials it again
    assert a.heard.faults == b.heard.faults == []
    await close_members(a, b)


async def test_lost_link_is_rebuilt_and_said() -> None:
    place = Place()
    members = [Member(peer, place) for peer in "abc"]
    a, b, _ = members
    for member in members:
        await member.connected_to(*({"a", "b", "c"} - {member.peer}))
    began = time.monotonic()
    cut(link_of(b, "a"))
    await a.heard.until(lambda: bool(a.heard.of("lost")), 5)
    assert time.monotonic() - began < QUICK["silent_s"] + 2
    assert a.heard.of("lost") == [("lost", "b", "silent for 1 s")]
    await a.connected_to("b", "c")
    await b.connected_to("a", "c")
    (severity, text, peer), *_ = a.heard.faults
    assert (severity, peer) == ("info", "b")
    assert text.startswith("Member B was lost (silent for 1 s); continuing with 1 connected peer. Next try in ")
    assert len(a.heard.of("connected")) == 3
    assert len(a.heard.of("lost")) == 1
    await close_members(*members)


async def test_restarted_program_is_let_in_at_once() -> None:
    place = Place()
    a, b = Member("a", place), Member("b", place)
    await a.connected_to("b")
    vanish(b)
    again = Member("b", place)  # the same id, before anybody has noticed
    await again.connected_to("a")
    await a.connected_to("b")
    assert [call[0] for call in a.heard.calls] == ["connected", "lost", "connected"]
    await close_members(a, b, again)


async def test_gone_for_good_is_tried_less_and_less_and_said() -> None:
    place = Place()
    a, b = Member("a", place, open_s=0.3), Member("b", place)
    await a.connected_to("b")
    vanish(b)
    await a.heard.until(lambda: bool(a.heard.of("lost")), 5)
    assert a.row("b").state == "lost"
    assert a.row("b").next_try_s is not None
    await a.heard.until(lambda: a.row("b").tries >= 3, 10)
    severity, text, peer = a.heard.faults[-1]
    assert (severity, peer) == ("care", "b")
    assert text.startswith("Member B cannot be reached (no answer within 0.3 s), and nobody else is connected.")
    await close_members(a, b)


async def test_nobody_lists_it_nobody_tries() -> None:
    place = Place()
    a, b = Member("a", place, open_s=0.3), Member("b", place)
    await a.connected_to("b")
    vanish(b)
    place.end()
    await a.heard.until(lambda: bool(a.heard.of("lost")), 5)
    assert a.row("b").next_try_s is None
    assert a.heard.faults[-1][1].endswith("It is tried again when somebody hears of it.")
    await close_members(a, b)


async def test_messages_go_on_over_the_next_link() -> None:
    a, b = await pair()
    there, back = os.urandom(6_000_000), os.urandom(6_000_000)
    a.mesh.send("b", there, digest_of(there), bulk=True, token=1)
    b.mesh.send("a", back, digest_of(back), bulk=True, token=2)
    await a.heard.until(lambda: any(m.done_bytes > 1_000_000 for m in a.row("b").moving))
    cut(link_of(b, "a"))
    await a.heard.until(lambda: bool(a.heard.of("lost")), 5)
    await a.heard.until(lambda: bool(a.heard.of("sent")), 20)
    await b.heard.until(lambda: bool(b.heard.of("sent")), 20)
    assert (a.heard.of("sent"), b.heard.of("sent")) == ([("sent", "b", 1)], [("sent", "a", 2)])
    assert a.heard.messages == [("b", back, digest_of(back))]
    assert b.heard.messages == [("a", there, digest_of(there))]
    assert a.heard.of("failed") == b.heard.of("failed") == []
    await close_members(a, b)


async def test_messages_to_a_program_that_was_restarted_fail() -> None:
    place = Place()
    a, b = Member("a", place), Member("b", place)
    await a.connected_to("b")
    await b.connected_to("a")
    b.heard.takes = None
    a.mesh.send("b", b"for the old one", digest_of(b"for the old one"), bulk=True, token=1)
    await b.heard.until(lambda: bool(b.heard.messages))
    vanish(b)
    again = Member("b", place)
    await a.heard.until(lambda: bool(a.heard.of("failed")))
    assert a.heard.of("failed") == [("failed", "b", 1, "it has begun anew")]
    await again.connected_to("a")
    assert again.heard.messages == []
    await close_members(a, b, again)


async def test_messages_to_one_who_does_not_come_back_are_given_up() -> None:
    place = Place()
    a, b = Member("a", place, keep_s=0.5), Member("b", place)
    await a.connected_to("b")
    await b.connected_to("a")
    vanish(b)
    a.mesh.send("b", b"never", digest_of(b"never"), bulk=True, token=1)
    await a.heard.until(lambda: bool(a.heard.of("failed")))
    assert a.heard.of("failed") == [("failed", "b", 1, "silent for 1 s")]
    await close_members(a, b)


async def test_closing_gives_up_what_waits_for_one_who_is_lost() -> None:
    a, b = await pair()
    vanish(b)
    a.mesh.send("b", b"never", digest_of(b"never"), bulk=True, token=1)
    await a.heard.until(lambda: bool(a.heard.of("lost")))
    assert a.heard.of("failed") == []
    await close_members(a, b)
    assert a.heard.of("failed") == [("failed", "b", 1, "test over")]


async def test_a_message_counts_as_sent_once_the_program_has_taken_it() -> None:
    a, b = await pair()
    b.heard.takes = None
    a.mesh.send("b", b"wait", digest_of(b"wait"), bulk=True, token=1)
    await b.heard.until(lambda: bool(b.heard.receipts))
    await asyncio.sleep(0.3)
    assert a.heard.of("sent") == []
    b.mesh.taken(b.heard.receipts[0])
    await a.heard.until(lambda: a.heard.of("sent") == [("sent", "b", 1)])
    await close_members(a, b)


# -- a way round ------------------------------------------------------------------------------------


async def walled(**changes: Any) -> tuple[Place, Member, Member, Member]:
    """Three members; no packet passes between b and c, who are connected through a."""
    place = Place()
    place.walls.add(frozenset("bc"))
    members = a, b, c = [Member(peer, place, **{"detour_s": 0.4, "open_s": 2.0, **changes}) for peer in "abc"]
    for member in members:
        await member.connected_to(*({"a", "b", "c"} - {member.peer}))
    return place, a, b, c


async def test_two_who_cannot_reach_each_other_talk_through_a_third() -> None:
    _, a, b, c = await walled()
    for me, peer in ((b, "c"), (c, "b")):
        row = me.row(peer)
        assert (row.state, row.path, row.via, row.lanes) == ("open", "via", "Member A", {"via": 1})
    assert a.row("b").path == a.row("c").path == "direct"
    there, back = os.urandom(3_000_000), os.urandom(3_000_000)
    b.mesh.send("c", there, digest_of(there), bulk=True, token=1)
    c.mesh.send("b", back, digest_of(back), bulk=True, token=2)
    await b.heard.until(lambda: b.heard.of("sent") == [("sent", "c", 1)] and len(b.heard.messages) == 1, 20)
    await c.heard.until(lambda: c.heard.of("sent") == [("sent", "b", 2)] and len(c.heard.messages) == 1, 20)
    assert c.heard.messages == [("b", there, digest_of(there))]
    assert b.heard.messages == [("c", back, digest_of(back))]
    assert a.heard.messages == []
    await close_members(a, b, c)
    assert a.mesh._carried == {}


async def test_the_one_between_cannot_read_and_holds_little() -> None:
    _, a, b, c = await walled()
    seen: list[bytes] = []
    held: list[int] = []
    carry_on = a.mesh._carry_on

    def watching(remote: Any, said: Any) -> None:
        carry_on(remote, said)
        seen.append(said.sealed)
        held.append(sum(size for _, size in a.mesh._carried.values()))

    a.mesh._carry_on = watching  # type: ignore[method-assign]
    secret = b"what only two should know " * 100_000
    b.mesh.send("c", secret, digest_of(secret), bulk=True, token=1)
    await b.heard.until(lambda: bool(b.heard.of("sent")), 20)
    assert sum(len(frame) for frame in seen) > len(secret)
    assert not any(b"what only two should know" in frame for frame in seen)
    assert max(held) <= 2 * via_module.WINDOW
    await close_members(a, b, c)


async def test_direct_again_as_soon_as_that_works() -> None:
    place, a, b, c = await walled()
    data = os.urandom(5_000_000)
    b.mesh.send("c", data, digest_of(data), bulk=True, token=1)
    place.walls.clear()
    await b.heard.until(lambda: b.heard.of("sent") == [("sent", "c", 1)], 20)
    async with asyncio.timeout(20):
        while not b.row("c").path == c.row("b").path == "direct":  # noqa: ASYNC110  (nobody is told of it)
            await asyncio.sleep(0.05)
    assert c.heard.messages == [("b", data, digest_of(data))]
    assert b.heard.of("lost") == c.heard.of("lost") == []
    await close_members(a, b, c)


async def test_the_one_between_goes_and_the_others_hear_of_it() -> None:
    place, a, b, c = await walled()
    del place.doors["a"]
    await a.mesh.close("the window was closed")
    await b.heard.until(lambda: len(b.heard.of("lost")) == 2)
    assert ("lost", "c", "Member A has lost it") in b.heard.of("lost")
    place.walls.clear()
    await b.connected_to("c")
    await c.connected_to("b")
    await close_members(a, b, c)


async def test_another_one_between_takes_over() -> None:
    place = Place()
    place.walls.add(frozenset("bc"))
    members = a, b, _, d = [Member(peer, place, detour_s=0.4, open_s=2.0) for peer in "abcd"]
    for member in members:
        await member.connected_to(*({"a", "b", "c", "d"} - {member.peer}))
    between = {"Member A": a, "Member D": d}[b.row("c").via]
    other = d if between is a else a
    del place.doors[between.peer]
    await between.mesh.close("the window was closed")
    name = f"Member {other.peer.upper()}"
    await b.heard.until(lambda: between.peer not in b.mesh.connected and b.row("c").via == name, 20)
    await close_members(*members)


async def test_more_than_the_one_between_may_hold_ends_the_lane() -> None:
    _, a, b, c = await walled()
    link = link_of(b, "c")
    for _ in range(100):  # without waiting for anything to be confirmed
        assert link.control is not None
        link.control.send(bytes(60_000))
    await c.heard.until(lambda: bool(c.heard.of("lost")))
    assert sum(size for _, size in a.mesh._carried.values()) <= CARRIED_BYTES
    await close_members(a, b, c)


# -- the room itself --------------------------------------------------------------------------------


async def test_end_of_the_rendezvous_is_said_by_what_it_means() -> None:
    place = Place()
    a, b, alone = Member("a", place), Member("b", place), Member("z", Place())
    await a.connected_to("b")
    await b.connected_to("a")
    place.end()
    alone_place = alone.mesh._ears[0].rendezvous.place  # type: ignore[attr-defined]
    alone_place.end()
    assert a.heard.faults == [
        ("info", "The way into the room is closed (the host left). The members who are connected stay connected.", "")
    ]
    assert alone.heard.faults[0][0] == "bad"
    assert "training alone goes on" in alone.heard.faults[0][1]
    assert a.mesh.connected == {"b"}
    await close_members(a, b, alone)


async def test_more_members_than_allowed() -> None:
    place = Place()
    a = Member("a", place, max_peers=3)
    others = [Member(peer, place) for peer in "bcd"]
    await a.heard.until(lambda: any("more than 3 members" in text for _, text, _ in a.heard.faults))
    assert len(a.mesh.rows()) == 2
    await close_members(a, *others)


async def test_no_network_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aioice.ice.get_host_addresses", lambda use_ipv4, use_ipv6: [])
    place = Place()
    a = Member("a", place, loopback=False, open_s=0.4)
    place.door("b")  # known, but does not answer
    await a.heard.until(lambda: a.heard.faults == [("bad", NoNetworkError().sentence, "b")])
    await close_members(a)


async def test_room_on_one_computer_works_without_a_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aioice.ice.get_host_addresses", lambda use_ipv4, use_ipv6: [])
    place = Place()
    a, b = Member("a", place, loopback=False), Member("b", place, loopback=False)
    await a.connected_to("b")
    await b.connected_to("a")
    await close_members(a, b)


async def test_close_while_dialling() -> None:
    place = Place()
    members = [Member(peer, place) for peer in "abcd"]
    await asyncio.sleep(0.005)
    await close_members(*members)
    for member in members:
        assert len(member.heard.of("connected")) == len(member.heard.of("lost"))


async def test_close_before_anything() -> None:
    a = Member("a")
    await a.mesh.close("never mind")
    assert a.heard.calls == []


# -- peers that misbehave -----------------------------------------------------------------------------


async def pair(**changes: Any) -> tuple[Member, Member]:
    place = Place()
    a, b = Member("a", place, **changes), Member("b", place, **changes)
    await a.connected_to("b")
    await b.connected_to("a")
    return a, b


async def test_dropped_peer_stays_out_and_both_hear_why() -> None:
    a, b = await pair()
    a.mesh.drop("b", "a contribution of the wrong shape")
    await b.heard.until(lambda: bool(b.heard.of("lost")))
    assert a.heard.of("lost") == [("lost", "b", "the protocol was broken: a contribution of the wrong shape")]
    assert b.heard.of("lost")[0][2] == "the protocol was broken: a contribution of the wrong shape"
    assert a.heard.faults == [
        ("bad", "Member B sent something that this version of Peerloom does not understand: "
                "a contribution of the wrong shape. The link to it was closed.", "b")
    ]
    await asyncio.sleep(1.0)
    assert a.mesh.connected == b.mesh.connected == frozenset()
    assert a.mesh.rows() == ()
    await close_members(a, b)


@pytest.mark.parametrize(
    "said",
    [
        b"\xc1 no message pack",
        msgspec.msgpack.encode({"what": "unheard of"}),
        msgspec.msgpack.encode({"what": "members", "peers": ["x"] * 300}),
        msgspec.msgpack.encode({"what": "hello", "protocol": 1, "session": "s",
                                "info": {"peer": "b", "name": "B", "backend": "", "version": ""}}),
    ],
)
async def test_room_messages_that_make_no_sense(said: bytes) -> None:
    a, b = await pair()
    link_of(b, "a").send(Kind.ROOM, said, digest_of(said))
    await a.heard.until(lambda: bool(a.heard.of("lost")))
    assert [(fault[0], fault[2]) for fault in a.heard.faults] == [("bad", "b")]
    await close_members(a, b)


async def test_packets_that_make_no_sense() -> None:
    a, b = await pair()
    lane_of(link_of(b, "a")).send(b"garbage that is no packet")
    await b.heard.until(lambda: bool(b.heard.of("lost")))
    assert a.heard.of("lost") == [("lost", "b", f"packet version 103, here {VERSION}")]
    assert b.heard.of("lost") == [("lost", "a", f"the protocol was broken: packet version 103, here {VERSION}")]
    assert [fault[0] for fault in a.heard.faults] == ["bad"]
    assert "Member B sent something" in a.heard.faults[0][1]
    assert a.mesh.rows() == ()
    await close_members(a, b)


class Impostor(Mesh):
    """Says in its hello that it is somebody else."""

    def _hello(self, remote: Any, link: Link) -> bytes:
        self.me = PeerInfo("somebody", "Somebody", "cpu", "0.1")
        return super()._hello(remote, link)


class FutureMesh(Mesh):
    protocol = PROTOCOL + 1


class PastMesh(Mesh):
    protocol = PROTOCOL - 1


class AlienMesh(Mesh):
    """Greets in a form that only later versions know."""

    def _hello(self, remote: Any, link: Link) -> bytes:
        return msgspec.msgpack.encode({"what": "hello", "protocol": 9, "info": {"name": "Alien", "version": "9.0"}})


class EagerMesh(Mesh):
    """Sends before the hello."""

    def _hello(self, remote: Any, link: Link) -> bytes:
        lane_of(link).send(cut_up(Kind.TRAINER, 1, b"x", digest_of(b"x"), 1024).packet(0, True))
        return super()._hello(remote, link)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (Impostor, "it says it is somebody"),
        (FutureMesh, "Member A uses an older version of Peerloom (0.1) than Member B (0.1)."),
        (PastMesh, "Member B uses an older version of Peerloom (0.1) than Member A (0.1)."),
        (AlienMesh, "Member A uses an older version of Peerloom (0.1) than Alien (9.0)."),
        (EagerMesh, "a message before the hello"),
    ],
)
async def test_hello_decides(kind: type[Mesh], text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place()
    a = Member("a", place)
    with monkeypatch.context() as patch:
        patch.setattr("tests.peers.doubles.Mesh", kind)
        b = Member("b", place)
    await a.heard.until(lambda: any(text in each for _, each, _ in a.heard.faults))
    assert a.heard.faults[0][0] == "bad"
    await asyncio.sleep(0.3)
    assert a.mesh.connected == frozenset()
    assert a.heard.of("connected") == []
    await close_members(a, b)


async def test_a_peer_without_a_hello_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Link, "lane_opened", lambda link, lane: None)  # nobody says hello

    place = Place()
    a = Member("a", place, open_s=0.5)
    b = Member("b", place)
    await a.heard.until(lambda: any("no answer within 0.5 s" in text for _, text, _ in a.heard.faults))
    await close_members(a, b)


async def test_relaying_is_bounded() -> None:
    place = Place(not_bc)
    a, b, c = members = [Member(peer, place) for peer in "abc"]
    await a.connected_to("b", "c")
    await b.connected_to("a", "c")
    await c.connected_to("a", "b")
    opened: list[bytes] = []
    sealer: Any = c.mesh._sealer
    real_open = sealer.open

    def counting(sender: str, sealed: bytes) -> Any:
        opened.append(sealed)
        return real_open(sender, sealed)

    sealer.open = counting
    link = link_of(b, "a")
    b.mesh._tell(link, Forward("c", bytes(mesh_module.MAX_SIGNAL + 1)))
    for number in range(SIGNAL_BURST + 500):
        b.mesh._tell(link, Forward("c", number.to_bytes(40, "big")))
    b.mesh._tell(link, Members(("a", "c")))
    data = b"after the flood"
    b.mesh.send("a", data, digest_of(data), bulk=True, token=1)
    await b.heard.until(lambda: bool(b.heard.of("sent")))
    await asyncio.sleep(0.2)
    assert 100 < len(opened) < SIGNAL_BURST + 100
    assert max(map(len, opened)) == 40
    assert len(c.heard.faults) == 1  # the same sentence once
    await close_members(*members)


# -- signals that make no sense ------------------------------------------------------------------------


class Stranger(Watched):
    """Has the key, speaks the signals by hand, and has no mesh."""

    def __init__(self, peer: str, place: Place) -> None:
        super().__init__()
        self.sealer = HashSealer(peer)
        self.heard: list[dict[str, Any]] = []
        self.door = place.door(peer)
        self.door.listeners.append(self)

    def say(self, to: str, **signal: Any) -> bool:
        return self.door.send(to, self.sealer.seal(to, msgspec.msgpack.encode(signal)))

    def signal(self, sender: str, payload: bytes) -> None:
        self.heard.append(msgspec.msgpack.decode(self.sealer.open(sender, payload)))
        self.changed()

    def peer_seen(self, peer: str) -> None: ...

    def peer_gone(self, peer: str) -> None: ...

    def closed(self, reason: str) -> None: ...

    def of(self, what: str) -> list[dict[str, Any]]:
        return [signal for signal in self.heard if signal["what"] == what]


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0.005)


async def test_signals_that_cannot_be_read_are_said() -> None:
    place = Place()
    a, stranger = Member("a", place), Stranger("b", place)
    stranger.say("a", what="nothing known", session="s")
    await a.heard.until(lambda: "A message about connecting to b could not be used" in str(a.heard.faults))
    stranger.say("a", what="offer", session="s", attempt="1", sdp="not for me: the smaller id offers")
    stranger.say("a", what="answer", session="s", attempt="of nobody", sdp="")
    stranger.say("a", what="candidate", session="s", attempt="of nobody", line="")
    await settle()
    assert len(a.heard.faults) == 1
    assert a.mesh.connected == frozenset()
    await close_members(a)


async def test_bad_answer_is_said_and_tried_again() -> None:
    place = Place()
    a, stranger = Member("a", place), Stranger("b", place)
    await stranger.until(lambda: len(stranger.of("offer")) == 1)
    first = stranger.of("offer")[0]
    stranger.say("a", what="candidate", session="s", attempt=first["attempt"], line="not one")
    stranger.say("a", what="answer", session="s", attempt=first["attempt"], sdp="nonsense")
    await a.heard.until(lambda: any("no data channel in it" in text for _, text, _ in a.heard.faults))
    await stranger.until(lambda: len(stranger.of("offer")) == 2)
    assert stranger.of("offer")[1]["attempt"] != first["attempt"]
    await close_members(a)


async def test_bad_offer_is_said_and_a_replayed_one_ignored() -> None:
    place = Place()
    b, stranger = Member("b", place), Stranger("a", place)
    for _ in range(3):
        stranger.say("b", what="offer", session="s", attempt="1", sdp="nonsense")
    await settle()
    assert [text for _, text, _ in b.heard.faults if "no data channel" in text] != []
    assert b.row("a").tries == 1
    await close_members(b)


async def test_pokes_give_one_dial_at_a_time() -> None:
    place = Place()
    place.untold.add("a")
    a, stranger = Member("a", place), Stranger("b", place)
    for _ in range(50):
        stranger.say("a", what="poke", session="s", lost="")
    await settle()
    assert len(stranger.of("offer")) == 1
    stranger.say("a", what="poke", session="s", lost=stranger.of("offer")[0]["attempt"])  # it has ended there
    await settle()
    assert len(stranger.of("offer")) == 1  # not within a second
    await asyncio.sleep(1.0)
    stranger.say("a", what="poke", session="s", lost="")
    await settle()
    assert len(stranger.of("offer")) == 2
    await close_members(a)


async def test_unanswered_pokes_are_said_once_it_takes_long() -> None:
    place = Place()
    b = Member("b", place)
    stranger = Stranger("a", place)
    await b.heard.until(lambda: bool(b.heard.faults), 20)
    assert len(stranger.of("poke")) >= 3
    assert b.heard.faults[0][1].startswith("a cannot be reached (it does not answer), and nobody else is connected.")
    await close_members(b)


async def test_room_for_a_newcomer_is_made_by_forgetting_who_is_gone() -> None:
    place = Place()
    a, b = Member("a", place, max_peers=2, open_s=0.3), Member("b", place)
    await a.connected_to("b")
    place.doors.pop("b")
    await b.mesh.close("bye")
    await a.connected_to()
    c = Member("c", place)
    await a.connected_to("c")
    assert [row.peer for row in a.mesh.rows()] == ["c"]
    await close_members(a, c)


async def test_names_that_are_too_long_and_ids_that_are_none() -> None:
    place = Place()
    a, b = Member("a", place), Member("b")
    b.mesh.me = PeerInfo("b", "B" * 201, "cpu", "0.1")
    b.mesh.add_rendezvous(place.door("b"))
    place.doors["a"].listeners[0].peer_seen("x" * 65)
    place.doors["a"].listeners[0].peer_seen("")
    await a.heard.until(lambda: any("a name that is too long" in text for _, text, _ in a.heard.faults))
    assert a.heard.of("connected") == []
    await close_members(a, b)
