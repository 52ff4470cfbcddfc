"""Which bytes are alive at any time of a training step, and at its peak."""

import sys
import weakref
from collections import Counter as Counts
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

WEIGHTS, GRADIENTS, OPTIMIZER, STEP = "weights", "gradients", "optimizer", "step"
"""Kinds of storages; of ``STEP`` are activations and everything else that a step makes and forgets."""


class Allocation(NamedTuple):
    """One storage: its size in bytes and where it was made, empty for small ones."""

    size: int
    where: str


class Peak(NamedTuple):
    """The moment at which most bytes were alive."""

    size: int
    phase: str  # as set in Live.phase at that time
    held: Counts[Tuple[str, str]]  # (kind, component) -> bytes


class _Storage:
    """What is known of a storage that is alive."""

    def __init__(self, reference: Any, size: int, kind: str, component: str, where: str):
        self.reference, self.size, self.kind, self.component, self.where = reference, size, kind, component, where


class Live(TorchDispatchMode):
    """Count the bytes of all storages that operators make, from their allocation to their end.

    What existed before is counted where it is labelled. A storage that an operator writes to, or gives a view of, is counted
    once. Bytes that an operator needs only inside are not seen.
    """

    def __init__(self) -> None:
        super().__init__()
        self.phase, self.component = "", ""
        self.held: Counts[Tuple[str, str]] = Counts()
        self.total = 0
        self._storages: Dict[int, _Storage] = {}
        self.restart()

    def restart(self) -> None:
        """Forget the peak and the largest allocation so far."""
        self.peak = Peak(self.total, self.phase, self.held.copy())
        self.largest = Allocation(0, "")

    def __torch_dispatch__(self, func: Any, types: Any, args: Tuple = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for leaf in tree_flatten(result)[0]:
            if isinstance(leaf, Tensor):
                self._see(leaf, STEP, self.component, str(func))
        return result

    def label(self, tensor: Optional[Tensor], kind: str, component: str) -> None:
        """Count the storage of a tensor as of this kind and component, from now on."""
        if tensor is None:
            return
        found = self._see(tensor, kind, component, "")
        self._count(found, -1)
        found.kind, found.component = kind, component
        self._count(found, 1)

    def kind(self, tensor: Tensor) -> str:
        """The kind of a tensor's storage; empty where it is not counted."""
        found = self._storages.get(tensor.untyped_storage()._cdata)
        return found.kind if found else ""

    def close(self) -> None:
        """Let what is still alive, and was made by the step, take part in the choice of the largest allocation."""
        for found in self._storages.values():
            self._compare(found)

    def _see(self, tensor: Tensor, kind: str, component: str, operator: str) -> _Storage:
        storage = tensor.untyped_storage()
        key = storage._cdata
        found = self._storages.get(key)
        if found is not None:
            return found
        size = storage.nbytes()
        where = _place(operator, component) if operator and size > self.largest.size else ""
        found = _Storage(weakref.ref(storage, lambda _: self._end(key)), size, kind, component, where)
        self._storages[key] = found
        self._count(found, 1)
        if self.total > self.peak.size:
            self.peak = Peak(self.total, self.phase, self.held.copy())
        return found

    def _end(self, key: int) -> None:
        found = self._storages.pop(key)
        self._count(found, -1)
        self._compare(found)

    def _count(self, found: _Storage, sign: int) -> None:
        self.total += sign * found.size
        self.held[found.kind, found.component] += sign * found.size

    def _compare(self, found: _Storage) -> None:
        if found.kind == STEP and found.size > self.largest.size:
            self.largest = Allocation(found.size, found.where)


def _place(operator: str, component: str) -> str:
    """Operator, component and the innermost line outside torch and this package's plan; in the backward pass its node."""
    node = torch._C._current_autograd_node()
    name = operator.split(".")[1] if operator.startswith("aten.") else operator
    frame: Any = sys._getframe(1)
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        if "torch" not in path.parts and path.parent != Path(__file__).parent:
            break
        frame = frame.f_back
    line = f"{'/'.join(path.parts[-2:])}:{frame.f_lineno}" if frame is not None else "torch"
    if node is not None and path.name in ("fp16_optimizer.py", "fairseq_optimizer.py"):  # that called backward
        line = f"backward of {node.name().replace('Backward0', '').replace('Backward', '')}"
    return f"{name}, {line}" if not component else f"{name} in {component}, {line}"


def follow(live: Live, model: nn.Module, names: Dict[int, str]) -> List[Any]:
    """Let ``live.component`` be that of the module that computes; ``names``: id of a module -> component. Returns the hooks."""
    outer: List[str] = []

    def enter(module: nn.Module, _: Any) -> None:
        outer.append(live.component)
        live.component = names[id(module)]

    def leave(module: nn.Module, _: Any, __: Any) -> None:
        live.component = outer.pop()

    hooks: List[Any] = []
    for module in model.modules():
        if id(module) in names:
            hooks += [module.register_forward_pre_hook(enter), module.register_forward_hook(leave)]
    return hooks
