"""XLM-R, with extra keys and values ("prefix") in the self-attention of every layer.

Post-norm layers, learned positions that start at ``padding_idx + 1``, exact GELU, and a masked-LM
head whose output projection is the token embedding. BERT and MiniLM are read into the same shape
(``checkpoints.bert``). Without a prefix the outputs equal those of
stock fairseq's ``XLMRModel`` on the same weights, under the same names (``sentence_encoder.*``,
``lm_head.*``).
"""

from dataclasses import dataclass
from typing import List, Mapping, Optional, Sequence, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..ops.linear import Linear
from ..ops.masks import additive_key_mask

Prefix = Sequence[Tuple[Tensor, Tensor]]
"""One (keys, values) pair per layer, each (B or 1, H, P, C / H)."""

Updates = Mapping[str, Tuple[Tensor, Tensor]]
"""Name of a layer's matrix -> (down (R, in), up (out, R)): the matrix acts as W + up @ down."""

MOST_KEYS = 256
"""Largest number of keys for which bfloat16 training on CPU avoids torch's fused attention.

Up to this number two plain matrix products take half its time.
"""


@dataclass(frozen=True)
class MaskedLMSizes:
    """Sizes of a masked LM.

    ``max_positions`` counts usable positions: XLM-R has 512, in a table of 514 rows
    (``padding_idx`` + 1 rows are unused). ``epsilon`` is that of every layer norm.
    """

    vocab_size: int
    layers: int
    embed_dim: int
    ffn_dim: int
    heads: int
    max_positions: int
    padding_idx: int = 1
    epsilon: float = 1e-5


# ---- Attention. ----


