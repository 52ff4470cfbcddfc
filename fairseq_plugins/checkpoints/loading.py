"""Loads tensors into a module strictly, and reports on each of them."""

import re
from dataclasses import dataclass, field
from typing import Any, Dict, Iterable, List, Mapping, Sequence, Tuple

import torch
from torch import Tensor, nn

from .inspection import CheckpointError
from .layouts import Shapes

_NUMBER = re.compile(r"(?<=\.)\d+(?=\.)")


@dataclass(frozen=True)
class LoadReport:
    """Accounts for every tensor of a module and of its source.

    Attributes:
        loaded: names of the tensors that were used.
        initialised: names in the module that keep their initial values, as the caller allowed.
        dropped: names in the source that were not used, as the caller allowed.
        reasons: name -> reason or source, for some of these names.
    """

    loaded: Tuple[str, ...]
    initialised: Tuple[str, ...] = ()
    dropped: Tuple[str, ...] = ()
    reasons: Mapping[str, str] = field(default_factory=dict)

    def summary(self) -> str:
        """Return a line per group, layers joined: ``loaded 12: layers.{0..11}.fc1.weight``."""
        return "\n".join(self._line(group) for group in ("loaded", "initialised", "dropped"))

    def _line(self, group: str) -> str:
        names: Tuple[str, ...] = getattr(self, group)
        parts = []
        for pattern, rows in fold((name,) for name in names).items():
            reasons = {self.reasons.get(name) for (name,) in rows}
            reason = reasons.pop() if len(reasons) == 1 else None
            parts.append(f"{pattern} ({reason})" if reason else pattern)
        return f"{group} {len(names)}: {', '.join(parts)}" if parts else f"{group} 0"


def fold(rows: Iterable[Sequence[str]]) -> Dict[str, List[Sequence[str]]]:
    """Join rows of names that differ only in a number, such as that of the layer.

    Args:
        rows: each has one name, or a name and the name of its source.

    Returns:
        text -> its rows, for example ``layers.{0..3}.bias from h.{0..3}.b`` -> four pairs. Rows
        with several numbers in a name stay alone.
    """
    groups: Dict[str, List[Sequence[str]]] = {}  # pattern, with {} for a number -> rows
    for row in rows:
        groups.setdefault(_NUMBER.sub("{}", " from ".join(row)), []).append(row)
    folded: Dict[str, List[Sequence[str]]] = {}
    for pattern, members in groups.items():
        if len(members) == 1 or any(len(_NUMBER.findall(name)) > 1 for name in members[0]):
            folded.update({" from ".join(row): [row] for row in members})
            continue
        numbers = [_NUMBER.findall(" from ".join(row)) for row in members]
        folded[pattern.format(*map(_join_numbers, zip(*numbers)))] = members
    return folded


def _join_numbers(texts: Sequence[str]) -> str:
    numbers = [int(text) for text in texts]
    if numbers == list(range(numbers[0], numbers[-1] + 1)):
        return f"{{{numbers[0]}..{numbers[-1]}}}"
    return f"{{{','.join(texts)}}}"


def load(
    module: nn.Module, tensors: Mapping[str, Tensor], allow_missing: Iterable[str] = ()
) -> LoadReport:
    """Copy tensors into a module strictly: if any of them does not fit, nothing is changed.

    Args:
        module: module on any device but meta; keeps its dtypes and devices.
        tensors: tensors by their names in ``module.state_dict()``; tied parameters need one of
            their names.
        allow_missing: patterns of whole names that may keep their initial values.

    Returns:
        a report on every name in the module and in ``tensors``.

    Raises:
        ValueError: tensors are missing, surplus or of another shape; lists all of them.
    """
    state: Dict[str, Any] = module.state_dict(keep_vars=True)
    targets = {name: tensor for name, tensor in state.items() if isinstance(tensor, Tensor)}
    covered = {id(tensor) for name, tensor in targets.items() if name in tensors}
    absent = [name for name in targets if name not in tensors]
    tied = {name: "tied" for name in absent if id(targets[name]) in covered}
    missing = [name for name in absent if name not in tied]
    patterns = [re.compile(pattern) for pattern in allow_missing]
    allowed = {name for name in missing if any(pattern.fullmatch(name) for pattern in patterns)}
    required = [name for name in targets if name not in tied and name not in allowed]
    problems = mismatches(tensors, {name: tuple(targets[name].shape) for name in required})
    on_meta = [name for name in required if targets[name].is_meta]
    if on_meta:
        problems.append(f"on the meta device, cannot be filled: {listing(on_meta)}")
    if problems:
        raise ValueError(f"tensors that are not accounted for: {'; '.join(problems)}")
    with torch.no_grad():
        for name in tensors:
            targets[name].copy_(tensors[name])
    loaded = tuple(name for name in targets if name in tensors or name in tied)
    return LoadReport(loaded, tuple(missing), (), tied)


def mismatches(tensors: Mapping[str, Tensor], shapes: Shapes) -> List[str]:
    """Describe the tensors that are missing, surplus or of another shape; empty if all fit."""
    actual = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    problems = {
        "missing tensors": [f"{name} {shapes[name]}" for name in shapes if name not in actual],
        "surplus tensors": [f"{name} {actual[name]}" for name in actual if name not in shapes],
        "wrong shapes": [
            f"{name} {shape} instead of {shapes[name]}"
            for name, shape in actual.items()
            if name in shapes and shape != shapes[name]
        ],
    }
    return [f"{title}: {listing(names)}" for title, names in problems.items() if names]


def check_shapes(tensors: Mapping[str, Tensor], shapes: Shapes, origin: str, expected: str) -> None:
    """Raise CheckpointError if a tensor is missing, surplus or of another shape."""
    problems = mismatches(tensors, shapes)
    if problems:
        raise CheckpointError(f"{origin}: {'; '.join(problems)}; expected {expected}")


def listing(names: Sequence[str], limit: int = 8) -> str:
    """Join the first ``limit`` names, and say how many more there are."""
    text = ", ".join(names[:limit])
    return text if len(names) <= limit else f"{text} and {len(names) - limit} more"
