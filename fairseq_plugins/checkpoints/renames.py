"""Tables of anchored renames: how the tensors of one source become the tensors of another.

Each rule of a table must match a *whole* name (so that layer 1 and layer 11 cannot be mixed up), the first that matches
wins, and a name that none matches is an error.
"""

import re
from dataclasses import dataclass, field
from typing import Dict, Mapping, Optional, Sequence, Tuple

from torch import Tensor

from .errors import CheckpointError


@dataclass(frozen=True)
class Rule:
    """One line of a table; make it with :func:`rename`, :func:`split`, :func:`drop` or :func:`refuse`."""

    pattern: "re.Pattern[str]"
    targets: Tuple[str, ...] = ()
    dropped_because: str = ""
    refused_because: str = ""


def rename(pattern: str, target: str) -> Rule:
    """The tensor is called ``target`` (a template with ``\\1`` …)."""
    return Rule(re.compile(pattern), targets=(target,))


def split(pattern: str, *targets: str) -> Rule:
    """The rows of the tensor are cut into equal blocks, one per target, in order."""
    return Rule(re.compile(pattern), targets=targets)


def drop(pattern: str, because: str) -> Rule:
    """The tensor is not needed, for a reason that the report repeats."""
    return Rule(re.compile(pattern), dropped_because=because)


def refuse(pattern: str, because: str) -> Rule:
    """The tensor proves that the file is something else."""
    return Rule(re.compile(pattern), refused_because=because)


def fused_attention(layer: str, target: str) -> Tuple[Rule, Rule]:
    """fairseq's self-attention, with its projections apart or in one ``in_proj``; ``target`` is the name of the layer."""
    projections = [f"{target}self_attn.{name}_proj.\\2" for name in "qkv"]
    return (
        rename(layer + r"self_attn\.(q_proj|k_proj|v_proj|out_proj)\.(weight|bias)", target + r"self_attn.\2.\3"),
        split(layer + r"self_attn\.in_proj_(weight|bias)", *projections),
    )


@dataclass
class Renamed:
    """Result of :func:`apply_rules`.

    Attributes:
        tensors: new name -> tensor.
        sources: new name -> name in the source.
        dropped: name in the source -> why it was dropped.
    """

    tensors: Dict[str, Tensor] = field(default_factory=dict)
    sources: Dict[str, str] = field(default_factory=dict)
    dropped: Dict[str, str] = field(default_factory=dict)

    def discard(self, name: str, because: str) -> None:
        """Drop the tensor that has the new name ``name``."""
        del self.tensors[name]
        self.dropped[self.sources.pop(name)] = because

    def discard_all(self, start: str, because: str) -> None:
        """Drop the tensors whose new names begin with ``start``."""
        for name in [name for name in self.tensors if name.startswith(start)]:
            self.discard(name, because)

    def move(self, old: str, new: str) -> None:
        """The new names that begin with ``old`` begin with ``new`` instead."""

        def moved(name: str) -> str:
            return new + name[len(old) :] if name.startswith(old) else name

        self.tensors = {moved(name): tensor for name, tensor in self.tensors.items()}
        self.sources = {moved(name): source for name, source in self.sources.items()}

    def used(self) -> Tuple[str, ...]:
        """Names in the source of the tensors that are kept, in order."""
        return tuple(dict.fromkeys(self.sources.values()))


def apply_rules(tensors: Mapping[str, Tensor], rules: Sequence[Rule], origin: str, expected: str) -> Renamed:
    """Rename every tensor by the first rule that matches its whole name.

    Args:
        origin: the file, for messages.
        expected: what kind of file was expected, for messages.

    Raises:
        CheckpointError: a name no rule matches, a refused one, two tensors for one new name, rows that cannot be split.
    """
    result = Renamed()
    unknown = []
    for name, tensor in tensors.items():
        found = _first_match(rules, name)
        if found is None:
            unknown.append(f"{name} {tuple(tensor.shape)}")
            continue
        rule, match = found
        if rule.refused_because:
            raise CheckpointError(f"{origin}: {rule.refused_because} (it holds {name}); expected {expected}")
        if rule.dropped_because:
            result.dropped[name] = rule.dropped_because
            continue
        for target, block in zip(rule.targets, _blocks(name, tensor, len(rule.targets), origin)):
            new_name = match.expand(target)
            if new_name in result.tensors:
                raise CheckpointError(f"{origin}: two tensors for {new_name}, one of them {name}; expected {expected}")
            result.tensors[new_name] = block
            result.sources[new_name] = name
    if unknown:
        raise CheckpointError(f"{origin}: unknown tensors {listing(unknown)}; expected {expected}")
    return result


def _first_match(rules: Sequence[Rule], name: str) -> Optional[Tuple[Rule, "re.Match[str]"]]:
    for rule in rules:
        match = rule.pattern.fullmatch(name)
        if match:
            return rule, match
    return None


def _blocks(name: str, tensor: Tensor, count: int, origin: str) -> Sequence[Tensor]:
    if count == 1:
        return (tensor,)
    if tensor.dim() == 0 or tensor.size(0) % count:
        raise CheckpointError(
            f"{origin}: {name} has shape {tuple(tensor.shape)}; its rows must be a multiple of {count} to be split"
        )
    return tensor.chunk(count)


def listing(items: Sequence[str], most: int = 8) -> str:
    """The first few items, and how many more there are."""
    shown = ", ".join(items[:most])
    return shown if len(items) <= most else f"{shown} and {len(items) - most} more"
