"""Tensors by name: tables of anchored renames from one source to another, and the one strict loader into a module.

Each rule of a table must match a *whole* name; the first that matches wins, and a name that none matches is an error.
"""

import re
from dataclasses import dataclass, field
from typing import Any, Dict, Iterable, List, Mapping, Sequence, Tuple

import torch
from torch import Tensor, nn

from .inspection import CheckpointError

_NUMBER = re.compile(r"(?<=\.)\d+(?=\.)")


@dataclass(frozen=True)
class Rule:
    """One line of a table; make it with :func:`rename`, :func:`drop` or :func:`refuse`."""

    pattern: "re.Pattern[str]"
    targets: Tuple[str, ...] = ()
    dropped_because: str = ""
    refused_because: str = ""


def rename(pattern: str, *targets: str) -> Rule:
    """The tensor is called ``target`` (a template with ``\\1`` …); for several its rows are cut into equal blocks, in order."""
    return Rule(re.compile(pattern), targets=targets)


def drop(pattern: str, because: str) -> Rule:
    """The tensor is not needed, for a reason that the report repeats."""
    return Rule(re.compile(pattern), dropped_because=because)


def refuse(pattern: str, because: str) -> Rule:
    """The tensor proves that the file is something else."""
    return Rule(re.compile(pattern), refused_because=because)


def stack_rules(source: str, target: str) -> Tuple[Rule, ...]:
    """fairseq's encoder or decoder, new or old; ``source``: pattern of what its names begin with, ``target``: what they get."""
    layer, new = source + r"layers\.(\d+)\.", target + r"layers.\1."
    return (
        rename(source + r"(embed_tokens|embed_positions)\.weight", target + r"\1.weight"),
        rename(source + r"(?:layernorm_embedding|emb_layer_norm)\.(weight|bias)", target + r"layernorm_embedding.\1"),
        rename(source + r"layer_norm\.(weight|bias)", target + r"layer_norm.\1"),
        rename(layer + r"(self_attn|encoder_attn)\.([qkv]_proj|out_proj)\.(weight|bias)", new + r"\2.\3.\4"),
        rename(layer + r"self_attn\.in_proj_(weight|bias)", *(rf"{new}self_attn.{name}_proj.\2" for name in "qkv")),
        rename(layer + r"((?:self_attn_|encoder_attn_|final_)layer_norm|fc1|fc2)\.(weight|bias)", new + r"\2.\3"),
        drop(source + r"version", "format counter of fairseq"),
        drop(source + r"(?:embed_positions\.)?(?:_float_tensor|weights)", "buffer that is counted anew"),
    )


@dataclass
class Renamed:
    """Result of :func:`apply_rules`: new name -> tensor and -> name in the source; name in the source -> why it was dropped."""

    tensors: Dict[str, Tensor] = field(default_factory=dict)
    sources: Dict[str, str] = field(default_factory=dict)
    dropped: Dict[str, str] = field(default_factory=dict)

    def discard(self, name: str, because: str) -> None:
        """Drop the tensor that has the new name ``name``."""
        del self.tensors[name]
        self.dropped[self.sources.pop(name)] = because

    def move(self, old: str, new: str) -> None:
        """The new names that begin with ``old`` begin with ``new`` instead."""
        names = {name: new + name[len(old) :] for name in self.sources if name.startswith(old)}
        self.tensors = {names.get(name, name): tensor for name, tensor in self.tensors.items()}
        self.sources = {names.get(name, name): source for name, source in self.sources.items()}


def apply_rules(tensors: Mapping[str, Tensor], rules: Sequence[Rule], origin: str, expected: str) -> Renamed:
    """Rename every tensor by the first rule that matches its whole name; ``expected``: what kind of file, for messages.

    Raises CheckpointError: a name no rule matches, a refused one, two tensors for one new name, rows that cannot be split.
    """
    result = Renamed()
    unknown = []
    for name, tensor in tensors.items():
        matches = ((rule, rule.pattern.fullmatch(name)) for rule in rules)
        rule, match = next(((rule, match) for rule, match in matches if match), (None, None))
        if rule is None or match is None:
            unknown.append(f"{name} {tuple(tensor.shape)}")
            continue
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


def _blocks(name: str, tensor: Tensor, count: int, origin: str) -> Sequence[Tensor]:
    if count > 1 and (tensor.dim() == 0 or tensor.size(0) % count):
        raise CheckpointError(
            f"{origin}: {name} has shape {tuple(tensor.shape)}; its rows must be a multiple of {count}"
        )
    return tensor.chunk(count) if count > 1 else (tensor,)


def float_tensors(tensors: Mapping[str, Any], origin: str) -> Dict[str, Tensor]:
    """Floating-point tensors as float32, others as they are. Raises CheckpointError: it is no tensor."""
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor):
            raise CheckpointError(f"{origin}: {name} is of type {type(tensor).__name__}, expected a tensor")
    return {name: one.detach().float() if one.is_floating_point() else one for name, one in tensors.items()}


