"""Several lanes of one link on loopback: how many pay, what they carry, what becomes of messages when one dies."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
import pytest

from desktop.peers import direct
from desktop.peers import lanes as lanes_module
from desktop.peers.direct import DirectError, DirectLane, Identity, dial
from desktop.peers.ice import Servers
from desktop.peers.lane import Lane
from desktop.peers.lanes import LONGEST_REST_S, REST_S, Growth, Lanes
from desktop.peers.link import How, Link, State
from desktop.peers.packet import Kind
from desktop.peers.webrtc import WebRtcLane
from tests.peers.direct_doubles import LaneRecorder
from tests.peers.doubles import (
    QUICK,
    LinkRecorder,
    close_all,
    eventually,
    hand_over,
    lane_of,
    make_link,
    moved,
    open_both,
    opened_pair,
)

# -- how many pay -----------------------------------------------------------------------------------

MB = 1e6


class Path:
    """A path with so many bytes/s for each number of lanes, measured once a second by a link that is always busy."""

    def __init__(self, rtt_s: float | None, rates: dict[int, float], most: int = 8) -> None:
        self.growth = Growth(most)
        self.rtt_s = rtt_s
        self.rates = rates
        self.now = 0.0

    def run(self, seconds: int, *, busy: bool = True) -> list[int]:
        """The different numbers of lanes, one after the other."""
        seen = [self.growth.lanes]
        for _ in range(seconds):
            self.now += 1
            rate = self.rates[self.growth.lanes] if busy else 0.0
            wanted = self.growth.measured(self.now, rate, busy=busy, rtt_s=self.rtt_s)
            assert wanted == self.growth.lanes
            if wanted != seen[-1]:
                seen.append(wanted)
        return seen


ANY = dict.fromkeys(range(1, 9), 1 * MB)
LINEAR = {lanes: lanes * MB for lanes in range(1, 9)}


@pytest.mark.parametrize(
    ("rtt_s", "rates", "most", "seconds", "seen"),
    [
        (0.001, dict.fromkeys(range(1, 9), 20 * MB), 8, 1000, [1]),
        (0.050, LINEAR, 8, 1000, [1, 4, 8]),
        (0.010, LINEAR, 8, 1000, [1, 4, 8]),
        (0.006, LINEAR, 8, 1000, [1, 4, 8]),
        (0.050, LINEAR, 6, 1000, [1, 4, 6]),
        (0.050, LINEAR, 4, 1000, [1, 4]),
        (0.050, LINEAR, 2, 1000, [1, 2]),
        (0.050, LINEAR, 1, 1000, [1]),
        (0.050, ANY, 8, 14, [1, 4, 1]),
        (0.010, ANY, 8, 14, [1, 4, 1]),
        (0.001, ANY, 8, 14, [1, 4, 1]),  # short, and yet slow: something loses packets
        (0.010, {1: 1 * MB, 4: 4 * MB, 8: 4.5 * MB}, 8, 15, [1, 4, 8, 4]),
        (0.050, {1: 1 * MB, 4: 1.35 * MB, 8: 1.36 * MB}, 8, 15, [1, 4, 8, 4]),
    ],
    ids=["short and clean", "50 ms", "10 ms", "6 ms", "six at most", "four at most", "two at most", "one at most",
         "50 ms without gain", "10 ms without gain", "short and lossy", "pays up to four", "pays just so"],
)
def test_as_many_lanes_as_pay(
    rtt_s: float, rates: dict[int, float], most: int, seconds: int, seen: list[int]
) -> None:
    assert Path(rtt_s, rates, most).run(seconds) == seen


def test_rests_longer_after_each_trial_that_did_not_pay() -> None:
    path = Path(0.05, ANY)
    assert path.run(10) == [1, 4, 1]
    ends = []
    for _ in range(6):
        before = path.now
        while path.growth.lanes == 1:
            path.run(1)
        ends.append(path.now - before)
        while path.growth.lanes == 4:
            path.run(1)
    longest = [min(REST_S * 2**n, LONGEST_REST_S) for n in range(6)]
    assert all(rest - 4 <= waited <= rest + 4 for rest, waited in zip(longest, ends, strict=True))


def test_what_does_not_send_all_the_time_says_nothing() -> None:
    path = Path(0.05, LINEAR)
    assert path.run(1000, busy=False) == [1]
    for _ in range(100):  # never busy for long enough to compare
        assert path.run(2) == [1]
        assert path.run(1, busy=False) == [1]
    assert path.run(4) == [1, 4]
    assert path.run(1000, busy=False) == [4]


PATIENT_S = 8.0  # several lanes at once fill the buffers of sockets, and SCTP waits a second after such a loss


# -- several WebRTC lanes -----------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("desktop.peers.link.MEASURE_S", 0.1)


def lanes_of(link: Link) -> Lanes:
    assert link._lanes is not None
    return link._lanes


def want(link: Link, count: int) -> None:
    """Let this many lanes pay, in the eyes of this end."""
    lanes_of(link)._growth.measured = lambda *_, **__: count  # type: ignore[method-assign]


async def until_lanes(count: int, *links: Link) -> None:
    await eventually(lambda: all(link.stats().lanes == {"webrtc": count} for link in links))


def carried(recorder: LinkRecorder) -> dict[int, int]:
    """Bytes confirmed over each open lane."""
    return {number: recorder.transfer.confirmed(number) for number in recorder.transfer._lanes}


async def test_bulk_goes_over_all_lanes_and_arrives_whole() -> None:
    a, heard_a, b, heard_b = await opened_pair(lanes=4, silent_s=PATIENT_S)
    want(b, 1)
    want(a, 4)
    await until_lanes(4, a, b)
    assert sorted(lanes_of(a).open) == sorted(lanes_of(b).open) == [2, 4, 6]
    data = [os.urandom(size) for size in (5_000_000, 10, 2_000_000)]
    back = os.urandom(2_000_000)
    for token, each in enumerate(data):
        hand_over(a, each, token)
    hand_over(b, back, 9)
    await heard_a.until(lambda: sorted(heard_a.sent) == [0, 1, 2], 30)
    await heard_b.until(lambda: heard_b.sent == [9], 30)
    assert sorted(heard_b.messages) == sorted((Kind.TRAINER, each) for each in data)
    assert heard_a.messages == [(Kind.TRAINER, back)]
    assert sorted(carried(heard_a)) == [0, 2, 4, 6]
    assert min(carried(heard_a).values()) > 500_000
    assert min(carried(heard_b).values()) > 100_000
    assert heard_a.transfer.repeated == heard_b.transfer.repeated == 0
    await close_all(a, b)


async def test_both_ends_may_open_lanes() -> None:
    a, _, b, _ = await opened_pair(lanes=4)
    want(a, 2)
    await until_lanes(2, a, b)
    want(b, 4)
    await until_lanes(4, a, b)
    assert sorted(lanes_of(a).open) == sorted(lanes_of(b).open) == [1, 2, 3]
    await close_all(a, b)


async def test_lanes_that_both_ends_open_at_once_stay() -> None:
    a, heard_a, b, heard_b = await opened_pair(lanes=3, silent_s=PATIENT_S)
    for link in (a, b):
        want(link, 3)
        lanes_of(link).measured(0.0, 0.0, busy=True, rtt_s=0.05)
    await until_lanes(5, a, b)
    before = dict(lanes_of(a).open)
    hand_over(a, os.urandom(3_000_000), 1)
    hand_over(b, os.urandom(3_000_000), 1)
    await heard_a.until(lambda: heard_a.sent == [1], 30)
    await heard_b.until(lambda: heard_b.sent == [1], 30)
    assert lanes_of(a).open == before
    await close_all(a, b)


async def test_lane_that_dies_on_the_way_costs_nothing_but_time() -> None:
    a, heard_a, b, heard_b = await opened_pair(lanes=3, silent_s=2.0)
    want(a, 3)
    await until_lanes(3, a, b)
    data = os.urandom(6_000_000)
    hand_over(a, data, 1)
    await moved(a, 0.2)
    doomed = lanes_of(a).open[2]
    assert isinstance(doomed, WebRtcLane)
    assert heard_a.transfer.unconfirmed(2) > 0
    closings = log_closings(a)
    black_hole(doomed)
    began = time.monotonic()
    await eventually(lambda: 2 in closings)
    assert time.monotonic() - began < 2 + 1
    assert closings[2] == "it carried nothing for 2 s"
    await heard_a.until(lambda: heard_a.sent == [1], 30)
    assert heard_b.messages == [(Kind.TRAINER, data)]
    assert heard_a.endings == heard_b.endings == []
    await eventually(lambda: len(lanes_of(a).open) == 2)  # another one has taken its place
    assert 2 not in lanes_of(a).open
    await close_all(a, b)


def black_hole(lane: WebRtcLane) -> None:
    """What this end sends over the lane arrives nowhere, though the path seems to be there."""
    connection = lane._connection
    assert connection is not None
    assert connection.sctp is not None

    async def nowhere(data: bytes) -> None:
        pass

    connection.sctp.transport.transport._send = nowhere  # type: ignore[method-assign]


def log_closings(link: Link) -> dict[int, str]:
    """Why lanes of this link close, from now on."""
    told, closings = link.lane_closed, {}

    def closed(lane: Lane, reason: str) -> None:
        closings[lane.number] = reason
        told(lane, reason)

    link.lane_closed = closed  # type: ignore[method-assign]
    return closings


async def test_lanes_that_do_not_pay_are_closed_by_who_opened_them() -> None:
    a, heard_a, b, heard_b = await opened_pair(lanes=4, silent_s=PATIENT_S)
    want(a, 3)
    await until_lanes(3, a, b)
    data = os.urandom(3_000_000)
    hand_over(a, data, 1)
    await moved(a, 0.1)
    want(b, 1)
    want(a, 1)
    closings = log_closings(a)
    await until_lanes(1, a, b)
    assert closings == {2: "it did not pay", 4: "it did not pay"}
    await heard_a.until(lambda: heard_a.sent == [1], 30)
    assert heard_b.messages == [(Kind.TRAINER, data)]
    await close_all(a, b)


async def test_offer_that_is_never_answered_is_given_up() -> None:
    a, heard_a, b, _ = await opened_pair(lanes=2)
    lanes_of(b).heard = lambda data: ""  # type: ignore[method-assign]
    lanes_of(a)._open_s = 0.3
    closings = log_closings(a)
    want(a, 2)
    await eventually(lambda: bool(closings))
    want(a, 1)
    assert closings == {2: "not open within 0.3 s"}
    assert a.stats().lanes == {"webrtc": 1}
    await eventually(lambda: not lanes_of(a)._opening)
    hand_over(a, b"goes on", 1)
    await heard_a.until(lambda: heard_a.sent == [1])
    await close_all(a, b)


@pytest.mark.parametrize("turns", [0, 1, 2, 5, 20, 100])
async def test_link_that_ends_while_lanes_open_leaves_nothing(turns: int) -> None:
    a, _, b, _ = await opened_pair(lanes=4)
    want(a, 4)
    lanes_of(a).measured(0.0, 0.0, busy=True, rtt_s=0.05)
    for _ in range(turns):
        await asyncio.sleep(0)
    a.drop("enough")
    await asyncio.wait_for(close_all(a, b), 10)
    for link in (a, b):
        assert all(lane.state.value == "closed" for lane in lanes_of(link)._all)  # type: ignore[attr-defined]
        assert not lanes_of(link)._tasks


async def test_the_next_link_has_its_own_lanes() -> None:
    a, heard_a, b, heard_b = await opened_pair(lanes=3)
    want(a, 3)
    await until_lanes(3, a, b)
    data = os.urandom(4_000_000)
    hand_over(a, data, 1)
    await moved(a, 0.3)
    a.replace()
    b.replace()
    a2, _ = make_link("b", heard_a, "2", lanes=1)
    b2, _ = make_link("a", heard_b, "2", lanes=1)
    await open_both(a2, b2)
    await heard_a.until(lambda: len(heard_a.of("opened")) == 2)
    assert sorted(carried(heard_a)) == [0]
    await heard_a.until(lambda: heard_a.sent == [1], 30)
    assert heard_b.messages == [(Kind.TRAINER, data)]
    await close_all(a, b, a2, b2)


# -- what a peer says about lanes ---------------------------------------------------------------------


def say(link: Link, **said: Any) -> None:
    link._say_of_lanes(msgspec.msgpack.encode(said))


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"what": "offer", "number": 0, "sdp": ""}, "a lane of the number 0"),
        ({"what": "offer", "number": -1, "sdp": ""}, "a lane of the number -1"),
        ({"what": "offer", "number": 2, "sdp": ""}, "a lane of the number 2"),  # only the other side has even ones
        ({"what": "listening", "number": 4, "port": 5}, "a lane of the number 4"),
        ({"what": "offer", "number": 1}, "cannot be read"),
        ({"what": "offer", "number": "1", "sdp": ""}, "cannot be read"),
        ({"what": "offer", "number": 2**80 // 2**20, "sdp": 7}, "cannot be read"),
        ({"what": "something else", "number": 1}, "cannot be read"),
        ({"number": 1}, "cannot be read"),
    ],
)
async def test_words_that_make_no_sense_end_the_link(said: dict[str, Any], why: str) -> None:
    a, heard_a, b, heard_b = await opened_pair()
    say(b, **said)
    await heard_a.until(lambda: bool(heard_a.of("closed")))
    (how, reason), = heard_a.endings
    assert how is How.BROKE
    assert why in reason
    await heard_b.until(lambda: bool(heard_b.of("closed")))
    assert heard_b.endings == [(How.LEFT, f"the protocol was broken: {reason}")]
    await close_all(a, b)


@pytest.mark.parametrize("what", ["offer", "listening"])
async def test_number_of_the_control_lane_is_refused_by_the_second_side(what: str) -> None:
    a, _, b, heard_b = await opened_pair()
    say(a, what=what, number=0, sdp="", port=1)
    await heard_b.until(lambda: bool(heard_b.of("closed")))
    assert heard_b.endings == [(How.BROKE, "a lane of the number 0")]
    await close_all(a, b)


async def test_bytes_that_are_no_words_end_the_link() -> None:
    a, heard_a, b, _ = await opened_pair()
    b._say_of_lanes(b"\xc1" * 10)
    await heard_a.until(lambda: bool(heard_a.of("closed")))
    assert heard_a.endings[0][0] is How.BROKE
    assert "cannot be read" in heard_a.endings[0][1]
    await close_all(a, b)


@contextlib.asynccontextmanager
async def real_offer() -> AsyncIterator[str]:
    """A description that can be answered, of a lane that never opens."""
    lane = WebRtcLane("nobody", 1, LaneRecorder(), Servers((), ()), loopback=True)
    yield await lane.offer()
    lane.close("")
    await lane.ended()


@pytest.mark.parametrize(
    ("numbers", "why"), [((1, 1), "a lane of the number 1"), (range(1, 15, 2), "too many lanes")], ids=["same", "many"]
)
async def test_more_offers_than_may_be_end_the_link(numbers: list[int], why: str) -> None:
    a, heard_a, b, _ = await opened_pair(lanes=2)
    async with real_offer() as sdp:
        for number in numbers:
            say(b, what="offer", number=number, sdp=sdp)
        await heard_a.until(lambda: bool(heard_a.of("closed")))
    assert heard_a.endings == [(How.BROKE, why)]
    assert len(lanes_of(a)._all) <= 2 * 2 + 2
    await close_all(a, b)


async def test_more_direct_lanes_than_may_be_end_the_link() -> None:
    a, heard_a, b, _ = await identified_pair(hold=True, lanes=2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        for number in range(1, 15, 2):
            say(b, what="listening", number=number, port=silent.getsockname()[1])
        await heard_a.until(lambda: bool(heard_a.of("closed")))
        assert heard_a.endings == [(How.BROKE, "too many lanes")]
        assert len(lanes_of(a)._tasks) <= 2 * 2 + 2
        await close_all(a, b)


@pytest.mark.parametrize(
    "said",
    [
        {"what": "offer", "number": 1, "sdp": "nonsense"},
        {"what": "answer", "number": 1, "sdp": "nonsense"},
        {"what": "answer", "number": 2**40, "sdp": ""},
        {"what": "listening", "number": 1, "port": -1},
        {"what": "listening", "number": 1, "port": 9},
        {"what": "listening", "number": 1, "port": 2**40},
    ],
)
async def test_words_that_lead_nowhere_do_no_harm(said: dict[str, Any]) -> None:
    a, heard_a, b, heard_b = await identified_pair(hold=True)
    say(b, **said)
    hand_over(a, b"goes on", 1)
    hand_over(b, b"goes on", 1)
    await heard_a.until(lambda: heard_a.sent == [1])
    await heard_b.until(lambda: heard_b.sent == [1])
    await eventually(lambda: not (lanes_of(a)._opening or lanes_of(a)._dialling))
    assert a.stats().lanes == {"webrtc": 1}
    assert a.state is b.state is State.OPEN
    await close_all(a, b)


# -- a direct lane --------------------------------------------------------------------------------------


async def identified_pair(
    *, hold: bool = False, certificates: Callable[[Identity, Identity], tuple[bytes, bytes]] | None = None,
    **changes: Any,
) -> tuple[Link, LinkRecorder, Link, LinkRecorder]:
    """Two links whose ends know each other's certificate; `hold`: they try no direct lane by themselves."""
    changes.setdefault("lanes", 1)
    a, heard_a = make_link("b", **changes)
    b, heard_b = make_link("a", **changes)
    heard_a.identity, heard_b.identity = Identity(), Identity()
    heard_a.certificate, heard_b.certificate = heard_b.identity.certificate, heard_a.identity.certificate
    if certificates is not None:
        heard_a.certificate, heard_b.certificate = certificates(heard_a.identity, heard_b.identity)
    with pytest.MonkeyPatch.context() as patch:
        if hold:
            patch.setattr(Lanes, "start", lambda self: None)
        await open_both(a, b)
        await heard_a.until(lambda: bool(heard_a.of("opened")))
        await heard_b.until(lambda: bool(heard_b.of("opened")))
    return a, heard_a, b, heard_b


