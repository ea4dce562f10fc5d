"""The models that read pictures or rows of a table, in the sizes of the systems that people train in a browser today.

x float32 [n, channels, height, width] or [n, inputs] -> outputs [n, outputs], or [n] where that is one.
GroupNorm throughout: it keeps no running statistics, which would have to be averaged apart from the weights.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable

import torch
from torch import nn

from desktop.tasks.spec import TaskSpec


class Dropout(nn.Module):
    """Drops a share `p` of the numbers while training. What it drops follows from the seed of the model's weights."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p
        self.random = random.Random(0)  # torch's own dropout would draw from the generator that all of a process share

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.training:
            return x
        generator = torch.Generator(x.device).manual_seed(self.random.getrandbits(63))
        return x * torch.empty_like(x).bernoulli_(1 - self.p, generator=generator) / (1 - self.p)


def draw(model: nn.Module, generator: torch.Generator) -> None:
    """Weights for a model of these layers."""
    layers = list(model.modules())
    last = max(i for i, layer in enumerate(layers) if isinstance(layer, nn.Linear))
    for i, layer in enumerate(layers):
        if isinstance(layer, nn.Conv2d | nn.Linear):
            # He et al. 2015 for layers before a ReLU. The last layer starts near 0, so that an untrained model
            # takes all classes for equally likely: its loss is ln(classes).
            fan_in = layer.weight[0].numel()
            std = min(0.01, 0.64 / fan_in) if i == last else math.sqrt(2 / fan_in)
            nn.init.normal_(layer.weight, std=std, generator=generator)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
        elif isinstance(layer, nn.GroupNorm):
            nn.init.ones_(layer.weight)
            nn.init.zeros_(layer.bias)
        elif isinstance(layer, Dropout):
            layer.random.seed(f"{generator.initial_seed()}/{i}")


def digits_cnn(spec: TaskSpec, outputs: int) -> nn.Module:
    """Two convolutions at full size, halved, two linear layers: 38,378 parameters for 8 × 8 grey and 10 classes."""
    return nn.Sequential(
        nn.Conv2d(spec.images.channels, 16, 3, padding=1), nn.GroupNorm(4, 16), nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1), nn.GroupNorm(8, 32), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(32 * (spec.images.height // 2) * (spec.images.width // 2), 64), nn.ReLU(),
        nn.Linear(64, outputs),
    )


def small_cnn(spec: TaskSpec, outputs: int) -> nn.Module:
    """Four convolutions, halved in between, averaged over the picture: 94,850 parameters for colour and 2 classes."""
    widths = (spec.images.channels, 24, 48, 64, 96)
    layers: list[nn.Module] = []
    for before, after in itertools.pairwise(widths):
        layers += [nn.Conv2d(before, after, 3, padding=1), nn.GroupNorm(8, after), nn.ReLU(), nn.MaxPool2d(2)]
    layers[-1:] = [nn.AdaptiveAvgPool2d(1), nn.Flatten()]  # no halving after the last: 8 × 8 is the smallest picture
    return nn.Sequential(*layers, nn.Linear(widths[-1], outputs))


def mnist_cnn(spec: TaskSpec, outputs: int) -> nn.Module:
    """Two convolutions, halved, two linear layers: 54,986 parameters for 28 × 28 grey and 10 classes."""
    height, width = (spec.images.height - 8) // 2, (spec.images.width - 8) // 2
    return nn.Sequential(
        nn.Conv2d(spec.images.channels, 8, 5), nn.ReLU(), nn.Conv2d(8, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
        Dropout(0.25), nn.Flatten(), nn.Linear(16 * height * width, 32), nn.ReLU(), Dropout(0.25),
        nn.Linear(32, outputs),
    )


def lus_cnn(spec: TaskSpec, outputs: int) -> nn.Module:
    """Two convolutions, halved twice, one linear layer: 19,314 parameters for 100 × 100 colour and 2 classes."""
    height, width = (((side - 4) // 2 - 4) // 2 for side in (spec.images.height, spec.images.width))
    return nn.Sequential(
        nn.Conv2d(spec.images.channels, 8, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(16 * height * width, outputs),
    )


def mlp(inputs: int, widths: tuple[int, ...], outputs: int) -> nn.Module:
    """Linear layers with hidden ones of these widths: 101,770 parameters for 784 inputs, 128 and 10."""
    layers: list[nn.Module] = [nn.Flatten()]
    for before, after in itertools.pairwise((inputs, *widths)):
        layers += [nn.Linear(before, after), nn.ReLU()]
    layers.append(nn.Linear((inputs, *widths)[-1], outputs))
    if outputs == 1:
        layers.append(nn.Flatten(0))
    return nn.Sequential(*layers)


def mobilenet_v1(spec: TaskSpec, outputs: int) -> nn.Module:
    """MobileNet (Howard et al. 2017) of a quarter of the width, averaged, one linear layer."""
    blocks = [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1)]
    layers, before = [_convolution(spec.images.channels, 8, 3, stride=2)], 8
    for full, stride in blocks:
        after = full // 4
        layers += [_convolution(before, before, 3, stride=stride, groups=before), _convolution(before, after, 1)]
        before = after
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, outputs))


def mobilenet_v2(spec: TaskSpec, outputs: int) -> nn.Module:
    """MobileNetV2 (Sandler et al. 2018) of 0.35 of the width, averaged, two linear layers."""
    # Expansion, width × 0.35 as a multiple of 8, how many, stride of the first.
    stages = [(1, 8, 1, 1), (6, 8, 2, 2), (6, 16, 3, 2), (6, 24, 4, 2), (6, 32, 3, 1), (6, 56, 3, 2), (6, 112, 1, 1)]
    layers: list[nn.Module] = [_convolution(spec.images.channels, 16, 3, stride=2)]
    before = 16
    for expansion, after, count, stride in stages:
        for i in range(count):
            layers.append(_Bottleneck(before, after, expansion, stride if i == 0 else 1))
            before = after
    layers += [_convolution(before, 1280, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(1280, 1024), nn.ReLU(), nn.Linear(1024, outputs))


class _Bottleneck(nn.Module):
    """Widens, filters each channel, narrows; adds its input where the shape stayed."""

    def __init__(self, before: int, after: int, expansion: int, stride: int) -> None:
        super().__init__()
        wide = before * expansion
        widen = [_convolution(before, wide, 1)] if expansion > 1 else []
        self.layers = nn.Sequential(*widen, _convolution(wide, wide, 3, stride=stride, groups=wide),
                                    _convolution(wide, after, 1, active=False))
        self.adds = stride == 1 and before == after

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.layers(x)
        return x + found if self.adds else found


def _convolution(before: int, after: int, size: int, stride: int = 1, groups: int = 1, active: bool = True
                 ) -> nn.Module:
    """A convolution without bias, normalised in groups of 8 channels, then ReLU6."""
    layers = [nn.Conv2d(before, after, size, stride, size // 2, groups=groups, bias=False),
              nn.GroupNorm(after // 8, after)]
    return nn.Sequential(*layers, *[nn.ReLU6()] * active)


MODELS: dict[str, Callable[[TaskSpec, int], nn.Module]] = {
    "digits-cnn": digits_cnn, "small-cnn": small_cnn, "mnist-cnn": mnist_cnn, "lus-cnn": lus_cnn,
    "mobilenet-v1": mobilenet_v1, "mobilenet-v2": mobilenet_v2,
}
