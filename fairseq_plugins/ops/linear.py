"""``F.linear`` by oneDNN where torch's own choice on the CPU, a BLAS, is slower: large weights.

torch offers oneDNN's float32 product to its compiler alone, so the operator is called by its
private name. If it is missing, or does not handle the input, ``F.linear`` does the work.
"""

from typing import Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def _is_right() -> bool:
    """Return True if oneDNN's product exists and agrees with torch's on a small example."""
    if not torch.backends.mkldnn.is_available():
        return False
    try:
        x, weight, bias = torch.arange(6.0).view(2, 3), torch.arange(12.0).view(4, 3), torch.ones(4)
        product = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
        return product.tolist() == (x @ weight.t() + bias).tolist()
    except (AttributeError, RuntimeError, TypeError):
        return False


_AVAILABLE = _is_right()

MIN_WEIGHTS = 2**18
"""Smaller matrices are left to ``F.linear``: the call to oneDNN itself takes longer."""


def linear(x: Tensor, weight: Tensor, bias: Optional[Tensor] = None) -> Tensor:
    """Compute ``x weight^T + bias`` as ``F.linear`` does, rounded in another order.

    Only float32 on the CPU without autograd goes to oneDNN: decoding, and the losses in chunks,
    whose gradients are computed by hand. Layers in training, GPUs and autocast use ``F.linear``.

    Args:
        x: (..., C).
        weight: (V, C).
        bias: (V,) or None.

    Returns:
        (..., V).
    """
    if weight.numel() >= MIN_WEIGHTS and _AVAILABLE and _is_supported(x, weight, bias):
        return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
    return F.linear(x, weight, bias)


def _is_supported(x: Tensor, weight: Tensor, bias: Optional[Tensor]) -> bool:
    """Return True for inputs that oneDNN's product is known to multiply as ``F.linear`` does."""
    if (
        torch.is_grad_enabled()
        or torch.is_autocast_enabled("cpu")
        or not torch.backends.mkldnn.enabled
    ):
        return False
    if any(part.device.type != "cpu" or part.dtype != torch.float32 for part in (x, weight)):
        return False
    if not weight.is_contiguous() or x.numel() == 0 or x.size(-1) != weight.size(1):
        return False
    if bias is None:
        return True
    return bias.dtype == torch.float32 and bias.shape == weight.shape[:1] and bias.is_contiguous()


class Linear(nn.Linear):
    """``nn.Linear`` with the product of :func:`linear`: faster on the CPU without gradients."""

    def forward(self, x: Tensor) -> Tensor:
        """Project (..., in) to (..., out)."""
        return linear(x, self.weight, self.bias)


def use_faster_linears(module: nn.Module) -> None:
    """Turn every stock ``nn.Linear`` in a module into a :class:`Linear`; weights stay."""
    for child in module.modules():
        if type(child) is nn.Linear:
            child.__class__ = Linear
