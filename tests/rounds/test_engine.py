"""The round engine, told one thing at a time: the exact list of what it asks for."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from desktop.rounds.actions import (
    Action,
    ApplyResults,
    BeginExchange,
    Contribute,
    DigestBase,
    DigestResults,
    Finished,
    Keep,
    KeepResult,
    Note,
    Reduce,
    Restore,
    Send,
    SendSnapshot,
    StopTraining,
    Train,
    Validate,
)
from desktop.rounds.leader import next_term
from desktop.rounds.messages import (
    Announce,
    Applied,
    Beat,
    Commit,
    Complaint,
    Contribution,
    Hello,
    Join,
    Leave,
    Metrics,
    Pause,
    Ready,
    Refused,
    Result,
    RoundMessage,
    Seat,
    SnapshotBucket,
    SnapshotRequest,
    StaleView,
    Stamp,
    Standing,
    TakeOver,
    Values,
    View,
)
from tests.rounds.bench import (
    D0,
    D1,
    SECOND_TERM,
    VALUES,
    Bench,
    finish_exchange,
    first_stamp,
    leader_in_exchange,
    leader_in_round,
    member_in_exchange,
    member_in_round,
    plan,
    said_to,
    view,
)

TWO, THREE = first_stamp(2), first_stamp(3)


# -- a room of two, from its founding to its last round --------------------------------------------------


def test_the_leader_of_two_from_the_founding_to_the_second_round() -> None:
    a = Bench("a", founder=True)
    assert a.first == []
    assert (a.status.missing, a.status.leading, a.status.inside) == (1, True, True)

    assert a.connect("b") == [Send("b", Hello(view("a"), 0))]
    assert a.hear("b", Hello(View(), 0)) == []
    assert a.hear("b", Join(0, D0, ("a",))) == [Send("b", Announce(view("ab"), 2, 1, D0, VALUES)), Train(1, VALUES)]
    assert (a.status.missing, a.status.phase) == (0, "training")

    assert a.trained(30) == []
    assert a.status.waiting_on == ("b",)
    its = plan(TWO, {"a": 0.75, "b": 0.25}, "ba")
    assert a.hear("b", Ready(TWO, 10)) == [Send("b", its), BeginExchange(its), Contribute(TWO, 0, "b", "f32")]

    assert a.hear("b", Contribution(TWO, 1), "numbers") == [
        Keep(TWO, 1, "b", "numbers"), Reduce(TWO, 1, (("a", 0.75), ("b", 0.25)), ("b",), "f32")
    ]
    assert a.reduced(TWO, 1) == []
    assert a.hear("b", Result(TWO, 0), "sum") == [KeepResult(TWO, 0, "b", "sum"), DigestResults(TWO)]
    assert a.digested(TWO, D1) == []
    assert a.status.waiting_on == ("b",)

    assert a.hear("b", Applied(TWO, D1)) == [
        Send("b", Commit(TWO, D1)), ApplyResults(1, (0, 1)), Validate(1),
        Send("b", Announce(view("ab"), 3, 2, D1, VALUES)), Train(2, VALUES),
    ]
    assert (a.status.round, a.status.digest) == (1, D1)


def test_the_other_member_of_two_through_the_same() -> None:
    b = Bench("b")
    assert b.first == []
    assert not b.status.inside
    assert b.connect("a") == [Send("a", Hello(View(), 0))]
    assert b.hear("a", Hello(view("a"), 0)) == [Send("a", Join(0, D0, ("a",)))]
    assert b.hear("a", Announce(view("ab"), 2, 1, D0, VALUES)) == [
        Note("info", "A leads the rounds.", "a"), Train(1, VALUES)
    ]
    assert b.trained(10) == [Send("a", Ready(TWO, 10))]

    its = plan(TWO, {"a": 0.75, "b": 0.25}, "ba")
    assert b.hear("a", its) == [BeginExchange(its), Contribute(TWO, 1, "a", "f32")]
    assert b.hear("a", Contribution(TWO, 0), "numbers") == [
        Keep(TWO, 0, "a", "numbers"), Reduce(TWO, 0, (("a", 0.75), ("b", 0.25)), ("a",), "f32")
    ]
    assert b.reduced(TWO, 0) == []
    assert b.hear("a", Result(TWO, 1), "sum") == [KeepResult(TWO, 1, "a", "sum"), DigestResults(TWO)]
    assert b.digested(TWO, D1) == [Send("a", Applied(TWO, D1))]
    assert b.hear("a", Commit(TWO, D1)) == [ApplyResults(1, (0, 1)), Validate(1)]
    assert b.hear("a", Announce(view("ab"), 3, 2, D1, VALUES)) == [Train(2, VALUES)]


def test_after_the_last_round_it_is_finished_and_serves_the_weights_on() -> None:
    b, its = member_in_exchange("b", "ab", "ba")
    b.engine.room.values = Values(rounds=1)
    finish_exchange(b, its)
    assert b.hear("a", Commit(TWO, D1)) == [ApplyResults(1, (0, 1)), Validate(1), Finished(1)]
    assert b.status.phase == "done"
    assert b.hear("a", SnapshotRequest((1,))) == [SendSnapshot("a", 1, 1)]


def test_alone_nobody_is_asked_for_anything() -> None:
    a = Bench("a", founder=True, buckets=1, start=1, least=1)
    assert a.first == [Train(1, VALUES)]
    its = plan(Stamp(1, 1, 1), {"a": 1.0}, "a")
    assert a.trained(10) == [BeginExchange(its), Reduce(its.stamp, 0, (("a", 1.0),), (), "f32")]
    assert a.reduced(its.stamp, 0) == [DigestResults(its.stamp)]
    assert a.digested(its.stamp, D1) == [ApplyResults(1, (0,)), Validate(1), Train(2, VALUES)]


def test_values_that_the_leader_changes_count_from_the_next_announcement() -> None:
    b, its = member_in_exchange("b", "ab", "ba")
    finish_exchange(b, its)
    b.hear("a", Commit(TWO, D1))
    faster = Values(rounds=9, local_steps=50, precision="f16", batch=8, lr=0.1)
    assert b.hear("a", Announce(view("ab"), 3, 2, D1, faster)) == [
        Note("info", f"From round 2 on: {VALUES.changes(faster)}.", "a"), Train(2, faster)
    ]


# -- order of arrival ------------------------------------------------------------------------------------


def test_contributions_that_come_before_the_plan_wait_for_it() -> None:
    b = member_in_round("b", "abc", buckets=3)
    b.trained(10)
    assert b.hear("c", Contribution(THREE, 0), "from c") == []
    assert b.hear("c", Result(THREE, 1), "sum of c") == []
    its = plan(THREE, {"a": 0.5, "b": 0.25, "c": 0.25}, "bca")
    assert b.hear("a", its) == [
        BeginExchange(its), Contribute(THREE, 1, "c", "f32"), Contribute(THREE, 2, "a", "f32"),
        Keep(THREE, 0, "c", "from c"), KeepResult(THREE, 1, "c", "sum of c"),
    ]
    assert b.hear("a", Contribution(THREE, 0), "from a") == [
        Keep(THREE, 0, "a", "from a"),
        Reduce(THREE, 0, (("a", 0.5), ("b", 0.25), ("c", 0.25)), ("a", "c"), "f32"),
    ]


def test_of_what_comes_early_one_per_peer_and_bucket_is_held() -> None:
    b = member_in_round("b", "ab")
    for attempt in range(100):
        b.hear("a", Contribution(first_stamp(2, attempt), 0), f"attempt {attempt}")
        b.hear("a", Contribution(Stamp(40, 1, 2), 1), "of a round far ahead")
        b.hear("a", Contribution(TWO, 99), "of no bucket")
    b.hear("a", Contribution(TWO, 0), "an old one, delivered once more")
    assert b.engine.member.early == 1
    its = plan(first_stamp(2, 99), {"a": 0.5, "b": 0.5}, "ba")
    assert Keep(its.stamp, 0, "a", "attempt 99") in b.hear("a", its)


def test_of_what_comes_early_most_is_dropped_of_who_sends_most() -> None:
    b = member_in_round("b", "abc", buckets=9)
    b.hear("a", Contribution(THREE, 0), "of a")
    for bucket in range(9):
        for kind in (Contribution, Result):
            b.hear("c", kind(THREE, bucket), "of c")
        for number in range(9):
            b.hear(f"guest {number}", Contribution(THREE, bucket), "of a guest")
    assert b.engine.member.early <= 2 * (9 + 3)
    did = b.hear("a", plan(THREE, {"a": 0.5, "b": 0.5}, "bbbbbbbbb"))
    assert Keep(THREE, 0, "a", "of a") in did


def test_a_later_round_that_nobody_holds_is_forgotten_when_the_leader_goes_on_from_an_earlier_one() -> None:
    b = member_in_round("b", "abc")
    b.hear("a", Pause(view("abc"), 9, 5, D1, 0, VALUES))
    assert (b.engine.room.round, b.engine.member.phase) == (5, "syncing")
    did = b.hear("a", Announce(view("abc"), 10, 1, D0, VALUES))
    assert DigestBase(0) in did  # it holds that round: nothing is fetched, all is checked
    b.engine.base_digested(0, D0, b.now)
    assert Train(1, VALUES) in b.did()


def test_who_finds_all_rounds_done_learns_how_many_there_were() -> None:
    b = Bench("b")
    b.connect("a")
    b.hear("a", Hello(view("a"), 3))
    b.hear("a", Pause(view("ab"), 2, 3, D1, 0, replace(VALUES, rounds=3)))
    for bucket in range(2):
        b.hear("a", SnapshotBucket(3, bucket), "weights")
    b.engine.base_digested(3, D1, b.now)
    assert Finished(3) in b.did()


def test_a_message_that_comes_twice_changes_nothing() -> None:
    b, its = member_in_exchange("b", "ab", "ba")
    assert b.hear("a", Announce(view("ab"), 2, 1, D0, VALUES)) == []
    assert b.hear("a", its) == []
    b.hear("a", Contribution(TWO, 0), "numbers")
    assert b.hear("a", Contribution(TWO, 0), "numbers") == [
        Note("care", "Dropped a message of A: it came twice.", "a")
    ]
    b.reduced(TWO, 0)
    assert b.reduced(TWO, 0) == []
    b.hear("a", Result(TWO, 1), "sum")
    b.digested(TWO, D1)
    assert b.hear("a", Result(TWO, 1), "sum") == [Note("care", "Dropped a message of A: it came twice.", "a")]
    b.hear("a", Commit(TWO, D1))
    assert b.hear("a", Commit(TWO, D1)) == []
    assert b.hear("a", its) == []


def test_the_leader_counts_a_ready_and_an_applied_once() -> None:
    a = leader_in_round("bc", buckets=3)
    a.trained(10)
    assert a.hear("b", Ready(THREE, 10)) == []
    assert a.hear("b", Ready(THREE, 10_000)) == []
    its = plan(THREE, {"a": 10 / 40, "b": 10 / 40, "c": 20 / 40}, "bca")
    assert a.hear("c", Ready(THREE, 20))[0] == Send("b", its)
    a.hear("b", Applied(THREE, D1))
    a.hear("b", Applied(THREE, D1))
    assert a.status.waiting_on == ("a", "c")


@pytest.mark.parametrize(
    "stale",
    [
        Contribution(Stamp(0, 1, 2), 0), Contribution(Stamp(1, 1, 1), 0), Contribution(Stamp(1, 0, 2), 0),
        Result(Stamp(1, 1, 1), 1), Commit(Stamp(1, 1, 1), D1), Commit(Stamp(2, 1, 2), D1),
        Announce(view("ab", 2), 1, 1, D0, VALUES), Pause(view("ab", 2), 1, 0, D0, 0, VALUES),
        Ready(TWO, 5), Applied(TWO, D1), Complaint(TWO, "b", "?"), Standing(1, 4, D1, True), Join(0, D0, ()),
        SnapshotBucket(0, 0), SnapshotRequest((7, -1)), Beat(1, 1, 0, "x"), Metrics(7, 1.0, 1.0, 1),
    ],
    ids=repr,
)
def test_what_is_stale_or_not_meant_for_a_member_leads_to_nothing(stale: RoundMessage) -> None:
    b, _ = member_in_exchange("b", "ab", "ba")
    assert b.hear("a", stale, "payload") == []
    assert b.status.phase == "exchanging"


def test_who_speaks_for_a_view_that_was_replaced_is_told_so() -> None:
    c = member_in_round("c", "abc")
    newer = View(SECOND_TERM, 4, ("b", "c"))
    c.lose("a")
    c.hear("b", TakeOver(newer))
    c.connect("a")
    assert c.hear("a", Announce(view("abc"), 9, 1, D0, VALUES)) == [Send("a", StaleView(newer))]


def test_only_the_leader_is_followed() -> None:
    c = member_in_round("c", "abc", buckets=3)
    c.trained(10)
    assert c.hear("b", plan(THREE, {"b": 1.0}, "bbb")) == []
    assert c.hear("b", Commit(THREE, D1)) == []
    assert c.hear("b", Announce(view("abc"), 9, 1, D0, VALUES)) == []


# -- who is late, lost or leaves ---------------------------------------------------------------------------


def test_after_the_deadline_the_round_goes_on_without_the_late_one() -> None:
    a = leader_in_round("bc", buckets=3)
    a.trained(10)
    a.hear("b", Ready(THREE, 10))
    for _ in range(6):
        for peer in "bc":
            a.hear(peer, Beat(1, 3, 0, "training"))
        assert a.wait(9.9) == []  # 59.4 s of the 60 that the first round has
    a.hear("c", Beat(1, 3, 0, "training"))
    its = plan(THREE, {"a": 0.5, "b": 0.5}, "bab")
    assert a.wait(0.7) == [
        Note("care", "Round 1 goes on without C.", "c"), Send("b", its), Send("c", its), BeginExchange(its),
        Contribute(THREE, 0, "b", "f32"), Contribute(THREE, 2, "b", "f32"),
    ]
    assert a.hear("c", Ready(THREE, 10)) == []  # too late for this round


def test_a_late_member_drops_its_work_says_so_and_takes_the_results() -> None:
    c = member_in_round("c", "abc", buckets=2)
    its = plan(THREE, {"a": 0.5, "b": 0.5}, "ba")
    assert c.hear("a", its) == [
        StopTraining(1), Note("care", "My work for round 1 came too late and was left out.", "c"), BeginExchange(its)
    ]
    assert c.trained(10) == []
    assert c.hear("b", Result(THREE, 0), "sum") == [KeepResult(THREE, 0, "b", "sum")]
    assert c.hear("a", Result(THREE, 1), "sum") == [KeepResult(THREE, 1, "a", "sum"), DigestResults(THREE)]
    assert c.digested(THREE, D1) == [Send("a", Applied(THREE, D1))]
    assert c.hear("a", Commit(THREE, D1)) == [ApplyResults(1, (0, 1)), Validate(1)]


def beats(bench: Bench, peers: str, seconds: float, phase: str = "training") -> list[Action]:
    """Time passes while these members say that they are alive."""
    view = bench.engine.room.view
    did: list[Action] = []
    for _ in range(int(seconds)):
        for peer in peers:
            did += bench.hear(peer, Beat(view.term, view.number, bench.engine.room.round, phase))
        did += bench.wait(1.0)
    return did


def test_a_round_waits_for_its_quorum_until_the_deadline_and_not_longer() -> None:
    a = leader_in_round("bcd")
    a.trained(10)
    a.hear("b", Ready(first_stamp(4), 10))
    assert beats(a, "bcd", 59.0) == []
    assert (a.status.quorum, a.status.waiting_on) == (3, ("c", "d"))
    did = beats(a, "bcd", 2.0)
    for peer, name in (("c", "C"), ("d", "D")):
        assert Note("care", f"Round 1 goes on without {name}.", peer) in did
        assert Note("care", f"{name} was not ready within 60 s and is set aside; it takes part again when it is ready "
                            "in time.", peer) in did
    assert plan(first_stamp(4), {"a": 0.5, "b": 0.5}, "ba") in said_to("c", did)
    assert [seat.phase for seat in a.status.roster] == ["exchanging", "training", "aside", "aside"]


def test_in_a_room_of_two_one_that_is_never_ready_is_waited_for_in_a_pause_that_says_so() -> None:
    a = leader_in_round("b")
    a.trained(10)
    assert beats(a, "b", 59.0) == []
    did = beats(a, "b", 2.0)
    assert said_to("b", did) == [Pause(view("ab"), 3, 0, D0, 1, VALUES)]
    assert (a.status.missing, a.status.waiting_on, a.status.phase) == (1, ("b",), "ready")

    did = a.hear("b", Ready(TWO, 30))  # it came after all
    assert said_to("b", did) == [Announce(view("ab"), 4, 1, D0, VALUES)]
    did = a.hear("b", Ready(TWO, 30))
    assert said_to("b", did) == [plan(TWO, {"a": 0.25, "b": 0.75}, "ba")]


def test_one_that_is_set_aside_gets_another_try_after_a_while_each_time_a_longer_one() -> None:
    a = leader_in_round("b")
    a.trained(10)
    held, waits = [], []
    for _ in range(3):
        began = a.now
        while not a.status.missing:
            beats(a, "b", 1.0)
        held.append(a.now - began)
        while a.status.missing:
            beats(a, "b", 1.0)
        waits.append(a.now - began - held[-1])
    assert held == pytest.approx([60.0, 10.0, 10.0], abs=2.0)  # the first deadline; then 10, since a is ready at once
    assert waits == pytest.approx([120.0, 40.0, 80.0], abs=2.0)


def test_nobody_is_late_while_nobody_is_ready() -> None:
    a = leader_in_round("b")
    assert beats(a, "b", 300.0) == []
    a.trained(10)
    assert beats(a, "b", 290.0) == []  # as long again as the first one took
    assert said_to("b", beats(a, "b", 12.0)) == [Pause(view("ab"), 3, 0, D0, 1, VALUES)]


def test_one_that_is_ready_and_then_sends_nothing_is_planned_without_within_the_deadline() -> None:
    a = leader_in_exchange("bc", buckets=3)
    stamp = first_stamp(3)
    a.hear("b", Contribution(stamp, 2), "numbers")
    for peer, lacks in (("b", ("c",)), ("c", ("a", "b"))):  # c has nothing to say for itself
        a.hear(peer, Beat(1, 3, 0, "exchanging", 1, lacks))
    did: list[Action] = []
    while not did:
        for peer, lacks in (("b", ("c",)), ("c", ("a", "b"))):
            did += a.hear(peer, Beat(1, 3, 0, "exchanging", 1, lacks))
        did += a.wait(1.0)
    assert a.now == pytest.approx(60.0, abs=2.0)
    assert plan(first_stamp(3, 1), {"a": 0.5, "b": 0.5}, "bab") in said_to("b", did)


def test_when_half_of_all_have_everything_one_that_stands_still_is_left_behind() -> None:
    a = leader_in_exchange("bcd", buckets=1)
    stamp = first_stamp(4)
    a.hear("b", Result(stamp, 0), "sum")
    a.digested(stamp, D1)
    a.hear("b", Applied(stamp, D1))
    a.hear("c", Applied(stamp, D1))
    did = beats(a, "bcd", 62.0, "exchanging")
    assert Note("care", "D did not get all results in time.", "d") in did
    assert said_to("d", did)[0] == Commit(stamp, D1)


def test_when_a_contributor_is_lost_the_exchange_begins_anew_without_it() -> None:
    a = leader_in_exchange("bc", buckets=2)
    again = plan(first_stamp(3, 1), {"a": 0.5, "b": 0.5}, "ba")
    assert a.lose("c") == [
        Note("care", "Round 1: the exchange begins anew, C is gone."), Send("b", again), BeginExchange(again),
        Contribute(again.stamp, 0, "b", "f32"),
    ]
    assert a.hear("b", Contribution(THREE, 1), "of the first attempt") == []


def test_a_member_that_misses_a_lost_one_tells_the_leader() -> None:
    b, its = member_in_exchange("b", "abc", "bca")
    assert b.lose("c") == [Send("a", Complaint(its.stamp, "c", "lost"))]


def test_too_few_members_pause_and_go_on_by_themselves() -> None:
    a = leader_in_round("b")
    assert a.lose("b") == []
    assert (a.status.missing, a.status.view) == (1, view("a", 3))
    assert a.trained(10) == []  # its work is kept

    assert a.connect("b") == [Send("b", Hello(view("a", 3), 0))]
    assert a.hear("b", Join(0, D0, ("a",))) == [Send("b", Announce(view("ab", 4), 4, 1, D0, VALUES))]
    assert (a.status.missing, a.status.phase) == (0, "ready")
    stamp = Stamp(1, 1, 4)
    its = plan(stamp, {"a": 0.5, "b": 0.5}, "ba")
    assert a.hear("b", Ready(stamp, 10)) == [Send("b", its), BeginExchange(its), Contribute(stamp, 0, "b", "f32")]


def test_a_paused_member_says_how_many_are_missing_and_keeps_its_work() -> None:
    b, _ = member_in_exchange("b", "abc", "bc", least=3)
    assert b.hear("a", Pause(view("ab", 4), 4, 0, D0, 1, VALUES)) == [Note("info", "C takes part no more.", "c")]
    assert (b.status.missing, b.status.phase) == (1, "idle")
    assert b.hear("a", Announce(view("abc", 5), 5, 1, D0, VALUES)) == [Send("a", Ready(Stamp(1, 1, 5), 10))]
    assert b.status.missing == 0


def test_leave_says_good_bye_and_nothing_is_heard_any_more() -> None:
    b = member_in_round("b", "abc")
    b.engine.leave(b.now)
    assert b.did() == [Send("a", Leave()), Send("c", Leave()), StopTraining(1)]
    assert b.engine.has_left
    assert b.hear("a", Announce(view("abc"), 9, 1, D0, VALUES)) == []
    assert b.wait(10.0) == []
    b.engine.leave(b.now)
    assert b.did() == []


def test_who_leaves_is_not_waited_for() -> None:
    a = leader_in_round("bc", buckets=2)
    a.trained(10)
    a.hear("b", Ready(THREE, 10))
    its = plan(THREE, {"a": 0.5, "b": 0.5}, "ba")
    assert a.hear("c", Leave())[:2] == [Send("b", its), Send("c", its)]


def test_a_member_whose_link_is_up_but_who_says_nothing_is_counted_out() -> None:
    a = leader_in_round("bc", buckets=2)
    a.trained(10)
    a.hear("b", Ready(THREE, 10))
    a.wait(15.0)
    a.hear("b", Beat(1, 3, 0, "ready"))
    did = a.wait(6.0)
    assert did[0] == Note("care", "C has said nothing for 20 s.", "c")
    assert plan(THREE, {"a": 0.5, "b": 0.5}, "ba") in said_to("b", did)


# -- the leader is lost ----------------------------------------------------------------------------------


def test_the_next_one_takes_over_and_recovers_a_commit_that_was_lost_on_the_way() -> None:
    b, its = member_in_exchange("b", "abc", "bc")
    assert finish_exchange(b, its) == [Send("a", Applied(THREE, D1))]
    second = View(SECOND_TERM, 4, ("b", "c"))
    assert b.lose("a") == [
        Note("care", "A led the rounds and is gone. I lead now.", "a"), Send("c", TakeOver(second))
    ]
    assert b.status.waiting_on == ("c",)
    assert b.hear("c", Standing(SECOND_TERM, 1, D1, True)) == [
        ApplyResults(1, (0, 1)), Validate(1), Send("c", Announce(second, 1, 2, D1, VALUES)), Train(2, VALUES)
    ]


def test_without_the_results_of_the_lost_commit_the_weights_are_fetched() -> None:
    b, _ = member_in_exchange("b", "abc", "bc")
    b.lose("a")
    second = View(SECOND_TERM, 4, ("b", "c"))
    did = b.hear("c", Standing(SECOND_TERM, 1, D1, True))
    assert did == [Send("c", SnapshotRequest((0, 1))), Send("c", Announce(second, 1, 2, D1, VALUES))]
    assert b.hear("c", SnapshotBucket(1, 0), "w0") == [Restore(0, "c", "w0", 1)]
    assert b.hear("c", SnapshotBucket(1, 1), "w1") == [Restore(1, "c", "w1", 1), DigestBase(1)]
    b.engine.base_digested(1, D1, b.now)
    assert b.did() == [Train(2, VALUES)]


def test_a_round_that_nobody_committed_is_done_once_more_with_the_work_that_is_there() -> None:
    b, _ = member_in_exchange("b", "abc", "bc")
    b.lose("a")
    second = View(SECOND_TERM, 4, ("b", "c"))
    assert b.hear("c", Standing(SECOND_TERM, 0, D0, True)) == [Send("c", Announce(second, 1, 1, D0, VALUES))]
    stamp = Stamp(1, *second.order)
    assert b.hear("c", Ready(stamp, 10))[0] == Send("c", plan(stamp, {"b": 0.5, "c": 0.5}, "cb"))


def test_the_members_answer_who_takes_over_with_where_they_stand() -> None:
    c, its = member_in_exchange("c", "abc", "bc")
    finish_exchange(c, its)
    c.hear("a", Commit(THREE, D1))
    assert c.lose("a") == []
    second = View(SECOND_TERM, 4, ("b", "c"))
    assert c.hear("b", TakeOver(second)) == [
        Note("info", "B leads the rounds.", "b"), Send("b", Standing(SECOND_TERM, 1, D1, True))
    ]


def test_one_that_does_not_answer_who_takes_over_is_not_waited_for_long() -> None:
    b = member_in_round("b", "abcd")
    b.lose("a")
    assert b.hear("c", Standing(SECOND_TERM, 0, D0, True)) == []
    asked = b.wait(19.0)
    assert {type(message) for message in said_to("d", asked)} == {TakeOver}  # it may not have agreed at first
    b.hear("c", Beat(SECOND_TERM, 5, 0, "idle"))
    did = b.wait(2.0)
    assert Note("care", "D has said nothing for 20 s.", "d") in did
    assert said_to("c", did) == [Announce(View(SECOND_TERM, 6, ("b", "c")), 1, 1, D0, VALUES)]


def test_a_leader_that_says_nothing_is_taken_for_lost() -> None:
    b = member_in_round("b", "abc")
    assert b.wait(19.0) == []
    assert b.wait(2.0) == [
        Note("care", "A leads but has said nothing for a while.", "a"),
        Note("care", "A led the rounds and is gone. I lead now.", "a"),
        Note("info", "A takes part no more.", "a"),
        Send("c", TakeOver(View(SECOND_TERM, 4, ("b", "c")))),
        Send("a", Hello(View(SECOND_TERM, 4, ("b", "c")), 0)),
    ]


def test_one_that_slept_does_not_take_the_others_for_lost() -> None:
    b = member_in_round("b", "abc")
    assert b.sleep(300.0) == []
    assert b.wait(18.0) == []
    a = leader_in_round("bc")
    assert a.sleep(300.0) == []
    assert a.status.view == view("abc")


def test_two_that_both_take_over_do_so_in_terms_of_their_own() -> None:
    b, c = member_in_round("b", "abc", least=1), member_in_round("c", "abc", least=1)
    for bench, other in ((b, "c"), (c, "b")):
        bench.lose(other)
        bench.lose("a")
    assert b.status.leading
    assert c.status.leading
    assert b.status.view.term != c.status.view.term


def test_one_that_is_alone_with_half_of_the_weights_asks_to_be_let_in_instead() -> None:
    b = Bench("b")
    b.connect("a")
    b.hear("a", Hello(view("a", 1), 5))
    b.hear("a", Announce(view("ab"), 2, 6, "digest 5", VALUES))
    assert b.status.phase == "syncing"
    assert b.lose("a") == []
    assert not b.status.inside
    assert b.connect("c") == [Send("c", Hello(View(), 5))]
    assert b.hear("c", Hello(view("c", 1), 5)) == [Send("c", Join(5, "", ("c",)))]


# -- newcomers -------------------------------------------------------------------------------------------


def test_a_newcomer_gets_the_weights_and_counts_from_then_on() -> None:
    c = Bench("c", buckets=3)
    c.connect("a")
    c.connect("b")
    assert c.hear("a", Hello(view("ab"), 1)) == [Send("a", Join(0, D0, ("a", "b")))]
    assert c.hear("a", Announce(view("abc"), 5, 2, D1, VALUES)) == [
        Note("info", "A leads the rounds.", "a"), Send("a", Standing(1, 1, D1, False)),
        Send("a", SnapshotRequest((0, 1, 2))),
    ]
    assert (c.status.phase, c.status.fetched) == ("syncing", 0.0)
    assert c.hear("a", SnapshotBucket(1, 0), "w0") == [Restore(0, "a", "w0", 1)]
    assert c.hear("a", SnapshotBucket(1, 1), "w1") == [Restore(1, "a", "w1", 1)]
    assert c.hear("a", SnapshotBucket(1, 2), "w2") == [Restore(2, "a", "w2", 1), DigestBase(1)]
    c.engine.base_digested(1, D1, c.now)
    assert c.did() == [Send("a", Standing(1, 1, D1, True)), Train(2, VALUES)]


def test_fetched_weights_that_are_not_the_rooms_are_fetched_once_more() -> None:
    c = Bench("c", buckets=1)
    c.connect("a")
    c.hear("a", Hello(view("a"), 1))
    c.hear("a", Announce(view("ac"), 5, 2, D1, VALUES))
    c.hear("a", SnapshotBucket(1, 0), "wrong")
    c.engine.base_digested(1, "another digest", c.now)
    assert c.did() == [
        Note("care", "The weights that came were not the room's; they are fetched once more."),
        Send("a", SnapshotRequest((0,))),
    ]


def test_nobody_trains_from_fetched_weights_before_their_digest_is_known() -> None:
    c = Bench("c", buckets=1)
    c.connect("a")
    c.hear("a", Hello(view("a"), 1))
    c.hear("a", Announce(view("ac"), 5, 2, D1, VALUES))
    c.hear("a", SnapshotBucket(1, 0), "w0")
    assert c.hear("a", Announce(view("ac"), 6, 2, D1, VALUES)) == [Send("a", Standing(1, 1, D1, False))]
    c.engine.base_digested(1, D1, c.now)
    assert c.did() == [Send("a", Standing(1, 1, D1, True)), Train(2, VALUES)]


def test_a_member_without_the_weights_is_not_waited_for() -> None:
    a = leader_in_round("b")
    a.connect("c")
    a.hear("c", Join(0, "other weights", ("a", "b")))
    a.trained(10)
    a.hear("b", Ready(TWO, 10))
    a.hear("b", Contribution(TWO, 1), "numbers")
    a.reduced(TWO, 1)
    a.hear("b", Result(TWO, 0), "sum")
    a.digested(TWO, D1)
    announced = Announce(view("abc"), 3, 2, D1, VALUES)
    did = a.hear("b", Applied(TWO, D1))
    assert Send("c", announced) in did
    stamp = Stamp(2, 1, 3)
    a.trained(10, round_=2)
    assert a.hear("b", Ready(stamp, 10))[0] == Send("b", plan(stamp, {"a": 0.5, "b": 0.5}, "ab"))


def test_a_newcomer_never_leads_before_those_who_were_there() -> None:
    z = Bench("z", founder=True)  # the smallest id is no privilege
    z.connect("a")
    assert said_to("a", z.hear("a", Join(0, D0, ("z",)))) == [Announce(view("za"), 2, 1, D0, VALUES)]
    a = member_in_round("a", "zma")
    assert a.lose("z") == []  # m is next
    assert not a.status.leading


def test_a_newcomer_without_links_to_all_waits_a_while_and_is_let_in_all_the_same() -> None:
    a = Bench("a", founder=True, start=3)
    a.connect("b")
    a.hear("b", Join(0, D0, ("a",)))
    a.connect("c")
    assert a.hear("c", Join(0, D0, ("a",))) == []  # no link to b
    a.wait(6.0)
    assert Announce(view("abc"), 3, 1, D0, VALUES) in said_to("c", a.hear("c", Join(0, D0, ("a",))))


def test_weights_are_served_as_asked_each_bucket_once() -> None:
    a = leader_in_round("b")
    assert a.hear("b", SnapshotRequest((1, 0, 1))) == [SendSnapshot("b", 0, 1), SendSnapshot("b", 0, 0)]
    assert a.hear("b", SnapshotRequest((5, -1))) == []
    assert a.hear("b", SnapshotRequest((0, 1))) == []  # they are on their way
    a.wait(5.0)
    assert len(a.hear("b", SnapshotRequest(tuple([0, 1] * 100_000)))) == 2


# -- what cannot be used ---------------------------------------------------------------------------------


def test_a_contribution_that_cannot_be_used_is_refused_and_its_sender_and_the_leader_are_told() -> None:
    b, its = member_in_exchange("b", "abc", "bca")
    b.hear("c", Contribution(its.stamp, 0), "rubbish")
    b.engine.unusable(its.stamp, "c", "it holds numbers that are not finite", b.now)
    assert b.did() == [
        Note("bad", "A contribution of C was refused: it holds numbers that are not finite.", "c"),
        Send("c", Refused(its.stamp, "it holds numbers that are not finite")),
        Send("a", Complaint(its.stamp, "c", "it holds numbers that are not finite")),
    ]


def test_the_leader_plans_anew_without_a_member_whose_contribution_was_refused() -> None:
    a = leader_in_exchange("bc", buckets=2)
    again = plan(first_stamp(3, 1), {"a": 0.5, "b": 0.5}, "ba")
    a.engine.unusable(THREE, "c", "it is too short", a.now)
    assert a.did()[2:] == [
        Note("care", "Round 1: the exchange begins anew, C: it is too short."),
        Send("b", again), Send("c", again), BeginExchange(again), Contribute(again.stamp, 0, "b", "f32"),
    ]
    assert a.hear("b", Complaint(THREE, "a", "of the first attempt")) == []


def test_a_complaint_about_another_member_excludes_nobody_but_they_need_each_other_no_more() -> None:
    a = leader_in_exchange("bcd", buckets=4)
    four, quarter = first_stamp(4), {peer: 0.25 for peer in "abcd"}
    did = a.hear("b", Complaint(four, "c", "lost"))
    assert said_to("c", did) == [plan(first_stamp(4, 1), quarter, "dada")]
    again = first_stamp(4, 1)
    assert a.hear("c", Complaint(again, "b", "lost")) == []  # known

    third = {peer: 1 / 3 for peer in "acd"}
    did = a.hear("b", Complaint(again, "d", "lost"))  # who cannot exchange with two is out itself
    assert said_to("c", did) == [plan(first_stamp(4, 2), third, "cdac")]


def test_who_complains_about_the_leader_is_left_out_itself() -> None:
    a = leader_in_exchange("bc", buckets=2)
    did = a.hear("b", Complaint(THREE, "a", "rubbish"))
    assert said_to("c", did) == [plan(first_stamp(3, 1), {"a": 0.5, "c": 0.5}, "ca")]


def test_nobody_weighs_more_than_what_it_can_have_trained_on() -> None:
    a = leader_in_round("bc", buckets=1)
    a.trained(128)
    a.hear("b", Ready(THREE, 2**62))  # a round has 4 steps of 32 samples
    did = a.hear("c", Ready(THREE, 64))
    assert said_to("c", did) == [plan(THREE, {"a": 0.4, "b": 0.4, "c": 0.2}, "b")]
    assert Note("bad", f"B says that it trained on {2**62} samples; 128 are counted.", "b") in did


def test_who_is_refused_is_told_and_does_not_offer_the_same_again() -> None:
    c, its = member_in_exchange("c", "abc", "bca")
    assert c.hear("b", Refused(its.stamp, "it is too short")) == [
        Note("bad", "B refused what I sent for round 1: it is too short.", "b")
    ]
    assert c.hear("a", Announce(view("abc"), 4, 1, D0, VALUES)) == [Train(1, VALUES)]


def test_my_own_update_that_cannot_be_sent_is_left_out() -> None:
    b, its = member_in_exchange("b", "ab", "ba")
    b.engine.unusable(its.stamp, "b", "it holds numbers that are not finite", b.now)
    assert b.did()[1:] == [Send("a", Complaint(its.stamp, "b", "it holds numbers that are not finite"))]


def test_a_member_whose_training_came_to_nothing_is_planned_without() -> None:
    a = leader_in_round("b", least=1)
    a.trained(10)
    its = plan(TWO, {"a": 1.0}, "aa")
    assert a.hear("b", Ready(TWO, 0))[:2] == [Send("b", its), BeginExchange(its)]


def test_weights_that_differ_after_a_commit_are_fetched() -> None:
    b, its = member_in_exchange("b", "ab", "ba")
    finish_exchange(b, its, "my own digest")
    assert b.hear("a", Commit(TWO, D1)) == [
        ApplyResults(1, (0, 1)), Note("care", "My weights differed after round 1; they are fetched anew.", "b"),
        Send("a", Standing(1, 1, D1, False)), Send("a", SnapshotRequest((0, 1))),
    ]


def test_results_that_could_not_be_applied_are_fetched_as_weights() -> None:
    b, its = member_in_exchange("b", "ab", "ba")
    finish_exchange(b, its)
    b.hear("a", Commit(TWO, D1))
    b.engine.not_applied((1,), b.now)
    assert b.did() == [Send("a", Standing(1, 1, D1, False)), Send("a", SnapshotRequest((1,)))]
    assert b.status.phase == "syncing"


def test_one_that_holds_other_weights_of_the_same_round_fetches_the_rooms() -> None:
    c, its = member_in_exchange("c", "abc", "bc")
    finish_exchange(c, its)
    c.hear("a", Commit(THREE, D1))
    c.lose("a")
    second = View(SECOND_TERM, 4, ("b", "c"))
    c.hear("b", TakeOver(second))
    assert c.hear("b", Announce(second, 1, 2, "another digest", VALUES)) == [
        Note("care", "The room holds other weights of round 1; I fetch them."),
        Send("b", Standing(SECOND_TERM, 1, "another digest", False)), Send("b", SnapshotRequest((0, 1))),
    ]


def test_a_commit_before_the_last_results_leaves_only_the_missing_buckets_to_fetch() -> None:
    c, its = member_in_exchange("c", "abc", "ab")
    c.hear("b", Result(its.stamp, 1), "sum")
    assert c.hear("a", Commit(THREE, D1)) == [
        ApplyResults(1, (1,)), Send("a", Standing(1, 1, D1, False)), Send("a", SnapshotRequest((0,)))
    ]


def test_a_leader_that_missed_a_commit_hears_of_it_and_goes_on_from_there() -> None:
    a = leader_in_exchange("bc", buckets=2)
    assert a.hear("b", Standing(1, 1, D1, True)) == [Send("b", TakeOver(view("abc"))), Send("c", TakeOver(view("abc")))]
    did = a.hear("c", Standing(1, 0, D0, True))
    assert did == [
        Send("b", SnapshotRequest((0,))), Send("c", SnapshotRequest((1,))),
        Send("b", Announce(view("abc"), 4, 2, D1, VALUES)), Send("c", Announce(view("abc"), 4, 2, D1, VALUES)),
    ]


def test_an_answer_of_somebody_who_is_not_in_the_room_does_not_count() -> None:
    a = leader_in_exchange("b")
    a.connect("x")
    for message in (Ready(TWO, 10), Applied(TWO, D1), Standing(1, 7, D1, True), Complaint(TWO, "b", "lies")):
        assert a.hear("x", message) == []
    assert a.hear("x", Beat(1, 2, 0, "training")) == [Send("x", StaleView(view("ab")))]
    assert a.status.waiting_on == ("a", "b")


def test_values_that_nobody_can_train_with_are_not_followed() -> None:
    b = Bench("b")
    b.connect("a")
    assert b.hear("a", Announce(view("ab"), 2, 1, D0, Values(precision="f8"))) == [
        Note("bad", "A announced values that nobody can train with.", "a")
    ]
    assert not b.status.inside


def test_a_plan_in_which_somebody_counts_twice_is_not_followed() -> None:
    b = member_in_round("b", "ab")
    b.trained(10)
    twice = plan(TWO, {"a": 0.5, "b": 0.5}, "ba")
    assert b.hear("a", type(twice)(TWO, twice.shares * 2, twice.reducers, "f32")) == []


def test_numbers_from_which_one_cannot_count_on_are_refused() -> None:
    b = member_in_round("b", "ab")
    for term, round_ in ((2**63, 1), (1, 2**63), (1, -1)):
        assert b.hear("a", Announce(View(term, 9, ("a", "b")), 3, round_, D0, VALUES)) == []
    assert b.status.view == view("ab")


# -- two sides that meet ---------------------------------------------------------------------------------


def test_the_smaller_side_joins_the_larger_and_says_so() -> None:
    a = Bench("a", founder=True, start=1, least=1)
    a.connect("b")
    larger = View(SECOND_TERM, 5, ("b", "c"))
    assert a.hear("b", Hello(larger, 0)) == [
        Note("care", "The room was split. I join the side of B.", "b"), StopTraining(1),
        Send("b", Join(0, D0, ("b",))),
    ]


def test_the_larger_side_stays() -> None:
    a = leader_in_round("b")
    a.connect("x")
    assert a.hear("x", Hello(View(SECOND_TERM, 5, ("x",)), 0)) == []


# -- figures ---------------------------------------------------------------------------------------------


def test_the_rooms_figures_weigh_each_member_by_its_samples() -> None:
    a = leader_in_round("bc")
    a.hear("b", Metrics(1, 2.0, 0.5, 30))
    a.hear("c", Metrics(1, 4.0, 0.9, 10))
    a.hear("c", Metrics(1, 4.0, 0.9, 10))  # once more
    found = a.engine.room_metrics(1)
    assert found == Metrics(1, pytest.approx(2.5), pytest.approx(0.6), 40)
    assert a.engine.room_metrics(2) is None


def test_named_figures_are_means_of_the_members_that_have_them() -> None:
    a = leader_in_round("bc")
    a.hear("b", Metrics(1, 2.0, 0.5, 30, {"f1": 0.4, "auc": 0.9}))
    a.hear("c", Metrics(1, 4.0, 0.5, 10, {"f1": 0.8}))
    assert a.engine.room_metrics(1) == Metrics(1, 2.5, 0.5, 40, {"f1": pytest.approx(0.5), "auc": 0.9})


def test_a_task_without_right_and_wrong_has_no_accuracy() -> None:
    a = leader_in_round("bc")
    a.hear("b", Metrics(1, 2.0, None, 30, {"mae": 1.0}))
    a.hear("c", Metrics(1, 2.0, None, 10, {"mae": 3.0}))
    assert a.engine.room_metrics(1) == Metrics(1, 2.0, None, 40, {"mae": 1.5})


def test_large_figures_of_two_are_still_numbers() -> None:
    a = leader_in_round("bc")
    for peer in "bc":
        a.hear(peer, Metrics(1, 1e308, 0.5, 2**62))
    assert a.engine.room_metrics(1) == Metrics(1, 1e308, 0.5, 2**63)


@pytest.mark.parametrize("figures", [{"f1": math.nan}, {"f1": math.inf}, {"": 1.0}, {"f" * 17: 1.0},
                                     {f"f{n}": 1.0 for n in range(9)}])
def test_named_figures_that_cannot_be_are_left_out(figures: dict[str, float]) -> None:
    a = leader_in_round("b")
    a.hear("b", Metrics(1, 1.0, 0.5, 9, figures))
    assert a.engine.room_metrics(1) is None


def test_members_together_do_not_bring_more_names_than_one_may() -> None:
    a = leader_in_round("bc")
    for peer in "bc":
        a.hear(peer, Metrics(1, 1.0, 0.5, 9, {f"{peer}{n}": 1.0 for n in range(8)}))
    assert len((a.engine.room_metrics(1) or Metrics(0, 0, 0, 0)).figures) == 8


def test_figures_that_cannot_be_are_left_out_and_old_ones_forgotten() -> None:
    a = leader_in_round("b")
    for message in (Metrics(1, float("nan"), 0.5, 9), Metrics(1, 1.0, 7.0, 9), Metrics(0, 1.0, 0.5, 9),
                    Metrics(5, 1.0, 0.5, 9), Metrics(1, 1.0, 0.5, 0)):
        a.hear("b", message)
    assert a.engine.room_metrics(1) is None
    for round_ in range(1, 200):
        a.engine.room.round = round_
        a.hear("b", Metrics(round_, 1.0, 0.5, 9))
    assert len(a.engine.metrics) <= 16
    assert a.engine.room_metrics(199) == Metrics(199, 1.0, 0.5, 9)


def test_members_learn_from_the_leaders_beat_what_is_waited_for() -> None:
    b = member_in_round("b", "abc")
    roster = (Seat("a", "ready", 0), Seat("b", "training", 0), Seat("c", "syncing", 0))
    b.hear("a", Beat(1, 3, 0, "collecting", 0, ("b",), 60.0, 12.5, 2, roster))
    status = b.engine.status(b.now + 3.0)
    assert (status.waiting_on, status.deadline_s, status.left_s, status.quorum) == (("b",), 60.0, 12.5, 2)
    assert status.roster == roster
    assert b.engine.room.whole_peers == {"a", "b"}


# -- found by the simulator ------------------------------------------------------------------------------


def test_a_newcomer_that_asks_while_the_leader_commits_does_not_have_the_round_announced_once_more() -> None:
    a, its = leader_in_exchange("b", least=1), plan(TWO, {"a": 0.5, "b": 0.5}, "ba")
    a.hear("b", Contribution(its.stamp, 1), "numbers")
    a.reduced(its.stamp, 1)
    a.hear("b", Result(its.stamp, 0), "sum")
    a.digested(its.stamp, D1)
    a.now = 10.0
    did = a.hear("b", Join(0, D0, ("a",)))  # it starts over: nothing of it is waited for, and all others have applied
    announced = [message.round for message in said_to("b", did) if isinstance(message, Announce)]
    assert announced == [2]


def test_when_the_next_one_says_nothing_either_the_one_after_it_takes_over() -> None:
    c = member_in_round("c", "abcd")
    assert c.wait(20.5) == [Note("care", "A leads but has said nothing for a while.", "a")]
    did = c.wait(20.5)
    assert did[0] == Note("care", "B should lead now but has said nothing for a while.", "b")
    assert [type(message) for message in said_to("d", did)] == [TakeOver]


def test_weights_that_a_newcomer_brings_count_when_nobody_here_holds_any() -> None:
    a = leader_in_round("bc", least=1)
    a.engine.member.enter(5, "digest 5")  # it leads without the weights of round 5
    a.engine.leader._unsynced.update("abc")
    a.connect("d")
    a.engine.leader.machine.state = "gathering"
    did = a.hear("d", Join(4, "digest 4", ("a", "b", "c")))
    assert Note("care", "The weights of round 5 are lost; going on from round 4.") in did
    assert [message.base_digest for message in said_to("d", did) if isinstance(message, Pause)] == ["digest 4"]


def test_when_all_wait_to_be_let_in_by_each_other_the_one_with_the_newest_weights_lets_them() -> None:
    """c is on its way to b's side, b on its way to c's: nobody leads any more."""
    b, c = member_in_round("b", "abc", least=1), member_in_round("c", "abc", least=1)
    for bench, other in ((b, "c"), (c, "b")):
        bench.lose("a")
        bench.lose(other)
        bench.connect("x")
        bench.hear("x", Hello(View(2 * SECOND_TERM, 9, ("x", "y")), 0))
        assert not bench.status.inside
        bench.lose("x")
        bench.connect(other)
    for _ in range(50):
        b.hear("c", Join(0, D0, ("b", "x")))
        c.hear("b", Join(0, D0, ("c", "x")))
        b.wait(0.5)
        c.wait(0.5)
    assert (b.status.leading, c.status.leading) == (False, True)  # as good as each other: the greater id


def newcomers() -> tuple[Bench, Bench]:
    """b and c have a link to each other and to the host a, and nobody is let in yet."""
    b, c = Bench("b"), Bench("c")
    for bench, other in ((b, "c"), (c, "b")):
        bench.connect("a")
        bench.connect(other)
    return b, c


def ask_each_other(b: Bench, c: Bench, seconds: float) -> None:
    for _ in range(int(2 * seconds)):
        for bench, other in ((b, c), (c, b)):
            hear_each_other(bench, other, bench.wait(0.5))


def hear_each_other(bench: Bench, other: Bench, did: list[Action]) -> None:
    for message in said_to(other.engine.room.me, did):
        hear_each_other(other, bench, other.hear(bench.engine.room.me, message))


def test_when_the_host_is_gone_before_anybody_was_let_in_the_newcomers_go_on_without_it() -> None:
    b, c = newcomers()
    for bench in (b, c):
        bench.hear("a", Hello(view("a"), 0))
    ask_each_other(b, c, 5.0)
    for bench in (b, c):
        bench.lose("a")
    ask_each_other(b, c, 25.0)
    assert (b.status.leading, c.status.leading) == (False, True)
    assert b.status.view == c.status.view == View(next_term(0, "c"), 2, ("c", "b"))
    assert (b.status.phase, c.status.phase) == ("training", "training")


def test_newcomers_wait_for_a_host_that_has_not_begun() -> None:
    b, c = newcomers()  # a is connected and says nothing
    ask_each_other(b, c, 100.0)
    assert not b.status.inside
    assert not c.status.inside


def test_who_knows_of_nobody_founds_nothing() -> None:
    b = Bench("b")
    assert b.wait(100.0) == []
    b.connect("c")  # it says nothing
    b.wait(100.0)
    assert not b.status.inside


# -- members that have the key and do not mean well ---------------------------------------------------------


def working(others: str = "bcd") -> Bench:
    """b follows a, whose beats come."""
    b = member_in_round("b", "a" + others)
    b.hear("a", Beat(1, len(others) + 1, 0, "collecting"))
    return b


@pytest.mark.parametrize("sender", ["c", "x"])
@pytest.mark.parametrize("kind", [TakeOver, Pause, Announce])
def test_nobody_takes_the_lead_while_the_leader_is_heard(sender: str, kind: type[RoundMessage]) -> None:
    b = working()
    b.connect(sender)
    claimed = View(2**61, 1, (sender, "b", "a", "d"))
    rest = {TakeOver: (), Pause: (1, 0, D0, 0, VALUES), Announce: (1, 1, D0, VALUES)}[kind]
    assert b.hear(sender, kind(claimed, *rest)) == [Send(sender, StaleView(view("abcd"), 0))]
    assert b.status.view == view("abcd")


def test_a_view_counts_only_those_whom_one_has_a_link_to_and_who_are_not_here() -> None:
    b = working("b")
    b.connect("x")
    many = tuple(f"p{number}" for number in range(50))
    assert b.hear("x", Hello(View(2**61, 1, ("x", *many)), 2**61)) == []
    b = working()
    b.connect("x")
    assert b.hear("x", Hello(View(2**61, 1, ("x", "a", "c", "d")), 2**61)) == []
    assert b.hear("x", StaleView(View(2**61, 1, ("x", "a", "c", "d")), 2**61)) == []
    assert b.status.view == view("abcd")


def test_a_leader_that_is_followed_leads_on_whatever_one_member_claims() -> None:
    a = leader_in_round("bcd")
    for peer in "bc":
        a.hear(peer, Beat(1, 4, 0, "training"))
    claimed = View(2**61, 1, ("d", "a", "b", "c"))
    assert a.hear("d", TakeOver(claimed)) == [Send("d", StaleView(view("abcd"), 0))]
    assert a.hear("d", StaleView(View(2**61, 1, ("d", "b", "c")), 9)) == [Send("d", Hello(view("abcd"), 0))]
    assert a.status.leading


def test_when_the_leader_is_lost_only_the_next_one_is_followed() -> None:
    c = member_in_round("c", "abcd")
    c.lose("a")
    claimed = View(2**61, 1, ("d", "b", "c"))
    assert c.hear("d", TakeOver(claimed)) == [Send("d", StaleView(view("abcd"), 0))]
    c.hear("b", TakeOver(View(SECOND_TERM, 5, ("b", "c", "d"))))
    assert c.status.view.leader == "b"


def test_of_where_members_say_that_they_stand_only_what_can_be_is_believed() -> None:
    b = member_in_round("b", "abcd")
    b.lose("a")
    b.hear("c", Standing(SECOND_TERM, 0, D0, True))
    did = b.hear("d", Standing(SECOND_TERM, 1000, "invented", True))
    assert [message.round for message in said_to("c", did) if isinstance(message, Announce)] == [1]


def test_after_a_commit_of_mine_nobody_is_taken_for_further() -> None:
    a = leader_in_exchange("bc", buckets=1)
    a.hear("b", Result(THREE, 0), "sum")
    a.digested(THREE, D1)
    for peer in "bc":
        a.hear(peer, Applied(THREE, D1))
    assert a.status.round == 1
    assert a.hear("b", Standing(1, 2, "invented", True)) == []


def test_beats_with_invented_progress_do_not_hold_an_exchange() -> None:
    a = leader_in_exchange("b", buckets=2)
    did: list[Action] = []
    for number in range(62):
        did += a.hear("b", Beat(1, 2, 0, "exchanging", 1000 + number))
        did += a.wait(1.0)
    assert plan(first_stamp(2, 1), {"a": 1.0}, "aa") in said_to("b", did)


def test_what_is_said_too_often_about_a_peer_is_not_told() -> None:
    c, its = member_in_exchange("c", "abc", "bca")
    notes = [note for _ in range(1000) for note in c.hear("b", Refused(its.stamp, "no" * 1000))]
    assert len(notes) == 30
    assert max(len(note.text) for note in notes if isinstance(note, Note)) == 300
