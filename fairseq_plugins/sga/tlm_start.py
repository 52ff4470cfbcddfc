"""Guidance that starts from what TLM taught the frozen model: ``--guidance-start tlm``.

The paper starts W_K and W_V at random, so that alignment must first rediscover how the frozen model
reads a source beside a target. Here a slot attends from the start to the keys and values that the
frozen layers themselves have for the source; W_K and W_V learn the rest. They have the same sizes,
and the guidance is still computed once per sentence.
"""

from typing import Any, Sequence

from torch import Tensor, nn

from ..masked_lm.model import Prefix, split_heads
from .model import SemanticProjection


class TLMProjection(SemanticProjection):
    """W_K and W_V that start at zero, added to what the frozen model itself would attend to.

    K_s^l = k_l(h^(l-1)) + W_K h^l and V_s^l alike: k_l and v_l are the frozen projections of layer
    l, without low-rank updates, applied to what enters it. Not in the paper.
    """

    def __init__(self, embed_dim: int, heads: int):
        super().__init__(embed_dim, heads)
        nn.init.zeros_(self.key.weight)
        nn.init.zeros_(self.value.weight)

    def forward(self, states: Sequence[Tensor], layers: nn.ModuleList) -> Prefix:
        """Compute K_s and V_s of every layer; arguments as in the paper's form."""
        prefix = []
        for inputs, (keys, values), layer in zip(states, super().forward(states, layers), layers):
            attention: Any = layer.self_attn
            own_keys = split_heads(attention.k_proj(inputs), self.heads)  # B H S C/H
            own_values = split_heads(attention.v_proj(inputs), self.heads)
            prefix.append((own_keys + keys, own_values + values))
        return prefix
