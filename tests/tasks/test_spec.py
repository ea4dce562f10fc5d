"""The task record: what is refused, in which words, and what its digest covers."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from desktop.errors import TaskError, TooLittleDataError
from desktop.tasks.builtin import DIGITS, IMAGES, TASKS, card
from desktop.tasks.spec import TaskSpec, Text, class_name

CATS = IMAGES.with_classes(["dog", "cat"])


def test_cards_are_listed_without_torch() -> None:
    code = ("import sys; from desktop.tasks import builtin, readers, data, spec; from desktop.library import store; "
            "[builtin.card(task) for task in builtin.TASKS.values()]; data.load_sample(builtin.DIGITS); "
            "sys.exit(any(name in sys.modules for name in ('torch', 'PySide6')))")
    assert subprocess.run([sys.executable, "-c", code], timeout=30).returncode == 0


def test_the_digits_task_has_the_values_of_the_table() -> None:
    form = DIGITS.images
    assert (form.height, form.width, form.channels) == (8, 8, 1)
    assert (DIGITS.optimiser, DIGITS.lr, DIGITS.batch, DIGITS.local_steps) == ("adamw", 1e-3, 32, 20)
    assert DIGITS.classes == ("0", "1", "2", "3", "4", "5", "6", "7", "8", "9")


@pytest.mark.parametrize(("name", "size", "classes", "model", "optimiser", "lr", "batch", "epochs"), [
    ("mnist", (28, 28, 1), 10, "mnist-cnn", "adam", 1e-3, 64, (20, 2)),
    ("lus_covid", (100, 100, 3), 2, "lus-cnn", "sgd", 0.01, 5, (50, 2)),
    ("cifar10", (224, 224, 3), 10, "mobilenet-v1", "sgd", 0.01, 10, (10, 1)),
    ("simple_face", (200, 200, 3), 2, "mobilenet-v2", "sgd", 0.001, 10, (50, 1)),
])
def test_the_tasks_for_pictures_have_the_values_of_the_table(
        name: str, size: tuple[int, int, int], classes: int, model: str, optimiser: str, lr: float, batch: int,
        epochs: tuple[int, int]) -> None:
    task = TASKS[name]
    form = task.images
    assert ((form.height, form.width, form.channels), len(form.classes)) == (size, classes)
    assert (task.model, task.optimiser, task.lr, task.batch) == (model, optimiser, lr, batch)
    assert (task.rounds * task.local_epochs, task.local_epochs) == epochs


@pytest.mark.parametrize(("name", "tokens"), [("shakespeare", "bytes"), ("wikitext", "bpe")])
def test_the_tasks_for_text_have_the_values_of_the_table(name: str, tokens: str) -> None:
    task = TASKS[name]
    assert isinstance(task.form, Text)
    assert (task.form.tokens, task.form.block, task.model) == (tokens, 128, "gpt-nano")
    assert (task.optimiser, task.lr, task.clip, task.batch, task.local_steps) == ("adamw", 1e-3, 1.0, 8, 50)


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_builtin_tasks_survive_being_sent(task: TaskSpec) -> None:
    assert TaskSpec.from_json(task.to_json()) == task
    assert card(task).title == task.title


def test_the_host_sorts_the_classes_and_strips_their_names() -> None:
    assert IMAGES.with_classes(["zebra ", "ant", "zebra"]).classes == ("ant", "zebra")


def test_one_class_is_too_little() -> None:
    with pytest.raises(TooLittleDataError, match="one class, at least 2 classes are needed"):
        IMAGES.with_classes(["cat", "cat "])


def test_decomposed_and_composed_names_are_one_class() -> None:
    assert class_name("U\u0308bung") == class_name("\u00dcbung") == "\u00dcbung"


@pytest.mark.parametrize(("key", "value", "words"), [
    ("lr", 0, "lr is 0; allowed: 1e-08 to 10"),
    ("lr", 1e6, "lr is 1e+06"),
    ("batch", 65_537, "batch is 65537"),
    ("batch", 1.5, "batch: expected int, got float"),
    ("local_steps", 0, "local_steps is 0; allowed: 1 to"),
    ("validation", 0.9, "validation is 0.9"),
    ("validation", -0.1, "validation is -0.1"),
    ("width", 100_000, "width is 100000"),
    ("channels", 2, "channels: invalid enum value 2"),
    ("model", "resnet", "model is resnet; for images allowed: digits-cnn"),
    ("classes", ["cat"], "it has 1 classes"),
    ("classes", ["cat", "cat"], "two classes have the same name"),
    ("classes", ["cat", " dog"], "“ dog” cannot be the name of a class"),
    ("classes", ["cat", ""], "“” cannot be the name of a class"),
    ("classes", ["cat", "d" * 101], "cannot be the name of a class"),
    ("title", "t" * 201, "too long"),
    ("surprise", 1, "unknown field surprise"),
])
def test_impossible_values_are_refused_with_the_key(key: str, value: object, words: str) -> None:
    with pytest.raises(TaskError) as caught:
        TaskSpec.from_json(with_value(key, value))
    assert words in caught.value.sentence


def with_value(key: str, value: object) -> str:
    """CATS as JSON, with one value of the task or of its form changed or added."""
    task = json.loads(CATS.to_json())
    (task["form"] if key in task["form"] else task)[key] = value
    return json.dumps(task)


def test_a_changed_value_is_checked_as_well() -> None:
    assert CATS.changed(lr=0.01).lr == 0.01
    with pytest.raises(TaskError, match="batch is 0"):
        CATS.changed(batch=0)
    with pytest.raises(TaskError, match="“colour” is not a key of a task"):
        CATS.changed(colour=3)


def test_a_model_for_digits_is_not_built_for_photographs() -> None:
    with pytest.raises(TaskError, match="8 to 64 points a side"):
        DIGITS.changed(height=512, width=512)


@given(st.one_of(st.binary(max_size=200), st.text(max_size=200).map(str.encode),
                 st.dictionaries(st.sampled_from((*TaskSpec.__struct_fields__, "height")),
                                 st.one_of(st.none(), st.integers(), st.text(max_size=5), st.floats(),
                                           st.lists(st.text(max_size=5), max_size=3)), max_size=4)
                 .map(lambda changes: json.dumps(json.loads(CATS.to_json()) | changes).encode())))
def test_any_text_gives_a_task_or_a_sentence(text: bytes) -> None:
    with contextlib.suppress(TaskError):  # any other exception would be a traceback for a person
        TaskSpec.from_json(text).check()


def test_deep_nesting_and_endless_text_are_refused() -> None:
    for text in (b"[" * 100_000, b'{"id":' * 20_000, b" " * 1_100_000):
        with pytest.raises(TaskError):
            TaskSpec.from_json(text)


def test_the_digest_covers_what_must_fit_together_and_nothing_else() -> None:
    assert CATS.schema_digest() == CATS.changed(lr=0.5, title="Pets", rounds=3, seed=1).schema_digest()
    others = [CATS.changed(classes=["dog", "cat"]), CATS.changed(height=8), CATS.changed(channels=1),
              CATS.changed(strokes=True), CATS.changed(height=64, width=32), CATS.changed(height=32, width=64)]
    assert len({CATS.schema_digest(), *(other.schema_digest() for other in others)}) == 7


def test_noise_is_a_multiple_of_a_bound() -> None:
    with pytest.raises(TaskError, match="privacy_noise is a multiple of privacy_clip, which is 0"):
        DIGITS.changed(privacy_noise=0.5)
    assert DIGITS.changed(privacy_noise=0.5, privacy_clip=1.0).privacy_noise == 0.5
