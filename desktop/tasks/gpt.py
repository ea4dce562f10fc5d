"""GPT-2's architecture in any size, its weights named and shaped as GPT-2's are, so that they load elsewhere."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import nn
from torch.nn import functional


class Size(NamedTuple):
    """Layers, attention heads of each, and numbers per token."""

    layers: int
    heads: int
    width: int


SIZES = {
    "gpt-nano": Size(3, 3, 48), "gpt-micro": Size(4, 4, 128), "gpt-mini": Size(6, 6, 192), "gpt2": Size(12, 12, 768),
}


class GPT(nn.Module):
    """The decoder of Radford et al. 2019. Tokens int64 [n, t], t <= block -> logits [n, t, vocabulary].

    The head is the embedding of the tokens again (tied): it has no weights of its own.
    """

    def __init__(self, size: Size, vocabulary: int, block: int) -> None:
        super().__init__()
        self.wte = nn.Embedding(vocabulary, size.width)
        self.wpe = nn.Embedding(block, size.width)
        self.h = nn.ModuleList(_Block(size) for _ in range(size.layers))
        self.ln_f = nn.LayerNorm(size.width)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.wte(tokens) + self.wpe.weight[: tokens.shape[1]]
        for block in self.h:
            x = block(x)
        return functional.linear(self.ln_f(x), self.wte.weight)

    def draw(self, generator: torch.Generator) -> None:
        """Weights: normal, with a deviation of 0.02 at GPT-2's width and larger ones for narrower models, and less
        where layers add up, as Radford et al. have it.

        The embeddings start smaller in wide models: as they are also the head, a model would otherwise expect each
        token to come again, and start above ln(vocabulary).
        """
        width = self.wte.embedding_dim
        for name, weight in self.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(weight)
            elif ".ln_" in name or name.startswith("ln_f"):
                nn.init.ones_(weight)
            else:
                std = min(0.04, 2 / width) if name in ("wte.weight", "wpe.weight") else 0.02 * math.sqrt(768 / width)
                if name.endswith("c_proj.weight"):
                    std /= math.sqrt(2 * len(self.h))
                nn.init.normal_(weight, std=std, generator=generator)


class _Block(nn.Module):
    """Attention, then two linear layers, each added to what it reads."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(size.width)
        self.attn = _Attention(size)
        self.ln_2 = nn.LayerNorm(size.width)
        self.mlp = nn.ModuleDict({"c_fc": _Conv1D(size.width, 4 * size.width),
                                  "c_proj": _Conv1D(4 * size.width, size.width)})

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attn(self.ln_1(x))
        found: torch.Tensor = self.mlp["c_proj"](
            functional.gelu(self.mlp["c_fc"](self.ln_2(x)), approximate="tanh"))
        return x + found


class _Attention(nn.Module):
    """Each token looks at those before it."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.heads = size.heads
        self.c_attn = _Conv1D(size.width, 3 * size.width)
        self.c_proj = _Conv1D(size.width, size.width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n, t, width = x.shape
        query, key, value = (part.view(n, t, self.heads, -1).transpose(1, 2)
                             for part in self.c_attn(x).split(width, dim=2))
        found = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        out: torch.Tensor = self.c_proj(found.transpose(1, 2).reshape(n, t, width))
        return out


class _Conv1D(nn.Module):
    """A linear layer whose weight is [inputs, outputs], as GPT-2 stores it."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(inputs, outputs))
        self.bias = nn.Parameter(torch.empty(outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.linear(x, self.weight.t(), self.bias)
