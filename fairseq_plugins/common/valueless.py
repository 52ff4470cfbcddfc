"""Run a model whose weights have no values: nearly no memory, and the shapes of every tensor.

:func:`drop_values` frees the weights of a model that was built as usual; under :class:`Valueless` a
forward and a backward pass then allocate next to nothing. Integers and booleans stay real, so that
lengths, masks and tokens are those of a real run.
"""

from typing import Any, Dict, List, Sequence, Tuple

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
        module: any model; tensors that it shares stay shared.
        dtype: of the floating-point tensors afterwards.
    """
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

    A floating-point tensor that depends on one without values has none either. Integers and
    booleans always have values. Where they depend on numbers without values, these count as 1:
    they are finite and equal to each other, and the best of them is the first.
    """

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: Tuple = (),
        kwargs: Any = None,
    ) -> Any:
        kwargs = dict(kwargs or {})
        tensors = [leaf for leaf in tree_flatten((args, kwargs))[0] if isinstance(leaf, Tensor)]
        if any(tensor.is_meta for tensor in tensors):
            return self._run_without_values(func, args, kwargs, tensors)
        if kwargs.get("device") == META:
            return self._create(func, args, kwargs)
        return func(*args, **kwargs)

    def _create(self, func: Any, args: Tuple, kwargs: Dict[str, Any]) -> Any:
        """Create a tensor beside one without values: floating-point numbers have none either."""
        tensor = func(*args, **kwargs)
        if tensor.is_floating_point():
            return tensor
        return func(*args, **{**kwargs, "device": torch.device("cpu")})

    def _run_without_values(
        self,
        func: Any,
        args: Tuple,
        kwargs: Dict[str, Any],
        tensors: Sequence[Tensor],
    ) -> Any:
        if func is aten._local_scalar_dense.default:
            return 1.0
        if func is aten._to_copy.default and kwargs.get("device", META) != META:
            return torch.ones_like(tensors[0], device="cpu", dtype=kwargs.get("dtype"))
        outputs = self._infer_shapes(func, args, kwargs)
        if func._schema.is_mutable:
            targets = [arg for arg in _list_written(func, args, kwargs) if isinstance(arg, Tensor)]
            if len(func._schema.returns) != len(targets) or not targets:
                return outputs
            return targets[0] if len(targets) == 1 else tuple(targets)
        truth = _compare_ones(func, args)
        return tree_map_only(Tensor, lambda output: _fill_integers(output, truth), outputs)

    def _infer_shapes(self, func: Any, args: Tuple, kwargs: Dict[str, Any]) -> Any:
        """Return what an operator returns, as tensors without values.

        Where torch cannot infer the shapes, the operator runs on zeros.
        """
        try:
            return func(*_move_to_meta(args), **_move_to_meta(kwargs))
        except (NotImplementedError, RuntimeError):
            outputs = func(*_replace_by_zeros(args), **_replace_by_zeros(kwargs))
            return tree_map_only(Tensor, _drop_numbers, outputs)


def _move_to_meta(tree: Any) -> Any:
    def move(tensor: Tensor) -> Tensor:
        return tensor.to(META) if tensor.dim() and not tensor.is_meta else tensor

    return tree_map_only(Tensor, move, tree)


def _replace_by_zeros(tree: Any) -> Any:
    def replace(tensor: Tensor) -> Tensor:
        return torch.zeros_like(tensor, device="cpu") if tensor.is_meta else tensor

    return tree_map_only(Tensor, replace, tree)


def _drop_numbers(tensor: Tensor) -> Tensor:
    return tensor.to(META) if tensor.is_floating_point() else tensor


def _list_written(func: Any, args: Tuple, kwargs: Dict[str, Any]) -> List[Any]:
    """List the arguments that an operator writes into."""
    targets = []
    for place, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            targets.append(args[place] if place < len(args) else kwargs.get(argument.name))
    return targets


def _compare_ones(func: Any, args: Tuple) -> Tensor:
    """Compute the integers or booleans that an operator makes where each number is 1.

    Returns a tensor that expands to the shape of the operator's output.
    """
    if func.overloadpacket not in COMPARISONS:
        return torch.zeros(())

    def replace(tensor: Tensor) -> Tensor:
        return torch.ones((), dtype=tensor.dtype) if tensor.is_meta else tensor

    return func(*tree_map_only(Tensor, replace, args))


def _fill_integers(tensor: Tensor, truth: Tensor) -> Tensor:
    if tensor.is_floating_point() or not tensor.is_meta:
        return tensor
    return torch.empty_like(tensor, device="cpu").copy_(truth)