def split_heads(x: Tensor, heads: int) -> Tensor:
    """Reshape (B, S, C) to (B, H, S, C / H)."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def project(linear: nn.Linear, x: Tensor, updates: Optional[Updates], name: str) -> Tensor:
    """Apply a linear layer, and its low-rank update if there are ``updates``.

    (..., in) -> (..., out).
    """
    if updates is None:
        return linear(x)
    down, up = updates[name]
    return linear(x) + F.linear(F.linear(x, down), up)


def attention(
    query: Tensor, key: Tensor, value: Tensor, bias: Optional[Tensor] = None, dropout: float = 0.0
) -> Tensor:
    """Compute softmax(query key^T / sqrt(D) + bias) value, by torch's fused kernel unless slow.

    Args:
        query: (B, H, Q, D).
        key, value: (B, H, K, D).
        bias: additive, broadcast to (B, H, Q, K); None = every key may be attended.
        dropout: probability of dropping an attention weight, in [0, 1).

    Returns:
        (B, H, Q, D).
    """
    if not is_fused_slow(query, key, value):
        return F.scaled_dot_product_attention(query, key, value, attn_mask=bias, dropout_p=dropout)
    scores = torch.matmul(query * query.size(-1) ** -0.5, key.transpose(-1, -2))  # B H Q K
    if bias is not None:
        scores += bias
    return torch.matmul(F.dropout(scores.softmax(dim=-1), dropout), value)


def is_fused_slow(query: Tensor, key: Tensor, value: Tensor) -> bool:
    """Return True in bfloat16 training on CPU over at most ``MOST_KEYS`` keys."""
    trains = torch.is_grad_enabled() and any(part.requires_grad for part in (query, key, value))
    is_bfloat16_on_cpu = query.dtype == torch.bfloat16 and query.device.type == "cpu"
    return trains and is_bfloat16_on_cpu and key.size(2) <= MOST_KEYS


class PrefixSelfAttention(nn.Module):
    """Multi-head self-attention over [prefix, tokens].

    Source: SGA Eq. 1, 3 and 5 (prompts are extra keys and values, not extra tokens).
    """

    def __init__(self, embed_dim: int, heads: int, dropout: float):
        super().__init__()
        if embed_dim % heads:
            raise ValueError(
                f"embed_dim must be a multiple of heads; got embed_dim={embed_dim}, heads={heads}"
            )
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
        """Attend from every token to the prefix and to all tokens. (B, S, C) -> (B, S, C).

        Args:
            x: (B, S, C).
            key_bias: (B or 1, 1, 1, P + S) additive, 0 = may be attended; None when nothing is
                masked.
            prefix: keys and values (B or 1, H, P, C / H), or None.
            updates: low-rank updates of the four projections, or None.
        """
        query = split_heads(project(self.q_proj, x, updates, "q_proj"), self.heads)  # B H S D
        key = split_heads(project(self.k_proj, x, updates, "k_proj"), self.heads)
        value = split_heads(project(self.v_proj, x, updates, "v_proj"), self.heads)
        if prefix is not None:
            batch = x.size(0)
            key = torch.cat([prefix[0].expand(batch, -1, -1, -1), key], dim=2)  # B H P+S D
            value = torch.cat([prefix[1].expand(batch, -1, -1, -1), value], dim=2)
        dropout = self.dropout if self.training else 0.0
        out = attention(query, key, value, key_bias, dropout)  # B H S D
        return project(self.out_proj, out.transpose(1, 2).flatten(2), updates, "out_proj")  # B S C


# ---- Encoder. ----


class PrefixEncoderLayer(nn.Module):
    """Self-attention and feed-forward block, each with residual and layer norm after it."""

    def __init__(self, sizes: MaskedLMSizes, dropout: float, attention_dropout: float):
        super().__init__()
        self.dropout = dropout
        width, epsilon = sizes.embed_dim, sizes.epsilon
        self.self_attn = PrefixSelfAttention(width, sizes.heads, attention_dropout)
        self.self_attn_layer_norm = nn.LayerNorm(width, epsilon)
        self.fc1 = Linear(width, sizes.ffn_dim)
        self.fc2 = Linear(sizes.ffn_dim, width)
        self.final_layer_norm = nn.LayerNorm(width, epsilon)

    def forward(
        self,
        x: Tensor,
        key_bias: Optional[Tensor],
        prefix: Optional[Tuple[Tensor, Tensor]],
        updates: Optional[Updates] = None,
    ) -> Tensor:
        """Run one layer, (B, S, C) -> (B, S, C), with the arguments of self-attention."""
        x = self.self_attn_layer_norm(x + self._drop(self.self_attn(x, key_bias, prefix, updates)))
        wide = F.gelu(project(self.fc1, x, updates, "fc1"))  # B S F
        return self.final_layer_norm(x + self._drop(project(self.fc2, wide, updates, "fc2")))

    def _drop(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.dropout, self.training)


class PrefixEncoder(nn.Module):
    """XLM-R encoder whose layers accept prefix keys and values: f_LM of the SGA paper."""

    def __init__(self, sizes: MaskedLMSizes, dropout: float = 0.0, attention_dropout: float = 0.0):
        super().__init__()
        self.padding_idx = sizes.padding_idx
        self.max_positions = sizes.max_positions
        self.dropout = dropout
        rows = sizes.max_positions + sizes.padding_idx + 1
        self.embed_tokens = nn.Embedding(sizes.vocab_size, sizes.embed_dim, sizes.padding_idx)
        self.embed_positions = nn.Embedding(rows, sizes.embed_dim, sizes.padding_idx)
        self.layernorm_embedding = nn.LayerNorm(sizes.embed_dim, sizes.epsilon)
        self.layers = nn.ModuleList(
            PrefixEncoderLayer(sizes, dropout, attention_dropout) for _ in range(sizes.layers)
        )

    def token_positions(self, tokens: Tensor) -> Tensor:
        """Count the tokens from ``padding_idx + 1``; padding keeps ``padding_idx``.

        (B, S) -> (B, S).
        """
        is_token = tokens.ne(self.padding_idx)
        return (torch.cumsum(is_token, dim=1) * is_token).long() + self.padding_idx

    def embed(self, tokens: Tensor, positions: Optional[Tensor], padding_mask: Tensor) -> Tensor:
        """Add token and position embeddings and normalise; zero at padding. (B, S) -> (B, S, C)."""
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
        """Encode a batch.

        Args:
            tokens: (B, S) int64, right- or left-padded with ``padding_idx``.
            prefix: one (keys, values) pair per layer, each (B or 1, H, P, C / H).
            prefix_padding_mask: (B, P) bool, True = that prefix entry may not be attended.
            positions: (B, S) int64 rows of the position table; counted from the tokens when None.
            padding_mask: (B, S) bool, True = padding; ``tokens == padding_idx`` when None. Required
                if the padding symbol is also a real input, as the CTC blank may be.
            updates: low-rank updates of each layer's matrices, or None.

        Returns:
            The outputs h^1 .. h^L of the layers, each (B, S, C).

        Raises:
            ValueError: there are more tokens than positions.
        """
        masks = prefix_padding_mask, positions, padding_mask
        return self.states(tokens, prefix, *masks, updates)[1:]

    def states(
        self,
        tokens: Tensor,
        prefix: Optional[Prefix] = None,
        prefix_padding_mask: Optional[Tensor] = None,
        positions: Optional[Tensor] = None,
        padding_mask: Optional[Tensor] = None,
        updates: Optional[Sequence[Updates]] = None,
    ) -> List[Tensor]:
        """Encode as :meth:`forward`; return h^0, the embedding's output, and h^1 .. h^L."""
        self._check_length(tokens.size(1))
        if padding_mask is None:
            padding_mask = tokens.eq(self.padding_idx)
        x = self.embed(tokens, positions, padding_mask)  # B S C
        bias = self._key_bias(padding_mask, prefix, prefix_padding_mask, x.dtype)  # B 1 1 P+S
        states = [x]
        for index, layer in enumerate(self.layers):
            layer_prefix = None if prefix is None else prefix[index]
            layer_updates = None if updates is None else updates[index]
            x = layer(x, bias, layer_prefix, layer_updates)
            states.append(x)
        return states

    def _check_length(self, length: int) -> None:
        if length > self.max_positions:
            raise ValueError(
                f"input of {length} tokens is longer than the masked LM's {self.max_positions} "
                "positions"
            )

    @staticmethod
    def _key_bias(
        padding_mask: Tensor,
        prefix: Optional[Prefix],
        prefix_padding_mask: Optional[Tensor],
        dtype: torch.dtype,
    ) -> Tensor:
        """Mask the keys [prefix, tokens] by a finite bias (B, 1, 1, P + S)."""
        if prefix is not None:
            if prefix_padding_mask is None:
                prefix_padding_mask = padding_mask.new_zeros(
                    padding_mask.size(0), prefix[0][0].size(2)
                )
            padding_mask = torch.cat([prefix_padding_mask, padding_mask], dim=1)
        return additive_key_mask(padding_mask, dtype)


