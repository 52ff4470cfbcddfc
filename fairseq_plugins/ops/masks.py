"""Padding masks. Polarity everywhere: True = padding, may not be attended."""

from typing import Optional

import torch
from torch import Tensor


def lengths_to_padding_mask(lengths: Tensor, size: Optional[int] = None) -> Tensor:
    """Right-padding mask of ``lengths`` (B,) int64: (B, size) bool, True = padding; ``size`` None: the longest length."""
    columns = int(lengths.max()) if size is None else size
    return torch.arange(columns, device=lengths.device)[None, :] >= lengths[:, None]


def additive_key_mask(padding_mask: Tensor, dtype: torch.dtype) -> Tensor:
    """Turn a padding mask (B, K) bool, True = may not be attended, into a finite bias of attention logits, (B, 1, 1, K).

    Finite, because some attention kernels return NaN for a row in which every key is masked with -inf; here such a row
    attends uniformly, and its output is ignored by the caller.
    """
    # Half of the smallest finite value: adding any realistic logit to it cannot overflow to -inf.
    bias = torch.zeros(padding_mask.shape, dtype=dtype, device=padding_mask.device)
    bias.masked_fill_(padding_mask, torch.finfo(dtype).min / 2)
    return bias[:, None, None, :]
