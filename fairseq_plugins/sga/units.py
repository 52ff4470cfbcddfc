"""Parts of the units: prompts (theta), and the guidance that the encoder unit gives to the others.

All units share the weights of one frozen masked LM. A unit has key and value prompts of its own for
every layer, and optionally low-rank updates of the layers' matrices (both in
``masked_lm.prompts``).
"""

from dataclasses import dataclass, replace
from typing import Any, Tuple

from torch import Tensor, nn

from ..masked_lm.model import MaskedLMSizes, Prefix, split_heads
from ..masked_lm.prompts import LowRank, Prompts
from ..ops.linear import Linear


def make_prompts(cfg: Any, sizes: MaskedLMSizes) -> Prompts:
    """Create the prompts of one unit: theta_s, theta_a or theta_d.

    Args:
        cfg: options ``prompt_length``, ``prompt_scale`` and ``lora_rank``.
        sizes: of the frozen masked LM.
    """
    low_rank = None
    if cfg.lora_rank:
        low_rank = LowRank(sizes.layers, sizes.embed_dim, sizes.ffn_dim, cfg.lora_rank)
    return Prompts(
        layers=sizes.layers,
        length=cfg.prompt_length or 0,
        embed_dim=sizes.embed_dim,
        heads=sizes.heads,
        scaled=cfg.prompt_scale,
        low_rank=low_rank,
    )


class SemanticProjection(nn.Module):
    """W_K and W_V, shared by all layers.

    Source: SGA Eq. 2. The biases are those of the authors' code; with them the trainable sizes are
    the ones that the paper reports.
    """

    def __init__(self, embed_dim: int, heads: int):
        super().__init__()
        self.heads = heads
        self.key = Linear(embed_dim, embed_dim)
        self.value = Linear(embed_dim, embed_dim)
        for linear in (self.key, self.value):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)

    def forward(self, hidden: Tensor) -> Tuple[Tensor, Tensor]:
        """Project a layer's output (B, S, C) to keys and values, each (B, H, S, C / H)."""
        return split_heads(self.key(hidden), self.heads), split_heads(
            self.value(hidden), self.heads
        )


@dataclass(frozen=True, eq=False)
class Guidance:
    """Semantic guidance of a batch: K_s^{1:L} and V_s^{1:L} of Eq. 2."""

    prefix: Prefix  # one (keys, values) pair per layer, each (B, H, S, C / H)
    padding_mask: Tensor  # (B, S) bool, True = source padding

    def select(self, rows: Tensor) -> "Guidance":
        """Select sentences. rows: (B',) int64."""
        prefix = [
            (keys.index_select(0, rows), values.index_select(0, rows))
            for keys, values in self.prefix
        ]
        return replace(self, prefix=prefix, padding_mask=self.padding_mask.index_select(0, rows))