async def direct_lane(link: Link) -> DirectLane:
    """The direct lane of a link, when it is open."""
    await eventually(lambda: "tls" in link.stats().lanes)
    (lane,) = (lane for lane in lanes_of(link).open.values() if isinstance(lane, DirectLane))
    return lane


async def test_direct_lane_opens_by_itself_and_takes_all_bulk() -> None:
    a, heard_a, b, heard_b = await identified_pair()
    number = (await direct_lane(a)).number
    assert (await direct_lane(b)).number == number == 2
    there, back = os.urandom(20_000_000), os.urandom(5_000_000)
    hand_over(a, there, 1)
    hand_over(b, back, 2)
    hand_over(a, b"control", 3, bulk=False)
    await heard_a.until(lambda: sorted(heard_a.sent) == [1, 3])
    await heard_b.until(lambda: heard_b.sent == [2])
    assert sorted(heard_b.messages, key=lambda it: len(it[1])) == [(Kind.TRAINER, b"control"), (Kind.TRAINER, there)]
    assert heard_a.messages == [(Kind.TRAINER, back)]
    assert a.stats().lanes == b.stats().lanes == {"webrtc": 1, "tls": 1}
    for heard, size in ((heard_a, 20_000_000), (heard_b, 5_000_000)):
        await eventually(lambda heard=heard: heard.transfer.unconfirmed(number) == 0)
        assert heard.transfer.confirmed(number) == size
        assert heard.transfer.confirmed(0) < 1000
    await close_all(a, b)


