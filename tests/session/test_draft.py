"""A task of one's own: each value is checked as it is typed, and the file brings the same task to another window."""

from __future__ import annotations

import contextlib
import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from desktop.errors import TaskFileError, TaskSaveError
from desktop.session.draft import BY_KEY, FIELDS, Draft, load_task, save_task
from desktop.tasks.builtin import DIGITS, IMAGES
from desktop.values import TASK_SUFFIX


def drawn() -> Draft:
    """A task for drawings of 28 × 28 points."""
    draft = Draft.begin("images")
    for key, text in {"title": "Doodles", "classes": " cat , sea   bird,, dog", "height": "28", "width": "28",
                      "channels": "grey", "model": "mlp", "widths": "64, 32", "lr": "0.01"}.items():
        draft.set(key, text)
    assert draft.error == ""
    return draft


def test_what_is_typed_becomes_a_task() -> None:
    spec = drawn().spec
    assert (spec.title, spec.classes, spec.model, spec.widths, spec.lr) == (
        "Doodles", ("cat", "sea bird", "dog"), "mlp", (64, 32), 0.01)
    assert (spec.images.height, spec.images.channels) == (28, 1)
    assert spec.sample == ""


@pytest.mark.parametrize(("key", "text", "words"), [
    ("height", "9600", "a whole number from 8 to 512"),
    ("height", "tall", "a whole number from 8 to 512"),
    ("lr", "0", "a number above 0"),
    ("batch", "65537", "a whole number from 1 to 65536"),
    ("classes", "cat", "it has 1 classes"),
    ("classes", "cat, cat", "two classes have the same name"),
    ("model", "gpt2", "model is gpt2"),
    ("widths", "0", "widths"),
    ("title", "", "up to 200 characters"),
])
def test_a_value_that_cannot_be_is_named_and_the_old_one_kept(key: str, text: str, words: str) -> None:
    draft = drawn()
    before = draft.spec
    draft.set(key, text)
    assert draft.spec == before
    assert words in draft.error
    rows = {row.key: row for group in draft.view().groups for row in group.rows}
    assert words in rows[key].error
    draft.set(key, BY_KEY[key].read(before))
    assert draft.error == ""


def test_only_values_that_fit_the_data_are_asked_for() -> None:
    keys = {row.key for group in drawn().view().groups for row in group.rows}
    assert "height" in keys
    assert not keys & {"label", "goal", "tokens", "block"}
    plain = Draft.begin("images")
    assert "widths" not in {row.key for group in plain.view().groups for row in group.rows}  # only an mlp has them


def test_a_draft_begins_with_the_task_chosen_but_not_with_its_sample() -> None:
    spec = Draft.begin(spec=DIGITS).spec
    assert (spec.images.height, spec.model, spec.sample) == (8, "digits-cnn", "")
    assert Draft.begin().spec.model == IMAGES.model


def test_the_file_can_be_read_by_people_and_brings_the_same_task(tmp_path: Path) -> None:
    spec = drawn().spec
    kept = save_task(spec, tmp_path / "doodles")
    assert kept.name == f"doodles{TASK_SUFFIX}"
    text = kept.read_text("utf-8")
    assert '\n    "classes": [' in text
    assert json.loads(text)["form"]["classes"] == ["cat", "sea bird", "dog"]
    assert load_task(kept) == spec
    assert [path.name for path in tmp_path.iterdir()] == [kept.name]


@pytest.mark.parametrize(("change", "words"), [
    ({"lr": 100}, "lr is 100; allowed"),
    ({"colour": 3}, "unknown field colour"),
    ({"batch": "many"}, "batch: expected int, got str"),
    ({"form": {"kind": "sound"}}, "form.kind: invalid value 'sound'"),
])
def test_a_file_that_is_wrong_is_refused_with_its_name_and_the_key(tmp_path: Path, change: dict[str, object],
                                                                    words: str) -> None:
    path = tmp_path / f"x{TASK_SUFFIX}"
    path.write_text(json.dumps(json.loads(drawn().spec.to_json()) | change), "utf-8")
    with pytest.raises(TaskFileError) as caught:
        load_task(path)
    assert words in caught.value.sentence
    assert path.name in caught.value.sentence


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(TaskSaveError, match="doodles"):
        save_task(drawn().spec, tmp_path / "missing" / "doodles")
    with pytest.raises(TaskFileError, match="nothing"):
        load_task(tmp_path / "nothing.peerloom-task")


@given(st.binary(max_size=300))
def test_any_file_gives_a_task_or_a_sentence(content: bytes) -> None:
    with tempfile.NamedTemporaryFile(suffix=TASK_SUFFIX) as file:
        file.write(content)
        file.flush()
        with contextlib.suppress(TaskFileError):
            load_task(Path(file.name))


@given(st.sampled_from(sorted(BY_KEY)), st.text(max_size=30))
def test_whatever_is_typed_the_draft_stays_a_task(key: str, text: str) -> None:
    draft = drawn()
    draft.set(key, text)
    draft.spec.check()
    assert draft.view().groups[0].title == next(iter(FIELDS))
