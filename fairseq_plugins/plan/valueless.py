"""Weights without values: a training step that allocates next to nothing, and computes what depends on tokens alone."""

from typing import Any, Dict, List, Sequence, Tuple

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map_only

aten = torch.ops.aten
META = torch.device("meta")
COMPARISONS = (aten.eq, aten.ne, aten.lt, aten.le, aten.gt, aten.ge)


def drop_values(module: nn.Module, dtype: torch.dtype = torch.float32) -> None:
    """Free the values of all parameters and buffers; shared ones stay shared. Floating-point ones become ``dtype``."""
    for owner in module.modules():
        for tensor in [*owner._parameters.values(), *owner._buffers.values()]:
            if tensor is None or tensor.is_meta or not tensor.is_floating_point():
                continue
            empty: Tensor = torch.empty_like(tensor, device=META, dtype=dtype)
            if isinstance(tensor, nn.Parameter):
                empty = nn.Parameter(empty, requires_grad=tensor.requires_grad)
            vars(empty).update(vars(tensor))
            torch.utils.swap_tensors(tensor, empty)


class Valueless(TorchDispatchMode):
    """Run operators that read a tensor of device ``meta`` for the shapes of their results alone.

    A tensor of floating-point numbers that depends on one without values has none either. Integers and booleans always have
    values, so that lengths, masks and tokens are what they are in training. Where one depends on numbers without values, these
    count as 1: they are finite and equal to each other, and the best of them is the first.
    """

    def __torch_dispatch__(self, func: Any, types: Any, args: Tuple = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        tensors = [leaf for leaf in tree_flatten((args, kwargs))[0] if isinstance(leaf, Tensor)]
        if any(tensor.is_meta for tensor in tensors):
            return self._without_values(func, args, kwargs, tensors)
        if kwargs.get("device") == META:
            return self._made(func, args, kwargs)
        return func(*args, **kwargs)

    def _made(self, func: Any, args: Tuple, kwargs: Dict[str, Any]) -> Any:
        """What is made beside a tensor without values: numbers have none, integers are real."""
        shape = func(*args, **kwargs)
        return shape if shape.is_floating_point() else func(*args, **{**kwargs, "device": torch.device("cpu")})

    def _without_values(self, func: Any, args: Tuple, kwargs: Dict[str, Any], tensors: Sequence[Tensor]) -> Any:
        if func is aten._local_scalar_dense.default:
            return 1.0
        if func is aten._to_copy.default and kwargs.get("device", META) != META:
            return torch.ones_like(tensors[0], device="cpu", dtype=kwargs.get("dtype"))
        result = self._shapes(func, args, kwargs)
        if func._schema.is_mutable:
            written = [arg for arg in _written(func, args, kwargs) if isinstance(arg, Tensor)]
            if len(func._schema.returns) != len(written) or not written:
                return result
            return written[0] if len(written) == 1 else tuple(written)
        values = _truth(func, args)
        return tree_map_only(Tensor, lambda out: _with_values(out, values), result)

    def _shapes(self, func: Any, args: Tuple, kwargs: Dict[str, Any]) -> Any:
        """The results of an operator as tensors without values; where torch cannot tell their shapes, those of zeros."""
        try:
            return func(*_to_meta(args), **_to_meta(kwargs))
        except (NotImplementedError, RuntimeError):
            return tree_map_only(Tensor, _number_to_meta, func(*_to_zeros(args), **_to_zeros(kwargs)))


def _to_meta(tree: Any) -> Any:
    return tree_map_only(Tensor, lambda each: each.to(META) if each.dim() and not each.is_meta else each, tree)


def _to_zeros(tree: Any) -> Any:
    return tree_map_only(Tensor, lambda each: torch.zeros_like(each, device="cpu") if each.is_meta else each, tree)


def _number_to_meta(tensor: Tensor) -> Tensor:
    return tensor.to(META) if tensor.is_floating_point() else tensor


def _written(func: Any, args: Tuple, kwargs: Dict[str, Any]) -> List[Any]:
    """The arguments that an operator writes into."""
    found = []
    for place, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            found.append(args[place] if place < len(args) else kwargs.get(argument.name))
    return found


def _truth(func: Any, args: Tuple) -> Tensor:
    """What integers and booleans are that an operator makes of numbers without values. Of a shape that can be expanded."""
    if func.overloadpacket not in COMPARISONS:
        return torch.zeros(())
    ones = tree_map_only(Tensor, lambda each: torch.ones((), dtype=each.dtype) if each.is_meta else each, args)
    return func(*ones)


def _with_values(tensor: Tensor, values: Tensor) -> Tensor:
    if tensor.is_floating_point() or not tensor.is_meta:
        return tensor
    return torch.empty_like(tensor, device="cpu").copy_(values)
