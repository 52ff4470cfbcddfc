"""Padding masks. Polarity everywhere: True = padding, may not be attended.

Lengths may lie on the host while all else is on a device: then nothing here waits for the device.
"""

from typing import Optional

import torch
from torch import Tensor


def move(tensor: Tensor, device: torch.device) -> Tensor:
    """The tensor on a device; from the host the copy is not waited for."""
    return tensor.to(device, non_blocking=tensor.device.type == "cpu")


def lengths_to_padding_mask(
    lengths: Tensor, size: Optional[int] = None, device: Optional[torch.device] = None
) -> Tensor:
    """Right-padding mask of ``lengths`` (B,) int64: (B, size) bool, True = padding; ``size`` None: the longest length.

    It lies on ``device``, or where the lengths are.
    """
    columns = int(lengths.max()) if size is None else size
    lengths = lengths if device is None else move(lengths, device)
    return torch.arange(columns, device=lengths.device)[None, :] >= lengths[:, None]


def additive_key_mask(padding_mask: Tensor, dtype: torch.dtype) -> Tensor:
    """Turn a padding mask (B, K) bool, True = may not be attended, into a finite bias of attention logits, (B, 1, 1, K).

    Finite, because some attention kernels return NaN for a row in which every key is masked with -inf; here such a row
    attends uniformly, and its output is ignored by the caller.
    """
    # Half of the smallest finite value: adding any realistic logit to it cannot overflow to -inf.
    bias = torch.zeros_like(padding_mask, dtype=dtype).masked_fill(padding_mask, torch.finfo(dtype).min / 2)
    return bias[:, None, None, :]