async def test_webrtc_lanes_give_way_to_a_direct_one() -> None:
    a, heard_a, b, heard_b = await identified_pair(hold=True, lanes=3, silent_s=PATIENT_S)
    want(a, 3)
    await until_lanes(3, a, b)
    data = os.urandom(5_000_000)
    hand_over(a, data, 1)
    await moved(a, 0.1)
    lanes_of(a).start()
    await eventually(lambda: a.stats().lanes == b.stats().lanes == {"webrtc": 1, "tls": 1})
    await heard_a.until(lambda: heard_a.sent == [1])
    assert heard_b.messages == [(Kind.TRAINER, data)]
    assert heard_a.endings == heard_b.endings == []
    await close_all(a, b)


async def test_direct_lane_that_dies_on_the_way_and_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes_module, "AGAIN_S", 1.0)
    a, heard_a, b, heard_b = await identified_pair()
    data = os.urandom(50_000_000)
    lane = await direct_lane(a)
    hand_over(a, data, 1)
    await moved(a, 0.9)  # WebRTC is slow
    assert lane._transport is not None
    lane._transport.abort()
    await eventually(lambda: a.stats().lanes == b.stats().lanes == {"webrtc": 1})
    assert heard_a.sent == []
    again = await direct_lane(a)
    assert again.number > lane.number
    await heard_a.until(lambda: heard_a.sent == [1], 40)
    assert heard_b.messages == [(Kind.TRAINER, data)]
    assert heard_a.endings == heard_b.endings == []
    await close_all(a, b)


