"""Links over real WebRTC on loopback: messages, order, death, closing, the next link, and peers that misbehave."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from functools import partial
from typing import Any

import pytest

from desktop.bridge.transport import digest_of
from desktop.errors import SignalError
from desktop.peers.direct import Identity
from desktop.peers.link import TRANSITIONS, How, Link, LinkSettings, State
from desktop.peers.packet import HEADER, LONG_HEADER, OPENS, VERSION, Kind, Limits, cut, short
from desktop.peers.transfer import Transfer
from desktop.peers.via import WINDOW, ViaLane
from desktop.peers.webrtc import HIGH_WATER
from tests.peers.doubles import (
    QUICK,
    LinkRecorder,
    close_all,
    cut_lane,
    eventually,
    hand_over,
    lane_of,
    make_link,
    moved,
    open_both,
    opened_pair,
)
from tests.peers.doubles import cut as cut_sockets

PACKET = 64 * 1024
PATIENT_S = 4.0  # so that a link at full load outlives a loss, after which SCTP may wait for a second


def inject(link: Link, packet: bytes | str) -> None:
    """Send what a broken program would send."""
    channel = lane_of(link)._channel
    assert channel is not None
    channel.send(packet)


# -- messages ---------------------------------------------------------------------------------------


async def test_five_megabytes_both_ways_at_once() -> None:
    a, heard_a, b, heard_b = await opened_pair(silent_s=PATIENT_S)
    there, back = os.urandom(5_000_000), os.urandom(5_000_000)
    hand_over(a, there, 1)
    hand_over(b, back, 2)
    assert a.stats().unsent_bytes == 5_000_000
    await heard_a.until(lambda: heard_a.sent == [1] and len(heard_a.messages) == 1, 40)
    await heard_b.until(lambda: heard_b.sent == [2] and len(heard_b.messages) == 1, 40)
    assert heard_b.messages == [(Kind.TRAINER, there)]
    assert heard_a.messages == [(Kind.TRAINER, back)]
    assert heard_b.of("message")[0][3] == digest_of(there)
    assert a.stats().unsent_bytes == b.stats().unsent_bytes == 0
    await close_all(a, b)


@pytest.mark.parametrize("size", [0, 1, 1024 - 42, 1024 - 41, 3 * (1024 - 42), 3 * (1024 - 42) + 8])
async def test_sizes_around_packets(size: int) -> None:
    a, heard_a, b, heard_b = await opened_pair(packet_size=1024)
    data = os.urandom(size)
    hand_over(a, data, 1)
    await heard_a.until(lambda: heard_a.sent == [1])
    assert heard_b.messages == [(Kind.TRAINER, data)]
    await close_all(a, b)


async def test_messages_of_the_mesh_are_checked_and_acknowledged_by_the_link() -> None:
    a, heard_a, b, heard_b = await opened_pair()
    heard_b.takes = False
    a.send(Kind.ROOM, b"to all", digest_of(b"to all"), token=1)
    await heard_a.until(lambda: heard_a.sent == [1])
    assert heard_b.messages == [(Kind.ROOM, b"to all")]
    await close_all(a, b)


async def test_control_overtakes_bulk_and_the_buffer_stays_bounded() -> None:
    a, heard_a, b, heard_b = await opened_pair(silent_s=PATIENT_S)
    for token in (1, 2):
        hand_over(a, os.urandom(2_000_000), token)
    hand_over(a, b"control", 3, bulk=False)
    most = 0
    while len(heard_b.messages) < 3:
        most = max(most, lane_of(a).buffered_bytes)
        await asyncio.sleep(0)
    assert [len(data) for _, data in heard_b.messages] == [7, 2_000_000, 2_000_000]
    await heard_a.until(lambda: sorted(heard_a.sent) == [1, 2, 3])
    assert heard_a.sent[0] == 3
    assert 0 < most <= HIGH_WATER + PACKET
    await close_all(a, b)


async def test_control_message_does_not_wait_for_the_bulk_before_it() -> None:
    a, _, b, heard_b = await opened_pair()
    hand_over(a, os.urandom(4_000_000), 1)
    await moved(a, 0)  # the pump is at work
    hand_over(a, b"now", 2, bulk=False)
    await heard_b.until(lambda: len(heard_b.messages) == 1)
    assert heard_b.messages[0][1] == b"now"
    await close_all(a, b)


async def test_message_that_cannot_be_framed_is_refused() -> None:
    a, heard_a, b, _ = await opened_pair(limits=Limits(message_bytes=10))
    with pytest.raises(ValueError, match="11 bytes"):
        hand_over(a, b"eleven byte", 1)
    hand_over(a, b"ten  bytes", 2)
    await heard_a.until(lambda: heard_a.sent == [2])
    await close_all(a, b)


async def test_receiver_that_does_not_take_keeps_the_sender_waiting() -> None:
    a, heard_a, b, heard_b = await opened_pair()
    heard_b.takes = False
    hand_over(a, os.urandom(100_000), 1)
    hand_over(a, b"small", 2, bulk=False)
    await heard_b.until(lambda: len(heard_b.messages) == 2)
    await eventually(lambda: heard_a.transfer.unconfirmed(0) == 0)
    before = a.stats().received_bytes
    await eventually(lambda: a.stats().received_bytes > before)  # an acknowledgement would have come by now, too
    assert heard_a.sent == []
    assert a.stats().unsent_bytes == 100_005
    for number in heard_b.numbers:
        b.taken(number)
    await heard_a.until(lambda: sorted(heard_a.sent) == [1, 2])
    assert a.stats().unsent_bytes == 0
    await close_all(a, b)


async def test_both_ends_see_how_far_a_large_message_is() -> None:
    a, heard_a, b, heard_b = await opened_pair(silent_s=PATIENT_S)
    data = os.urandom(4_000_000)
    hand_over(a, data, 1)
    hand_over(a, bytes(1000), 2)  # too small to be told of
    mine, theirs = [], []
    while heard_a.sent != [1, 2]:
        mine += [it for it in a.stats().progress if it not in mine]
        theirs += [it for it in b.stats().progress if it not in theirs]
        await asyncio.sleep(0)
    for seen, outgoing in ((mine, True), (theirs, False)):
        assert {(it.message, it.outgoing, it.total) for it in seen} == {(1, outgoing, 4_000_000)}
        done = [it.done for it in seen]
        assert done == sorted(done)
        assert len([each for each in done if 0 < each < 4_000_000]) > 10
    assert all(0 <= time.monotonic() - it.since < 30 for it in mine + theirs)
    assert a.stats().progress == b.stats().progress == ()
    assert heard_b.messages[0] == (Kind.TRAINER, data)
    await close_all(a, b)


# -- heartbeat --------------------------------------------------------------------------------------


async def test_heartbeat_measures_the_round_trip_and_keeps_an_idle_link() -> None:
    a, heard_a, b, _ = await opened_pair()
    await asyncio.sleep(QUICK["silent_s"] * 1.5)
    assert a.state is State.OPEN
    stats = a.stats()
    assert stats.rtt_ms is not None
    assert 0 < stats.rtt_ms < 1000
    assert stats.path.verdict == "direct"
    assert (stats.path.local_type, stats.path.remote_type) == ("host", "host")
    assert stats.lanes == {"webrtc": 1}
    assert stats.gathered == {"host": 1}
    assert stats.remote_candidates == 1
    assert stats.sent_bytes > 0
    assert stats.received_bytes > 0
    assert stats.last_seen_s < QUICK["silent_s"]
    assert heard_a.of("closed") == []
    await close_all(a, b)


def stand_still(seconds: float) -> None:
    time.sleep(seconds)


async def test_a_program_that_stood_still_does_not_blame_its_peer() -> None:
    a, heard_a, b, heard_b = await opened_pair()
    stand_still(QUICK["silent_s"] * 2)
    hand_over(a, b"still there", 1)
    await heard_a.until(lambda: heard_a.sent == [1])
    assert heard_a.of("closed") == heard_b.of("closed") == []
    await close_all(a, b)


async def test_a_program_that_stood_still_does_not_wait_for_a_peer_that_has_given_it_up() -> None:
    changes = {"silent_s": 6.0, "heartbeat_s": 0.4}
    a, heard_a, b, heard_b = await opened_pair(**changes)
    cut_sockets(b)
    a._last_tick -= 2 * changes["silent_s"]  # as if no tick had come since
    began = time.monotonic()
    await heard_a.until(lambda: bool(heard_a.of("closed")))
    assert time.monotonic() - began < changes["silent_s"] / 2
    assert heard_a.of("closed")[0][1] is How.LOST
    b.drop("")
    await close_all(a, b)
    assert heard_b.of("closed")


# -- death ------------------------------------------------------------------------------------------


async def test_dead_peer_is_noticed_in_time_and_what_waits_is_kept() -> None:
    a, heard_a, b, heard_b = await opened_pair()
    for token in (1, 2, 3):
        hand_over(a, os.urandom(3_000_000), token)
    await moved(a, 0)
    began = time.monotonic()
    cut_sockets(b)
    await heard_a.until(lambda: bool(heard_a.of("closed")), 5)
    assert time.monotonic() - began < QUICK["silent_s"] + 2
    assert heard_a.endings == [(How.LOST, "silent for 1 s")]
    assert heard_a.calls[-1][0] == "closed"
    await heard_b.until(lambda: bool(heard_b.of("closed")), 5)
    assert heard_a.transfer.unsent == 9_000_000
    with pytest.raises(ValueError, match="closed"):
        hand_over(a, b"too late", 4)
    assert heard_a.transfer.fail() == [1, 2, 3]
    assert heard_a.sent == []
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
        child.stdin.write(json.dumps(await lane_of(a).offer()) + "\n")
        child.stdin.flush()
        await lane_of(a).accept(json.loads(await asyncio.to_thread(child.stdout.readline)))
        await heard_a.until(lambda: bool(heard_a.of("opened")))
        hand_over(a, b"hello", 1)
        await heard_a.until(lambda: heard_a.sent == [1])
        hand_over(a, os.urandom(30_000_000), 2)
        await moved(a, 0.01)
        began = time.monotonic()
        child.send_signal(signal.SIGKILL)
        await heard_a.until(lambda: bool(heard_a.of("closed")), 5)
        assert time.monotonic() - began < 4
        assert heard_a.endings[0][0] is How.LOST
        assert heard_a.transfer.fail() == [2]
    finally:
        child.kill()
        child.wait()
        child.stdin.close()
        child.stdout.close()
        await close_all(a)


# -- the next link ----------------------------------------------------------------------------------


async def next_pair(heard_a: LinkRecorder, heard_b: LinkRecorder, **changes: Any) -> tuple[Link, Link]:
    """When both ends know that their link is lost: another one, over which their messages go on."""
    for heard in (heard_a, heard_b):
        await heard.until(lambda heard=heard: len(heard.of("closed")) == len(heard.of("opened")), PATIENT_S + 3)
    count = len(heard_a.of("opened")) + 1
    a, _ = make_link("b", heard_a, attempt=str(count), **changes)
    b, _ = make_link("a", heard_b, attempt=str(count), **changes)
    await open_both(a, b)
    for heard in (heard_a, heard_b):
        await heard.until(lambda heard=heard: len(heard.of("opened")) == count)
    return a, b


async def test_messages_go_on_over_the_next_link() -> None:
    a, heard_a, b, heard_b = await opened_pair(silent_s=PATIENT_S)
    there, back = os.urandom(5_000_000), os.urandom(5_000_000)
    hand_over(a, there, 1)
    hand_over(b, back, 2)
    await eventually(lambda: any(it.done > 0.4 * it.total for link in (a, b) for it in link.stats().progress))
    cut_sockets(a)
    a2, b2 = await next_pair(heard_a, heard_b, silent_s=PATIENT_S)
    assert heard_a.messages == heard_b.messages == []
    confirmed = heard_a.transfer.confirmed_bytes + heard_b.transfer.confirmed_bytes
    assert confirmed > 2_000_000
    await heard_a.until(lambda: heard_a.sent == [1] and len(heard_a.messages) == 1, 40)
    await heard_b.until(lambda: heard_b.sent == [2] and len(heard_b.messages) == 1, 40)
    sent_again = a2.stats().sent_bytes + b2.stats().sent_bytes
    assert sent_again < 10_000_000 - confirmed + 100_000  # headers and the like
    await close_all(a, b, a2, b2)  # draining: what would come twice would have come
    assert heard_b.messages == [(Kind.TRAINER, there)]
    assert heard_a.messages == [(Kind.TRAINER, back)]
    assert (heard_a.sent, heard_b.sent) == ([1], [2])
    assert heard_a.transfer.outstanding == heard_b.transfer.outstanding == 0


async def test_an_acknowledgement_that_died_with_the_link_comes_over_the_next() -> None:
    a, heard_a, b, heard_b = await opened_pair()
    heard_b.takes = False
    data = os.urandom(300_000)
    hand_over(a, data, 1)
    await heard_b.until(lambda: len(heard_b.messages) == 1)
    cut_sockets(a)
    b.taken(heard_b.numbers[0])  # said to nobody
    a2, b2 = await next_pair(heard_a, heard_b)
    await heard_a.until(lambda: heard_a.sent == [1])
    await close_all(a, b, a2, b2)
    assert heard_a.sent == [1]
    assert heard_b.messages == [(Kind.TRAINER, data)]


async def test_a_message_taken_between_two_links_is_acknowledged_over_the_next() -> None:
    a, heard_a, b, heard_b = await opened_pair()
    heard_b.takes = False
    hand_over(a, b"a message", 1)
    await heard_b.until(lambda: len(heard_b.messages) == 1)
    cut_sockets(a)
    await heard_b.until(lambda: bool(heard_b.of("closed")), 5)
    b.taken(heard_b.numbers[0])  # this link has nothing to do with it any more
    heard_b.transfer.taken(heard_b.numbers[0])
    a2, b2 = await next_pair(heard_a, heard_b)
    await heard_a.until(lambda: heard_a.sent == [1])
    await close_all(a, b, a2, b2)
    assert heard_b.messages == [(Kind.TRAINER, b"a message")]


async def test_replaced_link_ends_without_a_word_and_its_messages_go_on() -> None:
    a, heard_a, b, heard_b = await opened_pair()
    data = os.urandom(1_000_000)
    hand_over(a, data, 1)
    await moved(a, 0.1)
    a.replace()
    b.replace()
    assert heard_a.endings == heard_b.endings == [(How.REPLACED, "a better way was found")]
    a2, b2 = await next_pair(heard_a, heard_b)
    await heard_a.until(lambda: heard_a.sent == [1])
    await close_all(a, b, a2, b2)
    assert heard_b.messages == [(Kind.TRAINER, data)]


async def test_link_through_another_member() -> None:
    (a, heard_a), (b, heard_b) = make_via("a", "b"), make_via("b", "a")
    via_a, via_b = a.control, b.control
    assert isinstance(via_a, ViaLane)
    assert isinstance(via_b, ViaLane)
    loop = asyncio.get_running_loop()
    posted: list[bytes] = []

    def carry(to: ViaLane, frame: bytes) -> bool:
        posted.append(frame)
        loop.call_soon(to.carried, frame)
        return True

    via_a._post = partial(carry, via_b)
    via_b._post = partial(carry, via_a)
    via_a.agree(via_b.public)
    via_b.agree(via_a.public)
    there, back = os.urandom(3_000_000), os.urandom(1_000_000)
    await heard_a.until(lambda: bool(heard_a.of("opened")))
    await heard_b.until(lambda: bool(heard_b.of("opened")))
    hand_over(a, there, 1)
    hand_over(b, back, 2)
    most = 0
    while not (heard_a.sent and heard_b.sent):
        most = max(most, heard_a.transfer.unconfirmed(0))
        await asyncio.sleep(0)
    assert 0 < most <= WINDOW
    assert heard_b.messages == [(Kind.TRAINER, there)]
    assert heard_a.messages == [(Kind.TRAINER, back)]
    stats = a.stats()
    assert (stats.lanes, stats.path.verdict, a.through) == ({"via": 1}, "", "c")
    assert stats.rtt_ms is not None
    assert all(there[:50] not in frame for frame in posted)
    assert a._lanes is not None
    assert a._lanes.open == {}
    await a.close("good night")
    await heard_b.until(lambda: bool(heard_b.of("closed")))
    assert heard_b.endings == [(How.LEFT, "good night")]
    await close_all(a, b)


def make_via(me: str, peer: str) -> tuple[Link, LinkRecorder]:
    settings = LinkSettings(**QUICK)
    recorder = LinkRecorder(Transfer("t", settings.packet_size, settings.limits, time.monotonic))
    recorder.identity = Identity()
    recorder.certificate = Identity().certificate  # no direct lane is tried, though there might be one
    link = Link(peer, "1", recorder, settings, time.monotonic, lambda: b"hello")
    link.connect(ViaLane(peer, "c", "1", link, lambda frame: True, first=me < peer))
    return link, recorder


# -- closing ----------------------------------------------------------------------------------------


async def test_close_sends_what_is_queued_first() -> None:
    a, heard_a, b, heard_b = await opened_pair(drain_s=10)
    hand_over(a, os.urandom(1_000_000), 1)
    await a.close("good night")
    assert heard_a.sent == [1]
    assert heard_a.calls[-1] == ("closed", How.OURS, "good night")
    await heard_b.until(lambda: bool(heard_b.of("closed")))
    assert len(heard_b.messages[0][1]) == 1_000_000
    assert heard_b.endings == [(How.LEFT, "good night")]
    await close_all(b)


async def test_close_drains_no_longer_than_allowed() -> None:
    a, heard_a, b, _ = await opened_pair(drain_s=0.3, silent_s=30)
    cut_sockets(b)
    hand_over(a, os.urandom(1_000_000), 1)
    began = time.monotonic()
    await a.close("enough")
    assert time.monotonic() - began < 2
    assert heard_a.endings == [(How.OURS, "enough")]
    assert heard_a.transfer.fail() == [1]
    b.drop("")
    await close_all(b)


@pytest.mark.parametrize("state", list(State))
async def test_close_from_every_state_and_twice(state: State) -> None:
    a, heard_a, others = await in_state(state)
    assert a.state is state
    await asyncio.gather(a.close("one"), a.close("two"))
    await a.close("three")
    a.drop("four")
    a.lose("five")
    a.replace()
    a.taken(1)
    assert a.state is State.CLOSED
    assert len(heard_a.of("closed")) == 1
    with pytest.raises(SignalError):
        await lane_of(a).offer()
    with pytest.raises(ValueError, match="closed"):
        hand_over(a, b"x", 1)
    await close_all(*others)


async def in_state(state: State) -> tuple[Link, LinkRecorder, list[Link]]:
    if state is State.CONNECTING:
        a, heard_a = make_link()
        await lane_of(a).offer()
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
    offering = asyncio.create_task(lane_of(a).offer())
    await asyncio.sleep(0)
    await a.close("changed my mind")
    with pytest.raises(SignalError, match="changed my mind"):
        await offering
    assert heard_a.endings == [(How.OURS, "changed my mind")]


async def test_both_close_at_once() -> None:
    a, heard_a, b, heard_b = await opened_pair()
    await close_all(a, b)
    assert len(heard_a.of("closed")) == len(heard_b.of("closed")) == 1


async def test_dropped_peer_hears_the_reason() -> None:
    a, heard_a, b, heard_b = await opened_pair()
    hand_over(a, os.urandom(2_000_000), 1)
    a.drop("a contribution of the wrong shape")
    assert heard_a.calls[-1] == ("closed", How.OURS, "a contribution of the wrong shape")
    assert heard_a.transfer.fail() == [1]
    await heard_b.until(lambda: bool(heard_b.of("closed")))
    assert heard_b.endings == [(How.LEFT, "a contribution of the wrong shape")]
    await close_all(a, b)


async def test_long_reason_is_cut_to_what_a_goodbye_may_carry() -> None:
    a, _, b, heard_b = await opened_pair()
    a.drop("é" * 400)
    await heard_b.until(lambda: bool(heard_b.of("closed")))
    assert heard_b.endings == [(How.LEFT, "é" * 256)]
    await close_all(a, b)


async def test_lost_link_says_so() -> None:
    a, heard_a, b, heard_b = await opened_pair()
    c, heard_c = make_link()
    a.lose("its program was started again")
    c.lose("nobody waits for it")
    assert heard_a.endings == [(How.LOST, "its program was started again")]
    assert heard_c.endings == [(How.UNREACHED, "nobody waits for it")]
    await heard_b.until(lambda: bool(heard_b.of("closed")))
    assert heard_b.endings[0][0] is How.LOST
    await close_all(a, b, c)


def test_transitions_lead_to_the_end_and_never_back() -> None:
    order = [State.CONNECTING, State.OPEN, State.CLOSING, State.CLOSED]
    for state, following in TRANSITIONS.items():
        assert all(order.index(each) > order.index(state) for each in following)
        assert state is State.CLOSED or State.CLOSED in following


# -- opening ----------------------------------------------------------------------------------------


async def test_each_side_gets_the_hello_of_the_other() -> None:
    a, heard_a, b, heard_b = await opened_pair()
    assert heard_a.calls[0] == ("hello", b"hello of a")
    assert heard_b.calls[0] == ("hello", b"hello of b")
    await close_all(a, b)


async def test_no_answer_in_time() -> None:
    a, heard_a = make_link(open_s=0.3)
    began = time.monotonic()
    await lane_of(a).offer()
    await heard_a.until(lambda: bool(heard_a.of("closed")))
    assert 0.2 < time.monotonic() - began < 2
    assert heard_a.endings == [(How.UNREACHED, "no answer within 0.3 s")]
    await close_all(a)


async def test_no_hello_in_time() -> None:
    a, heard_a = make_link("b", open_s=1.0)
    b, _ = make_link("a")
    lane_of(b)._events = LaneDeaf()
    await open_both(a, b)
    await heard_a.until(lambda: bool(heard_a.of("closed")))
    assert heard_a.endings == [(How.UNREACHED, "no answer within 1 s")]
    await close_all(a)
    cut_sockets(b)
    lane_of(b).close("")
    await lane_of(b).ended()
    b.drop("")


class LaneDeaf:
    """A program that connects, and then says nothing."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_: None


