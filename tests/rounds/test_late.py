"""What becomes of work that misses its round: it is left out, or carried into the member's next contribution."""

from __future__ import annotations

from dataclasses import replace

import pytest

from desktop.rounds.actions import ApplyResults, DropCarried, Finished, Note, StopTraining, Train
from desktop.rounds.messages import Announce, Commit, Plan, Refused, Result, TakeOver, Values, View
from tests.rounds.bench import D0, D1, SECOND_TERM, VALUES, Bench, finish_exchange, plan, view
from tests.rounds.bench import first_stamp as first
from tests.rounds.bench import member_in_round as in_round

CARRY = replace(VALUES, rounds=20, late="carry")


def announce(bench: Bench, round_: int, values: Values = CARRY) -> list[object]:
    digest = bench.engine.room.digest
    return list(bench.hear("a", Announce(view("abc"), 10 + round_, round_, digest, values)))


def planned(bench: Bench, round_: int, contributors: str = "ab", attempt: int = 0) -> tuple[Plan, list[object]]:
    stamp = replace(first(3, attempt), round=round_)
    its = plan(stamp, {peer: 1 / len(contributors) for peer in contributors}, "ab")
    return its, list(bench.hear("a", its))


def committed(bench: Bench, its: Plan) -> list[object]:
    """All results come in, and the leader says that the round counts."""
    if bench.engine.room.me in {share.peer for share in its.shares}:
        finish_exchange(bench, its, f"digest {its.stamp.round}")
    else:
        for bucket, reducer in enumerate(its.reducers):
            bench.hear(reducer, Result(its.stamp, bucket), "sum")
        bench.digested(its.stamp, f"digest {its.stamp.round}")
    return list(bench.hear("a", Commit(its.stamp, f"digest {its.stamp.round}")))


def work(actions: list[object]) -> list[str]:
    return [action.work for action in actions if isinstance(action, ApplyResults)]


def notes(actions: list[object]) -> list[str]:
    return [action.text for action in actions if isinstance(action, Note)]


def carrier(values: Values = CARRY) -> Bench:
    """c trains for round 1."""
    c = in_round("c", "abc")
    announce(c, 1, values)
    return c


def missing(c: Bench, round_: int) -> list[object]:
    """c still trains for this round when it goes on without it; what c does at the commit."""
    its, did = planned(c, round_)
    assert StopTraining(round_) in did
    return committed(c, its)


def test_work_that_the_plan_cut_short_is_carried_and_counts_with_the_next_contribution() -> None:
    c = carrier()
    did = missing(c, 1)
    assert work(did) == ["carried"]
    assert notes(did) == ["My work for round 1 was late; I carry it into my next contribution."]
    assert Train(2, CARRY) in announce(c, 2)
    c.trained(10, 2)
    did = committed(c, planned(c, 2, "abc")[0])
    assert work(did) == ["counted"]
    assert notes(did) == ["My work since round 1 that was late went into round 2."]
    announce(c, 3)
    c.trained(10, 3)
    assert work(committed(c, planned(c, 3, "abc")[0])) == [""]  # not once more


def test_finished_work_that_a_second_plan_leaves_out_is_carried() -> None:
    c = carrier()
    c.trained(10)
    planned(c, 1, "abc")
    its, _ = planned(c, 1, "ab", attempt=1)
    assert work(committed(c, its)) == ["carried"]


def test_an_exchange_that_begins_anew_with_me_counts_my_work_and_carries_nothing() -> None:
    c = carrier()
    c.trained(10)
    planned(c, 1, "abc")
    planned(c, 1, "ab", attempt=1)
    assert work(committed(c, planned(c, 1, "abc", attempt=2)[0])) == [""]


def test_what_is_dropped_is_said_to_be_left_out() -> None:
    c = carrier(replace(CARRY, late="drop"))
    its, did = planned(c, 1)
    assert notes(did) == ["My work for round 1 came too late and was left out."]
    did = committed(c, its)
    assert (work(did), notes(did)) == ([""], [])
    announce(c, 2, replace(CARRY, late="drop"))
    c.trained(10, 2)
    did = committed(c, planned(c, 2)[0])
    assert (work(did), notes(did)) == ([""], ["My work for round 2 was left out."])


