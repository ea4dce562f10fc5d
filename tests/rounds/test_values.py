"""How the room trains: what the values say, and how they are changed while it does."""

from __future__ import annotations

from dataclasses import replace

import pytest

from desktop.rounds.actions import Finished, Note, Train
from desktop.rounds.messages import Announce, Applied, Commit, Outer, Plan, Ready, Share, Values, View
from tests.rounds.bench import (
    D0,
    D1,
    VALUES,
    Bench,
    all_of,
    finish_exchange,
    first_stamp,
    leader_in_exchange,
    leader_in_round,
    member_in_exchange,
    member_in_round,
    said_to,
    view,
)

OTHER = Values(rounds=9, local_steps=50, precision="int8", batch=8, lr=0.1, weighting="equal", outer=Outer("nesterov"),
               topology="star", late="carry")


def commit(leader: Bench, round_: int = 1) -> list[object]:
    """The exchange of a room of two ends; what the leader does then."""
    plan = leader.engine.member.exchange.plan  # type: ignore[union-attr]
    finish_exchange(leader, plan)
    return leader.hear("b", Applied(plan.stamp, D1))


@pytest.mark.parametrize(
    ("values", "samples", "steps"),
    [
        (Values(local_steps=7), 1000, 7),
        (Values(local_epochs=1, batch=32), 1000, 32),  # 31.25
        (Values(local_epochs=1, batch=32), 960, 30),
        (Values(local_epochs=0.5, batch=10), 100, 5),
        (Values(local_epochs=3, batch=1000), 10, 3),  # the batch is all of its data
        (Values(local_epochs=0.001, batch=32), 100, 1),
        (Values(local_epochs=1e300), 100, 100_000_000),
    ],
)
def test_local_steps_by_number_or_by_epochs(values: Values, samples: int, steps: int) -> None:
    assert values.sound
    assert values.steps(samples) == steps


@pytest.mark.parametrize(
    "wrong",
    [{"local_epochs": -1.0}, {"local_epochs": float("nan")}, {"local_epochs": float("inf")}, {"weighting": "rank"},
     {"late": "keep"},
     {"topology": "ring"},
     {"outer": Outer("adam")}, {"outer": Outer("momentum", 0.0)}, {"outer": Outer("momentum", float("nan"))},
     {"outer": Outer("nesterov", 0.7, 1.0)}, {"outer": Outer("nesterov", 0.7, -0.1)}, {"local_steps": 10**9}],
    ids=str,
)
def test_values_that_nobody_can_train_with(wrong: dict[str, object]) -> None:
    assert not Values(**wrong).sound  # type: ignore[arg-type]


def test_a_plan_with_an_impossible_outer_optimiser_is_not_sound() -> None:
    shares = (Share("a", 1.0),)
    assert Plan(first_stamp(1), shares, ("a",), "int8", Outer("nesterov")).sound
    assert not Plan(first_stamp(1), shares, ("a",), "int8", Outer("nesterov", -1.0)).sound


def test_changes_in_words() -> None:
    assert Values().changes(Values()) == ""
    assert Values().changes(OTHER) == (
        "50 local steps, outer optimiser nesterov 0.7, 0.9, members weigh alike, the leader adds up alone, "
        "late work is carried, precision int8, batch 8, learning rate 0.1, rounds 9"
    )
    assert OTHER.changes(Values(rounds=9, local_epochs=1.5, precision="int8", batch=8, lr=0.1)) == (
        "1.5 local epochs, outer optimiser none, members weigh by samples, all share the adding up, "
        "late work is dropped"
    )


@pytest.mark.parametrize(("weighting", "weights"), [("samples", (0.75, 0.25)), ("equal", (0.5, 0.5))])
def test_members_weigh_by_samples_or_alike_and_the_plan_says_how_the_mean_is_applied(
    weighting: str, weights: tuple[float, float]
) -> None:
    a, outer = leader_in_round("b"), Outer("nesterov", 0.5, 0.8)
    a.engine.room.values = Values(rounds=3, local_steps=4, precision="int8", weighting=weighting, outer=outer)
    a.trained(30)
    (plan,) = [said for said in said_to("b", a.hear("b", Ready(first_stamp(2), 10))) if isinstance(said, Plan)]
    assert tuple(share.weight for share in plan.shares) == weights
    assert (plan.precision, plan.outer) == ("int8", outer)


def test_a_change_counts_from_the_next_announcement_for_all() -> None:
    a = leader_in_exchange("b")
    assert a.engine.change(all_of(OTHER), a.now) == ""
    assert a.engine.room.values == VALUES  # the round in hand goes on as it was announced
    said = commit(a)
    assert Train(2, OTHER) in said
    assert [each.values for each in said_to("b", said) if isinstance(each, Announce)] == [OTHER]
    notes = [each.text for each in said if isinstance(each, Note)]
    assert notes == [f"From round 2 on: {VALUES.changes(OTHER)}."]