async def test_a_description_that_cannot_be_used_ends_the_link() -> None:
    a, heard_a = make_link()
    await lane_of(a).offer()
    with pytest.raises(SignalError):
        await lane_of(a).accept("nonsense")
    assert heard_a.endings == [(How.UNREACHED, "its description cannot be used")]
    await close_all(a)


async def test_hello_that_is_not_answered_ends_with_the_reason() -> None:
    a, heard_a = make_link("b")
    b, heard_b = make_link("a")
    heard_a.greet = lambda link: link.drop("another version")  # type: ignore[method-assign]
    await open_both(a, b)
    await heard_b.until(lambda: bool(heard_b.of("closed")))
    assert heard_a.endings == [(How.OURS, "another version")]
    assert heard_b.endings == [(How.LEFT, "another version")]
    await close_all(a, b)


@pytest.mark.parametrize(
    ("word", "why"),
    [
        (HEADER.pack(VERSION, 77, 0, 0), "packet kind 77"),
        (HEADER.pack(1, 1, 0, 0), "packet version 1, here 2"),
        (short(Kind.PING, 1), "a message before the hello"),
        (cut(Kind.ROOM, 1, b"x", digest_of(b"x"), 1024).packet(0, True), "a message before the hello"),
    ],
)
async def test_other_first_word_than_a_hello(word: bytes, why: str) -> None:
    a, heard_a = make_link("b")
    b, heard_b = make_link("a")
    offer = await lane_of(a).offer()
    lane_of(a)._received(word)  # before the hello, since the channel is not open yet
    await lane_of(a).accept(await lane_of(b).answer(offer))
    await heard_a.until(lambda: bool(heard_a.of("closed")))
    assert heard_a.endings == [(How.BROKE, why)]
    await heard_b.until(lambda: bool(heard_b.of("closed")))
    assert heard_b.endings == [(How.LEFT, f"the protocol was broken: {why}")]
    assert heard_a.of("opened") == []
    await close_all(a, b)