async def test_without_a_direct_lane_the_rest_of_a_message_goes_over_webrtc() -> None:
    a, heard_a, b, heard_b = await identified_pair()
    data = os.urandom(50_000_000)
    lane = await direct_lane(a)
    hand_over(a, data, 1)
    await moved(a, 0.9)
    by_then = heard_a.transfer.confirmed(0)
    (await direct_lane(b)).close("the listening end dies")
    await heard_a.until(lambda: heard_a.sent == [1], 40)
    assert lane.state is direct.State.CLOSED
    assert heard_a.transfer.confirmed(0) > by_then
    assert heard_b.messages == [(Kind.TRAINER, data)]
    assert a.stats().lanes == b.stats().lanes == {"webrtc": 1}
    await close_all(a, b)


async def works_over_webrtc_alone(a: Link, heard_a: LinkRecorder, b: Link, heard_b: LinkRecorder) -> None:
    data = os.urandom(300_000)
    hand_over(a, data, 1)
    hand_over(b, data, 2)
    await heard_a.until(lambda: heard_a.sent == [1])
    await heard_b.until(lambda: heard_b.sent == [2])
    await eventually(lambda: not (lanes_of(a)._tasks or lanes_of(b)._tasks))  # nothing is tried any more
    assert a.stats().lanes == b.stats().lanes == {"webrtc": 1}
    assert heard_a.endings == heard_b.endings == []
    await close_all(a, b)