def test_an_edit_takes_none_back_that_was_made_before_it_and_not_seen_yet() -> None:
    """The window says one thing after the other, before it has seen what became of the first."""
    a = leader_in_exchange("b")
    assert a.engine.change({"precision": "int8"}, a.now) == ""
    assert a.engine.change({"outer": "nesterov"}, a.now) == ""
    assert a.engine.change({"outer_momentum": 0.5}, a.now) == ""
    assert a.engine.wanted == replace(VALUES, precision="int8", outer=Outer("nesterov", 0.7, 0.5))
    assert Train(2, a.engine.wanted) in commit(a)
    assert a.engine.change({"local_steps": 2}, a.now) == ""
    assert a.engine.wanted == replace(VALUES, precision="int8", outer=Outer("nesterov", 0.7, 0.5), local_steps=2)


def test_an_edit_that_cannot_be_takes_none_back_either() -> None:
    a = leader_in_exchange("b")
    assert a.engine.change({"precision": "int8"}, a.now) == ""
    assert a.engine.change({"rounds": 1}, a.now) != ""
    assert a.engine.wanted == replace(VALUES, precision="int8")


def test_of_two_changes_the_later_one_counts() -> None:
    a = leader_in_exchange("b")
    assert a.engine.change(all_of(OTHER), a.now) == a.engine.change(all_of(VALUES), a.now) == ""
    said = commit(a)
    assert Train(2, VALUES) in said
    assert not [each for each in said if isinstance(each, Note)]


def test_a_member_is_told_what_changed_but_not_what_was_so_when_it_came() -> None:
    b = Bench("b")
    b.connect("a")
    first = b.hear("a", Announce(view("ab"), 2, 1, D0, OTHER))
    assert [each.severity for each in first if isinstance(each, Note)] == ["info"]  # who leads
    said = b.hear("a", Announce(view("ab"), 3, 1, D0, VALUES))
    assert Note("info", f"From round 1 on: {OTHER.changes(VALUES)}.", "a") in said


def test_only_the_leader_changes_anything() -> None:
    b = member_in_round("b", "ab")
    assert b.engine.change(all_of(OTHER), b.now) == "A leads the rounds and decides this"
    assert Bench("c").engine.change(all_of(OTHER), 0.0) == "I am not in the room"


def test_what_cannot_be_done_any_more_is_said() -> None:
    a = leader_in_exchange("b")
    change = a.engine.change
    assert change({"rounds": 1}, a.now) == "round 1 is under way, so there must be more rounds"
    assert change({"precision": "f8"}, a.now) == "nobody can train with these values"
    a.engine.room.values = Values(rounds=1)
    assert change({"lr": 0.1}, a.now) == "the last round is under way"
    commit(a)
    assert change({"lr": 0.1}, a.now) == "the last round is done"


def test_the_leader_ends_training_early_for_all() -> None:
    a = leader_in_exchange("b")
    a.engine.room.values = Values(rounds=50)
    assert a.engine.end_early(a.now) == 2  # round 1 is under way
    said = commit(a)
    assert [each.values.rounds for each in said_to("b", said) if isinstance(each, Announce)] == [2]
    assert Note("info", "From round 2 on: rounds 2.", "a") in said
    assert a.engine.end_early(a.now) == 0  # it is the last


def test_what_was_to_change_still_does_when_training_ends_early() -> None:
    a = leader_in_exchange("b")
    a.engine.change(all_of(OTHER), a.now)
    assert a.engine.end_early(a.now) == 2
    assert Train(2, replace(OTHER, rounds=2)) in commit(a)


def test_nobody_else_ends_it_and_not_before_its_end() -> None:
    b = member_in_round("b", "ab")
    assert b.engine.end_early(b.now) == 0
    a = leader_in_exchange("b")
    a.engine.room.values = Values(rounds=2)
    assert a.engine.end_early(a.now) == 0  # the next round is the last anyway
    a.engine.leave(a.now)
    assert a.engine.end_early(a.now) == 0


def test_who_leads_no_more_drops_the_change_and_says_so() -> None:
    a = leader_in_exchange("b")
    a.engine.change(all_of(OTHER), a.now)
    a.engine.leader.ousted()
    assert any("goes on training as before" in each.text for each in a.engine.take() if isinstance(each, Note))
    assert View() != a.engine.room.view


def test_a_room_that_has_all_rounds_goes_on_when_its_leader_wants_more() -> None:
    a = leader_in_exchange("b")
    a.engine.room.values = replace(VALUES, rounds=1)
    assert Finished(1) in commit(a)
    more = replace(VALUES, rounds=3)
    assert a.engine.change({"rounds": 3}, a.now) == ""
    did = a.did()
    assert said_to("b", did) == [Announce(view("ab"), 4, 2, D1, more)]
    assert Train(2, more) in did
    assert a.status.phase == "training"


def test_a_member_that_has_all_rounds_goes_on_as_well() -> None:
    b, its = member_in_exchange("b", "ab", "ba")
    b.engine.room.values = replace(VALUES, rounds=1)
    finish_exchange(b, its)
    assert Finished(1) in b.hear("a", Commit(its.stamp, D1))
    more = replace(VALUES, rounds=2)
    assert Train(2, more) in b.hear("a", Announce(view("ab"), 9, 2, D1, more))
    b.trained(10, 2)
    second = replace(its, stamp=replace(its.stamp, round=2))
    b.hear("a", second)
    finish_exchange(b, second, "digest 2")
    assert Finished(2) in b.hear("a", Commit(second.stamp, "digest 2"))
    assert b.status.phase == "done"
