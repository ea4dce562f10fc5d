"""One WebRTC lane on loopback: how it opens, what its peer may tell it, its buffer, and how it is taken down."""

from __future__ import annotations

import asyncio
import gc
import os
import re
import time

import pytest

from desktop.errors import SignalError
from desktop.peers.ice import Servers
from desktop.peers.webrtc import HIGH_WATER, State, WebRtcLane
from tests.peers.direct_doubles import Pump
from tests.peers.doubles import cut_lane, eventually

PACKET = 64 * 1024


def make_lane(*, relay_only: bool = False) -> tuple[WebRtcLane, Pump]:
    heard = Pump()
    return WebRtcLane("peer", 3, heard, Servers((), (), relay_only=relay_only), loopback=True), heard


async def open_both(a: WebRtcLane, heard_a: Pump, b: WebRtcLane, heard_b: Pump) -> None:
    await a.accept(await b.answer(await a.offer()))
    for heard in (heard_a, heard_b):
        await heard.until(lambda heard=heard: "opened" in heard.calls)


async def opened_pair() -> tuple[WebRtcLane, Pump, WebRtcLane, Pump]:
    (a, heard_a), (b, heard_b) = make_lane(), make_lane()
    await open_both(a, heard_a, b, heard_b)
    return a, heard_a, b, heard_b


async def close_all(*lanes: WebRtcLane) -> None:
    for lane in lanes:
        lane.close("test over")
    await asyncio.gather(*(lane.ended() for lane in lanes))


# -- packets ----------------------------------------------------------------------------------------


async def test_packets_in_order_both_ways_and_a_bounded_buffer() -> None:
    a, heard_a, b, heard_b = await opened_pair()
    there, back = ([os.urandom(PACKET) for _ in range(40)] for _ in range(2))
    heard_a.send(a, there)
    heard_b.send(b, back)
    most = 0
    while len(heard_a.packets) < 40 or len(heard_b.packets) < 40:
        most = max(most, a.buffered_bytes, b.buffered_bytes)
        await asyncio.sleep(0)
    assert (heard_a.packets, heard_b.packets) == (back, there)
    assert HIGH_WATER <= most <= HIGH_WATER + PACKET
    assert "writable" in heard_a.calls
    await close_all(a, b)


async def test_facts() -> None:
    a, _, b, _ = await opened_pair()
    for lane in (a, b):
        assert (lane.kind, lane.number) == ("webrtc", 3)
        assert lane.path.verdict == "direct"
        assert (lane.path.local_type, lane.path.remote_type) == ("host", "host")
        assert lane.gathered == {"host": 1}
        assert lane.remote_candidates == 1
        assert lane.near() == ("127.0.0.1", "127.0.0.1")
        assert lane.writable
        assert not lane.offline
    await close_all(a, b)
    assert a.path.verdict == ""
    assert a.gathered == {}


@pytest.mark.parametrize(
    ("mine", "theirs", "host", "near"),
    [
        ("host", "host", "192.168.1.7", True),
        ("host", "prflx", "10.1.2.3", True),
        ("prflx", "host", "fd00::7", True),
        ("host", "host", "8.8.8.8", False),
        ("host", "host", "2001:4860:4860::8888", False),
        ("srflx", "host", "192.168.1.7", False),
        ("host", "srflx", "192.168.1.7", False),
        ("relay", "host", "192.168.1.7", False),
        ("host", "relay", "192.168.1.7", False),
    ],
)
async def test_who_is_near(mine: str, theirs: str, host: str, near: bool) -> None:
    a, _, b, _ = await opened_pair()
    assert a._connection is not None
    assert a._connection.sctp is not None
    (pair,) = a._connection.sctp.transport.transport._connection._nominated.values()
    pair.protocol.local_candidate.type = mine
    pair.remote_candidate.type, pair.remote_candidate.host = theirs, host
    assert a.near() == (("127.0.0.1", host) if near else None)
    await close_all(a, b)