# -- peers that break the protocol --------------------------------------------------------------------

ABC = cut(Kind.TRAINER, 9, b"abc", digest_of(b"abc"), LONG_HEADER.size + 1)
OTHER = cut(Kind.TRAINER, 9, b"abcd", digest_of(b"abcd"), LONG_HEADER.size + 1)
HUGE = LONG_HEADER.pack(VERSION, OPENS | 1, 5, 0, 2**40, 2**25, 32_768, bytes(16)) + bytes(32_768)


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        ([b"garbage that is no packet"], "version 103"),
        ([b"\x02"], "shorter than its header"),
        (["text"], "text"),
        ([HEADER.pack(VERSION, 77, 0, 0)], "kind 77"),
        ([ABC.packet(0, True), OTHER.packet(1, True)], "message 9 changes its shape"),
        ([ABC.packet(0, False)], "which was not opened"),
        ([HUGE], "at most 2147483648"),
        ([short(Kind.ACK, 4_000_000)], "acknowledges message 4000000"),
        ([short(Kind.GOT, 4_000_000)], "confirms 4000000 packets"),
        ([short(Kind.HELLO)], "a second hello"),
        ([cut(Kind.ROOM, 3, b"altered", digest_of(b"original"), 1024).packet(0, True)], "digest"),
        ([cut(Kind.LINK, 3, b"altered", digest_of(b"original"), 1024).packet(0, True)], "digest"),
    ],
)
async def test_broken_packets_end_the_link_with_the_reason(sent: list[Any], why: str) -> None:
    a, heard_a, b, heard_b = await opened_pair()
    for packet in sent:
        inject(b, packet)
    await heard_a.until(lambda: bool(heard_a.of("closed")))
    (how, reason), = heard_a.endings
    assert how is How.BROKE
    if why != "text":
        assert why in reason
    await heard_b.until(lambda: bool(heard_b.of("closed")))
    assert heard_b.endings == [(How.LEFT, f"the protocol was broken: {reason}")]
    await close_all(a, b)


