"""XLM-R: encoder and masked-LM head, names as in fairseq's layout (``sentence_encoder.*``, ``lm_head.*``)."""

from dataclasses import dataclass
from typing import Any, Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .linear import Linear
from .prefix_encoder import EncoderSizes, PrefixEncoder


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


class MaskedLMHead(nn.Module):
    """Dense, GELU, layer norm; then a projection tied to the token embedding, with its own bias."""

    def __init__(self, embed_dim: int, tied_weight: nn.Parameter):
        super().__init__()
        self.dense = Linear(embed_dim, embed_dim)
        self.layer_norm = nn.LayerNorm(embed_dim)
        self.weight = tied_weight
        self.bias = nn.Parameter(torch.zeros(tied_weight.size(0)))

    def transform(self, hidden: Tensor) -> Tensor:
        """(…, C) -> (…, C): what is multiplied with the tied embedding."""
        return self.layer_norm(F.gelu(self.dense(hidden)))


class MaskedLM(nn.Module):
    """The whole masked LM.

    Args:
        sizes: see :class:`MaskedLMSizes`.
        dropout: probability after the embedding and after each block.
        attention_dropout: probability on attention weights.
    """

    def __init__(self, sizes: MaskedLMSizes, dropout: float = 0.0, attention_dropout: float = 0.0):
        super().__init__()
        self.sizes = sizes
        encoder_sizes = EncoderSizes(*(getattr(sizes, name) for name in EncoderSizes._fields))
        self.sentence_encoder = PrefixEncoder(encoder_sizes, dropout, attention_dropout)
        tied: Any = self.sentence_encoder.embed_tokens.weight
        self.lm_head = MaskedLMHead(sizes.embed_dim, tied)

    def reset_parameters(self) -> None:
        """BERT's initialisation: N(0, 0.02) for every matrix, zero biases, zero padding rows."""
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.02)
            if isinstance(module, nn.Linear):
                nn.init.zeros_(module.bias)
            if isinstance(module, nn.Embedding) and module.padding_idx is not None:
                with torch.no_grad():
                    module.weight[module.padding_idx].zero_()

    def head(self, hidden: Tensor) -> Tensor:
        """(…, C) -> (…, C), ready for ``linear(·, output_weight, output_bias)``."""
        return self.lm_head.transform(hidden)

    @property
    def output_weight(self) -> Tensor:
        """(V, C), tied to the token embedding."""
        return self.lm_head.weight

    @property
    def output_bias(self) -> Tensor:
        """(V,)."""
        return self.lm_head.bias

    def forward(self, tokens: Tensor, positions: Optional[Tensor] = None, select: Optional[Tensor] = None) -> Tensor:
        """Logits of the masked LM.

        Args:
            tokens: (B, S) int64.
            positions: (B, S) int64; counted from the tokens when None.
            select: (B, S) bool; only these positions are projected when given.

        Returns:
            (B, S, V), or (N, V) for the N selected positions.
        """
        hidden = self.sentence_encoder(tokens, positions=positions)[-1]
        if select is not None:
            hidden = hidden[select]
        return F.linear(self.head(hidden), self.output_weight, self.output_bias)
