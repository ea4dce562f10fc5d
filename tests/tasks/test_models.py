"""Models: shapes, counts by hand, weights from the seed, losses, and that the digits are learnt."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from desktop.errors import TaskError
from desktop.library.evaluate import Evaluation, evaluate, evaluate_all
from desktop.tasks import models
from desktop.tasks.builtin import DIGITS, IMAGES
from desktop.tasks.data import ArraySet, Batches, TaskData, load_sample
from desktop.tasks.gpt import Size, _Block
from desktop.tasks.image_models import Dropout
from desktop.tasks.spec import Column, Images, Table, TaskSpec, Text

PETS = IMAGES.with_classes(["cat", "dog"])
TEXT = TaskSpec(id="text", title="Text", text="", form=Text(), model="gpt-nano")


def table(**form: Any) -> TaskSpec:
    """A task for a table."""
    return TaskSpec(id="table", title="Table", text="", form=Table(label="it", **form), model="mlp")


def count(spec: TaskSpec) -> int:
    """Parameters of the task's model, without its weights."""
    return sum(map(math.prod, models.weight_shapes(spec).values()))


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """The order of additions, and so the last bits, depend on the number of threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_parameters_of_the_digits_model_counted_by_hand() -> None:
    convolutions = (9 * 1 * 16 + 16) + (9 * 16 * 32 + 32)
    norms = 2 * 16 + 2 * 32
    linear = (32 * 4 * 4 * 64 + 64) + (64 * 10 + 10)
    assert models.parameter_count(models.build_model(DIGITS, 0)) == convolutions + norms + linear == 38_378


def test_parameters_of_the_model_for_pictures_counted_by_hand() -> None:
    convolutions = (9 * 3 * 24 + 24) + (9 * 24 * 48 + 48) + (9 * 48 * 64 + 64) + (9 * 64 * 96 + 96)
    norms = 2 * (24 + 48 + 64 + 96)
    assert models.parameter_count(models.build_model(PETS, 0)) == convolutions + norms + (96 * 2 + 2) == 94_850


@pytest.mark.parametrize("spec", [DIGITS, DIGITS.changed(height=9, width=12), PETS, PETS.changed(height=8, width=8),
                                  PETS.changed(height=33, width=70, channels=1)],
                         ids=lambda spec: f"{spec.images.height}")
def test_any_size_gives_a_number_per_class(spec: TaskSpec) -> None:
    x = torch.zeros(2, spec.images.channels, spec.images.height, spec.images.width)
    assert models.build_model(spec, 0)(x).shape == (2, len(spec.classes))


def test_weights_follow_from_the_seed_alone() -> None:
    torch.manual_seed(1)
    first = models.build_model(DIGITS, 7).state_dict()
    torch.manual_seed(2)
    again, other = models.build_model(DIGITS, 7).state_dict(), models.build_model(DIGITS, 8).state_dict()
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["0.weight"], other["0.weight"])


def test_building_does_not_disturb_the_global_generator() -> None:
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    models.build_model(DIGITS, 0)
    assert torch.equal(torch.rand(4), expected)


def test_shapes_are_those_of_the_model() -> None:
    model = models.build_model(PETS, 0)
    assert models.weight_shapes(PETS) == {name: tuple(value.shape) for name, value in model.state_dict().items()}
    assert {value.dtype for value in model.state_dict().values()} == {torch.float32}


def test_no_model_without_classes() -> None:
    with pytest.raises(TaskError, match="classes are not fixed"):
        models.build_model(IMAGES, 0)


@pytest.mark.parametrize(("name", "kind"), [("adamw", torch.optim.AdamW), ("adam", torch.optim.Adam),
                                            ("sgd", torch.optim.SGD)])
def test_optimisers(name: str, kind: type[torch.optim.Optimizer]) -> None:
    parameters = list(models.build_model(DIGITS, 0).parameters())
    optimiser = models.build_optimiser(DIGITS.changed(optimiser=name), parameters)
    assert type(optimiser) is kind
    assert optimiser.param_groups[0]["lr"] == 1e-3
    assert models.build_optimiser(DIGITS, parameters, lr=0.5).param_groups[0]["lr"] == 0.5


def test_loss_is_the_mean_cross_entropy() -> None:
    logits = torch.tensor([[0.0, math.log(3)], [math.log(3), 0.0]], requires_grad=True)
    loss, correct = models.loss_and_correct(PETS, logits, torch.tensor([1, 1]))
    assert loss.item() == pytest.approx((math.log(4 / 3) + math.log(4)) / 2, rel=1e-6)
    assert correct.item() == 1


def test_loss_of_a_table_with_one_logit_is_that_of_two() -> None:
    spec = table(classes=("no", "yes"))
    logit, y = torch.tensor([-2.0, 0.5, 3.0]), torch.tensor([0, 0, 1])
    expected = (math.log(1 + math.exp(-2)) + math.log(1 + math.exp(0.5)) + math.log(1 + math.exp(-3))) / 3
    loss, correct = models.loss_and_correct(spec, logit, y)
    assert loss.item() == pytest.approx(expected, rel=1e-6)
    assert correct.item() == 2
    two = torch.stack((torch.zeros(3), logit), dim=1)  # a class's logit against 0
    assert models.loss_and_correct(spec, two, y)[0].item() == pytest.approx(expected, rel=1e-6)
    assert torch.allclose(models.probabilities(logit), models.probabilities(two))


def test_loss_of_a_number_is_the_squared_error() -> None:
    loss, correct = models.loss_and_correct(table(goal="number"), torch.tensor([1.0, 4.0]), torch.tensor([1.5, 2.0]))
    assert loss.item() == pytest.approx((0.25 + 4) / 2)
    assert correct.item() == 0


def test_loss_of_text_is_the_mean_over_its_tokens() -> None:
    outputs = torch.zeros(2, 3, 256, dtype=torch.bfloat16)
    outputs[0, 1, 7] = 100
    y = torch.tensor([[1, 7, 2], [3, 4, 5]])
    loss, correct = models.loss_and_correct(TEXT, outputs, y)
    assert loss.item() == pytest.approx(5 / 6 * math.log(256), rel=1e-6)
    assert correct.item() == 1


@pytest.fixture(scope="module")
def data() -> TaskData:
    return load_sample(DIGITS)


@pytest.mark.parametrize("seed", range(5))
def test_an_untrained_model_takes_all_classes_for_equally_likely(data: TaskData, seed: int) -> None:
    model = models.build_model(DIGITS, seed)
    x, y = models.tensors(data.train, slice(0, 200))
    assert models.loss_and_correct(DIGITS, model(x), y)[0].item() == pytest.approx(math.log(10), rel=0.02)
    for part in (data.train, data.validation, data.test):
        assert evaluate_all(model, DIGITS, part).loss == pytest.approx(math.log(10), rel=0.02)


def test_training_and_validation_loss_are_computed_alike(data: TaskData) -> None:
    model = models.build_model(DIGITS, 0)
    x, y = models.tensors(data.train, slice(0, len(data.train)))
    loss, correct = models.loss_and_correct(DIGITS, model(x), y)
    for batch in (7, 256, 5000):
        found = evaluate_all(model, DIGITS, data.train, batch)
        assert found.loss == pytest.approx(loss.item(), rel=1e-5)
        assert found.accuracy == pytest.approx(int(correct) / len(data.train))
        assert found.n == len(data.train)


def test_evaluation_in_slices_leaves_training_as_it_was(data: TaskData) -> None:
    model = models.build_model(DIGITS, 0)
    slices = evaluate(model, DIGITS, data.test, batch=100)
    assert next(slices) == 100
    assert model.training
    assert torch.is_grad_enabled()
    assert list(slices) == [200, 270]
    model.eval()
    next(evaluate(model, DIGITS, data.test))
    assert not model.training


def test_evaluation_of_nothing(data: TaskData) -> None:
    nothing = ArraySet(data.test.pixels[:0], data.test.labels[:0], data.test.scale)
    assert evaluate_all(models.build_model(DIGITS, 0), DIGITS, nothing) == Evaluation(None, None, 0)


def test_the_digits_are_learnt_alone(data: TaskData) -> None:
    model = models.build_model(DIGITS, DIGITS.seed)
    optimiser = models.build_optimiser(DIGITS, model.parameters())
    batches = Batches(len(data.train), DIGITS.batch, seed=1)
    for _ in range(240):  # 12 rounds of 20 local steps
        x, y = models.tensors(data.train, next(batches))
        loss, _ = models.loss_and_correct(DIGITS, model(x), y)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    found = evaluate_all(model, DIGITS, data.test)
    assert found.accuracy is not None
    assert found.accuracy >= 0.95


def test_pictures_are_learnt() -> None:
    """Stripes that stand and stripes that lie, of any colour: 64 × 64."""
    rng = np.random.default_rng(0)
    labels = np.arange(64) % 2
    pixels = rng.integers(0, 256, (64, 3, 64, 64), dtype=np.uint8) // 4
    for picture, label in zip(pixels, labels, strict=True):
        striped = picture if label else picture.transpose(0, 2, 1)
        striped[rng.integers(3), rng.integers(6)::6] += 128
    samples = ArraySet(pixels, labels.astype(np.int64), 1 / 255)
    model = models.build_model(PETS, 1)
    optimiser = models.build_optimiser(PETS, model.parameters())
    batches = Batches(48, 16, seed=1)
    for _ in range(30):
        x, y = models.tensors(samples, next(batches))
        loss, _ = models.loss_and_correct(PETS, model(x), y)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert evaluate_all(model, PETS, samples.only(np.arange(48, 64))).accuracy == 1.0


# -- models of the built-in tasks: what the layers add up to ---------------------------------------------


def pictures(model: str, side: int, channels: int, classes: int, **values: Any) -> TaskSpec:
    """A task for square pictures."""
    form = Images(classes=tuple(map(str, range(classes))), height=side, width=side, channels=channels)
    return TaskSpec(id="pictures", title="Pictures", text="", form=form, model=model, **values)


def test_parameters_of_the_mnist_models_counted_by_hand() -> None:
    convolutions = (25 * 1 * 8 + 8) + (25 * 8 * 16 + 16)
    linear = (16 * 10 * 10 * 32 + 32) + (32 * 10 + 10)  # 28 - 4 - 4 = 20, halved
    assert count(pictures("mnist-cnn", 28, 1, 10)) == convolutions + linear == 54_986
    assert count(pictures("mlp", 28, 1, 10, widths=(128,))) == 784 * 128 + 128 + 128 * 10 + 10 == 101_770


def test_parameters_of_the_ultrasound_model_counted_by_hand() -> None:
    convolutions = (25 * 3 * 8 + 8) + (25 * 8 * 16 + 16)
    assert count(pictures("lus-cnn", 100, 3, 2)) == convolutions + (16 * 22 * 22 * 2 + 2) == 19_314


def test_parameters_of_the_mobilenets_are_the_published_ones() -> None:
    """Those of Keras' applications: trainable parameters with alpha 0.25 and its 1,000 classes, and with alpha 0.35
    without a head. GroupNorm has as many as BatchNorm.
    """
    assert count(pictures("mobilenet-v1", 224, 3, 10)) == 470_072 - (256 * 1000 + 1000) + (256 * 10 + 10)
    head = (1280 * 1024 + 1024) + (1024 * 2 + 2)
    assert count(pictures("mobilenet-v2", 200, 3, 2)) == 396_128 + head


@pytest.mark.parametrize("model", ["mnist-cnn", "lus-cnn", "mobilenet-v1", "mobilenet-v2", "mlp"])
@pytest.mark.parametrize("seed", range(3))
def test_untrained_models_take_all_classes_for_equally_likely(model: str, seed: int) -> None:
    spec = pictures(model, 48, 3, 3)
    built = models.build_model(spec, seed)
    x = torch.rand(16, 3, 48, 48, generator=torch.Generator().manual_seed(seed))
    loss, _ = models.loss_and_correct(spec, built(x), torch.arange(16) % 3)
    assert loss.item() == pytest.approx(math.log(3), rel=0.02)
    loss.backward()
    assert all(weight.grad is not None and weight.grad.isfinite().all() for weight in built.parameters())


@pytest.mark.parametrize(("model", "least"), [("digits-cnn", 8), ("small-cnn", 8), ("mnist-cnn", 10), ("lus-cnn", 16),
                                              ("mobilenet-v1", 8), ("mobilenet-v2", 8), ("mlp", 8)])
def test_the_smallest_pictures_that_a_model_reads(model: str, least: int) -> None:
    spec = pictures(model, least, 1, 2).changed(width=least + 3)
    assert models.build_model(spec, 0)(torch.zeros(2, 1, least, least + 3)).shape == (2, 2)
    if least > 8:
        with pytest.raises(TaskError, match=f"reads pictures of {least} to 512 points a side"):
            spec.changed(width=least - 1)


def test_dropout_follows_from_the_seed_and_is_off_outside_training() -> None:
    spec = pictures("mnist-cnn", 28, 1, 10)
    x = torch.rand(4, 1, 28, 28)
    first, again, other = (models.build_model(spec, seed) for seed in (1, 1, 2))
    torch.manual_seed(5)
    runs = [first(x), first(x)]
    torch.manual_seed(6)
    assert [torch.equal(run, again(x)) for run in runs] == [True, True]
    assert not torch.equal(*runs)
    assert torch.equal(first.eval()(x), again.eval()(x))
    assert not torch.equal(first(x), other.eval()(x))


def test_dropout_keeps_the_mean() -> None:
    x = torch.ones(100_000)
    found = Dropout(0.25)(x)
    assert found.unique().tolist() == pytest.approx([0, 4 / 3])
    assert found.mean().item() == pytest.approx(1, abs=0.01)  # deviation 0.002


@pytest.mark.parametrize(("classes", "goal", "shape"), [(("a", "b"), "classes", (4,)), (("a", "b", "c"), "classes",
                                                        (4, 3)), ((), "number", (4,))])
def test_a_table_has_one_output_for_two_classes_or_a_number(classes: tuple[str, ...], goal: str,
                                                            shape: tuple[int, ...]) -> None:
    columns = (Column(name="age", role="number"), Column(name="port", role="category", values=("C", "Q", "S")))
    spec = table(classes=classes, goal=goal, columns=columns).changed(widths=(124, 64, 32))
    last = (32 + 1) * (shape[1] if len(shape) > 1 else 1)
    scales = 3 * (2 if goal == "number" else 1)  # mean, spread and what is missing: of the age, and of the label
    assert count(spec) == (6 * 124 + 124) + (124 * 64 + 64) + (64 * 32 + 32) + last + scales
    assert models.build_model(spec, 0)(torch.zeros(4, 6)).shape == shape
    with pytest.raises(TaskError, match="columns are not fixed"):
        models.build_model(spec.changed(columns=()), 0)


def test_a_model_too_large_for_any_computer_is_refused() -> None:
    # (786,432 + 1) × 4,096 + (4,096 + 1) × 4,096 + (4,096 + 1) × 2
    with pytest.raises(TaskError, match="3,238,019,074 parameters; allowed: up to 1,000,000,000"):
        count(pictures("mlp", 512, 3, 2, widths=(4096, 4096)))


# -- GPT -------------------------------------------------------------------------------------------------


def gpt(name: str, vocabulary: int = 256, **form: Any) -> TaskSpec:
    """A task for text whose tokenizer has so many tokens."""
    names = {f"t{i}": i for i in range(vocabulary)}
    tokenizer = json.dumps({"model": {"type": "BPE", "vocab": names, "merges": []}})
    return TEXT.changed(model=name, tokens="bpe", tokenizer=tokenizer, **form)


def test_gpt2_has_the_published_parameters_with_their_names_and_shapes() -> None:
    """Those of the published checkpoint of GPT-2 small: 148 tensors, 124,439,808 numbers, the head tied."""
    shapes = models.weight_shapes(gpt("gpt2", 50257, block=1024))
    assert sum(map(math.prod, shapes.values())) == 124_439_808
    layer = {
        "ln_1.weight": (768,), "ln_1.bias": (768,), "attn.c_attn.weight": (768, 2304), "attn.c_attn.bias": (2304,),
        "attn.c_proj.weight": (768, 768), "attn.c_proj.bias": (768,), "ln_2.weight": (768,), "ln_2.bias": (768,),
        "mlp.c_fc.weight": (768, 3072), "mlp.c_fc.bias": (3072,), "mlp.c_proj.weight": (3072, 768),
        "mlp.c_proj.bias": (768,),
    }
    expected = {"wte.weight": (50257, 768), "wpe.weight": (1024, 768), "ln_f.weight": (768,), "ln_f.bias": (768,)}
    expected |= {f"h.{i}.{name}": shape for i in range(12) for name, shape in layer.items()}
    assert shapes == expected
    assert len(shapes) == 148


@pytest.mark.parametrize(("name", "layers", "width"), [("gpt-nano", 3, 48), ("gpt-micro", 4, 128),
                                                       ("gpt-mini", 6, 192)])
def test_parameters_of_the_small_gpts_counted_by_hand(name: str, layers: int, width: int) -> None:
    attention = (width * 3 * width + 3 * width) + (width * width + width)
    linear = (width * 4 * width + 4 * width) + (4 * width * width + width)
    layer = attention + linear + 2 * 2 * width
    assert count(TEXT.changed(model=name)) == (256 + 128) * width + layers * layer + 2 * width


@pytest.mark.parametrize(("name", "vocabulary"), [("gpt-nano", 30), ("gpt-nano", 256), ("gpt-micro", 65),
                                                  ("gpt-mini", 30)])
def test_an_untrained_gpt_starts_at_the_logarithm_of_the_vocabulary(name: str, vocabulary: int) -> None:
    spec = gpt(name, vocabulary)
    x = torch.randint(vocabulary, (4, 129), generator=torch.Generator().manual_seed(0))
    outputs = models.build_model(spec, 3)(x[:, :-1])
    assert outputs.shape == (4, 128, vocabulary)
    loss, _ = models.loss_and_correct(spec, outputs, x[:, 1:])
    assert loss.item() == pytest.approx(math.log(vocabulary), rel=0.02)


def test_a_gpt_does_not_look_ahead() -> None:
    model = models.build_model(TEXT, 0)
    x = torch.arange(20).reshape(1, -1)
    changed = x.clone()
    changed[0, 10:] += 100
    before, after = model(x), model(changed)
    assert torch.equal(before[0, :10], after[0, :10])
    assert not torch.allclose(before[0, 10:], after[0, 10:])


def test_a_gpt_computes_what_gpt2_computes() -> None:
    """One layer and one head written out from the paper, in double precision."""
    torch.manual_seed(1)
    block = _Block(Size(1, 1, 8)).double()
    for weight in block.parameters():
        torch.nn.init.normal_(weight)
    w = dict(block.named_parameters())
    x = torch.randn(1, 5, 8, dtype=torch.float64)

    def norm(x: torch.Tensor, name: str) -> torch.Tensor:
        scaled = (x - x.mean(-1, keepdim=True)) / (x.var(-1, unbiased=False, keepdim=True) + 1e-5).sqrt()
        return scaled * w[f"{name}.weight"] + w[f"{name}.bias"]

    def linear(x: torch.Tensor, name: str) -> torch.Tensor:
        return x @ w[f"{name}.weight"] + w[f"{name}.bias"]

    query, key, value = linear(norm(x, "ln_1"), "attn.c_attn").chunk(3, dim=-1)
    scores = query @ key.transpose(1, 2) / math.sqrt(8)
    scores = scores.masked_fill(torch.ones(5, 5).triu(1).bool(), -math.inf)
    middle = x + linear(scores.softmax(-1) @ value, "attn.c_proj")
    wide = linear(norm(middle, "ln_2"), "mlp.c_fc")
    wide = 0.5 * wide * (1 + torch.tanh(math.sqrt(2 / math.pi) * (wide + 0.044715 * wide**3)))
    assert torch.allclose(block(x), middle + linear(wide, "mlp.c_proj"), atol=1e-10)


def test_a_gpt_needs_its_tokens_fixed() -> None:
    for tokens in ("characters", "bpe"):
        with pytest.raises(TaskError, match="tokens are not fixed"):
            models.build_model(TEXT.changed(tokens=tokens), 0)
    with pytest.raises(TaskError, match="tokenizer cannot be read"):
        models.build_model(TEXT.changed(tokens="bpe", tokenizer="{}"), 0)
