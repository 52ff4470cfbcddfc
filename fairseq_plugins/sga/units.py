"""Semantic guidance: layer outputs of the encoder unit as keys and values of the other units."""

from typing import NamedTuple, Optional, Tuple

from torch import Tensor, nn

from ..masked_lm.encoder import Prefix, split_heads
from ..ops.linear_layer import Linear


class Guidance(NamedTuple):
    """Semantic guidance of a batch (Eq. 2)."""

    prefix: Prefix  # one (keys, values) pair per layer, each (B, H, S, C / H)
    padding_mask: Tensor  # (B, S) bool, True = source padding
    length_log_probs: Optional[Tensor] = None  # (B, N) nats, of the length predictor (column j: j + 1 tokens)

    def select(self, rows: Tensor) -> "Guidance":
        """Keep some sentences. rows: (B',) int64."""
        prefix = [(key.index_select(0, rows), value.index_select(0, rows)) for key, value in self.prefix]
        lengths = None if self.length_log_probs is None else self.length_log_probs.index_select(0, rows)
        return Guidance(prefix, self.padding_mask.index_select(0, rows), lengths)


class SemanticProjection(nn.Module):
    """W_K and W_V, shared by all layers.

    Source: SGA Eq. 2. The biases are the authors' code's; with them the trainable sizes are those the paper reports.
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
        """(B, S, C) -> keys and values, each (B, H, S, C / H)."""
        return split_heads(self.key(hidden), self.heads), split_heads(self.value(hidden), self.heads)
