"""Heads of ``nlu_encoder``: what stands for a sentence, and what is predicted of tokens."""

from typing import Any

import torch
from fairseq.models.roberta.model import RobertaClassificationHead
from torch import Tensor, nn


def pool(hidden: Tensor, padding: Tensor, how: str) -> Tensor:
    """One vector per sentence: (B, S, C) -> (B, C).

    Args:
        hidden: (B, S, C).
        padding: (B, S) bool, True = padding, on the right.
        how: ``first``, ``last`` (before the padding) or ``mean`` (over all that are no padding, special symbols included).
    """
    if how == "first":
        return hidden[:, 0]
    lengths = (~padding).sum(1).clamp(min=1)
    if how == "last":
        return hidden[torch.arange(len(hidden), device=hidden.device), lengths - 1]
    # Half precision cannot hold the sum of a thousand positions.
    total = hidden.masked_fill(padding.unsqueeze(-1), 0).sum(1, dtype=torch.promote_types(hidden.dtype, torch.float32))
    return (total / lengths.unsqueeze(-1)).to(hidden.dtype)


class SentenceHead(RobertaClassificationHead):
    """fairseq's RoBERTa head on a vector (B, C): dropout, dense, tanh, dropout, projection -> (B, classes)."""

    def __init__(self, width: int, inner: int, num_classes: int, dropout: float) -> None:
        super().__init__(width, inner, num_classes, "tanh", dropout)

    def forward(self, pooled: Tensor, **unused: Any) -> Tensor:
        """(B, C) -> (B, classes)."""
        logits: Tensor = super().forward(pooled.unsqueeze(1))
        return logits


class TokenHead(nn.Module):
    """Dropout and a projection."""

    def __init__(self, width: int, num_classes: int, dropout: float) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.out_proj = nn.Linear(width, num_classes)

    def forward(self, hidden: Tensor) -> Tensor:
        """(…, C) -> (…, classes)."""
        logits: Tensor = self.out_proj(self.dropout(hidden))
        return logits
