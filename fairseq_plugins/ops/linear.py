"""``F.linear``, by oneDNN where torch's own choice on the CPU, a BLAS, is slower: large weights, above all with few tokens.

torch offers oneDNN's float32 product to its compiler alone, so the operator is asked for by its private name; where it is missing,
or what is asked is not what it is known to do, ``F.linear`` does the work.
"""

from typing import Optional

import torch
import torch.nn.functional as F
from torch import Tensor


def _one_dnn() -> bool:
    """Whether this torch has the operator and it gives a known product; asked once."""
    if not torch.backends.mkldnn.is_available():
        return False
    try:
        x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
        found = torch.ops.mkldnn._linear_pointwise(x, x, torch.ones(2), "none", [], "")
        return found.tolist() == [[6.0, 12.0], [12.0, 26.0]]
    except (AttributeError, RuntimeError, TypeError):
        return False


_AVAILABLE = _one_dnn()

MIN_WEIGHTS = 2**18
"""Smaller matrices are left to ``F.linear``: oneDNN's call itself takes longer."""


def linear(x: Tensor, weight: Tensor, bias: Optional[Tensor] = None) -> Tensor:
    """``x weight^T + bias``, as ``F.linear``; rounded in another order.

    Only float32 on the CPU where autograd records nothing goes to oneDNN: decoding, and the losses in chunks, whose gradients are
    computed by hand. Layers in training, GPUs and autocast are as ever.

    Args:
        x: (..., C).
        weight: (V, C), rows contiguous.
        bias: (V,) or None.

    Returns:
        (..., V).
    """
    if _AVAILABLE and _wanted(x, weight, bias):
        return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
    return F.linear(x, weight, bias)


def _wanted(x: Tensor, weight: Tensor, bias: Optional[Tensor]) -> bool:
    return (
        not torch.is_grad_enabled()
        and all(part.device.type == "cpu" and part.dtype == torch.float32 for part in (x, weight))
        and (bias is None or (bias.dtype == torch.float32 and bias.shape == weight.shape[:1] and bias.is_contiguous()))
        and weight.numel() >= MIN_WEIGHTS
        and weight.is_contiguous()
        and x.numel() > 0
        and x.size(-1) == weight.size(1)
        and bool(torch.backends.mkldnn.enabled)
        and not torch.is_autocast_enabled("cpu")
    )
