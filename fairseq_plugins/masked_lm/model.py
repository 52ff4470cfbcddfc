"""XLM-R: encoder and masked-LM head, names as in fairseq's layout (``sentence_encoder.*``, ``lm_head.*``)."""

from typing import Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..ops.linear_layer import Linear
from .encoder import MaskedLMSizes, PrefixEncoder

__all__ = ["MaskedLM", "MaskedLMHead", "MaskedLMSizes", "initialise"]


def initialise(model: nn.Module) -> None:
    """BERT's initialisation: N(0, 0.02) for every matrix, zero biases, zero padding rows."""
    for module in model.modules():
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)
    for module in model.modules():  # last: an output projection may have the embedding's weight
        if isinstance(module, nn.Embedding) and module.padding_idx is not None:
            with torch.no_grad():
                module.weight[module.padding_idx].zero_()


class MaskedLMHead(nn.Module):
    """Dense, GELU, layer norm; then a projection tied to the token embedding, with its own bias."""

    def __init__(self, embed_dim: int, tied_weight: Tensor):
        super().__init__()
        self.dense = Linear(embed_dim, embed_dim)
        self.layer_norm = nn.LayerNorm(embed_dim)
        self.weight = tied_weight
        self.bias = nn.Parameter(torch.zeros(tied_weight.size(0)))

    def transform(self, hidden: Tensor) -> Tensor:
        """(…, C) -> (…, C): ready for the product with the tied embedding."""
        return self.layer_norm(F.gelu(self.dense(hidden)))


class MaskedLM(nn.Module):
    """The whole masked LM."""

    def __init__(self, sizes: MaskedLMSizes, dropout: float = 0.0, attention_dropout: float = 0.0):
        super().__init__()
        self.sizes = sizes
        self.sentence_encoder = PrefixEncoder(sizes, dropout, attention_dropout)
        self.lm_head = MaskedLMHead(sizes.embed_dim, self.sentence_encoder.embed_tokens.weight)

    def reset_parameters(self) -> None:
        initialise(self)

    @property
    def output_weight(self) -> Tensor:
        """(V, C), tied to the token embedding."""
        return self.lm_head.weight

    @property
    def output_bias(self) -> Tensor:
        return self.lm_head.bias

    def forward(self, tokens: Tensor, positions: Optional[Tensor] = None, select: Optional[Tensor] = None) -> Tensor:
        """Logits, (B, S, V), or (N, V) for the N positions that ``select`` (B, S) bool chooses.

        ``positions`` (B, S) int64 are counted from the tokens when None.
        """
        hidden = self.sentence_encoder(tokens, positions=positions)[-1]
        if select is not None:
            hidden = hidden[select]
        return F.linear(self.lm_head.transform(hidden), self.output_weight, self.output_bias)
