"""The XLM-R encoder, with extra keys and values ("prefix") in the self-attention of every layer.

Post-norm layers, learned positions that start at ``padding_idx + 1``, exact GELU: without a prefix the outputs equal those
of stock fairseq's ``XLMRModel`` on the same weights.
"""

from dataclasses import dataclass
from typing import List, Optional, Sequence, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..ops.linear_layer import Linear
from ..ops.masks import additive_key_mask
from .attention import attention
from .low_rank import Updates, updated

Prefix = Sequence[Tuple[Tensor, Tensor]]
"""One (keys, values) pair per layer, each (B or 1, H, P, C / H)."""


@dataclass(frozen=True)
class MaskedLMSizes:
    """Sizes of a masked LM.

    ``max_positions`` counts usable positions: XLM-R has 512, in a table of 514 rows (``padding_idx`` + 1 rows unused).
    """

    vocab_size: int
    layers: int
    embed_dim: int
    ffn_dim: int
    heads: int
    max_positions: int
    padding_idx: int = 1


def split_heads(x: Tensor, heads: int) -> Tensor:
    """(B, S, C) -> (B, H, S, C / H)."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


class PrefixSelfAttention(nn.Module):
    """Multi-head self-attention over [prefix, own tokens].

    Source: SGA Eq. 1, 3 and 5 (prompts are extra keys and values, not extra tokens).
    """

    def __init__(self, embed_dim: int, heads: int, dropout: float):
        super().__init__()
        if embed_dim % heads:
            raise ValueError(f"embed_dim must be a multiple of heads; got embed_dim={embed_dim}, heads={heads}")
        self.heads = heads
        self.dropout = dropout
        self.q_proj = Linear(embed_dim, embed_dim)
        self.k_proj = Linear(embed_dim, embed_dim)
        self.v_proj = Linear(embed_dim, embed_dim)
        self.out_proj = Linear(embed_dim, embed_dim)

    def forward(
        self,
        x: Tensor,
        key_bias: Optional[Tensor],
        prefix: Optional[Tuple[Tensor, Tensor]],
        updates: Optional[Updates] = None,
    ) -> Tensor:
        """Attend from every token of ``x`` (B, S, C) to the prefix and to ``x``.

        Args:
            key_bias: (B or 1, 1, 1, P + S) additive, 0 = may be attended; None when nothing is masked.
            prefix: keys and values (B or 1, H, P, C / H), or None.
            updates: of the four projections, or None.
        """
        query = split_heads(updated(self.q_proj, x, updates, "q_proj"), self.heads)  # B H S D
        key = split_heads(updated(self.k_proj, x, updates, "k_proj"), self.heads)
        value = split_heads(updated(self.v_proj, x, updates, "v_proj"), self.heads)
        if prefix is not None:
            batch = x.size(0)
            key = torch.cat([prefix[0].expand(batch, -1, -1, -1), key], dim=2)  # B H P+S D
            value = torch.cat([prefix[1].expand(batch, -1, -1, -1), value], dim=2)
        dropout = self.dropout if self.training else 0.0
        out = attention(query, key, value, key_bias, dropout)
        return updated(self.out_proj, out.transpose(1, 2).flatten(2), updates, "out_proj")  # B S C


class PrefixEncoderLayer(nn.Module):
    """Self-attention and feed-forward block, each followed by residual and layer norm (post-norm)."""

    def __init__(self, embed_dim: int, ffn_dim: int, heads: int, dropout: float, attention_dropout: float):
        super().__init__()
        self.dropout = dropout
        self.self_attn = PrefixSelfAttention(embed_dim, heads, attention_dropout)
        self.self_attn_layer_norm = nn.LayerNorm(embed_dim)
        self.fc1 = Linear(embed_dim, ffn_dim)
        self.fc2 = Linear(ffn_dim, embed_dim)
        self.final_layer_norm = nn.LayerNorm(embed_dim)

    def _drop(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.dropout, self.training)

    def forward(
        self,
        x: Tensor,
        key_bias: Optional[Tensor],
        prefix: Optional[Tuple[Tensor, Tensor]],
        updates: Optional[Updates] = None,
    ) -> Tensor:
        """(B, S, C) -> (B, S, C); see :class:`PrefixSelfAttention` for the mask and the prefix."""
        x = self.self_attn_layer_norm(x + self._drop(self.self_attn(x, key_bias, prefix, updates)))
        wide = F.gelu(updated(self.fc1, x, updates, "fc1"))
        return self.final_layer_norm(x + self._drop(updated(self.fc2, wide, updates, "fc2")))


class PrefixEncoder(nn.Module):
    """XLM-R encoder whose layers accept prefix keys and values."""

    def __init__(self, sizes: MaskedLMSizes, dropout: float = 0.0, attention_dropout: float = 0.0):
        super().__init__()
        self.padding_idx = sizes.padding_idx
        self.max_positions = sizes.max_positions
        self.heads = sizes.heads
        self.dropout = dropout
        rows = sizes.max_positions + sizes.padding_idx + 1
        self.embed_tokens = nn.Embedding(sizes.vocab_size, sizes.embed_dim, sizes.padding_idx)
        self.embed_positions = nn.Embedding(rows, sizes.embed_dim, sizes.padding_idx)
        self.layernorm_embedding = nn.LayerNorm(sizes.embed_dim)
        self.layers = nn.ModuleList(
            PrefixEncoderLayer(sizes.embed_dim, sizes.ffn_dim, sizes.heads, dropout, attention_dropout)
            for _ in range(sizes.layers)
        )

    def token_positions(self, tokens: Tensor) -> Tensor:
        """Number the non-padding tokens from ``padding_idx + 1``; padding keeps ``padding_idx``. (B, S) -> (B, S)."""
        kept = tokens.ne(self.padding_idx)
        return (torch.cumsum(kept, dim=1) * kept).long() + self.padding_idx

    def embed(self, tokens: Tensor, positions: Optional[Tensor], padding_mask: Tensor) -> Tensor:
        """Sum of token and position embedding, normalised; zero at padding. (B, S) -> (B, S, C)."""
        if positions is None:
            positions = self.token_positions(tokens)
        x = self.layernorm_embedding(self.embed_tokens(tokens) + self.embed_positions(positions))
        x = F.dropout(x, self.dropout, self.training)
        return x.masked_fill(padding_mask[..., None], 0.0)

    def forward(
        self,
        tokens: Tensor,
        prefix: Optional[Prefix] = None,
        prefix_padding_mask: Optional[Tensor] = None,
        positions: Optional[Tensor] = None,
        padding_mask: Optional[Tensor] = None,
        updates: Optional[Sequence[Updates]] = None,
    ) -> List[Tensor]:
        """Encode a batch: the outputs h^1 .. h^L of the layers, each (B, S, C).

        Args:
            tokens: (B, S) int64, right- or left-padded with ``padding_idx``.
            prefix: one (keys, values) pair per layer, each (B or 1, H, P, C / H).
            prefix_padding_mask: (B, P) bool, True = that prefix entry may not be attended.
            positions: (B, S) int64 rows of the position table; counted from the tokens when None.
            padding_mask: (B, S) bool, True = padding; ``tokens == padding_idx`` when None. Needed when the padding symbol
                is also a real input, as the CTC blank may be.
            updates: of the matrices of each layer, or None.

        Raises:
            ValueError: more tokens than positions.
        """
        if tokens.size(1) > self.max_positions:
            raise ValueError(
                f"input of {tokens.size(1)} tokens is longer than the masked LM's {self.max_positions} positions"
            )
        if padding_mask is None:
            padding_mask = tokens.eq(self.padding_idx)
        x = self.embed(tokens, positions, padding_mask)
        bias = self._key_bias(padding_mask, prefix, prefix_padding_mask, x.dtype)
        outputs = []
        for index, layer in enumerate(self.layers):
            x = layer(x, bias, None if prefix is None else prefix[index], None if updates is None else updates[index])
            outputs.append(x)
        return outputs

    @staticmethod
    def _key_bias(
        padding_mask: Tensor, prefix: Optional[Prefix], prefix_padding_mask: Optional[Tensor], dtype: torch.dtype
    ) -> Tensor:
        """Mask over [prefix, own tokens]: (B, 1, 1, P + S), finite (see ops.masks)."""
        if prefix is not None:
            length = prefix[0][0].size(2)
            if prefix_padding_mask is None:
                prefix_padding_mask = padding_mask.new_zeros(padding_mask.size(0), length)
            padding_mask = torch.cat([prefix_padding_mask, padding_mask], dim=1)
        return additive_key_mask(padding_mask, dtype)
