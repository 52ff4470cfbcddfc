"""Low-rank updates of the matrices of a frozen encoder."""

import math
from typing import Dict, List, Mapping, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Updates = Mapping[str, Tuple[Tensor, Tensor]]
"""Matrix of a layer -> (down (R, in), up (out, R)): the matrix is used as W + up @ down."""


def updated(linear: nn.Linear, x: Tensor, updates: Optional[Updates], name: str) -> Tensor:
    """``linear(x)``, with the update of that name when there are updates. (..., in) -> (..., out)."""
    if updates is None:
        return linear(x)
    down, up = updates[name]
    return linear(x) + F.linear(F.linear(x, down), up)


def merge(linear: nn.Linear, updates: Optional[Updates], name: str) -> nn.Linear:
    """``linear`` itself without updates, otherwise a copy whose weight has its update added; without gradients."""
    if updates is None:
        return linear
    down, up = updates[name]
    found = nn.Linear(linear.in_features, linear.out_features, bias=linear.bias is not None)
    found.weight = nn.Parameter(linear.weight.detach() + up.detach() @ down.detach(), requires_grad=False)
    found.bias = linear.bias
    return found


class LowRank(nn.Module):
    """An update of ``rank`` for every matrix of every layer: query, key, value and output projection, ``fc1`` and ``fc2``.

    ``up`` starts at zero, so a unit starts as the frozen model. The scale of the update (alpha / r) is 1.

    Source: Hu et al. 2022 (LoRA), section 4.1, Eq. 3; here each unit of SGA has its own.
    """

    def __init__(self, layers: int, embed_dim: int, ffn_dim: int, rank: int):
        super().__init__()
        attention = dict.fromkeys(("q_proj", "k_proj", "v_proj", "out_proj"), (embed_dim, embed_dim))
        sizes = {**attention, "fc1": (embed_dim, ffn_dim), "fc2": (ffn_dim, embed_dim)}
        self.down = nn.ParameterDict({name: torch.empty(layers, rank, inner) for name, (inner, _) in sizes.items()})
        self.up = nn.ParameterDict({name: torch.zeros(layers, outer, rank) for name, (_, outer) in sizes.items()})
        for matrix in self.down.values():
            bound = 1 / math.sqrt(matrix.size(2))  # as nn.Linear
            nn.init.uniform_(matrix, -bound, bound)

    def forward(self) -> List[Dict[str, Tuple[Tensor, Tensor]]]:
        """The updates of each layer."""
        names = list(self.down)
        rows = zip(*(zip(self.down[name].unbind(), self.up[name].unbind()) for name in names))
        return [dict(zip(names, row)) for row in rows]
