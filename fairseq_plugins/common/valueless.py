"""Run a model without the values of its weights, for the shapes of all tensors in little memory.

:func:`drop_values` frees the weights of a model that was built as usual. Under :class:`Valueless` a
forward and a backward pass then allocate next to nothing: floating-point tensors lie on torch's
device ``meta``, where they have a shape but no values. Integers and booleans keep their values, so
that lengths, masks and tokens are those of a real run.
"""

from typing import Any, Dict, List, Tuple

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map_only

aten = torch.ops.aten
META = torch.device("meta")
COMPARISONS = (aten.eq, aten.ne, aten.lt, aten.le, aten.gt, aten.ge)


def drop_values(module: nn.Module, dtype: torch.dtype = torch.float32) -> None:
    """Free the values of all parameters and buffers, in place; integers keep theirs.

    Args:
        module: any model; tensors that several of its modules share stay shared.
        dtype: new type of the floating-point tensors.
    """
    for owner in module.modules():
        for tensor in [*owner._parameters.values(), *owner._buffers.values()]:
            if tensor is None or tensor.is_meta or not tensor.is_floating_point():
                continue
            empty: Tensor = torch.empty_like(tensor, device=META, dtype=dtype)
            if isinstance(tensor, nn.Parameter):
                empty = nn.Parameter(empty, requires_grad=tensor.requires_grad)
            vars(empty).update(vars(tensor))  # attributes that modules have set
            torch.utils.swap_tensors(tensor, empty)  # every reference to the tensor stays valid


class Valueless(TorchDispatchMode):
    """Run operators that read a tensor without values for the shapes of their results alone.

    A floating-point result of such an operator has no values either. An integer or boolean result
    has values, computed as if every absent number were 1: all are finite and equal, and the first
    is the largest.
    """

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Tuple = (), kwargs: Any = None
    ) -> Any:
        """Run one operator of torch in place of torch itself."""
        kwargs = dict(kwargs or {})
        tensors = [leaf for leaf in tree_flatten((args, kwargs))[0] if isinstance(leaf, Tensor)]
        if not any(tensor.is_meta for tensor in tensors):
            return _run_with_values(func, args, kwargs)
        if func is aten._local_scalar_dense.default:  # tensor.item()
            return 1.0
        if func is aten._to_copy.default and kwargs.get("device", META) != META:  # tensor.cpu()
            return torch.ones_like(tensors[0], device="cpu", dtype=kwargs.get("dtype"))
        outputs = _infer_shapes(func, args, kwargs)
        if func._schema.is_mutable:
            return _return_targets(func, args, kwargs, outputs)
        numbers = _compute_with_ones(func, args)
        return tree_map_only(Tensor, lambda output: _fill_integers(output, numbers), outputs)


def _run_with_values(func: Any, args: Tuple, kwargs: Dict[str, Any]) -> Any:
    """Run an operator whose tensors all have values.

    Integers that it creates on ``meta`` would have none, so they are created on the CPU.
    """
    result = func(*args, **kwargs)
    if kwargs.get("device") == META and not result.is_floating_point():
        return func(*args, **{**kwargs, "device": torch.device("cpu")})
    return result


def _infer_shapes(func: Any, args: Tuple, kwargs: Dict[str, Any]) -> Any:
    """Return what an operator returns, as tensors without values.

    If torch cannot infer the shapes, the operator runs on zeros.
    """

    def move(tensor: Tensor) -> Tensor:
        """Move a tensor to ``meta``; a single number stays, because some operators read it."""
        return tensor.to(META) if tensor.dim() and not tensor.is_meta else tensor

    def replace(tensor: Tensor) -> Tensor:
        """Replace absent values by zeros."""
        return torch.zeros_like(tensor, device="cpu") if tensor.is_meta else tensor

    def drop(tensor: Tensor) -> Tensor:
        """Drop the values of floating-point numbers."""
        return tensor.to(META) if tensor.is_floating_point() else tensor

    try:
        meta_args, meta_kwargs = tree_map_only(Tensor, move, (args, kwargs))
        return func(*meta_args, **meta_kwargs)
    except (NotImplementedError, RuntimeError):
        zero_args, zero_kwargs = tree_map_only(Tensor, replace, (args, kwargs))
        return tree_map_only(Tensor, drop, func(*zero_args, **zero_kwargs))


def _return_targets(func: Any, args: Tuple, kwargs: Dict[str, Any], outputs: Any) -> Any:
    """Return what an operator that writes in place returns: the tensors that it writes into.

    If it returns another number of tensors, ``outputs`` are returned.
    """
    targets: List[Tensor] = []
    for position, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            target = args[position] if position < len(args) else kwargs.get(argument.name)
            if isinstance(target, Tensor):
                targets.append(target)
    if not targets or len(func._schema.returns) != len(targets):
        return outputs
    return targets[0] if len(targets) == 1 else tuple(targets)


def _compute_with_ones(func: Any, args: Tuple) -> Tensor:
    """Compute the integers or booleans of an operator, with 1 for every absent number.

    A comparison is computed. Every other operator, such as ``argmax`` or ``isinf``, gives zeros.

    Returns:
        A tensor that expands to the shape of the operator's output.
    """
    if func.overloadpacket not in COMPARISONS:
        return torch.zeros(())

    def replace(tensor: Tensor) -> Tensor:
        """Replace absent numbers by a single 1."""
        return torch.ones((), dtype=tensor.dtype) if tensor.is_meta else tensor

    return func(*tree_map_only(Tensor, replace, args))


def _fill_integers(tensor: Tensor, numbers: Tensor) -> Tensor:
    """Give integers or booleans without values the ``numbers``, expanded to their shape."""
    if tensor.is_floating_point() or not tensor.is_meta:
        return tensor
    return torch.empty_like(tensor, device="cpu").copy_(numbers)
