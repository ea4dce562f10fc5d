"""The life-cycle messages: frozen, compared by value, each with a meaning of its own."""

from __future__ import annotations

import inspect

import pytest

from desktop.bridge import lifecycle
from desktop.bridge.lifecycle import Command, Said
from desktop.rounds.policy import RoomPolicy


def kinds(base: type) -> list[type]:
    found = [kind for _, kind in inspect.getmembers(lifecycle, inspect.isclass) if issubclass(kind, base)]
    return [kind for kind in found if kind is not base]


def test_every_message_is_frozen_and_compared_by_value() -> None:
    stop, again = lifecycle.Failed(sentence="It failed."), lifecycle.Failed(sentence="It failed.")
    assert stop == again
    with pytest.raises(AttributeError):
        stop.sentence = "It did not."  # type: ignore[misc]


@pytest.mark.parametrize("kind", [*kinds(Command), *kinds(Said)], ids=lambda kind: kind.__name__)
def test_every_message_says_what_it_means(kind: type) -> None:
    assert vars(kind).get("__doc__"), "a sentence of its own"


def test_a_room_waits_for_two_unless_it_says_otherwise() -> None:
    start = lifecycle.Start(task="{}", policy=RoomPolicy(), backend="cpu", founder=True, name="Ann", models_folder="")
    assert (start.policy.start_members, start.policy.min_members) == (2, 2)
