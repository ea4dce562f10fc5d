"""How fast a member can send, on a clock turned by hand."""

from __future__ import annotations

import pytest

from desktop.bridge.uplink import Uplink

MB = 1_000_000


class Time:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def uplink(time: Time) -> Uplink:
    return Uplink(time)


def send(uplink: Uplink, time: Time, size: int, seconds: float) -> None:
    uplink.handed(size)
    time.now += seconds
    uplink.taken(size)


def test_nothing_is_known_before_something_was_sent(uplink: Uplink, time: Time) -> None:
    assert uplink.measure() == 0.0
    send(uplink, time, 1000, 1.0)  # a kilobyte says nothing of a link
    assert uplink.measure() == 0.0


def test_only_time_in_which_something_was_on_its_way_counts(uplink: Uplink, time: Time) -> None:
    send(uplink, time, MB, 0.5)
    time.now += 60.0
    send(uplink, time, MB, 0.5)
    time.now += 60.0
    assert uplink.measure() == pytest.approx(2 * MB)


def test_several_peers_share_one_uplink(uplink: Uplink, time: Time) -> None:
    uplink.handed(MB)
    time.now += 0.25
    uplink.handed(3 * MB)
    time.now += 0.75
    uplink.taken(MB)
    time.now += 1.0
    uplink.taken(3 * MB)
    assert uplink.measure() == pytest.approx(2 * MB)


def test_a_part_on_its_way_counts_for_the_time_until_now(uplink: Uplink, time: Time) -> None:
    uplink.handed(4 * MB)
    uplink.handed(MB)
    time.now += 1.0
    uplink.taken(MB)
    assert uplink.measure() == pytest.approx(MB)
    time.now += 1.0
    uplink.taken(4 * MB)
    assert uplink.measure() == pytest.approx(4 * MB)


def test_what_a_lost_peer_did_not_take_does_not_count(uplink: Uplink, time: Time) -> None:
    uplink.handed(MB)
    uplink.handed(9 * MB)
    time.now += 1.0
    uplink.taken(MB)
    uplink.dropped(9 * MB)
    time.now += 9.0
    assert uplink.measure() == pytest.approx(MB)


def test_the_most_of_the_latest_four_exchanges_counts(uplink: Uplink, time: Time) -> None:
    told = []
    for seconds in (0.5, 1.0, 0.25, 1.0, 1.0, 1.0, 1.0, 0.5):
        send(uplink, time, MB, seconds)
        told.append(uplink.measure() / MB)
        told.append(uplink.measure() / MB)  # nothing new
    assert told == pytest.approx([2, 2, 2, 2, 4, 4, 4, 4, 4, 4, 4, 4, 1, 1, 2, 2])