@pytest.fixture
def dials(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """How each attempt to dial ended: "" or why not."""
    seen: list[str] = []

    async def noted(*arguments: Any) -> DirectLane:
        try:
            lane = await dial(*arguments)
        except DirectError as error:
            seen.append(error.reason)
            raise
        seen.append("")
        return lane

    monkeypatch.setattr(lanes_module, "dial", noted)
    return seen


async def test_no_direct_lane_where_it_is_not_wished(dials: list[str]) -> None:
    pair = await identified_pair(direct=False)
    await works_over_webrtc_alone(*pair)
    assert dials == []


@pytest.mark.parametrize("who", ["neither", "first", "second"])
async def test_no_direct_lane_without_a_certificate(who: str, dials: list[str]) -> None:
    """A peer of another version, or one that does not wish it, gives none."""
    pair = await identified_pair(certificates=lambda a, b: (
        b.certificate if who == "first" else b"", a.certificate if who == "second" else b""
    ))
    await works_over_webrtc_alone(*pair)
    assert dials == []


def other_certificate(a: Identity, b: Identity) -> tuple[bytes, bytes]:
    return b.certificate, Identity().certificate


def broken_certificate(a: Identity, b: Identity) -> tuple[bytes, bytes]:
    return b"no certificate", b"no certificate"


@pytest.mark.parametrize(
    ("certificates", "tries"), [(other_certificate, 2), (broken_certificate, 0)], ids=["other", "broken"]
)
async def test_wrong_certificate_in_the_hello(
    certificates: Callable[[Identity, Identity], tuple[bytes, bytes]], tries: int, dials: list[str]
) -> None:
    pair = await identified_pair(certificates=certificates)
    await works_over_webrtc_alone(*pair)
    assert len(dials) == tries
    assert "" not in dials


async def test_where_the_listener_cannot_be_reached_the_other_end_listens(
    monkeypatch: pytest.MonkeyPatch, dials: list[str]
) -> None:
    no_way_to(monkeypatch, first=True)
    a, heard_a, b, heard_b = await identified_pair()
    assert (await direct_lane(a)).number == (await direct_lane(b)).number == 1  # a number of the second side
    await eventually(lambda: len(dials) == 2)
    assert dials[0] != ""
    assert dials[1] == ""
    data = os.urandom(5_000_000)
    hand_over(a, data, 1)
    await heard_a.until(lambda: heard_a.sent == [1])
    assert heard_b.messages == [(Kind.TRAINER, data)]
    assert heard_a.transfer.confirmed(1) == 5_000_000
    await close_all(a, b)


def no_way_to(monkeypatch: pytest.MonkeyPatch, *, first: bool = False, second: bool = False) -> None:
    """What these sides listen at cannot be reached: as with a firewall, its address is another one."""
    real = Lanes._near

    def near(lanes: Lanes) -> tuple[str, str] | None:
        mine, _ = real(lanes) or ("", "")
        return mine, "127.0.0.9" if (second if lanes._first else first) else mine

    monkeypatch.setattr(Lanes, "_near", near)


async def test_where_neither_can_be_reached_all_goes_over_webrtc(
    monkeypatch: pytest.MonkeyPatch, dials: list[str]
) -> None:
    no_way_to(monkeypatch, first=True, second=True)
    pair = await identified_pair()
    await works_over_webrtc_alone(*pair)
    assert len(dials) == 2
    assert "" not in dials


@pytest.mark.parametrize("turns", [0, 1, 2, 5, 10, 20, 50])
async def test_link_that_ends_while_a_direct_lane_opens_leaves_nothing(turns: int) -> None:
    a, _, b, _ = await identified_pair(hold=True)
    lanes_of(a).start()
    for _ in range(turns):
        await asyncio.sleep(0)
    a.drop("enough")
    await asyncio.wait_for(close_all(a, b), 10)
    for link in (a, b):
        assert not lanes_of(link)._tasks
        assert all(lane.state.value == "closed" for lane in lanes_of(link)._all)  # type: ignore[attr-defined]


async def test_error_in_a_handler_does_not_end_a_direct_lane() -> None:
    a, _, b, heard_b = await identified_pair()
    await direct_lane(a)
    lane = await direct_lane(b)
    seen: list[str] = []
    loop = asyncio.get_running_loop()
    before = loop.get_exception_handler()
    loop.set_exception_handler(lambda _, context: seen.append(repr(context["exception"])))

    def failing(*_: object) -> None:
        raise KeyError("a bug of ours")

    heard_b.link_message = failing  # type: ignore[method-assign]
    hand_over(a, b"x", 1)
    await eventually(lambda: bool(seen))
    assert seen == ["KeyError('a bug of ours')"]
    assert lane.writable
    loop.set_exception_handler(before)
    b.drop("")
    await close_all(a, b)


# -- a slow peer ------------------------------------------------------------------------------------------


class SlowPath:
    """TCP through which some bytes pass in each second, in the direction of who dialled."""

    def __init__(self, rate: int) -> None:
        self.rate = rate
        self.passed = 0
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def dial(self, identity: Identity, certificate: bytes, host: str, port: int, *rest: Any) -> DirectLane:
        """In the place of the real one."""
        async def met(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            sock = socket.socket()
            sock.setblocking(False)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024)
            await asyncio.get_running_loop().sock_connect(sock, (host, port))
            reader_on, writer_on = await asyncio.open_connection(sock=sock, limit=32 * 1024)
            for work in (self._pass(reader, writer_on, slowly=False), self._pass(reader_on, writer, slowly=True)):
                task = asyncio.ensure_future(work)
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

        server = await asyncio.start_server(met, "127.0.0.1", 0)
        self._servers.append(server)
        return await dial(identity, certificate, "127.0.0.1", server.sockets[0].getsockname()[1], *rest)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, slowly: bool) -> None:
        try:
            with contextlib.suppress(OSError):
                while some := await reader.read(32 * 1024):
                    if slowly:
                        await asyncio.sleep(len(some) / self.rate if self.rate else 1000)
                        self.passed += len(some)
                    writer.write(some)
                    await writer.drain()
        finally:
            writer.transport.abort()

    async def end(self) -> None:
        for server in self._servers:
            server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> SlowPath:
    path = SlowPath(1_000_000)
    monkeypatch.setattr(lanes_module, "dial", path.dial)
    monkeypatch.setattr(DirectLane, "window", 1024 * 1024)  # in proportion to the message, which is small here
    return path


