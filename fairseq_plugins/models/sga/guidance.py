"""Semantic guidance: layer outputs of one unit as keys and values of the others."""

from torch import Tensor, nn

from ...modules.linear import Linear
from ...modules.prefix_encoder import split_heads


class SemanticProjection(nn.Module):
    """W_K and W_V, shared by all layers: the encoder unit's layer outputs become keys and values for the other units.

    Source: SGA Eq. 2. The biases are the authors' code's; with them the trainable sizes are those the paper reports.
    """

    def __init__(self, embed_dim: int, heads: int):
        super().__init__()
        self.heads = heads
        self.key = Linear(embed_dim, embed_dim)
        self.value = Linear(embed_dim, embed_dim)
        nn.init.xavier_uniform_(self.key.weight)
        nn.init.xavier_uniform_(self.value.weight)
        nn.init.zeros_(self.key.bias)
        nn.init.zeros_(self.value.bias)

    def forward(self, hidden: Tensor) -> "tuple[Tensor, Tensor]":
        """(B, S, C) -> keys and values, each (B, H, S, C / H)."""
        return split_heads(self.key(hidden), self.heads), split_heads(self.value(hidden), self.heads)