async def test_packets_that_overtake_the_opening_are_not_lost() -> None:
    (a, heard_a), (b, heard_b) = make_lane(), make_lane()
    offer = await a.offer()
    a._received(b"early")
    assert a.state is State.CONNECTING
    assert heard_a.packets == []
    await a.accept(await b.answer(offer))
    await heard_a.until(lambda: "opened" in heard_a.calls)
    await heard_b.until(lambda: "opened" in heard_b.calls)
    b.send(b"late")
    await heard_a.until(lambda: len(heard_a.packets) == 2)
    assert heard_a.packets == [b"early", b"late"]
    await close_all(a, b)


async def test_no_more_than_some_packets_may_overtake_the_opening() -> None:
    a, _ = make_lane()
    await a.offer()
    for _ in range(1000):
        a._received(b"early")
    assert len(a._early) == 64
    await close_all(a)


# -- opening ----------------------------------------------------------------------------------------


def without_candidates(sdp: str) -> tuple[str, list[str]]:
    found = re.findall(r"a=(candidate:.*)\r\n", sdp)
    return re.sub(r"a=(candidate:.*|end-of-candidates)\r\n", "", sdp), found


async def test_candidates_that_come_before_the_description_wait() -> None:
    (a, heard_a), (b, heard_b) = make_lane(), make_lane()
    offer, of_a = without_candidates(await a.offer())
    assert of_a
    for line in ["", "  ", "candidate:", "candidate:not one", *of_a]:
        await b.add_candidate(line)
    answer, of_b = without_candidates(await b.answer(offer))
    for line in ["", *of_b]:
        await a.add_candidate(line)
    await a.accept(answer)
    await heard_a.until(lambda: "opened" in heard_a.calls)
    await heard_b.until(lambda: "opened" in heard_b.calls)
    await close_all(a, b)


async def test_candidates_after_the_description() -> None:
    (a, heard_a), (b, heard_b) = make_lane(), make_lane()
    offer, of_a = without_candidates(await a.offer())
    answer, of_b = without_candidates(await b.answer(offer))
    await a.accept(answer)
    for lane, lines in ((a, of_b), (b, of_a)):
        for line in lines:
            await lane.add_candidate(line)
    await heard_a.until(lambda: "opened" in heard_a.calls)
    await heard_b.until(lambda: "opened" in heard_b.calls)
    await close_all(a, b)


async def test_a_flood_of_candidates_before_the_description_is_bounded() -> None:
    a, _ = make_lane()
    await a.offer()
    for _ in range(1000):
        await a.add_candidate("candidate:x")
    assert len(a._candidates) == 100
    await close_all(a)


async def test_names_of_the_lan_do_not_hold_the_answer_up() -> None:
    (a, _), (b, _) = make_lane(), make_lane()
    offer = await a.offer()
    named = offer.replace("127.0.0.1 ", "0e9c0a6e-0000-4000-8000-000000000000.local ")
    assert ".local" in named
    began = time.monotonic()
    await b.answer(named)
    assert time.monotonic() - began < 0.5  # one look-up takes a second
    await close_all(a, b)


NO_KEYS = "v=0\r\nm=application 9 UDP/DTLS/SCTP webrtc-datachannel\r\n"


@pytest.mark.parametrize("bad", ["", "v=0\r\n", "nonsense", NO_KEYS])
async def test_descriptions_that_cannot_be_used(bad: str) -> None:
    (a, heard_a), (b, heard_b) = make_lane(), make_lane()
    await a.offer()
    with pytest.raises(SignalError, match="cannot be used"):
        await a.accept(bad)
    with pytest.raises(SignalError, match="cannot be used"):
        await b.answer(bad)
    for heard in (heard_a, heard_b):
        assert heard.calls == ["closed"]
        assert heard.reason == "its description cannot be used"
    await close_all(a, b)