async def test_what_waits_for_a_slow_peer_is_bounded(slow: SlowPath) -> None:
    a, heard_a, b, heard_b = await identified_pair()
    lane = await direct_lane(a)
    assert lane._transport is not None
    data = os.urandom(4_000_000)
    began = time.monotonic()
    hand_over(a, data, 1)
    most_unconfirmed = most_held = 0
    control_at = 0.0
    while heard_a.sent[-1:] != [1]:
        most_unconfirmed = max(most_unconfirmed, heard_a.transfer.unconfirmed(lane.number))
        most_held = max(most_held, lane._transport.get_write_buffer_size() + lane._outgoing.pending)
        if not control_at and time.monotonic() - began > 1:
            control_at = time.monotonic()
            hand_over(a, b"control", 2, bulk=False)
            await heard_a.until(lambda: 2 in heard_a.sent)
            assert time.monotonic() - control_at < 1  # it does not wait behind bulk
        await asyncio.sleep(0.001)
    assert time.monotonic() - began > 3  # so it was slow
    assert 800_000 < most_unconfirmed <= 1024 * 1024
    assert most_held <= direct.HIGH_WATER + direct.TURN_BYTES + 66_000
    assert (Kind.TRAINER, data) in heard_b.messages
    assert heard_a.endings == heard_b.endings == []
    assert lane.writable
    await close_all(a, b)
    await slow.end()


