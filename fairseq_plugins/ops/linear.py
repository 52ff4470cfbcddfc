"""``F.linear``, by oneDNN where torch's own choice on the CPU, a BLAS, is slower: large weights, above all with few tokens.

torch offers oneDNN's float32 product to its compiler alone, so the operators are asked for by their private names; where they are
missing, or what is asked is not what they are known to do, ``F.linear`` does the work.
"""

from typing import Any, List, NamedTuple, Optional

import torch
import torch.nn.functional as F
from torch import Tensor


def _works(packed: bool) -> bool:
    """Whether oneDNN's product of a plain or a packed weight is there and right."""
    if not torch.backends.mkldnn.is_available():
        return False
    try:
        x, weight, bias = torch.arange(6.0).view(2, 3), torch.arange(12.0).view(4, 3), torch.ones(4)
        rows = torch.ops.mkldnn._reorder_linear_weight(weight, 2) if packed else weight
        found = torch.ops.mkldnn._linear_pointwise(x, rows, bias, "none", [], "")
        return found.tolist() == (x @ weight.t() + bias).tolist()
    except (AttributeError, RuntimeError, TypeError):
        return False


_AVAILABLE = _works(packed=False)
_PACKABLE = _AVAILABLE and _works(packed=True)

MIN_WEIGHTS = 2**18
"""Smaller matrices are left to ``F.linear``: oneDNN's call itself takes longer."""

FEW_TOKENS = 32
"""Tokens a product for which the packed layout is chosen; with some hundred it makes no difference."""


class _Packed(NamedTuple):
    """What :func:`pack` leaves at a weight: its version then, the values then, rows per part, and the parts.

    ``plain`` shares the weight's memory, and keeps it: a weight that moved away cannot come back to its place with other values.
    """

    version: int
    plain: Tensor
    chunk_size: int
    parts: List[Tensor]

    def __reduce__(self) -> Any:
        """A pickled weight has no copy: the layout is that of this machine, and such tensors cannot be saved."""
        return type(None), ()


def linear(x: Tensor, weight: Tensor, bias: Optional[Tensor] = None) -> Tensor:
    """``x weight^T + bias``, as ``F.linear``; rounded in another order. x (..., C), weight (V, C), bias (V,) or None.

    Only float32 on the CPU where autograd records nothing goes to oneDNN: decoding, and the losses in chunks, whose gradients are
    computed by hand. Layers in training, GPUs and autocast use ``F.linear``.
    """
    return linear_rows(x, weight, bias, 0, weight.size(0))


def linear_rows(x: Tensor, weight: Tensor, bias: Optional[Tensor], start: int, end: int) -> Tensor:
    """:func:`linear` with rows ``start`` to ``end`` of weight and bias alone. (..., C) -> (..., end - start)."""
    rows, some = weight, bias
    if start > 0 or end < weight.size(0):
        rows, some = weight[start:end], None if bias is None else bias[start:end]
    if rows.numel() < MIN_WEIGHTS or not (_AVAILABLE and _wanted(x, rows, some)):
        return F.linear(x, rows, some)
    packed = _part(weight, start, end)
    return torch.ops.mkldnn._linear_pointwise(x, rows if packed is None else packed, some, "none", [], "")


def pack(weight: Tensor, chunk_size: Optional[int] = None) -> int:
    """Keep a copy of a weight in oneDNN's own layout beside it, for the products of :func:`linear` with few tokens.

    oneDNN brings a plain matrix into that layout at each product: with 12 to 50 tokens about a quarter of the time.
    A weight that is changed in place or moved afterwards is multiplied as it is then: its copy is not used any more. What writes
    through ``weight.data``, as fairseq's optimizers do, is not noticed: not for weights in training. A weight below
    :data:`MIN_WEIGHTS` is left as it is. ``chunk_size`` has the rows per part, for :func:`linear_rows` from multiples of it to the
    next; all in one when None. Returns the bytes of the copy: 0 where there is one already, or none is made.
    """
    if weight.device.type != "cpu" or weight.dtype != torch.float32 or not weight.is_contiguous():
        got = f"{weight.dtype} on {weight.device}" + ("" if weight.is_contiguous() else ", rows not contiguous")
        raise ValueError(f"weights can be packed in float32 on the CPU, rows contiguous; got {got}")
    if not _PACKABLE:
        raise ValueError(f"weights cannot be packed: torch {torch.__version__} here is without oneDNN's linear product")
    size = chunk_size or weight.size(0)
    if weight.numel() < MIN_WEIGHTS or _packed(weight, size) is not None:
        return 0
    with torch.no_grad():
        plain = weight.detach()
        parts = [torch.ops.mkldnn._reorder_linear_weight(rows, FEW_TOKENS) for rows in plain.split(size)]
    weight.one_dnn = _Packed(weight._version, plain, size, parts)  # type: ignore[attr-defined]
    return weight.numel() * weight.element_size()


def is_packed(weight: Tensor) -> bool:
    """Whether a weight has a packed copy of what it is now."""
    return _packed(weight) is not None


def _packed(weight: Tensor, chunk_size: Optional[int] = None) -> Optional[_Packed]:
    """The packed copy of a weight that has not changed since, of that chunk size unless None."""
    found: Optional[_Packed] = getattr(weight, "one_dnn", None)
    if found is None or (found.version, found.plain.data_ptr()) != (weight._version, weight.data_ptr()):
        return None
    return found if chunk_size in (None, found.chunk_size) else None


def _part(weight: Tensor, start: int, end: int) -> Optional[Tensor]:
    """Rows ``start`` to ``end`` of the packed copy, if it has just these as a part."""
    found = _packed(weight)
    if found is None:
        return None
    number, beyond = divmod(start, found.chunk_size)
    is_part = not beyond and end == min(start + found.chunk_size, weight.size(0))
    return found.parts[number] if is_part else None


def _wanted(x: Tensor, weight: Tensor, bias: Optional[Tensor]) -> bool:
    return (
        not torch.is_grad_enabled()
        and all(part.device.type == "cpu" and part.dtype == torch.float32 for part in (x, weight))
        and (bias is None or (bias.dtype == torch.float32 and bias.shape == weight.shape[:1] and bias.is_contiguous()))
        and weight.is_contiguous()
        and x.numel() > 0
        and x.size(-1) == weight.size(1)
        and bool(torch.backends.mkldnn.enabled)
        and not torch.is_autocast_enabled("cpu")
    )