def listing(items: Sequence[str], most: int = 8) -> str:
    """The first few items, and how many more there are."""
    shown = ", ".join(items[:most])
    return shown if len(items) <= most else f"{shown} and {len(items) - most} more"


@dataclass(frozen=True)
class LoadReport:
    """What became of every tensor: names that were used, names of the module that keep their initial values, as allowed, and names
    of the source that were not used, as allowed; ``reasons``: for some of these names, why.
    """

    loaded: Tuple[str, ...]
    initialised: Tuple[str, ...] = ()
    dropped: Tuple[str, ...] = ()
    reasons: Mapping[str, str] = field(default_factory=dict)

    def summary(self) -> str:
        """One line per group, layers folded together, e.g. ``loaded 36: … layers.{0..11}.fc1.weight …``."""
        lines = []
        for title in ("loaded", "initialised", "dropped"):
            names: Tuple[str, ...] = getattr(self, title)
            shown = []
            for text, rows in fold((name,) for name in names).items():
                reasons = {self.reasons.get(name, "") for (name,) in rows}
                shown.append(text + (f" ({reasons.pop()})" if len(reasons) == 1 and reasons != {""} else ""))
            lines.append(f"{title} {len(names)}" + (f": {', '.join(shown)}" if shown else ""))
        return "\n".join(lines)


def fold(rows: Iterable[Sequence[str]]) -> Dict[str, List[Sequence[str]]]:
    """Rows of names that differ in one number only, put together: ``layers.{0..3}.bias from h.{0..3}.b`` -> its members."""
    groups: Dict[Tuple[str, ...], List[Sequence[str]]] = {}
    for row in rows:
        groups.setdefault(tuple(_NUMBER.sub("{}", name) for name in row), []).append(row)
    folded: Dict[str, List[Sequence[str]]] = {}
    for pattern, members in groups.items():
        if len(members) == 1 or any(name.count("{}") > 1 for name in pattern):
            folded.update({" from ".join(row): [row] for row in members})
            continue
        shown = []
        for name, column in zip(pattern, zip(*members)):
            numbers = [int(found.group()) for found in map(_NUMBER.search, column) if found]
            consecutive = numbers and numbers == list(range(numbers[0], numbers[-1] + 1))
            text = f"{numbers[0]}..{numbers[-1]}" if consecutive else ",".join(map(str, numbers))
            shown.append(name.replace("{}", f"{{{text}}}"))
        folded[" from ".join(shown)] = members
    return folded


def load(module: nn.Module, tensors: Mapping[str, Tensor], allow_missing: Iterable[str] = ()) -> LoadReport:
    """Copy tensors into a module, strictly; nothing is changed when anything is wrong.

    ``module``: on any device but meta; its dtypes and devices are kept. ``tensors``: named as in ``module.state_dict()``; of tied
    parameters one name is enough. ``allow_missing``: regular expressions of whole names that may keep their initial values.

    Returns the report; its names cover the module and ``tensors`` completely. Raises ValueError: lists the names and shapes of
    whatever is missing, left over or of another shape.
    """
    state: Dict[str, Any] = module.state_dict(keep_vars=True)
    targets = {name: tensor for name, tensor in state.items() if isinstance(tensor, Tensor)}
    covered = {id(tensor) for name, tensor in targets.items() if name in tensors}
    tied = {name: "tied" for name, tensor in targets.items() if name not in tensors and id(tensor) in covered}
    missing = [name for name in targets if name not in tensors and name not in tied]
    allowed = [re.compile(pattern) for pattern in allow_missing]
    kept = {name for name in missing if any(pattern.fullmatch(name) for pattern in allowed)}
    shapes = {name: tuple(one.shape) for name, one in targets.items() if name not in tied and name not in kept}
    problems = mismatches(tensors, shapes)
    on_meta = [name for name in shapes if targets[name].is_meta]
    problems += [f"on the meta device, cannot be filled: {listing(on_meta)}"] if on_meta else []
    if problems:
        raise ValueError(f"tensors that are not accounted for: {'; '.join(problems)}")
    with torch.no_grad():
        for name in tensors:
            targets[name].copy_(tensors[name])
    order = tuple(name for name in targets if name in tensors or name in tied)
    return LoadReport(order, tuple(missing), (), tied)


def mismatches(tensors: Mapping[str, Tensor], shapes: Mapping[str, Tuple[int, ...]]) -> List[str]:
    """What of these tensors is not as wanted: names that are missing or surplus, and shapes."""
    kinds = {
        "missing tensors": [f"{name} {shape}" for name, shape in shapes.items() if name not in tensors],
        "surplus tensors": [f"{name} {tuple(one.shape)}" for name, one in tensors.items() if name not in shapes],
        "wrong shapes": [
            f"{name} {tuple(tensor.shape)} instead of {shapes[name]}"
            for name, tensor in tensors.items()
            if name in shapes and tuple(tensor.shape) != shapes[name]
        ],
    }
    return [f"{title}: {listing(names)}" for title, names in kinds.items() if names]