async def test_direct_lane_that_carries_nothing_any_more_is_given_up(slow: SlowPath) -> None:
    a, heard_a, b, heard_b = await identified_pair()
    number = (await direct_lane(a)).number
    closings = log_closings(a)
    data = os.urandom(3_000_000)
    hand_over(a, data, 1)
    await moved(a, 0.2)
    slow.rate = 0
    began = time.monotonic()
    await eventually(lambda: bool(closings))
    assert time.monotonic() - began < QUICK["silent_s"] + 1
    assert closings == {number: "it carried nothing for 1 s"}
    await heard_a.until(lambda: heard_a.sent == [1])
    assert heard_b.messages == [(Kind.TRAINER, data)]
    await close_all(a, b)
    await slow.end()


async def test_link_whose_control_lane_dies_ends_though_another_lane_works(slow: SlowPath) -> None:
    a, heard_a, b, heard_b = await identified_pair()
    await direct_lane(a)
    data = os.urandom(4_000_000)
    hand_over(a, data, 1)
    await moved(a, 0.1)
    began, passed = time.monotonic(), slow.passed
    black_hole(lane_of(a))  # one direction is enough
    await heard_a.until(lambda: bool(heard_a.of("closed")))
    await heard_b.until(lambda: bool(heard_b.of("closed")))
    assert time.monotonic() - began < 2 * QUICK["silent_s"] + 1
    assert slow.passed > passed + 1_000_000
    assert heard_a.endings[0][0] is heard_b.endings[0][0] is How.LOST
    assert "its control lane carries nothing any more" in (heard_a.endings[0][1], heard_b.endings[0][1])
    assert heard_a.transfer.fail() == [1]
    await close_all(a, b)
    await slow.end()
