"""One attempt of a butterfly exchange: what is owed, what is here, what is taken and what is not."""

from __future__ import annotations

from desktop.rounds.exchange import Exchange
from desktop.rounds.messages import Plan, Share, Stamp

STAMP = Stamp(1, 1, 1)
MEMBERS = ("a", "b", "c")


def plan(reducers: str, contributors: str = "abc") -> Plan:
    shares = tuple(Share(peer, 1 / len(contributors)) for peer in contributors)
    return Plan(STAMP, shares, tuple(reducers), "f32")


def test_every_contributor_owes_each_bucket_of_the_others_to_its_reducer() -> None:
    exchange = Exchange("a", plan("abcabc"), MEMBERS)
    assert sorted(exchange.outgoing()) == [(1, "b"), (2, "c"), (4, "b"), (5, "c")]


def test_contributors_begin_at_different_reducers_and_send_the_same_buckets_at_the_same_time() -> None:
    orders = {me: Exchange(me, plan("abcabc"), MEMBERS).outgoing() for me in MEMBERS}
    assert orders["a"] == [(1, "b"), (2, "c"), (4, "b"), (5, "c")]
    assert orders["b"] == [(2, "c"), (0, "a"), (5, "c"), (3, "a")]
    assert orders["c"] == [(0, "a"), (1, "b"), (3, "a"), (4, "b")]


def test_a_reducer_that_does_not_contribute_gets_its_buckets_in_the_same_order_from_all() -> None:
    orders = [Exchange(me, plan("caca", "ab"), MEMBERS).outgoing() for me in "ab"]
    assert orders[0] == [(0, "c"), (2, "c")]
    assert [owed for owed in orders[1] if owed[1] == "c"] == [(0, "c"), (2, "c")]


def test_one_that_does_not_contribute_owes_nothing_and_waits_for_the_results() -> None:
    watching = Exchange("c", plan("ab", "ab"), MEMBERS)
    assert not watching.contributes
    assert watching.outgoing() == []
    assert watching.lacking() == ("a", "b")
    assert watching.take_result("a", 0) == ""
    assert watching.take_result("b", 1) == ""
    assert watching.complete


def test_a_bucket_can_be_reduced_once_as_soon_as_all_contributions_are_here() -> None:
    exchange = Exchange("a", plan("aab"), MEMBERS)
    assert exchange.reducible() == []
    assert exchange.take_contribution("b", 1) == ""
    assert exchange.reducible() == []
    assert exchange.take_contribution("c", 1) == ""
    assert exchange.reducible() == [1]
    assert exchange.reducible() == []


def test_alone_i_can_reduce_everything_at_once() -> None:
    exchange = Exchange("a", plan("aaa", "a"), ("a",))
    assert exchange.outgoing() == []
    assert exchange.reducible() == [0, 1, 2]


def test_a_reducer_that_does_not_contribute_waits_for_all_contributors() -> None:
    exchange = Exchange("c", plan("c", "ab"), MEMBERS)
    exchange.take_contribution("a", 0)
    assert exchange.reducible() == []
    exchange.take_contribution("b", 0)
    assert exchange.reducible() == [0]


def test_a_contribution_that_comes_twice_counts_once() -> None:
    exchange = Exchange("a", plan("a"), MEMBERS)
    assert exchange.take_contribution("b", 0) == ""
    assert exchange.take_contribution("b", 0) == "it came twice"
    assert exchange.take_contribution("a", 0) == "it came twice"  # my own is here from the start
    assert exchange.reducible() == []
    assert exchange.moved == 1


def test_what_is_out_of_turn_is_not_taken() -> None:
    exchange = Exchange("a", plan("ab", "ab"), MEMBERS)
    assert "not mine to reduce" in exchange.take_contribution("b", 1)
    assert "not mine to reduce" in exchange.take_contribution("b", 7)
    assert "not mine to reduce" in exchange.take_contribution("b", -1)
    assert "not a contributor" in exchange.take_contribution("c", 0)
    assert "not reduced by this member" in exchange.take_result("c", 1)
    assert "not reduced by this member" in exchange.take_result("b", 0)
    assert "not reduced by this member" in exchange.take_result("b", 2)
    assert "not reduced by this member" in exchange.take_result("b", -1)
    assert exchange.moved == 0


def test_a_result_that_comes_twice_counts_once() -> None:
    exchange = Exchange("a", plan("ab", "ab"), MEMBERS)
    assert exchange.take_result("b", 1) == ""
    assert exchange.take_result("b", 1) == "it came twice"
    assert exchange.results == {1}
    assert not exchange.complete


def test_lacking_names_who_has_not_sent_what_i_need() -> None:
    exchange = Exchange("a", plan("abc"), MEMBERS)
    assert exchange.lacking() == ("b", "c")
    exchange.take_contribution("c", 0)
    exchange.take_result("c", 2)
    assert exchange.lacking() == ("b",)  # its contribution to bucket 0, and its result of bucket 1
    exchange.take_result("b", 1)
    assert exchange.lacking() == ("b",)
    exchange.take_contribution("b", 0)
    assert exchange.reducible() == [0]
    assert exchange.lacking() == ()
    assert not exchange.complete
    assert exchange.take_result("a", 0) == ""
    assert exchange.complete
