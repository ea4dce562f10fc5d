"""Whatever a peer says, in whatever state a member is: nothing is raised, and what is sent can be sent."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from desktop.bridge import codec
from desktop.rounds import actions as act
from desktop.rounds.messages import ALL, Metrics, RoundMessage
from tests.rounds.bench import (
    D1,
    Bench,
    finish_exchange,
    leader_in_exchange,
    leader_in_round,
    member_in_exchange,
    member_in_round,
)
from tests.rounds.rubbish import KINDS, MESSAGES

MOST_ACTIONS = 100  # that one message may lead to in a room of three with three buckets


def outside() -> Bench:
    bench = Bench("c")
    bench.connect("a")
    return bench


def applied() -> Bench:
    bench, its = member_in_exchange("b", "abc", "bca")
    finish_exchange(bench, its)
    return bench


def taken_over() -> Bench:
    bench = member_in_round("b", "abc", buckets=3)
    bench.lose("a")
    bench.connect("a")
    return bench


SITUATIONS: dict[str, Callable[[], Bench]] = {
    "outside": outside,
    "alone": lambda: Bench("a", founder=True),
    "leading a round": lambda: leader_in_round("bc", buckets=3),
    "leading an exchange": lambda: leader_in_exchange("bc", buckets=3),
    "taking over": taken_over,
    "training": lambda: member_in_round("b", "abc", buckets=3),
    "exchanging": lambda: member_in_exchange("b", "abc", "bca")[0],
    "applied": applied,
}


def carry_out(bench: Bench) -> None:
    """Answer what the engine asks for, as a trainer would, and see that every message can be written."""
    engine = bench.engine
    todo = engine.take()
    assert len(todo) <= MOST_ACTIONS
    for action in todo:
        match action:
            case act.Send(_, message):
                codec.encode(message, "schema")
            case act.Train(round_, _):
                engine.trained(round_, 10, bench.now)
            case act.Reduce(stamp, bucket):
                engine.reduced(stamp, bucket, bench.now)
            case act.Keep(stamp, _, peer) if bench.now > 3:
                engine.unusable(stamp, peer, "rubbish", bench.now)
            case act.DigestResults(stamp):
                engine.digested(stamp, D1, bench.now)
            case act.DigestBase(round_):
                engine.base_digested(round_, engine.room.digest, bench.now)
            case act.Restore(bucket, peer) if bench.now > 3:
                engine.unusable_snapshot(bucket, peer, "rubbish", bench.now)
            case act.Validate(round_):
                engine.validated(Metrics(round_, 1.0, 0.5, 10), bench.now)


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
@given(data=st.data())
@settings(max_examples=60)
def test_one_message_of_any_type_in_any_situation(kind: type[RoundMessage], data: st.DataObject) -> None:
    bench = SITUATIONS[data.draw(st.sampled_from(sorted(SITUATIONS)))]()
    bench.engine.received(data.draw(st.sampled_from("abcx")), data.draw(KINDS[kind]), None, 1.0)
    for now in (1.0, 2.0, 30.0):
        bench.now = now
        carry_out(bench)
        bench.engine.tick(now)
        bench.engine.status(now)
        bench.engine.room_metrics(1)


@given(
    situation=st.sampled_from(sorted(SITUATIONS)),
    said=st.lists(st.tuples(st.sampled_from("abcx"), MESSAGES, st.sampled_from((0.0, 0.3, 7.0, 70.0))), max_size=12),
    lost=st.lists(st.sampled_from("abc"), max_size=2),
)
@settings(max_examples=300)
def test_many_messages_one_after_the_other(
    situation: str, said: list[tuple[str, RoundMessage, float]], lost: list[str]
) -> None:
    bench = SITUATIONS[situation]()
    for sender, message, seconds in said:
        bench.now += seconds
        bench.engine.received(sender, message, b"", bench.now)
        carry_out(bench)
        bench.engine.tick(bench.now)
        carry_out(bench)
        bench.engine.status(bench.now)
    for peer in lost:
        bench.engine.lost(peer, bench.now)
        carry_out(bench)
    bench.engine.leave(bench.now)
    carry_out(bench)