async def test_half_a_message_that_never_ends() -> None:
    a, heard_a, b, heard_b = await opened_pair(limits=Limits(expire_s=0.4))
    honest, given = heard_b.transfer.next_packet, []

    def only_one(lane: int, *, control: bool, bulk: bool) -> bytes | None:
        packet = honest(lane, control=control, bulk=bulk and not given)
        if packet is not None and bulk:
            given.append(packet)
        return packet

    heard_b.transfer.next_packet = only_one  # type: ignore[method-assign]
    hand_over(b, os.urandom(200_000), 1)
    await heard_a.until(lambda: bool(heard_a.of("closed")))
    assert heard_a.endings == [(How.BROKE, "message 1 stopped half-way")]
    assert len(given) == 1
    await close_all(a, b)


async def test_repeated_chunks_do_no_harm() -> None:
    a, heard_a, b, _ = await opened_pair()
    for chunk, opens in ((0, True), (0, True), (2, False), (0, False), (2, True), (1, False), (1, False), (0, True)):
        inject(b, ABC.packet(chunk, opens))
    inject(b, cut(Kind.TRAINER, 10, b"next", digest_of(b"next"), 1024).packet(0, True))
    await heard_a.until(lambda: len(heard_a.messages) == 2)
    assert heard_a.messages == [(Kind.TRAINER, b"abc"), (Kind.TRAINER, b"next")]
    await close_all(a, b)


