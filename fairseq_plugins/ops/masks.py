"""Padding masks. Polarity everywhere: True = padding, may not be attended."""

from typing import Optional

import torch
from torch import Tensor


def lengths_to_padding_mask(lengths: Tensor, size: Optional[int] = None) -> Tensor:
    """Right-padding mask of ``lengths`` (B,) int64: (B, size) bool, True = padding; ``size`` None: the longest length."""
    columns = int(lengths.max()) if size is None else size
    return torch.arange(columns, device=lengths.device)[None, :] >= lengths[:, None]


def spread(values: Tensor, inside: Tensor, filler: float = 0) -> Tensor:
    """(B, T, ...) with ``values`` (N, ...) at the N places where ``inside`` (B, T) bool is True, and ``filler`` elsewhere."""
    out = values.new_full((*inside.shape, *values.shape[1:]), filler)
    out[inside] = values
    return out


def additive_key_mask(padding_mask: Tensor, dtype: torch.dtype) -> Tensor:
    """Turn a padding mask (B, K) bool, True = may not be attended, into a finite bias of attention logits, (B, 1, 1, K).

    Finite, because some attention kernels return NaN for a row in which every key is masked with -inf; here such a row
    attends uniformly, and its output is ignored by the caller.
    """
    # Half of the smallest finite value: adding any realistic logit to it cannot overflow to -inf.
    bias = torch.zeros_like(padding_mask, dtype=dtype).masked_fill(padding_mask, torch.finfo(dtype).min / 2)
    return bias[:, None, None, :]
