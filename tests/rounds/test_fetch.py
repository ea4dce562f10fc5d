"""Getting the weights bucket by bucket: from whom, how patiently, and what is not believed."""

from __future__ import annotations

import pytest

from desktop.rounds.actions import Action, DigestBase, Restore, Send
from desktop.rounds.fetch import PATIENCE_S, WINDOW, Fetch
from desktop.rounds.messages import PeerId, SnapshotBucket, SnapshotRequest, View
from desktop.rounds.policy import RoomPolicy
from desktop.rounds.room import NEVER, Room


def room(buckets: int, others: str = "ab", round_: int = 3, whole: str = "") -> Room:
    """Mine is "me"; nothing of the weights of `round_` is here."""
    return Room("me", RoomPolicy(), buckets, View(1, 1, (*others, "me")), set(others), round=round_, digest="d3",
                versions=[NEVER] * buckets, whole_peers=frozenset(whole))


def take(room: Room) -> list[Action]:
    actions, room.outbox = room.outbox, []
    return actions


def requests(room: Room) -> dict[PeerId, tuple[int, ...]]:
    sends = [action for action in take(room) if isinstance(action, Send)]
    return {send.to: send.message.buckets for send in sends if isinstance(send.message, SnapshotRequest)}


def test_the_buckets_are_shared_out_among_all_that_hold_the_weights() -> None:
    mine = room(6, "abc", whole="bc")
    Fetch(mine).work()
    assert requests(mine) == {"b": (0, 2, 4), "c": (1, 3, 5)}


def test_as_long_as_nobody_is_known_to_hold_them_the_leader_is_asked() -> None:
    mine = room(2, "abc")
    Fetch(mine).work()
    assert requests(mine) == {"a": (0, 1)}


def test_without_a_link_to_the_leader_anyone_is_asked() -> None:
    mine = room(2, "abc")
    mine.connected.discard("a")
    Fetch(mine).work()
    assert requests(mine) == {"b": (0,), "c": (1,)}


def test_only_a_window_is_asked_for_at_once_and_moves_on_as_buckets_come() -> None:
    mine = room(2 * WINDOW, "a")
    fetch = Fetch(mine)
    fetch.work()
    assert requests(mine) == {"a": tuple(range(WINDOW))}
    fetch.work()
    assert requests(mine) == {}  # nothing is asked for twice
    fetch.arrived("a", SnapshotBucket(3, 0), "numbers")
    assert take(mine) == [Restore(0, "a", "numbers", 3), Send("a", SnapshotRequest((WINDOW,)))]


def test_when_the_last_bucket_is_here_the_digest_is_asked_for_once() -> None:
    mine = room(2, "a")
    fetch = Fetch(mine)
    fetch.work()
    fetch.arrived("a", SnapshotBucket(3, 0), "")
    take(mine)
    fetch.arrived("a", SnapshotBucket(3, 1), "")
    assert take(mine) == [Restore(1, "a", "", 3), DigestBase(3)]
    fetch.work()
    assert take(mine) == []


def test_a_source_that_sends_nothing_is_given_up_for_another() -> None:
    mine = room(1, "ab", whole="ab")
    fetch = Fetch(mine)
    fetch.work()
    assert requests(mine) == {"a": (0,)}
    mine.now = PATIENCE_S
    fetch.work()
    assert requests(mine) == {}
    mine.now = PATIENCE_S + 0.1
    fetch.work()
    assert requests(mine) == {"b": (0,)}
    fetch.arrived("x", SnapshotBucket(3, 0), "not asked")
    assert take(mine) == []
    fetch.arrived("a", SnapshotBucket(3, 0), "late, but what was asked for")
    assert [type(action) for action in take(mine)] == [Restore, DigestBase]


def test_a_slow_source_is_given_twice_as_long_each_time() -> None:
    """Asking it again and again would only make it slower."""
    mine = room(1, "a")
    fetch = Fetch(mine)
    asked = []
    while mine.now < 100.0:
        fetch.work()
        asked += [mine.now] * len(requests(mine))
        mine.now += 0.5
    assert asked == pytest.approx([0.0, 5.0, 15.0, 35.0, 75.0], abs=2.5)


def test_the_only_source_is_asked_again() -> None:
    mine = room(1, "a")
    fetch = Fetch(mine)
    fetch.work()
    take(mine)
    mine.now = PATIENCE_S + 0.1
    fetch.work()
    assert requests(mine) == {"a": (0,)}


def test_a_source_that_still_moves_is_never_late() -> None:
    mine = room(3, "ab", whole="a")
    fetch = Fetch(mine)
    fetch.work()
    assert requests(mine) == {"a": (0, 1, 2)}
    mine.whole_peers = frozenset("ab")
    for bucket, now in ((0, 4.0), (1, 8.0)):
        mine.now = now
        fetch.arrived("a", SnapshotBucket(3, bucket), "")
        take(mine)
    mine.now = 12.0
    fetch.work()
    assert requests(mine) == {}


def test_a_source_that_is_lost_is_replaced_at_once() -> None:
    mine = room(2, "ab", whole="ab")
    fetch = Fetch(mine)
    fetch.work()
    take(mine)
    mine.connected.discard("a")
    fetch.work()
    assert requests(mine) == {"b": (0,)}


def test_what_was_not_asked_of_this_peer_is_dropped() -> None:
    mine = room(2, "ab", whole="ab")
    fetch = Fetch(mine)
    fetch.work()
    take(mine)
    fetch.arrived("b", SnapshotBucket(3, 0), "")  # bucket 0 was asked of a
    assert take(mine) == []
    assert mine.versions == [NEVER, NEVER]


def test_a_bucket_of_an_older_round_is_kept_but_asked_for_again() -> None:
    """At once, since a round may have been committed while it came; when that is no newer, after a while."""
    mine = room(1, "a")
    fetch = Fetch(mine)
    fetch.work()
    take(mine)
    fetch.arrived("a", SnapshotBucket(2, 0), "old")
    assert take(mine) == [Restore(0, "a", "old", 2), Send("a", SnapshotRequest((0,)))]
    assert mine.versions == [2]
    fetch.arrived("a", SnapshotBucket(2, 0), "old")
    assert take(mine) == []
    mine.now = PATIENCE_S + 0.1
    fetch.work()
    assert requests(mine) == {"a": (0,)}


def test_a_wrong_digest_has_everything_fetched_again() -> None:
    mine = room(2, "a")
    mine.versions = [3, 3]
    fetch = Fetch(mine)
    fetch.work()
    assert take(mine) == [DigestBase(3)]
    fetch.checked()
    fetch.again()
    fetch.work()
    assert requests(mine) == {"a": (0, 1)}


def test_a_bucket_that_could_not_be_used_is_fetched_again_alone() -> None:
    mine = room(2, "a")
    mine.versions = [3, 3]
    fetch = Fetch(mine)
    fetch.again(1)
    fetch.work()
    assert requests(mine) == {"a": (1,)}
