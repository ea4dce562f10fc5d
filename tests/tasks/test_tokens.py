"""Tokens: text to numbers and back, for any text, and tokenizers from others."""

from __future__ import annotations

import json
from collections import Counter

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from desktop.errors import TaskError
from desktop.tasks import tokens
from desktop.tasks.spec import Text

TEXT = "the theatre thinks that the thing is there\n" * 20
BPE = tokens.train_bpe([TEXT], 300)
KINDS = [Text(), Text(tokens="bpe", tokenizer=BPE)]
any_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=50)


def test_bytes_are_those_of_utf_8() -> None:
    assert tokens.tokens_of(Text()).encode("aé猫").tolist() == [97, 0xC3, 0xA9, 0xE7, 0x8C, 0xAB]
    assert tokens.tokens_of(Text()).decode([97, 0xC3]) == "a" + tokens.OTHER


@pytest.mark.parametrize("form", KINDS, ids=lambda form: form.tokens)
@given(text=any_text)
def test_any_text_comes_back(form: Text, text: str) -> None:
    coder = tokens.tokens_of(form)
    ids = coder.encode(text)
    assert coder.decode(ids.tolist()) == text
    assert coder.size == form.vocabulary_size
    assert all(0 <= i < coder.size for i in ids.tolist())


@given(text=any_text)
def test_characters_that_are_not_in_the_vocabulary_are_one_token(text: str) -> None:
    form = Text(tokens="characters", vocabulary=("猫", "b", "a"))  # in any order
    coder = tokens.tokens_of(form)
    expected = [form.vocabulary.index(c) if c in form.vocabulary else 3 for c in text]
    assert coder.encode(text).tolist() == expected
    assert coder.decode(expected) == "".join(c if c in form.vocabulary else tokens.OTHER for c in text)
    assert coder.size == form.vocabulary_size == 4


def test_the_most_frequent_characters_make_the_vocabulary(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tokens.vocabulary(Counter("banana\n")) == ("\n", "a", "b", "n")
    monkeypatch.setattr(tokens, "MOST_CHARACTERS", 2)
    assert tokens.vocabulary(Counter("banana\n")) == ("a", "n")


def test_byte_pairs_are_those_of_the_library() -> None:
    """The whole tokenizer of the library, with everything that it writes, splits text as ours does."""
    whole = tokenizers.ByteLevelBPETokenizer(add_prefix_space=False)
    whole.train_from_iterator([TEXT], vocab_size=300, show_progress=False)
    ours = tokens.Bpe(tokens.compact(whole.to_str()))
    for text in ("the theatre", "  thinks\n\nthat", "é 猫 \0"):
        assert ours.encode(text).tolist() == whole.encode(text).ids
    assert len(ours.encode("the theatre")) < 8
    old = json.loads(whole.to_str())
    old["model"]["merges"] = [" ".join(merge) for merge in old["model"]["merges"]]
    assert tokens.compact(json.dumps(old)) == tokens.compact(whole.to_str())


def test_the_same_text_gives_the_same_tokenizer() -> None:
    assert tokens.train_bpe([TEXT], 300) == BPE


@pytest.mark.parametrize(("tokenizer", "words"), [
    ("{}", "cannot be read"),
    ("[" * 10_000, "cannot be read"),
    ('{"model": {"vocab": {"a": 1, "b": 1}, "merges": []}}', "does not number its tokens"),
    ('{"model": {"vocab": {"a": 0, "b": 1}, "merges": []}}', "lacks bytes"),
    (BPE.replace('"merges":[', '"merges":[["a","nowhere"],'), "cannot be used"),
])
def test_tokenizers_that_cannot_be_used_give_a_sentence(tokenizer: str, words: str) -> None:
    with pytest.raises(TaskError, match=words):
        tokens.tokens_of(Text(tokens="bpe", tokenizer=tokenizer))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"model": {"vocab": 3, "merges": [1]}}', '{"model": 5}'])
def test_files_that_are_no_tokenizers_give_a_sentence(text: str) -> None:
    with pytest.raises(TaskError):
        tokens.compact(text)


@pytest.mark.parametrize("form", [Text(tokens="characters"), Text(tokens="bpe")], ids=lambda form: form.tokens)
def test_tokens_that_are_not_fixed(form: Text) -> None:
    with pytest.raises(TaskError, match="not fixed yet"):
        tokens.tokens_of(form)


