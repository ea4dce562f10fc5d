"""Names: enough of them, plain, and code words that survive a telephone."""

from __future__ import annotations

import itertools
import random
import re

import pytest

from desktop.rooms import names
from desktop.rooms.invite import check_room


@pytest.mark.parametrize("words", [names.ADJECTIVES, names.ANIMALS, names.PLANTS, names.CODE_WORDS])
def test_words_are_many_plain_and_different(words: tuple[str, ...]) -> None:
    assert len(words) >= 128
    assert len(set(words)) == len(words)
    assert all(re.fullmatch("[a-z]{3,12}", word) for word in words)


def test_code_words_cannot_be_taken_for_one_another() -> None:
    assert len(names.CODE_WORDS) == 256
    assert len({word[:3] for word in names.CODE_WORDS}) == 256
    assert min(distance(a, b) for a, b in itertools.combinations(names.CODE_WORDS, 2)) >= 3


def distance(a: str, b: str) -> int:
    """Letters to add, drop or change from one to the other (Levenshtein)."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        new = [i]
        for j, y in enumerate(b, 1):
            new.append(min(row[j] + 1, new[-1] + 1, row[j - 1] + (x != y)))
        row = new
    return row[-1]


def test_names_come_from_the_generator_given() -> None:
    assert names.person_name(random.Random(7)) == names.person_name(random.Random(7))
    assert names.room_name(random.Random(7)) == names.room_name(random.Random(7))
    assert len({names.person_name(random.Random(seed)) for seed in range(200)}) > 190


def test_forms() -> None:
    for seed in range(300):
        rng = random.Random(seed)
        assert re.fullmatch("[A-Z][a-z]+ [A-Z][a-z]+", names.person_name(rng))
        room = names.room_name(rng)
        assert re.fullmatch("[a-z]+-[a-z]+", room)
        check_room(room)
