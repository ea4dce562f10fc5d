"""The models, their loss and their optimisers: all that needs torch in a task."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable

import torch
from torch import nn

from desktop.errors import TaskError
from desktop.tasks.data import ArraySet, Indices
from desktop.tasks.spec import TaskSpec

# GroupNorm throughout: it keeps no running statistics, which would have to be averaged apart from the weights.


def build_model(spec: TaskSpec, seed: int) -> nn.Module:
    """The task's model on the CPU, float32, its weights drawn from `seed` alone.

    x float32 [n, channels, height, width] -> logits [n, classes]. The same seed gives the same weights on every
    machine with the same torch; torch's global generator is neither used nor moved.
    """
    model = _shape(spec)
    model.to_empty(device="cpu")
    generator = torch.Generator().manual_seed(seed)
    layers = list(model.modules())
    last = max(i for i, layer in enumerate(layers) if isinstance(layer, nn.Linear))
    for i, layer in enumerate(layers):
        if isinstance(layer, nn.Conv2d | nn.Linear):
            # He et al. 2015 for layers before a ReLU. The last layer starts near 0, so that an untrained model
            # takes all classes for equally likely: its loss is ln(classes).
            fan_in = layer.weight[0].numel()
            std = 0.01 if i == last else math.sqrt(2 / fan_in)
            nn.init.normal_(layer.weight, std=std, generator=generator)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
        elif isinstance(layer, nn.GroupNorm):
            nn.init.ones_(layer.weight)
            nn.init.zeros_(layer.bias)
    return model


def _shape(spec: TaskSpec) -> nn.Module:
    """The layers without weights: on torch's meta device."""
    spec.check()
    if len(spec.classes) < 2:
        raise TaskError(why="its classes are not fixed yet")
    with torch.device("meta"):
        return MODELS[spec.model](spec)


def _digits_cnn(spec: TaskSpec) -> nn.Module:
    """Two convolutions at full size, halved, two linear layers: 38,378 parameters for 8 × 8 grey and 10 classes."""
    return nn.Sequential(
        nn.Conv2d(spec.images.channels, 16, 3, padding=1), nn.GroupNorm(4, 16), nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1), nn.GroupNorm(8, 32), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(32 * (spec.images.height // 2) * (spec.images.width // 2), 64), nn.ReLU(),
        nn.Linear(64, len(spec.classes)),
    )


def _small_cnn(spec: TaskSpec) -> nn.Module:
    """Four convolutions, halved in between, averaged over the picture: 94,850 parameters for colour and 2 classes."""
    widths = (spec.images.channels, 24, 48, 64, 96)
    layers: list[nn.Module] = []
    for before, after in itertools.pairwise(widths):
        layers += [nn.Conv2d(before, after, 3, padding=1), nn.GroupNorm(8, after), nn.ReLU(), nn.MaxPool2d(2)]
    layers[-1:] = [nn.AdaptiveAvgPool2d(1), nn.Flatten()]  # no halving after the last: 8 × 8 is the smallest picture
    return nn.Sequential(*layers, nn.Linear(widths[-1], len(spec.classes)))


MODELS: dict[str, Callable[[TaskSpec], nn.Module]] = {"digits-cnn": _digits_cnn, "small-cnn": _small_cnn}


def parameter_count(model: nn.Module) -> int:
    """How many numbers the model learns."""
    return sum(parameter.numel() for parameter in model.parameters())


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


def tensors(samples: ArraySet, indices: Indices | slice, device: torch.device | str = "cpu"
            ) -> tuple[torch.Tensor, torch.Tensor]:
    """One batch on a device: x float32 [n, C, H, W], y int64 [n]."""
    x, y = samples.batch(indices)
    return torch.from_numpy(x).to(device), torch.from_numpy(y).to(device)


def loss_and_correct(spec: TaskSpec, logits: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean cross-entropy in nats, and how many are right (int64): both of no dimension, on the logits' device.

    Training and validation both use this, so that their curves compare.
    """
    loss = nn.functional.cross_entropy(logits, y)
    return loss, (logits.detach().argmax(dim=1) == y).sum()
