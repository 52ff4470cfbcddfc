"""Trainable keys and values: one set of prompts a unit."""

import torch
from torch import Tensor, nn

from ...modules.prefix_encoder import Prefix, split_heads


class Prompts(nn.Module):
    """Key and value prompts for every layer of one unit.

    Args:
        layers: L.
        length: P, prompts a layer; 0 gives a unit without prompts.
        embed_dim: C.
        heads: H.
        scaled: multiply by max(1, scale) with one learned scalar, as in the authors' code (not in the paper).

    Source: SGA section 4.2 to 4.4, theta_s, theta_a and theta_d = (K^1..K^L, V^1..V^L).
    """

    def __init__(self, layers: int, length: int, embed_dim: int, heads: int, scaled: bool = False):
        super().__init__()
        self.heads = heads
        self.key = nn.Parameter(torch.empty(layers, length, embed_dim))
        self.value = nn.Parameter(torch.empty(layers, length, embed_dim))
        self.scale = nn.Parameter(torch.ones(1)) if scaled else None
        if length:
            for layer in range(layers):
                nn.init.xavier_uniform_(self.key[layer])
                nn.init.xavier_uniform_(self.value[layer])

    def forward(self) -> Prefix:
        """One (keys, values) pair a layer, each (1, H, P, C / H)."""
        factor = 1.0 if self.scale is None else self.scale.clamp(min=1.0)
        key, value = self.key * factor, self.value * factor
        return [(self._heads(key[layer]), self._heads(value[layer])) for layer in range(key.size(0))]

    def _heads(self, x: Tensor) -> Tensor:
        return split_heads(x[None], self.heads)


class SemanticProjection(nn.Module):
    """W_K and W_V, shared by all layers: the encoder unit's layer outputs become keys and values for the other units.

    Source: SGA Eq. 2. The biases are the authors' code's; with them the trainable sizes are those the paper reports.
    """

    def __init__(self, embed_dim: int, heads: int):
        super().__init__()
        self.heads = heads
        self.key = nn.Linear(embed_dim, embed_dim)
        self.value = nn.Linear(embed_dim, embed_dim)
        nn.init.xavier_uniform_(self.key.weight)
        nn.init.xavier_uniform_(self.value.weight)
        nn.init.zeros_(self.key.bias)
        nn.init.zeros_(self.value.bias)

    def forward(self, hidden: Tensor) -> "tuple[Tensor, Tensor]":
        """(B, S, C) -> keys and values, each (B, H, S, C / H)."""
        return split_heads(self.key(hidden), self.heads), split_heads(self.value(hidden), self.heads)
