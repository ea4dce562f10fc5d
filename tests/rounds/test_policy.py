"""Quorum and deadline, against values computed by hand."""

from __future__ import annotations

import dataclasses

import pytest

from desktop.rounds.messages import PRECISIONS, Plan, Share, Stamp, Values
from desktop.rounds.policy import Deadline, RoomPolicy

POLICY = RoomPolicy(first_deadline_s=60, least_deadline_s=1, most_deadline_s=100, spread=6)


@pytest.mark.parametrize(("n", "quorum"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3), (8, 5)])
def test_the_quorum_is_more_than_half(n: int, quorum: int) -> None:
    assert POLICY.quorum(n) == quorum


@pytest.mark.parametrize(
    ("arrivals", "deadline"),
    [
        ([], 60.0),  # nothing measured yet
        ([4.0, 4.0, 4.0], 8.0),  # median 4, no deviation
        ([1.0, 2.0, 3.0, 4.0, 100.0], 12.0),  # median 3; deviations 2, 1, 0, 1, 97, their median 1
        ([2.0, 4.0], 12.0),  # median 3; deviations 1 and 1
        ([0.1, 0.1], 1.0),  # never below the least
        ([80.0], 100.0),  # never above the most
    ],
)
def test_the_deadline_is_twice_the_median_and_six_times_the_median_deviation(
    arrivals: list[float], deadline: float
) -> None:
    measured = Deadline(POLICY)
    for seconds in arrivals:
        measured.arrived(seconds)
    assert measured.seconds == pytest.approx(deadline)


def test_only_the_last_64_arrivals_count() -> None:
    measured = Deadline(POLICY)
    for seconds in [40.0] * 200 + [5.0] * 64:
        measured.arrived(seconds)
    assert measured.seconds == pytest.approx(10.0)


def test_one_slow_member_does_not_stretch_the_deadline() -> None:
    measured = Deadline(POLICY)
    for _ in range(10):
        for seconds in (5.0, 5.0, 5.0, 50.0):
            measured.arrived(seconds)
    assert measured.seconds == pytest.approx(10.0)


@pytest.mark.parametrize(
    "wrong",
    [{"rounds": -1}, {"local_steps": 0}, {"batch": 0}, {"lr": 0.0}, {"lr": float("nan")}, {"lr": float("inf")},
     {"precision": "f8"}],
    ids=str,
)
def test_values_that_nobody_can_train_with_are_not_sound(wrong: dict[str, object]) -> None:
    assert Values().sound
    assert not dataclasses.replace(Values(), **wrong).sound  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("shares", "precision", "sound"),
    [
        ([("a", 0.5), ("b", 0.5)], "f16", True),
        ([("a", 0.5), ("a", 0.5)], "f32", False),  # it would be counted twice
        ([], "f32", False),
        ([("a", float("nan"))], "f32", False),
        ([("a", 2.0), ("b", -1.0)], "f32", False),
        ([("a", 1.0)], "f8", False),
    ],
)
def test_plans_that_cannot_be_carried_out_are_not_sound(
    shares: list[tuple[str, float]], precision: str, sound: bool
) -> None:
    assert Plan(Stamp(1, 1, 1), tuple(Share(*share) for share in shares), ("a",), precision).sound is sound


def test_every_precision_is_one_that_the_trainer_can_write() -> None:
    from desktop.trainer.wire import WIRE

    assert set(PRECISIONS) == set(WIRE)