def test_a_round_that_a_new_leader_announces_once_more_is_trained_anew_and_adds_nothing_to_itself() -> None:
    c = carrier()
    planned(c, 1)  # it cut my training short; then the leader dies
    c.lose("a")
    after = View(SECOND_TERM, 4, ("b", "c"))
    c.hear("b", TakeOver(after))
    assert Train(1, CARRY) in c.hear("b", Announce(after, 1, 1, D0, CARRY))
    c.trained(10)
    its = replace(plan(first(3), {"b": 0.5, "c": 0.5}, "bc"), stamp=replace(first(3), term=SECOND_TERM, view=4))
    c.hear("b", its)
    finish_exchange(c, its)
    assert work(list(c.hear("b", Commit(its.stamp, D1)))) == [""]


def test_work_that_a_commit_counted_after_all_is_not_carried() -> None:
    """The leader died after its commit reached the others but not me: I learn of it from the announcement."""
    c = carrier()
    c.trained(10)
    its, _ = planned(c, 1, "abc")
    finish_exchange(c, its)
    c.lose("a")
    after = View(SECOND_TERM, 4, ("b", "c"))
    c.hear("b", TakeOver(after))
    did = list(c.hear("b", Announce(after, 1, 2, D1, CARRY)))
    assert work(did) == [""]
    assert not notes([action for action in did if "carry" in str(action)])


def test_when_it_is_not_known_whether_it_counted_it_is_left_out_with_a_word() -> None:
    c = carrier()
    missing(c, 1)
    announce(c, 2)
    c.trained(10, 2)
    planned(c, 2, "abc")
    did = c.hear("a", Commit(replace(first(3, 7), round=2), "digest 2"))  # of an attempt that I never heard of
    assert DropCarried() in did
    assert notes(list(did))[:2] == [
        "My late work since round 1 is left out: I did not hear whether it counted.",
        "My work for round 2 is not carried on: I did not hear whether it counted.",
    ]


def test_weights_fetched_from_others_end_what_was_carried() -> None:
    c = carrier()
    missing(c, 1)
    did = c.hear("a", Announce(view("abc"), 90, 5, "digest 4", CARRY))
    assert "My late work since round 1 is left out: I did not hear whether it counted." in notes(list(did))
    assert DropCarried() in did


def test_it_is_carried_for_eight_rounds_and_not_longer() -> None:
    c = carrier()
    for round_ in range(1, 9):
        did = missing(c, round_)
        assert work(did) == ["carried"]
        assert DropCarried() not in did
        announce(c, round_ + 1)
    did = missing(c, 9)
    assert "My late work since round 1 is left out: it is too old." in notes(did)
    assert [type(action) for action in did if isinstance(action, DropCarried | ApplyResults)] == [
        DropCarried, ApplyResults]
    assert work(did) == ["carried"]  # what is new begins to be carried


def test_work_that_the_others_refused_is_not_carried() -> None:
    c = carrier()
    c.trained(10)
    its, _ = planned(c, 1, "abc")
    c.hear("a", Refused(its.stamp, "it holds numbers that are not finite"))
    assert work(committed(c, planned(c, 1, "ab", attempt=1)[0])) == [""]


def test_work_that_diverged_is_not_carried() -> None:
    c = carrier()
    c.trained(0)
    assert work(committed(c, planned(c, 1)[0])) == [""]


@pytest.mark.parametrize("why", ["dropped from now on", "I leave", "last round"])
def test_what_ends_carrying_is_said(why: str) -> None:
    c = carrier()
    missing(c, 1)
    if why == "I leave":
        c.engine.leave(c.now)
        did = list(c.did())
    elif why == "last round":
        announce(c, 2, replace(CARRY, rounds=2))
        did = missing(c, 2)
        assert did.index(DropCarried()) < did.index(Finished(2))
    else:
        did = announce(c, 2, replace(CARRY, late="drop"))
    assert DropCarried() in did
    assert any(why in text for text in notes(did))
