"""Links over real WebRTC on loopback: transfer, order, back-pressure, death, closing, and peers that misbehave."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import re
import signal
import subprocess
import sys
import time
from typing import Any

import pytest

from desktop.bridge.transport import digest_of
from desktop.errors import SignalError
from desktop.peers.ice import Servers
from desktop.peers.link import HIGH_WATER, TRANSITIONS, How, Link, LinkSettings, State
from desktop.peers.packet import FIRST_HEADER, HEADER, Kind, Limits, short, split
from tests.peers.doubles import QUICK, LinkRecorder, close_all, cut, make_link, opened_pair


def hand_over(link: Link, data: bytes, token: int, *, bulk: bool = True) -> None:
    link.send(Kind.TRAINER, data, digest_of(data), bulk=bulk, token=token)


def inject(link: Link, packet: bytes | str) -> None:
    """Send what a broken program would send."""
    assert link._channel is not None
    link._channel.send(packet)


def tokens(recorder: LinkRecorder, name: str) -> list[int]:
    return [call[1] for call in recorder.of(name)]


# -- transfer ---------------------------------------------------------------------------------------


async def test_five_megabytes_both_ways_at_once() -> None:
    a, heard_a, b, heard_b = await opened_pair()
    there, back = os.urandom(5_000_000), os.urandom(5_000_000)
    hand_over(a, there, 1)
    hand_over(b, back, 2)
    await heard_a.until(lambda: tokens(heard_a, "sent") == [1] and len(heard_a.messages) == 1, 40)
    await heard_b.until(lambda: tokens(heard_b, "sent") == [2] and len(heard_b.messages) == 1, 40)
    assert heard_b.messages == [(Kind.TRAINER, there)]
    assert heard_a.messages == [(Kind.TRAINER, back)]
    assert heard_b.of("message")[0][3] == digest_of(there)
    assert max(heard_a.unsent) == 5_000_000
    await heard_a.until(lambda: heard_a.unsent[-1] == 0)
    await close_all(a, b)


@pytest.mark.parametrize("size", [0, 1, 1024 - 38, 1024 - 37, 3 * (1024 - 38), 3 * (1024 - 38) + 8])
async def test_sizes_around_packets(size: int) -> None:
    a, _, b, heard_b = await opened_pair(packet_size=1024)
    data = os.urandom(size)
    hand_over(a, data, 1)
    await heard_b.until(lambda: len(heard_b.messages) == 1)
    assert heard_b.messages == [(Kind.TRAINER, data)]
    await close_all(a, b)


async def test_control_overtakes_bulk_and_the_buffer_stays_bounded() -> None:
    a, heard_a, b, heard_b = await opened_pair()
    for token in (1, 2):
        hand_over(a, os.urandom(2_000_000), token)
    hand_over(a, b"control", 3, bulk=False)
    most = 0
    while len(heard_b.messages) < 3:
        most = max(most, a.buffered_bytes)
        await asyncio.sleep(0)
    assert [len(data) for _, data in heard_b.messages] == [7, 2_000_000, 2_000_000]
    await heard_a.until(lambda: sorted(tokens(heard_a, "sent")) == [1, 2, 3])
    assert tokens(heard_a, "sent")[0] == 3
    assert 0 < most <= HIGH_WATER + a.packet_size
    await close_all(a, b)


async def test_control_message_does_not_wait_for_the_bulk_before_it() -> None:
    a, _, b, heard_b = await opened_pair()
    hand_over(a, os.urandom(4_000_000), 1)
    await asyncio.sleep(0.05)  # the pump is at work
    hand_over(a, b"now", 2, bulk=False)
    await heard_b.until(lambda: len(heard_b.messages) == 1)
    assert heard_b.messages[0][1] == b"now"
    await close_all(a, b)


async def test_heartbeat_measures_the_round_trip_and_keeps_an_idle_link() -> None:
    a, heard_a, b, _ = await opened_pair()
    await asyncio.sleep(QUICK["silent_s"] * 1.5)
    assert a.state is State.OPEN
    stats = a.stats()
    assert stats.rtt_ms is not None
    assert 0 < stats.rtt_ms < 1000
    assert stats.path.verdict == "direct"
    assert (stats.path.local_type, stats.path.remote_type) == ("host", "host")
    assert stats.gathered == {"host": 1}
    assert stats.remote_candidates == 1
    assert stats.sent_bytes > 0
    assert stats.received_bytes > 0
    assert heard_a.of("closed") == []
    await close_all(a, b)


def stand_still(seconds: float) -> None:
    time.sleep(seconds)


async def test_a_program_that_stood_still_does_not_blame_its_peer() -> None:
    a, heard_a, b, heard_b = await opened_pair()
    stand_still(QUICK["silent_s"] * 2)
    hand_over(a, b"still there", 1)
    await heard_a.until(lambda: tokens(heard_a, "sent") == [1])
    assert heard_a.of("closed") == heard_b.of("closed") == []
    await close_all(a, b)


# -- death ------------------------------------------------------------------------------------------


async def test_dead_peer_is_noticed_in_time_and_fails_what_waits() -> None:
    a, heard_a, b, heard_b = await opened_pair()
    for token in (1, 2, 3):
        hand_over(a, os.urandom(3_000_000), token)
    await asyncio.sleep(0.1)
    began = time.monotonic()
    cut(b)
    await heard_a.until(lambda: bool(heard_a.of("closed")), 5)
    took = time.monotonic() - began
    assert took < QUICK["silent_s"] + 2
    assert heard_a.of("closed") == [("closed", How.LOST, "silent for 1 s")]
    assert sorted(tokens(heard_a, "failed")) == [1, 2, 3]
    assert heard_a.calls[-1][0] == "closed"
    await heard_b.until(lambda: bool(heard_b.of("closed")), 5)
    hand_over(a, b"too late", 4)
    await heard_a.until(lambda: 4 in tokens(heard_a, "failed"))
    await close_all(a, b)


def start_peer() -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.peers.peer_process"]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
async def test_killed_process() -> None:
    a, heard_a = make_link("child", silent_s=2.0)  # the child may get little processor time
    child = start_peer()
    assert child.stdin
    assert child.stdout
    try:
        child.stdin.write(json.dumps(await a.offer()) + "\n")
        child.stdin.flush()
        await a.accept(json.loads(await asyncio.to_thread(child.stdout.readline)))
        await heard_a.until(lambda: bool(heard_a.of("opened")))
        hand_over(a, b"hello", 1)
        await heard_a.until(lambda: tokens(heard_a, "sent") == [1])
        hand_over(a, os.urandom(30_000_000), 2)
        await asyncio.sleep(0.2)
        began = time.monotonic()
        child.send_signal(signal.SIGKILL)
        await heard_a.until(lambda: bool(heard_a.of("closed")), 5)
        assert time.monotonic() - began < 4
        assert heard_a.of("closed")[0][1] is How.LOST
        assert tokens(heard_a, "failed") == [2]
    finally:
        child.kill()
        child.wait()
        child.stdin.close()
        child.stdout.close()
        await close_all(a)


# -- closing ----------------------------------------------------------------------------------------


async def test_close_sends_what_is_queued_first() -> None:
    a, heard_a, b, heard_b = await opened_pair(drain_s=10)
    hand_over(a, os.urandom(1_000_000), 1)
    await a.close("good night")
    assert tokens(heard_a, "sent") == [1]
    assert heard_a.calls[-1] == ("closed", How.OURS, "good night")
    await heard_b.until(lambda: bool(heard_b.of("closed")))
    assert len(heard_b.messages[0][1]) == 1_000_000
    assert heard_b.of("closed") == [("closed", How.LEFT, "good night")]
    await close_all(b)


async def test_close_drains_no_longer_than_allowed() -> None:
    a, heard_a, b, _ = await opened_pair(drain_s=0.3, silent_s=30)
    cut(b)
    hand_over(a, os.urandom(1_000_000), 1)
    began = time.monotonic()
    await a.close("enough")
    assert time.monotonic() - began < 2
    assert tokens(heard_a, "failed") == [1]
    b.drop("")
    await close_all(b)


@pytest.mark.parametrize("state", list(State))
async def test_close_from_every_state_and_twice(state: State) -> None:
    a, heard_a, others = await in_state(state)
    assert a.state is state
    await asyncio.gather(a.close("one"), a.close("two"))
    await a.close("three")
    a.drop("four")
    assert a.state is State.CLOSED
    assert len(heard_a.of("closed")) == 1
    with pytest.raises((SignalError, RuntimeError)):
        await a.offer()
    await close_all(*others)


async def in_state(state: State) -> tuple[Link, LinkRecorder, list[Link]]:
    if state in (State.NEW, State.CONNECTING):
        a, heard_a = make_link()
        if state is State.CONNECTING:
            await a.offer()
        return a, heard_a, []
    a, heard_a, b, _ = await opened_pair()
    if state is State.CLOSING:
        hand_over(a, os.urandom(500_000), 1)
        task = asyncio.create_task(a.close("closing"))
        task.add_done_callback(lambda _: None)
        await asyncio.sleep(0)
    elif state is State.CLOSED:
        a.drop("closed")
    return a, heard_a, [b]


async def test_close_while_the_offer_is_being_made() -> None:
    a, heard_a = make_link()
    offering = asyncio.create_task(a.offer())
    await asyncio.sleep(0)
    await a.close("changed my mind")
    with pytest.raises(SignalError, match="changed my mind"):
        await offering
    assert heard_a.of("closed") == [("closed", How.OURS, "changed my mind")]


async def test_both_close_at_once() -> None:
    a, heard_a, b, heard_b = await opened_pair()
    await close_all(a, b)
    assert len(heard_a.of("closed")) == len(heard_b.of("closed")) == 1


async def test_dropped_peer_hears_the_reason() -> None:
    a, heard_a, b, heard_b = await opened_pair()
    hand_over(a, os.urandom(2_000_000), 1)
    a.drop("a contribution of the wrong shape")
    assert heard_a.calls[-1] == ("closed", How.OURS, "a contribution of the wrong shape")
    assert tokens(heard_a, "failed") == [1]
    await heard_b.until(lambda: bool(heard_b.of("closed")))
    assert heard_b.of("closed")[0][1:] == (How.LEFT, "a contribution of the wrong shape")
    await close_all(a, b)


def test_transitions_lead_to_the_end_and_never_back() -> None:
    order = [State.NEW, State.CONNECTING, State.OPEN, State.CLOSING, State.CLOSED]
    for state, following in TRANSITIONS.items():
        assert all(order.index(each) > order.index(state) for each in following)
        assert state is State.CLOSED or State.CLOSED in following


# -- opening ----------------------------------------------------------------------------------------


async def test_no_answer_in_time() -> None:
    a, heard_a = make_link(open_s=0.3)
    began = time.monotonic()
    await a.offer()
    await heard_a.until(lambda: bool(heard_a.of("closed")))
    assert 0.2 < time.monotonic() - began < 2
    assert heard_a.of("closed") == [("closed", How.UNREACHED, "no answer within 0.3 s")]
    await close_all(a)


def without_candidates(sdp: str) -> tuple[str, list[str]]:
    found = re.findall(r"a=(candidate:.*)\r\n", sdp)
    return re.sub(r"a=(candidate:.*|end-of-candidates)\r\n", "", sdp), found


async def test_candidates_that_come_before_the_description_wait() -> None:
    a, heard_a = make_link("b")
    b, heard_b = make_link("a")
    offer, of_a = without_candidates(await a.offer())
    assert of_a
    for line in ["", "  ", "candidate:", "candidate:not one", *of_a]:
        await b.add_candidate(line)
    answer, of_b = without_candidates(await b.answer(offer))
    for line in ["", *of_b]:
        await a.add_candidate(line)
    await a.accept(answer)
    await heard_a.until(lambda: bool(heard_a.of("opened")))
    await heard_b.until(lambda: bool(heard_b.of("opened")))
    await close_all(a, b)


async def test_candidates_after_the_description() -> None:
    a, heard_a = make_link("b")
    b, heard_b = make_link("a")
    offer, of_a = without_candidates(await a.offer())
    answer, of_b = without_candidates(await b.answer(offer))
    await a.accept(answer)
    for link, lines in ((a, of_b), (b, of_a)):
        for line in lines:
            await link.add_candidate(line)
    await heard_a.until(lambda: bool(heard_a.of("opened")))
    await heard_b.until(lambda: bool(heard_b.of("opened")))
    await close_all(a, b)


async def test_names_of_the_lan_do_not_hold_the_answer_up() -> None:
    a, _ = make_link("b")
    b, _ = make_link("a")
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
    a, heard_a = make_link()
    b, heard_b = make_link()
    await a.offer()
    with pytest.raises(SignalError):
        await a.accept(bad)
    with pytest.raises(SignalError):
        await b.answer(bad)
    for heard in (heard_a, heard_b):
        assert [call[1] for call in heard.of("closed")] == [How.UNREACHED]
    await close_all(a, b)


@pytest.mark.parametrize(
    ("line", "wish", "agreed"),
    [
        ("a=max-message-size:2048\r\n", 65_536, 2048),
        ("a=max-message-size:262144\r\n", 65_536, 65_536),
        ("a=max-message-size:0\r\n", 65_536, 65_536),
        ("a=max-message-size:999999999\r\n", 2**20, 262_144),
        ("", 2**20, 65_536),
    ],
)
async def test_packet_size_is_agreed(line: str, wish: int, agreed: int) -> None:
    a, _ = make_link("b", packet_size=wish)
    b, heard_b = make_link("a")
    answer = await b.answer(await a.offer())
    await a.accept(re.sub(r"a=max-message-size:\d+\r\n", line, answer))
    await heard_b.until(lambda: bool(heard_b.of("opened")))
    assert a.packet_size == agreed
    hand_over(a, os.urandom(100_000), 1)
    await heard_b.until(lambda: len(heard_b.messages) == 1)
    await close_all(a, b)


# -- peers that break the protocol --------------------------------------------------------------------

FIRST_OF_TWO = next(split(Kind.TRAINER, 9, b"ab", digest_of(b"ab"), FIRST_HEADER.size + 1))


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        ([b"garbage that is no packet"], "version 103"),
        ([b"\x01"], "shorter than its header"),
        (["text"], "text"),
        ([HEADER.pack(1, 77, 0, 0)], "kind 77"),
        ([FIRST_OF_TWO, FIRST_OF_TWO], "first packet of message 9"),
        ([FIRST_HEADER.pack(1, 1, 5, 0, 2**40, 2**25, bytes(16)) + bytes(32_768)], "at most 2147483648"),
        ([short(Kind.ACK, 4_000_000)], "acknowledgement"),
        ([*split(Kind.ROOM, 3, b"altered", digest_of(b"original"), 1024)], "digest"),
    ],
)
async def test_broken_packets_end_the_link_with_the_reason(sent: list[Any], why: str) -> None:
    a, heard_a, b, heard_b = await opened_pair()
    for packet in sent:
        inject(b, packet)
    await heard_a.until(lambda: bool(heard_a.of("closed")))
    (_, how, reason), = heard_a.of("closed")
    assert how is How.BROKE
    assert why in reason
    await heard_b.until(lambda: bool(heard_b.of("closed")))
    assert heard_b.of("closed")[0][1] is How.LEFT
    assert why in heard_b.of("closed")[0][2]
    await close_all(a, b)


async def test_half_a_message_that_never_ends() -> None:
    a, heard_a, b, _ = await opened_pair(limits=Limits(expire_s=0.4))
    inject(b, FIRST_OF_TWO)
    await heard_a.until(lambda: bool(heard_a.of("closed")))
    assert heard_a.of("closed") == [("closed", How.BROKE, "message 9 stopped half-way")]
    await close_all(a, b)


async def test_peer_that_only_sends_is_bounded() -> None:
    a, heard_a, b, _ = await opened_pair(silent_s=30)
    while a.state is State.OPEN:  # pongs pile up faster than the pump may write them
        for number in range(4000):
            a._say(Kind.PONG, number)
    assert heard_a.of("closed")[0][1:] == (How.BROKE, "it sends without reading")
    await close_all(a, b)


# -- handlers that fail -----------------------------------------------------------------------------


async def test_error_in_a_handler_reaches_the_loop_and_not_the_link() -> None:
    a, heard_a, b, heard_b = await opened_pair()
    seen: list[str] = []
    loop = asyncio.get_running_loop()
    before = loop.get_exception_handler()
    loop.set_exception_handler(lambda _, context: seen.append(repr(context["exception"])))

    def failing(*_: object) -> None:
        raise KeyError("a bug of ours")

    heard_b.link_message = failing  # type: ignore[assignment, method-assign]
    hand_over(a, b"x", 1)
    await heard_a.until(lambda: tokens(heard_a, "sent") == [1])
    assert seen == ["KeyError('a bug of ours')"]
    assert b.state is State.OPEN
    loop.set_exception_handler(before)
    await close_all(a, b)


async def test_errors_of_the_transport_stay_in_the_log_and_others_do_not() -> None:
    a, _ = make_link()
    await a.offer()
    seen: list[str] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: seen.append(repr(context.get("exception"))))
    b, _ = make_link()  # each new link wraps the handler that is there

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
    await close_all(a, b)


async def test_packets_that_overtake_the_opening_are_not_lost() -> None:
    a, heard_a = make_link("b")
    b, _ = make_link("a")
    offer = await a.offer()
    a._received(HEADER.pack(1, 77, 0, 0))
    assert a.state is State.CONNECTING
    await a.accept(await b.answer(offer))
    await heard_a.until(lambda: bool(heard_a.of("closed")))
    assert heard_a.of("closed")[0][1:] == (How.BROKE, "packet kind 77")
    await close_all(a, b)


async def test_message_that_cannot_be_framed_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    a, heard_a, b, _ = await opened_pair()
    monkeypatch.setattr("desktop.peers.packet.MAX_MESSAGE", 10)
    hand_over(a, b"eleven byte", 1)
    await heard_a.until(lambda: tokens(heard_a, "failed") == [1])
    assert "11 bytes" in heard_a.of("failed")[0][2]
    await close_all(a, b)


async def test_relay_only_without_a_relay_is_said_at_once() -> None:
    recorder = LinkRecorder()
    settings = LinkSettings(**QUICK)
    link = Link("peer", recorder, settings, Servers((), (), relay_only=True), time.monotonic)
    with pytest.raises(SignalError):
        await link.offer()
    assert recorder.of("closed") == [("closed", How.UNREACHED, "no relay gave an address")]
    assert not link.offline
    await close_all(link)


async def test_other_certificate_than_the_one_in_the_answer_is_refused() -> None:
    a, heard_a = make_link("b")
    b, heard_b = make_link("a")
    answer = await b.answer(await a.offer())

    def altered(match: re.Match[str]) -> str:
        return match.group(1) + ("00" if match.group(2) != "00" else "11")

    await a.accept(re.sub(r"(a=fingerprint:\S+ )(\w\w)", altered, answer))
    await heard_a.until(lambda: bool(heard_a.of("closed")))
    assert heard_a.of("closed") == [("closed", How.UNREACHED, "the connection could not be set up")]
    await close_all(a, b)
    assert heard_a.of("opened") == heard_b.of("opened") == []


async def test_peer_without_an_address() -> None:
    a, _ = make_link("b")
    b, _ = make_link("a")
    offer = without_candidates(await a.offer())[0] + "a=end-of-candidates\r\n"
    with pytest.raises(SignalError, match="no network address in it"):
        await b.answer(offer)
    await close_all(a, b)


async def test_peer_that_takes_only_tiny_packets() -> None:
    a, _ = make_link("b")
    b, _ = make_link("a")
    with pytest.raises(SignalError, match="too small"):
        await b.answer(re.sub(r"a=max-message-size:\d+", "a=max-message-size:40", await a.offer()))
    await close_all(a, b)
