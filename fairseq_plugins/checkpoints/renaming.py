"""Renames the tensors of a file to this package's names, by tables of anchored patterns."""

import re
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from torch import Tensor

from .inspection import CheckpointError
from .loading import listing

Renames = Dict[str, Union[str, Tuple[str, ...]]]


@dataclass(frozen=True)
class NameTable:
    r"""Lists what becomes of the tensors of a file, by patterns that match a *whole* name.

    Attributes:
        renames: pattern -> new name, with ``\1``, ``\2`` ... for the groups of the pattern. A tuple
            of names divides the rows into as many equal blocks. The first match counts.
        dropped: pattern -> reason why the tensor is not needed; looked up after ``renames``.
        refused: pattern -> reason why the file is of another kind; looked up before ``renames``.
        transposed: pattern of matrices that the file stores transposed.
    """

    renames: Mapping[str, Union[str, Tuple[str, ...]]]
    dropped: Mapping[str, str] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    transposed: str = ""


class RenamedTensors(NamedTuple):
    """Tensors of a file after renaming.

    Attributes:
        tensors: new name -> tensor.
        sources: new name -> name in the file.
        dropped: name in the file -> reason why the tensor was dropped.
    """

    tensors: Dict[str, Tensor]
    sources: Dict[str, str]
    dropped: Dict[str, str]


def stack_renames(source: str, target: str) -> Renames:
    """Return the renames of a fairseq encoder or decoder, in the layout of any release.

    Args:
        source: pattern of the prefix in the file, without groups.
        target: prefix in this package.
    """
    layer, new = source + r"layers\.(\d+)\.", target + r"layers.\1."
    embedding_norm = r"(?:layernorm_embedding|emb_layer_norm)\.(weight|bias)"
    attention = r"(self_attn|encoder_attn)\.([qkv]_proj|out_proj)\.(weight|bias)"
    norms = r"self_attn_layer_norm|encoder_attn_layer_norm|final_layer_norm"
    projections = tuple(rf"{new}self_attn.{projection}_proj.\2" for projection in "qkv")
    return {
        source + r"(embed_tokens|embed_positions)\.weight": target + r"\1.weight",
        source + embedding_norm: target + r"layernorm_embedding.\1",
        source + r"layer_norm\.(weight|bias)": target + r"layer_norm.\1",
        layer + attention: new + r"\2.\3.\4",
        layer + r"self_attn\.in_proj_(weight|bias)": projections,
        layer + rf"({norms}|fc1|fc2)\.(weight|bias)": new + r"\2.\3",
    }


def stack_buffers(source: str) -> Dict[str, str]:
    """Return the buffers of a fairseq encoder or decoder, pattern -> reason to drop them."""
    return {
        source + r"version": "format counter of fairseq",
        source + r"(?:embed_positions\.)?(?:_float_tensor|weights)": "buffer that is counted anew",
    }


def rename_tensors(
    tensors: Mapping[str, Any], table: NameTable, origin: str, expected: str
) -> RenamedTensors:
    """Rename every tensor by a table; floating-point tensors become float32.

    Args:
        origin: name of the file, for messages.
        expected: description of the kind of file, for messages.

    Raises:
        CheckpointError: an entry is no tensor, the table refuses or does not know a name, two
            tensors have the same new name, or rows cannot be divided.
    """
    renamed = RenamedTensors({}, {}, {})
    unknown: List[str] = []
    for name, entry in tensors.items():
        tensor = _as_float(entry, name, origin)
        if re.fullmatch(table.transposed, name) and tensor.dim() == 2:
            tensor = tensor.t().contiguous()
        refusal = _first_match(name, table.refused)
        if refusal:
            raise CheckpointError(f"{origin}: {refusal[1]} (it holds {name}); expected {expected}")
        if rename := _first_match(name, table.renames):
            match, targets = rename
            targets = (targets,) if isinstance(targets, str) else targets
            for target, block in zip(targets, _divide(name, tensor, len(targets), origin)):
                new = match.expand(target)
                if new in renamed.tensors:
                    pair = f"two tensors for {new}, one of them {name}"
                    raise CheckpointError(f"{origin}: {pair}; expected {expected}")
                renamed.tensors[new], renamed.sources[new] = block, name
        elif drop := _first_match(name, table.dropped):
            renamed.dropped[name] = drop[1]
        else:
            unknown.append(f"{name} {tuple(tensor.shape)}")
    if unknown:
        raise CheckpointError(f"{origin}: unknown tensors {listing(unknown)}; expected {expected}")
    return renamed


def _as_float(entry: Any, name: str, origin: str) -> Tensor:
    if not isinstance(entry, Tensor):
        kind = type(entry).__name__
        raise CheckpointError(f"{origin}: {name} is of type {kind}, expected a tensor")
    return entry.detach().float() if entry.is_floating_point() else entry


def _first_match(name: str, patterns: Mapping[str, Any]) -> Optional[Tuple["re.Match[str]", Any]]:
    """Return the match and the entry of the first pattern that matches the whole name."""
    for pattern, entry in patterns.items():
        if match := re.fullmatch(pattern, name):
            return match, entry
    return None


def _divide(name: str, tensor: Tensor, count: int, origin: str) -> Sequence[Tensor]:
    """Divide the rows into ``count`` equal blocks."""
    if count == 1:
        return (tensor,)
    if tensor.dim() == 0 or tensor.size(0) % count:
        rows = f"has shape {tuple(tensor.shape)}; its rows must be a multiple of {count}"
        raise CheckpointError(f"{origin}: {name} {rows}")
    return tensor.chunk(count)
