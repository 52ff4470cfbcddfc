"""The one strict loader: every tensor is loaded, or allowed by name to be left out, or an error."""

import re
from dataclasses import dataclass, field
from typing import Any, Dict, Iterable, List, Mapping, Sequence, Tuple

import torch
from torch import Tensor, nn

from .renames import listing


@dataclass(frozen=True)
class LoadReport:
    """What became of every tensor.

    Attributes:
        loaded: names that were used.
        initialised: names of the module that keep the values of their initialisation, as allowed.
        dropped: names of the source that were not used, as allowed.
        reasons: for some of these names, why.
    """

    loaded: Tuple[str, ...]
    initialised: Tuple[str, ...] = ()
    dropped: Tuple[str, ...] = ()
    reasons: Mapping[str, str] = field(default_factory=dict)

    def summary(self) -> str:
        """One line a group, layers folded together, e.g. ``loaded 36: … layers.{0..11}.fc1.weight …``."""
        lines = []
        for title in ("loaded", "initialised", "dropped"):
            names: Tuple[str, ...] = getattr(self, title)
            folded = [f"{name}{self._reason(members)}" for name, members in _fold(names).items()]
            lines.append(f"{title} {len(names)}" + (f": {', '.join(folded)}" if folded else ""))
        return "\n".join(lines)

    def _reason(self, names: Sequence[str]) -> str:
        reasons = {self.reasons.get(name, "") for name in names}
        return f" ({reasons.pop()})" if len(reasons) == 1 and reasons != {""} else ""


def _fold(names: Sequence[str]) -> Dict[str, List[str]]:
    """Names that differ in one number only, put together: ``layers.{0..3}.bias`` -> its members."""
    groups: Dict[str, List[str]] = {}
    for name in names:
        groups.setdefault(re.sub(r"(?<=\.)\d+(?=\.)", "{}", name), []).append(name)
    folded = {}
    for pattern, members in groups.items():
        if len(members) == 1 or pattern.count("{}") != 1:
            folded.update({name: [name] for name in members})
            continue
        start = pattern.index("{}")
        numbers = sorted(int(re.match(r"\d+", name[start:]).group()) for name in members)  # type: ignore[union-attr]
        consecutive = numbers == list(range(numbers[0], numbers[-1] + 1))
        shown = f"{numbers[0]}..{numbers[-1]}" if consecutive else ",".join(map(str, numbers))
        folded[pattern.replace("{}", "{" + shown + "}")] = members
    return folded


def load(
    module: nn.Module,
    tensors: Mapping[str, Tensor],
    allow_missing: Iterable[str] = (),
    allow_unused: Iterable[str] = (),
) -> LoadReport:
    """Copy tensors into a module, strictly; nothing is changed when anything is wrong.

    Args:
        module: on any device but meta; its dtypes and devices are kept.
        tensors: name -> tensor, names as in ``module.state_dict()``. Of tied parameters one name is enough.
        allow_missing: regular expressions that match whole names of the module that may keep their initial values.
        allow_unused: regular expressions that match whole names of ``tensors`` that may be left over.

    Returns:
        The report; its names cover the module and ``tensors`` completely.

    Raises:
        ValueError: lists the names and shapes of whatever is missing, left over or of another shape.
    """
    targets = _targets(module)
    loaded = [name for name in targets if name in tensors]
    covered = {id(targets[name]) for name in loaded}
    reasons = {name: "tied" for name in targets if name not in tensors and id(targets[name]) in covered}
    missing = [name for name in targets if name not in tensors and name not in reasons]
    unused = [name for name in tensors if name not in targets]
    refused = _not_allowed(missing, allow_missing), _not_allowed(unused, allow_unused)
    _raise_unaccounted(targets, tensors, loaded, *refused)
    with torch.no_grad():
        for name in loaded:
            targets[name].copy_(tensors[name])
    order = tuple(name for name in targets if name in tensors or name in reasons)
    return LoadReport(order, tuple(missing), tuple(unused), reasons)


def _targets(module: nn.Module) -> Dict[str, Tensor]:
    state: Dict[str, Any] = module.state_dict(keep_vars=True)
    return {name: tensor for name, tensor in state.items() if isinstance(tensor, Tensor)}


def _not_allowed(names: Sequence[str], allowed: Iterable[str]) -> List[str]:
    patterns = [re.compile(pattern) for pattern in ([allowed] if isinstance(allowed, str) else allowed)]
    return [name for name in names if not any(pattern.fullmatch(name) for pattern in patterns)]


def _raise_unaccounted(
    targets: Mapping[str, Tensor],
    tensors: Mapping[str, Tensor],
    loaded: Sequence[str],
    missing: Sequence[str],
    unused: Sequence[str],
) -> None:
    shape = {name: tuple(tensor.shape) for name, tensor in targets.items()}
    wrong = [
        f"{name} {tuple(tensors[name].shape)} instead of {shape[name]}"
        for name in loaded
        if tuple(tensors[name].shape) != shape[name]
    ]
    kinds = (
        ("missing in the source", [f"{name} {shape[name]}" for name in missing]),
        ("unknown to the module", [f"{name} {tuple(tensors[name].shape)}" for name in unused]),
        ("of another shape", wrong),
        ("on the meta device, cannot be filled", [name for name in loaded if targets[name].is_meta]),
    )
    problems = [f"{title}: {listing(names, most=20)}" for title, names in kinds if names]
    if problems:
        raise ValueError(f"tensors that are not accounted for: {'; '.join(problems)}")
