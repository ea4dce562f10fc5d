"""The models, their loss and their optimisers: all that needs torch in a task."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import nn

from desktop.errors import TaskError
from desktop.tasks import image_models, table_models
from desktop.tasks.gpt import GPT, SIZES
from desktop.tasks.samples import Indices, Samples
from desktop.tasks.spec import Table, TaskSpec, Text

MOST_PARAMETERS = 1_000_000_000

Builder = Callable[[TaskSpec], nn.Module]


def build_model(spec: TaskSpec, seed: int) -> nn.Module:
    """The task's model on the CPU, float32, its weights drawn from `seed` alone.

    x and outputs are those of the task's form and of `loss_and_correct`. The same seed gives the same weights on
    every machine with the same torch; torch's global generator is neither used nor moved.
    """
    model = _shape(spec)
    model.to_empty(device="cpu")
    generator = torch.Generator().manual_seed(seed)
    if isinstance(model, GPT):
        model.draw(generator)
    else:
        image_models.draw(model, generator)
        table_models.clear(model)
    return model


def _shape(spec: TaskSpec) -> nn.Module:
    """The layers without weights: on torch's meta device."""
    spec.check()
    if not output_count(spec):
        raise TaskError(why=f"its {'tokens' if spec.kind == 'text' else 'classes'} are not fixed yet")
    with torch.device("meta"):
        model = MODELS[spec.model](spec)
    count = parameter_count(model)
    if count > MOST_PARAMETERS:
        raise TaskError(why=f"its model would have {count:,} parameters; allowed: up to {MOST_PARAMETERS:,}")
    return model


def _mlp(spec: TaskSpec) -> nn.Module:
    form = spec.form
    if isinstance(form, Table):
        if not form.columns:
            raise TaskError(why="its columns are not fixed yet")
        return table_models.build(form, image_models.mlp(form.inputs, spec.widths, output_count(spec)))
    return image_models.mlp(spec.images.channels * spec.images.height * spec.images.width, spec.widths,
                            output_count(spec))


def _gpt(spec: TaskSpec) -> nn.Module:
    assert isinstance(spec.form, Text)
    return GPT(SIZES[spec.model], output_count(spec), spec.form.block)


def _for_images(build: Callable[[TaskSpec, int], nn.Module]) -> Builder:
    return lambda spec: build(spec, output_count(spec))


MODELS: dict[str, Builder] = {
    **{name: _for_images(build) for name, build in image_models.MODELS.items()},
    "mlp": _mlp,
    **dict.fromkeys(SIZES, _gpt),
}


def parameter_count(model: nn.Module) -> int:
    """How many numbers the model learns."""
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)


def weight_shapes(spec: TaskSpec) -> dict[str, tuple[int, ...]]:
    """Name and shape of each of the model's weights, in the model's order; costs no memory. All are float32."""
    return {name: tuple(weight.shape) for name, weight in _shape(spec).state_dict().items()}


def build_optimiser(spec: TaskSpec, parameters: Iterable[nn.Parameter], lr: float | None = None
                    ) -> torch.optim.Optimizer:
    """The task's optimiser with its weight decay and its learning rate, or with `lr`.

    AdamW takes the decay from the weights, Adam and SGD add it to the gradient, as torch does.

    Fused: one pass over the weights and no memory besides the state. For 124 million weights on one core a step of
    AdamW takes 0.24 s instead of 1.6.
    """
    rate = spec.lr if lr is None else lr
    match spec.optimiser:
        case "adamw":
            return torch.optim.AdamW(parameters, lr=rate, weight_decay=spec.weight_decay, fused=True)
        case "adam":
            return torch.optim.Adam(parameters, lr=rate, weight_decay=spec.weight_decay, fused=True)
        case "sgd":
            return torch.optim.SGD(parameters, lr=rate, weight_decay=spec.weight_decay, fused=True)


def warm_up() -> None:
    """Makes torch import what it imports at first use: 800 modules, over a second, for the first optimiser.

    Call it right after torch is imported, while the window says that it is loading.
    """
    weight = nn.Parameter(torch.zeros(1))
    optimiser = torch.optim.AdamW([weight], fused=True)
    (weight * 2).sum().backward()
    optimiser.step()


def tensors(samples: Samples, indices: Indices | slice, device: torch.device | str = "cpu"
            ) -> tuple[torch.Tensor, torch.Tensor]:
    """One batch on a device: x and y as the task's form says."""
    x, y = samples.batch(indices)
    return torch.from_numpy(x).to(device), torch.from_numpy(y).to(device)


def output_count(spec: TaskSpec) -> int:
    """How many numbers the model gives for a sample, or for a token of text.

    A table's two classes need one: the logit of the second. So does a number.
    """
    match spec.form:
        case Text():
            return spec.form.vocabulary_size
        case Table(goal="number"):
            return 1
        case Table(classes=(_, _)):
            return 1
        case _:
            return len(spec.classes)


def loss_and_correct(spec: TaskSpec, outputs: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean loss, and how many of the `y.numel()` answers are right (int64): no dimension, on the outputs' device.

    classes   outputs [n, classes], y int64 [n]: cross-entropy in nats
    two classes of a table  outputs [n], the logit of the second: the same, as binary cross-entropy
    text      outputs [n, block, vocabulary], y int64 [n, block]: cross-entropy in nats per token
    a number  outputs [n], y float32 [n]: squared error; none counts as right

    Training and validation both use this, so that their curves compare.
    """
    outputs = outputs.float()  # half precision is too coarse for a sum of exponentials
    found = outputs.detach()
    if isinstance(spec.form, Table) and outputs.dim() == 1:
        if spec.form.goal == "number":
            return nn.functional.mse_loss(outputs, y), torch.zeros((), dtype=torch.int64, device=y.device)
        loss = nn.functional.binary_cross_entropy_with_logits(outputs, y.to(outputs.dtype))
        return loss, ((found > 0) == (y > 0)).sum()
    loss = nn.functional.cross_entropy(outputs.flatten(end_dim=-2), y.flatten())
    return loss, (found.argmax(dim=-1) == y).sum()


def probabilities(outputs: torch.Tensor) -> torch.Tensor:
    """How likely each class is, float64 [n, classes], from logits [n, classes] or from the second one's [n]."""
    if outputs.dim() == 1:
        second = torch.sigmoid(outputs.double())
        return torch.stack((1 - second, second), dim=1)
    return torch.softmax(outputs.double(), dim=-1)
