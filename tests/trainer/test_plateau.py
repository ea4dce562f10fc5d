"""When a room has stopped learning."""

from __future__ import annotations

from desktop.trainer.plateau import Plateau


def reached(patience: int, losses: list[float]) -> list[int]:
    """The rounds in which the patience is at its end."""
    plateau = Plateau(patience)
    return [round_ for round_, loss in enumerate(losses, start=1) if plateau.reached(round_, loss)]


def test_so_many_rounds_without_a_better_loss() -> None:
    assert reached(3, [2.0, 1.0, 1.1, 1.0, 1.2]) == [5]  # as good is no better
    assert reached(1, [2.0, 1.0, 1.1]) == [3]


def test_a_better_loss_begins_the_count_anew() -> None:
    assert reached(2, [2.0, 2.1, 1.9, 2.0, 1.8, 1.9]) == []


def test_who_goes_on_gets_as_many_rounds_again() -> None:
    assert reached(2, [1.0, 1.1, 1.1, 1.1, 1.1]) == [3, 5]


def test_no_patience_no_end() -> None:
    assert reached(0, [1.0] * 50) == []


def test_a_round_counts_once() -> None:
    plateau = Plateau(2)
    assert not plateau.reached(1, 1.0)
    assert not any(plateau.reached(1, 1.5) for _ in range(5))


def test_rounds_of_which_nothing_is_known_are_no_better() -> None:
    plateau = Plateau(3)
    assert not plateau.reached(4, 1.0)
    assert plateau.reached(7, 1.0)