async def test_peer_that_only_sends_is_bounded() -> None:
    a, heard_a, b, _ = await opened_pair(silent_s=30)
    while a.state is State.OPEN:  # pongs pile up faster than the pump may write them
        for number in range(4000):
            a._say(Kind.PONG, number)
    assert heard_a.endings == [(How.BROKE, "it sends without reading")]
    await close_all(a, b)


# -- handlers that fail -----------------------------------------------------------------------------


@pytest.mark.parametrize("handler", ["link_message", "link_sent", "link_closed"])
async def test_error_in_a_handler_reaches_the_loop_and_not_the_link(handler: str) -> None:
    a, heard_a, b, heard_b = await opened_pair()
    seen: list[str] = []
    loop = asyncio.get_running_loop()
    before = loop.get_exception_handler()
    loop.set_exception_handler(lambda _, context: seen.append(repr(context["exception"])))

    def failing(*_: object) -> None:
        raise KeyError("a bug of ours")

    hand_over(b, b"before", 1)
    await heard_b.until(lambda: heard_b.sent == [1])
    setattr(heard_b, handler, failing)
    hand_over(a, b"there", 2)
    hand_over(b, b"back", 3)
    await heard_a.until(lambda: len(heard_a.messages) == 2)
    if handler == "link_closed":
        await heard_a.until(lambda: heard_a.sent == [2])
        await b.close("all is taken down nevertheless")
    else:
        await eventually(lambda: bool(seen))
        assert b.state is State.OPEN
    assert seen == ["KeyError('a bug of ours')"]
    loop.set_exception_handler(before)
    b.drop("")
    await close_all(a, b)


async def test_the_link_ends_when_its_control_lane_does() -> None:
    a, heard_a, b, heard_b = await opened_pair()
    lane_of(a).close("the connection ended without a goodbye")
    assert heard_a.endings == [(How.LOST, "the connection ended without a goodbye")]
    await heard_b.until(lambda: bool(heard_b.of("closed")))
    assert heard_b.endings[0][0] is How.LOST
    cut_lane(lane_of(b))
    await close_all(a, b)
