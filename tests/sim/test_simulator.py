"""The simulator can fail: faults that are planted into the rounds are found."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from desktop.rounds import actions as act
from desktop.rounds.engine import RoundEngine
from desktop.rounds.exchange import Exchange
from desktop.rounds.leader import Leader
from desktop.rounds.member import Member
from desktop.rounds.messages import Commit, View
from desktop.rounds.room import Room
from tests.sim.faults import play, trouble
from tests.sim.simulator import LOST_S, InvariantBroken, Node, Simulator
from tests.sim.test_rooms import SCENARIOS, comings, deaths, policy, usurped

SEEDS = range(40)


def first_break(scenario: Callable[[int, int], None], seeds: range = SEEDS, members: int = 4) -> str:
    """What the simulator says at the first seed that breaks a promise; "" if none does."""
    for seed in seeds:
        try:
            scenario(seed, members)
        except InvariantBroken as broken:
            return str(broken)
    return ""


def test_without_a_planted_fault_nothing_is_found() -> None:
    assert [first_break(scenario, range(100, 108)) for scenario in SCENARIOS] == [""] * len(SCENARIOS)


def test_a_reducer_that_takes_a_contribution_twice_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Exchange, "take_contribution", lambda self, peer, bucket: "")
    assert "counted twice" in first_break(deaths)


def test_a_member_that_takes_contributions_of_an_earlier_attempt_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    bulk = Member.bulk

    def careless(self: Member, sender: str, message: Any, payload: object) -> None:
        if self.exchange and message.stamp.round == self.exchange.stamp.round:
            message = dataclasses.replace(message, stamp=self.exchange.stamp)
        bulk(self, sender, message, payload)

    monkeypatch.setattr(Member, "bulk", careless)
    assert first_break(deaths).startswith("2: ")


def test_a_member_that_adds_something_else_than_the_result_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it would be if the reducer used its own unrounded sum, and nobody compared digests."""
    carry_out, committed = Node.carry_out, Member.committed

    def unrounded(self: Node, action: act.Action) -> None:
        carry_out(self, action)
        if isinstance(action, act.Reduce) and action.bucket in self.numbers.results:
            self.numbers.results[action.bucket] += 1e-6

    def trusting(self: Member, message: Commit) -> None:
        self._digest = message.digest
        committed(self, message)

    monkeypatch.setattr(Node, "carry_out", unrounded)
    monkeypatch.setattr(Member, "committed", trusting)
    assert first_break(deaths).startswith("1: ")


def test_a_leader_that_commits_before_all_have_said_their_digest_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Leader, "_all_applied", lambda self: bool(self._applied))
    assert "without the digest of" in first_break(deaths)


def test_a_newcomer_that_takes_the_lead_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is put first in the view, or says that it leads and is believed."""
    enter = Room.enter

    def newest_first(self: Room, view: View) -> None:
        known = [peer for peer in view.members if peer in self.view.members]
        new = [peer for peer in view.members if peer not in known]
        enter(self, dataclasses.replace(view, members=(*new, *known)))

    with monkeypatch.context() as patch:
        patch.setattr(Room, "enter", newest_first)
        assert first_break(comings).startswith("lead: ")
    monkeypatch.setattr(RoundEngine, "_may_lead", lambda self, sender: True)
    assert first_break(usurped).startswith("lead: ")


def early_commit(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Leader, "_all_applied", lambda self: bool(self._applied))


def double_count(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Exchange, "take_contribution", lambda self, peer, bucket: "")


def newest_leads(patch: pytest.MonkeyPatch) -> None:
    enter = Room.enter
    patch.setattr(Room, "enter", lambda self, view: enter(
        self, dataclasses.replace(view, members=(view.members[-1], *view.members[:-1])) if view.members else view
    ))


@pytest.mark.parametrize("plant", [early_commit, double_count, newest_leads])
@pytest.mark.parametrize("first", [0, 1000, 2000, 3000, 4000])
def test_a_planted_fault_is_found_within_twenty_seeds_wherever_one_begins(
    monkeypatch: pytest.MonkeyPatch, plant: Callable[[pytest.MonkeyPatch], None], first: int
) -> None:
    plant(monkeypatch)
    assert first_break(lambda seed, members: play(trouble(seed)) and None, range(first, first + 20))


def test_a_room_that_stands_still_is_not_taken_for_one_that_has_lost_its_weights() -> None:
    sim = Simulator(1, 3, policy(3, rounds=2))
    sim.run(200, sim.all_finished)
    for node in sim.nodes.values():
        node.finished = False
        node.engine.room.versions[0] = 1  # nobody is whole, though all were
    assert not sim.lost_weights()
    sim.now += LOST_S
    with pytest.raises(InvariantBroken, match="had round 2, and nobody goes on from it"):
        sim.lost_weights()


def test_a_leader_that_waits_for_the_lost_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RoundEngine, "lost", lambda self, peer, now: None)
    monkeypatch.setattr(Leader, "_miss_the_silent", lambda self: None)
    monkeypatch.setattr(Leader, "_stalled", lambda self: ())
    assert first_break(deaths).startswith("4: ")


def test_two_leaders_of_the_same_term_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("desktop.rounds.leader.next_term", lambda term, leader: term + 1)
    assert "both lead view" in first_break(lambda seed, members: play(trouble(seed)) and None, range(300))


def test_the_same_seed_gives_the_same_run() -> None:
    def run() -> tuple[float, dict[str, int]]:
        sim = Simulator(7, 4, policy(4))
        sim.after(5.0, lambda: sim.kill("m1"))
        sim.run(900, sim.all_finished)
        return sim.now, sim.messages

    assert run() == run()
