"""Errors: each has a sentence of its own, whole once its details are filled in."""

from __future__ import annotations

import inspect
import string

import pytest

from desktop import errors


def everywhere(base: type[errors.PeerloomError] = errors.PeerloomError) -> list[type[errors.PeerloomError]]:
    return [base, *(each for sub in base.__subclasses__() for each in everywhere(sub))]


KINDS = [kind for kind in everywhere() if kind.__module__ == "desktop.errors"]


def test_all_errors_are_found() -> None:
    named = {each for _, each in inspect.getmembers(errors, inspect.isclass) if each.__module__ == errors.__name__}
    assert set(KINDS) == named


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_the_sentence(kind: type[errors.PeerloomError]) -> None:
    assert "__doc__" in vars(kind), "inherits its sentence"
    fields = [name for _, name, _, _ in string.Formatter().parse(kind.__doc__ or "") if name is not None]
    assert all(name.isidentifier() for name in fields), "only plain names: the details are handed over by name"
    sentence = kind(**{name: f"<{name}>" for name in fields}).sentence
    for name in fields:
        assert f"<{name}>" in sentence
    assert sentence.endswith((".", ">")), "a full stop, or a detail that is a sentence"
    assert "\n" not in sentence
    assert "  " not in sentence
    assert sentence[0].isupper() or sentence[0] in "<“"


def test_a_detail_with_braces_is_told_as_it_is() -> None:
    error = errors.LinkError(why="{room} is empty")
    assert str(error) == "This is not a link to a room: {room} is empty. Ask the host to copy the link again."
