"""Trainable keys and values for every layer of a frozen model, and updates of its matrices."""

from typing import List, Optional

import torch
from torch import Tensor, nn

from .encoder import Prefix, split_heads
from .low_rank import LowRank, Updates


class Prompts(nn.Module):
    """Key and value prompts for every layer of one unit or stage.

    With ``length`` 0 there are none. ``scaled`` multiplies by max(1, scale) with one learned scalar, as in MSP and in the code
    of SGA's authors (not in their paper). ``low_rank`` updates the matrices of the layers for this unit.

    Source: SGA section 4.2 to 4.4, theta_s, theta_a and theta_d = (K^1..K^L, V^1..V^L); MSP (Tan et al. 2022) section 3.2, deep
    continuous prompts with scaled reparameterization.
    """

    def __init__(
        self,
        layers: int,
        length: int,
        embed_dim: int,
        heads: int,
        scaled: bool = False,
        low_rank: Optional[LowRank] = None,
    ):
        super().__init__()
        self.heads, self.low_rank = heads, low_rank
        self.key = nn.Parameter(torch.empty(layers, length, embed_dim))
        self.value = nn.Parameter(torch.empty(layers, length, embed_dim))
        self.scale = nn.Parameter(torch.ones(1)) if scaled else None
        if length:
            for layer in range(layers):
                nn.init.xavier_uniform_(self.key[layer])
                nn.init.xavier_uniform_(self.value[layer])

    def forward(self) -> Prefix:
        """One (keys, values) pair per layer, each (1, H, P, C / H)."""
        # Not clamp: where scale is 1, as at the start, its gradient is 0 in torch 2.14.
        factor = 1.0 if self.scale is None else torch.where(self.scale < 1.0, 1.0, self.scale)
        keys, values = split_heads(self.key * factor, self.heads), split_heads(self.value * factor, self.heads)
        return [(key[None], value[None]) for key, value in zip(keys, values)]

    def updates(self) -> Optional[List[Updates]]:
        """Those of each layer's matrices, or None."""
        return None if self.low_rank is None else [*self.low_rank()]


def join_prefixes(first: Prefix, second: Prefix) -> Prefix:
    """[first, second] for every layer: (B or 1, H, P, D) and (B or 1, H, S, D) -> (B, H, P + S, D)."""
    batch = max(first[0][0].size(0), second[0][0].size(0))

    def joined(one: Tensor, other: Tensor) -> Tensor:
        return torch.cat([part.expand(batch, -1, -1, -1) for part in (one, other)], dim=2)

    return [(joined(keys, more_keys), joined(values, more)) for (keys, values), (more_keys, more) in zip(first, second)]