async def test_peer_without_an_address() -> None:
    (a, _), (b, _) = make_lane(), make_lane()
    offer = without_candidates(await a.offer())[0] + "a=end-of-candidates\r\n"
    with pytest.raises(SignalError, match="no network address in it"):
        await b.answer(offer)
    await close_all(a, b)


async def test_a_second_answer_is_ignored() -> None:
    (a, heard_a), (b, _) = make_lane(), make_lane()
    answer = await b.answer(await a.offer())
    await a.accept(answer)
    await a.accept("nonsense")
    await heard_a.until(lambda: "opened" in heard_a.calls)
    await a.accept(answer)
    assert a.state is State.OPEN
    await close_all(a, b)


@pytest.mark.parametrize(
    ("line", "takes"),
    [
        ("a=max-message-size:2048\r\n", 2048),
        ("a=max-message-size:40\r\n", 40),
        ("a=max-message-size:262144\r\n", 262_144),
        ("a=max-message-size:0\r\n", 262_144),
        ("a=max-message-size:999999999\r\n", 262_144),
        ("", 65_536),
    ],
)
async def test_what_size_of_packet_the_peer_takes(line: str, takes: int) -> None:
    (a, heard_a), (b, _) = make_lane(), make_lane()
    answer = await b.answer(await a.offer())
    await a.accept(re.sub(r"a=max-message-size:\d+\r\n", line, answer))
    await heard_a.until(lambda: "opened" in heard_a.calls)
    assert a.takes == takes
    await close_all(a, b)


async def test_relay_only_without_a_relay_is_said_at_once() -> None:
    a, heard_a = make_lane(relay_only=True)
    with pytest.raises(SignalError, match="no relay gave an address"):
        await a.offer()
    assert (heard_a.calls, heard_a.reason) == (["closed"], "no relay gave an address")
    assert not a.offline
    await close_all(a)


async def test_a_computer_with_loopback_alone_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aioice.ice.get_host_addresses", lambda **_: [])
    lane = WebRtcLane("peer", 0, Pump(), Servers((), ()), loopback=False)
    await lane.offer()
    assert lane.offline
    await close_all(lane)


async def test_other_certificate_than_the_one_in_the_answer_is_refused() -> None:
    (a, heard_a), (b, heard_b) = make_lane(), make_lane()
    answer = await b.answer(await a.offer())

    def altered(match: re.Match[str]) -> str:
        return match.group(1) + ("00" if match.group(2) != "00" else "11")

    await a.accept(re.sub(r"(a=fingerprint:\S+ )(\w\w)", altered, answer))
    assert await heard_a.until_closed() == "the connection could not be set up"
    await close_all(a, b)
    assert "opened" not in [*heard_a.calls, *heard_b.calls]


# -- closing ----------------------------------------------------------------------------------------


async def in_state(state: State) -> tuple[WebRtcLane, Pump, list[WebRtcLane]]:
    if state is State.OPEN:
        a, heard_a, b, _ = await opened_pair()
        return a, heard_a, [b]
    a, heard_a = make_lane()
    if state is State.CONNECTING:
        await a.offer()
    elif state is State.CLOSED:
        a.close("closed")
    return a, heard_a, []


@pytest.mark.parametrize("state", list(State))
async def test_close_from_every_state_and_twice(state: State) -> None:
    a, heard_a, others = await in_state(state)
    assert a.state is state
    a.close("one", linger_s=0.2)
    a.close("two")
    await a.ended()
    a.close("three")
    await a.ended()
    assert a.state is State.CLOSED
    assert heard_a.calls.count("closed") == 1
    assert heard_a.reason == ("closed" if state is State.CLOSED else "one")
    with pytest.raises(SignalError, match="the link was closed"):
        await a.offer()
    with pytest.raises(SignalError, match="the link was closed"):
        await a.answer("")
    await a.accept("")
    await a.add_candidate("candidate:x")
    a.send(b"x")
    assert not a.writable
    await close_all(*others)


