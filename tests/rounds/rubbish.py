"""Messages of every type with field values that fit their types and nothing else."""

from __future__ import annotations

import dataclasses
import types
import typing

from hypothesis import strategies as st

from desktop.rounds.messages import ALL, RoundMessage, Values, View

# Small numbers and known names come often: rubbish that looks almost right gets further in.
COUNTS = st.one_of(st.integers(-2, 5), st.sampled_from((2**31, 2**62, 2**62 + 1, 2**63, 2**64 - 1, -(2**63))))
WORDS = st.one_of(
    st.sampled_from(("a", "b", "c", "x", "", "digest 0", "digest 1", "f32", "f16", "training", "syncing")),
    st.text(max_size=5),
)
PLAIN: dict[object, st.SearchStrategy[object]] = {
    int: COUNTS, str: WORDS, bool: st.booleans(), float: st.one_of(st.floats(), st.sampled_from((0.5, 1.0, 60.0))),
    type(None): st.none(),
}
USUAL: dict[object, object] = {
    View: st.sampled_from([View(1, n, tuple("abc"[:n])) for n in (1, 2, 3)] + [View(1, 4, ("b", "a", "c"))]),
    Values: st.just(Values(rounds=3)),
}


def of_type(hint: object) -> st.SearchStrategy[object]:
    """Values of a field's type."""
    if hint in PLAIN:
        return PLAIN[hint]
    if typing.get_origin(hint) is tuple:
        return st.lists(of_type(typing.get_args(hint)[0]), max_size=4).map(tuple)
    if typing.get_origin(hint) is dict:
        return st.dictionaries(*map(of_type, typing.get_args(hint)), max_size=10)
    if typing.get_origin(hint) is types.UnionType:
        return st.one_of(*map(of_type, typing.get_args(hint)))
    assert isinstance(hint, type)
    assert dataclasses.is_dataclass(hint)
    hints = typing.get_type_hints(hint)
    wild = st.builds(hint, **{field.name: of_type(hints[field.name]) for field in dataclasses.fields(hint)})
    usual = USUAL.get(hint)
    return st.one_of(usual, wild) if usual is not None else wild  # type: ignore[call-overload,no-any-return]


KINDS: dict[type[RoundMessage], st.SearchStrategy[RoundMessage]] = {kind: of_type(kind) for kind in ALL}  # type: ignore[misc]
MESSAGES = st.one_of(*KINDS.values())