# ---- Head and whole model. ----


class MaskedLMHead(nn.Module):
    """Dense layer, GELU, layer norm; then a projection tied to the token embedding."""

    def __init__(self, tied_weight: Tensor, epsilon: float):
        super().__init__()
        embed_dim = tied_weight.size(1)
        self.dense = Linear(embed_dim, embed_dim)
        self.layer_norm = nn.LayerNorm(embed_dim, epsilon)
        self.weight = tied_weight
        self.bias = nn.Parameter(torch.zeros(tied_weight.size(0)))

    def transform(self, hidden: Tensor) -> Tensor:
        """Prepare states for the product with the tied embedding. (..., C) -> (..., C)."""
        return self.layer_norm(F.gelu(self.dense(hidden)))


class MaskedLM(nn.Module):
    """Encoder and head."""

    def __init__(self, sizes: MaskedLMSizes, dropout: float = 0.0, attention_dropout: float = 0.0):
        super().__init__()
        self.sizes = sizes
        self.sentence_encoder = PrefixEncoder(sizes, dropout, attention_dropout)
        self.lm_head = MaskedLMHead(self.sentence_encoder.embed_tokens.weight, sizes.epsilon)

    def reset_parameters(self) -> None:
        """Initialise all weights as BERT does."""
        initialise(self)

    @property
    def output_weight(self) -> Tensor:
        """Weight (V, C) of the output projection, tied to the token embedding."""
        return self.lm_head.weight

    @property
    def output_bias(self) -> Tensor:
        """Bias (V,) of the output projection."""
        return self.lm_head.bias

    def forward(
        self, tokens: Tensor, positions: Optional[Tensor] = None, select: Optional[Tensor] = None
    ) -> Tensor:
        """Compute logits (B, S, V), or (N, V) for the N positions that ``select`` (B, S) marks.

        ``positions`` (B, S) int64 are counted from the tokens when None.
        """
        hidden = self.sentence_encoder(tokens, positions=positions)[-1]  # B S C
        if select is not None:
            hidden = hidden[select]  # N C
        return F.linear(self.lm_head.transform(hidden), self.output_weight, self.output_bias)


def initialise(model: nn.Module) -> None:
    """Initialise as BERT does: N(0, 0.02^2) for every matrix, zero biases, zero padding rows."""
    for module in model.modules():
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)
    for module in model.modules():  # last: an output projection may share the embedding's weight
        if isinstance(module, nn.Embedding) and module.padding_idx is not None:
            with torch.no_grad():
                module.weight[module.padding_idx].zero_()