async def test_close_while_the_offer_is_being_made() -> None:
    a, heard_a = make_lane()
    offering = asyncio.create_task(a.offer())
    await asyncio.sleep(0)
    a.close("changed my mind")
    await a.ended()
    with pytest.raises(SignalError, match="changed my mind"):
        await offering
    assert (heard_a.calls, heard_a.reason) == (["closed"], "changed my mind")


async def test_close_just_when_a_path_is_found() -> None:
    """What aioice begins while it is being closed would run on for ever."""
    (a, _), (b, _) = make_lane(), make_lane()
    await a.accept(await b.answer(await a.offer()))
    assert a._connection is not None
    assert a._connection.sctp is not None
    ice = a._connection.sctp.transport.transport._connection
    await eventually(lambda: ice._check_list_done)
    assert ice._query_consent_task is None  # it begins up to 20 ms later
    close = ice.close

    async def slowly() -> None:
        await close()
        await asyncio.sleep(0.05)  # as when the computer is busy

    ice.close = slowly  # type: ignore[method-assign]
    await close_all(a, b)


async def test_the_other_end_learns_of_the_end() -> None:
    a, heard_a, b, heard_b = await opened_pair()
    a.close("enough")
    assert heard_a.reason == "enough"
    assert await heard_b.until_closed() == "the connection ended without a goodbye"
    await close_all(a, b)


async def test_what_was_sent_last_is_heard_when_it_may_linger() -> None:
    a, _, b, heard_b = await opened_pair()
    heard_b.lane_packet = lambda lane, packet: b.close(bytes(packet).decode())  # type: ignore[method-assign]
    began = time.monotonic()
    a.send(b"goodbye")
    a.close("said goodbye", linger_s=5)
    assert await heard_b.until_closed() == "goodbye"
    await asyncio.gather(a.ended(), b.ended())
    assert time.monotonic() - began < 4  # no longer than it takes the peer to hear it


async def test_a_lane_whose_sockets_are_gone_is_taken_down() -> None:
    a, heard_a, b, heard_b = await opened_pair()
    heard_a.send(a, [bytes(PACKET)] * 20)
    cut_lane(b)
    began = time.monotonic()
    a.close("silent")
    b.close("silent")
    await asyncio.gather(a.ended(), b.ended())
    assert time.monotonic() - began < 4
    assert (heard_a.calls[-1], heard_b.calls[-1]) == ("closed", "closed")


# -- errors -----------------------------------------------------------------------------------------


async def test_error_in_a_handler_reaches_the_loop_and_not_the_lane() -> None:
    a, heard_a, b, heard_b = await opened_pair()
    seen: list[str] = []
    loop = asyncio.get_running_loop()
    before = loop.get_exception_handler()
    loop.set_exception_handler(lambda _, context: seen.append(repr(context["exception"])))

    def failing(*_: object) -> None:
        raise KeyError("a bug of ours")

    heard_b.lane_packet = failing  # type: ignore[method-assign]
    a.send(b"x")
    b.send(b"y")
    await heard_a.until(lambda: heard_a.packets == [b"y"])
    await eventually(lambda: bool(seen))
    assert seen == ["KeyError('a bug of ours')"]
    assert b.state is State.OPEN
    loop.set_exception_handler(before)
    await close_all(a, b)


async def test_errors_of_the_transport_stay_in_the_log_and_others_do_not() -> None:
    a, _ = make_lane()
    await a.offer()
    seen: list[str] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: seen.append(repr(context.get("exception"))))
    make_lane()  # each new lane wraps the handler that is there

    async def ours() -> None:
        raise KeyError("a bug of ours")

    assert a._connection is not None
    assert a._connection.sctp is not None
    for work in (a._connection.sctp._init(), ours()):  # the first one fails: there is no DTLS yet
        task = asyncio.ensure_future(work)
        await asyncio.wait([task])
        assert task._exception is not None
        del task
    gc.collect()
    assert seen == ["KeyError('a bug of ours')"]
    await close_all(a)
