"""Trainable keys and values for every layer of a frozen model, and low-rank updates."""

import math
from typing import Dict, List, Optional, Tuple

import torch
from torch import Tensor, nn

from .model import Prefix, Updates, split_heads


class LowRank(nn.Module):
    """Updates of ``rank`` R for the matrices of every layer: four projections, ``fc1``, ``fc2``.

    ``up`` starts at zero, so at first the updates change nothing. LoRA's scale (alpha / r) is 1.

    Source: Hu et al. 2022 (LoRA), section 4.1, Eq. 3; here each unit of SGA has its own.
    """

    def __init__(self, layers: int, embed_dim: int, ffn_dim: int, rank: int):
        super().__init__()
        self.layers = layers
        self.down = nn.ParameterDict()  # name of a matrix -> (L, R, in)
        self.up = nn.ParameterDict()  # name of a matrix -> (L, out, R)
        # In alphabetical order: the random draws and the optimizer's state depend on it.
        for name in ("fc1", "fc2", "k_proj", "out_proj", "q_proj", "v_proj"):
            inputs = ffn_dim if name == "fc2" else embed_dim
            outputs = ffn_dim if name == "fc1" else embed_dim
            bound = 1 / math.sqrt(inputs)  # as nn.Linear
            down = torch.empty(layers, rank, inputs).uniform_(-bound, bound)
            self.down[name] = nn.Parameter(down)
            self.up[name] = nn.Parameter(torch.zeros(layers, outputs, rank))

    def forward(self) -> List[Dict[str, Tuple[Tensor, Tensor]]]:
        """Return for each layer a mapping: name of a matrix -> (down (R, in), up (out, R))."""
        updates: List[Dict[str, Tuple[Tensor, Tensor]]] = [{} for _ in range(self.layers)]
        for name, down in self.down.items():
            matrices = zip(down.unbind(), self.up[name].unbind())
            for layer_updates, pair in zip(updates, matrices):
                layer_updates[name] = pair
        return updates


def merge(linear: nn.Linear, updates: Optional[Updates], name: str) -> nn.Linear:
    """Copy a linear layer with its low-rank update added; without ``updates``, return the layer."""
    if updates is None:
        return linear
    down, up = updates[name]
    merged = nn.Linear(linear.in_features, linear.out_features, bias=linear.bias is not None)
    weight = linear.weight.detach() + up.detach() @ down.detach()
    merged.weight = nn.Parameter(weight, requires_grad=False)
    merged.bias = linear.bias
    return merged


class Prompts(nn.Module):
    """Key and value prompts for every layer of one unit or stage.

    Args:
        length: P; 0 = no prompts.
        scaled: multiply by max(1, scale) with one learned scalar, as MSP and the code of SGA's
            authors do (not their paper).
        low_rank: updates of the layers' matrices for this unit.

    Source: SGA section 4.2 to 4.4, theta = (K^1..K^L, V^1..V^L); MSP (Tan et al. 2022) section 3.2,
    deep continuous prompts with scaled reparameterization.
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
        self.key = nn.Parameter(torch.empty(layers, length, embed_dim))  # L P C
        self.value = nn.Parameter(torch.empty(layers, length, embed_dim))
        self.scale = nn.Parameter(torch.ones(1)) if scaled else None
        if length:
            for layer in range(layers):
                nn.init.xavier_uniform_(self.key[layer])
                nn.init.xavier_uniform_(self.value[layer])

    def forward(self) -> Prefix:
        """Return one (keys, values) pair per layer, each (1, H, P, C / H)."""
        # clamp would stop training: in torch 2.14 its gradient is 0 at scale 1, the initial value.
        factor = 1.0 if self.scale is None else torch.where(self.scale < 1.0, 1.0, self.scale)
        keys = split_heads(self.key * factor, self.heads)  # L H P D
        values = split_heads(self.value * factor, self.heads)
        return [(key[None], value[None]) for key, value in zip(keys, values)]

    def updates(self) -> Optional[List[Updates]]:
        """Return the low-rank updates of each layer's matrices, or None."""
        return None if self.low_rank is None else self.low_rank()


def join_prefixes(first: Prefix, second: Prefix) -> Prefix:
    """Concatenate [first, second] in every layer: (B, H, S, D), (B, H, P, D) -> (B, H, S + P, D).

    Either may have one row in place of B, which then is the same for all sentences.
    """
    batch = max(first[0][0].size(0), second[0][0].size(0))

    def concatenate(*parts: Tensor) -> Tensor:
        """Concatenate keys or values, repeated for every sentence."""
        return torch.cat([part.expand(batch, -1, -1, -1) for part in parts], dim=2)

    return [
        (concatenate(first_keys, second_keys), concatenate(first_values, second_values))
        for (first_keys, first_values), (second_keys, second_values) in zip(first, second)
    ]
