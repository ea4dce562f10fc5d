"""Who reduces how much: against shares computed by hand, and what must hold for whatever members say."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from desktop.rounds import shares
from desktop.rounds.messages import Plan, Ready, Values
from tests.rounds.bench import first_stamp, leader_in_round, said_to

SAID = st.dictionaries(st.sampled_from("abcdefghijklmnop"), st.one_of(
    st.floats(), st.floats(min_value=0, max_value=1e9), st.sampled_from([0.0, 1e6, 1.1e6])), min_size=1)


@pytest.mark.parametrize(
    ("rates", "members", "expected"),
    [
        ({"a": 5, "b": 5, "c": 5, "d": 5}, 4, {"a": 0.25, "b": 0.25, "c": 0.25, "d": 0.25}),
        # T (1 + 1 + 2) = 1 + 3, so T = 1: nothing is left for a and b, and c sends 1 + 1 at twice their speed.
        ({"a": 1, "b": 1, "c": 2}, 3, {"a": 0, "b": 0, "c": 1}),
        # d cannot send its own update while the others do all: T = (2 + 3) / 30 = 1/6, each (10/6 - 1) / 2.
        ({"a": 10, "b": 10, "c": 10, "d": 1}, 4, {"a": 1 / 3, "b": 1 / 3, "c": 1 / 3, "d": 0}),
        # T = (2 + 4) / 10 = 0.6: (1.8 - 1) / 2, (1.8 - 1) / 2, (1.2 - 1) / 2, (1.2 - 1) / 2
        ({"a": 3, "b": 3, "c": 2, "d": 2}, 4, {"a": 0.4, "b": 0.4, "c": 0.1, "d": 0.1}),
        # Four get results, two contribute: T = (2 + 2) / 6, a (4 * 4/6 - 1) / 2, b (2 * 4/6 - 1) / 2.
        ({"a": 4, "b": 2}, 4, {"a": 5 / 6, "b": 1 / 6}),
        ({"a": 9, "b": 1}, 2, {"a": 0.5, "b": 0.5}),  # each sends the model once in any case
        ({"a": 9}, 1, {"a": 1}),
    ],
)
def test_all_have_sent_everything_at_the_same_time(
    rates: dict[str, float], members: int, expected: dict[str, float]
) -> None:
    assert shares.shares(rates, members) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("said", "counted"),
    [
        ([0, 0, 0], [1, 1, 1]),
        ([4, 0, 4], [4, 4, 4]),
        ([4, float("nan"), -3, float("inf"), 1e13], [4, 4, 4, 4, 4]),
        ([10, 12, 9], [10, 10, 10]),  # a difference of a fifth says nothing
        ([10, 14, 5], [10, 14, 5]),
        ([2, 2, 2, 1000], [2, 2, 2, 16]),  # no claim counts more than eight times the median
    ],
)
def test_what_members_say_of_their_links_is_judged_by_what_the_others_say(
    said: list[float], counted: list[float]
) -> None:
    names = "abcdef"[: len(said)]
    assert shares.uplinks(dict(zip(names, said, strict=True))) == dict(zip(names, counted, strict=True))


def test_buckets_of_a_member_are_spread_evenly() -> None:
    assert "".join(shares.reducers({"a": 1 / 3, "b": 1 / 3, "c": 1 / 3}, 7, 1)) == "bcabcab"
    assert "".join(shares.reducers({"a": 0.5, "b": 0.25, "c": 0.25, "d": 0.0}, 8, 0)) == "abcaabca"


@given(SAID, st.integers(0, 8), st.integers(1, 200), st.integers(0, 10**6))
def test_every_bucket_has_one_reducer_whatever_members_say(
    said: dict[str, float], watchers: int, buckets: int, turn: int
) -> None:
    rates = shares.uplinks(said)
    parts = shares.shares(rates, len(said) + watchers)
    assert sum(parts.values()) == pytest.approx(1)
    assert min(parts.values()) >= 0
    chosen = shares.reducers(parts, buckets, turn)
    assert len(chosen) == buckets
    assert chosen == shares.reducers(parts, buckets, turn)
    given = Counter(chosen)
    for peer, part in parts.items():
        assert abs(given[peer] - part * buckets) < max(2, len(said) / 2)
        assert part > 0 or not given[peer]
    for faster in rates:
        assert all(parts[faster] >= parts[slower] for slower in rates if rates[slower] <= rates[faster])


def planned(uplinks: dict[str, float], topology: str = "butterfly") -> Plan:
    """The plan of a, whom the others told of their links."""
    bench = leader_in_round("bcd", buckets=12)
    bench.engine.room.values = Values(rounds=3, local_steps=4, topology=topology)
    bench.engine.room.uplink = uplinks["a"]
    bench.trained(10)
    actions = [action for peer in "bcd" for action in bench.hear(peer, Ready(first_stamp(4), 10, uplinks[peer]))]
    (plan,) = (message for message in said_to("b", actions) if isinstance(message, Plan))
    return plan


def test_who_has_a_tenth_of_the_uplink_reduces_nothing() -> None:
    assert Counter(planned({"a": 1e6, "b": 1e5, "c": 1e6, "d": 0.0}).reducers) == {"a": 4, "c": 4, "d": 4}


def test_in_a_star_the_leader_reduces_everything() -> None:
    plan = planned({"a": 1e5, "b": 1e6, "c": 1e6, "d": 1e6}, "star")
    assert plan.reducers == ("a",) * 12
    assert [share.peer for share in plan.shares] == ["a", "b", "c", "d"]
