"""Attention, by torch's fused kernel or, where that is slow, written out."""

from typing import Optional

import torch
import torch.nn.functional as F
from torch import Tensor

MOST_KEYS = 256
"""In bfloat16 on CPU forward and backward pass of the written-out form are twice as fast at so many keys, and 5 times at 64."""


def attention(query: Tensor, key: Tensor, value: Tensor, bias: Optional[Tensor] = None, dropout: float = 0.0) -> Tensor:
    """softmax(query key^T / sqrt(D) + bias) value: ``F.scaled_dot_product_attention``, rounded in another order.

    Args:
        query: (B, H, Q, D); ``key`` and ``value`` (B, H, K, D).
        bias: additive, broadcast to (B, H, Q, K); None = every key may be attended.
        dropout: of the weights, in [0, 1).
    """
    if not written_out(query, key, value):
        return F.scaled_dot_product_attention(query, key, value, attn_mask=bias, dropout_p=dropout)
    scores = torch.matmul(query * query.size(-1) ** -0.5, key.transpose(-1, -2))
    if bias is not None:
        scores += bias
    return torch.matmul(F.dropout(scores.softmax(dim=-1), dropout), value)


def written_out(query: Tensor, key: Tensor, value: Tensor) -> bool:
    """Whether the scores, (B, H, Q, K) numbers, are computed and kept: in bfloat16 training on CPU, or in a plan of it."""
    trains = torch.is_grad_enabled() and any(each.requires_grad for each in (query, key, value))
    slow = query.dtype == torch.bfloat16 and query.device.type in ("cpu", "meta")
    return trains and slow and key.size(2) <= MOST_KEYS
