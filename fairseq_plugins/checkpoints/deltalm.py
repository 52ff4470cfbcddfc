"""DeltaLM files: the released layout (``{'weights': …}``) and fairseq checkpoints of this model."""

import re
from dataclasses import dataclass
from typing import Any, Dict, Mapping, Optional

from torch import Tensor

from .loading import LoadReport
from .reading import CheckpointError, PathLike, read_checkpoint
from .renames import Renamed, Rule, apply_rules, drop, listing, rename

EXPECTED = "a DeltaLM file: {'weights': …} with src_embedding.*, encoder.*, tgt_embedding.*, decoder.*, or a fairseq checkpoint"

_SIDES = (("src_embedding", "encoder"), ("tgt_embedding", "decoder"))
_ATTENTION = r"(self_attn|encoder_attn)\.(q_proj|k_proj|v_proj|out_proj)\.(weight|bias)"
_NORMS = r"(self_attn_layer_norm|encoder_attn_layer_norm|ffn_layer_norm|final_layer_norm)\.(weight|bias)"


def _embeddings(source: str, side: str) -> "tuple[Rule, ...]":
    return (
        rename(source + r"\.(embed_tokens|embed_positions)\.weight", side + r".\1.weight"),
        rename(source + r"\.(?:emb_layer_norm|layernorm_embedding)\.(weight|bias)", side + r".layernorm_embedding.\1"),
    )


RULES = (
    *(rule for released, side in _SIDES for rule in (*_embeddings(released, side), *_embeddings(side, side))),
    rename(r"(encoder|decoder)\.layers\.(\d+)\." + _ATTENTION, r"\1.layers.\2.\3.\4.\5"),
    rename(r"(encoder|decoder)\.layers\.(\d+)\." + _NORMS, r"\1.layers.\2.\3.\4"),
    rename(r"encoder\.layers\.(\d+)\.(?:ffn\.)?(fc1|fc2)\.(weight|bias)", r"encoder.layers.\1.\2.\3"),
    rename(r"decoder\.layers\.(\d+)\.ffn_1\.fc1\.(weight|bias)", r"decoder.layers.\1.fc3.\2"),
    rename(r"decoder\.layers\.(\d+)\.ffn_1\.fc2\.(weight|bias)", r"decoder.layers.\1.fc4.\2"),
    rename(r"decoder\.layers\.(\d+)\.(?:ffn_2\.)?(fc1|fc2)\.(weight|bias)", r"decoder.layers.\1.\2.\3"),
    rename(r"decoder\.layers\.(\d+)\.(fc3|fc4)\.(weight|bias)", r"decoder.layers.\1.\2.\3"),
    rename(r"(encoder|decoder)\.layer_norm\.(weight|bias)", r"\1.layer_norm.\2"),
    rename(r"decoder\.output_projection\.weight", r"decoder.output_projection.weight"),
    drop(r"(?:encoder|decoder)\.version", "format counter of fairseq"),
    drop(r"(?:encoder|decoder)\.embed_positions\._float_tensor", "dtype marker of fairseq"),
)


@dataclass(frozen=True)
class DeltaLMFile:
    """A DeltaLM as read from disk.

    Attributes:
        tensors: name -> tensor, in the names of ``models.deltalm.DeltaLMModel``.
        sources: name -> its name in the file.
        sizes: option of the model -> value that the tensors have.
        report: what became of every tensor of the file.
    """

    tensors: Dict[str, Tensor]
    sources: Mapping[str, str]
    sizes: Dict[str, int]
    report: LoadReport


def read_deltalm(path: PathLike) -> DeltaLMFile:
    """Read a DeltaLM file.

    Raises:
        CheckpointError: unreadable, untrusted, of another layout, or with tensors that are not accounted for.
    """
    return deltalm_from(read_checkpoint(path), f"checkpoint {path}")


def deltalm_from(content: Mapping[str, Any], origin: str) -> DeltaLMFile:
    """As :func:`read_deltalm`, from a file's content; ``origin`` is how messages call it."""
    found = content.get("weights", content.get("model"))
    if not isinstance(found, Mapping):
        keys = listing([str(key) for key in content]) or "(none)"
        raise CheckpointError(f"{origin}: holds the entries {keys}, expected 'weights' or 'model'; expected {EXPECTED}")
    renamed = apply_rules(_tensors(found, origin), RULES, origin, EXPECTED)
    report = LoadReport(renamed.used(), dropped=tuple(renamed.dropped), reasons=renamed.dropped)
    return DeltaLMFile(renamed.tensors, renamed.sources, _sizes(renamed, origin), report)


def _tensors(found: Mapping[str, Any], origin: str) -> Dict[str, Tensor]:
    for name, tensor in found.items():
        if not isinstance(tensor, Tensor):
            raise CheckpointError(f"{origin}: {name} is of type {type(tensor).__name__}, expected a tensor")
        if not tensor.is_floating_point():
            raise CheckpointError(f"{origin}: {name} holds {tensor.dtype}, expected floating-point numbers")
    return dict(found)


def _sizes(renamed: Renamed, origin: str) -> Dict[str, int]:
    sizes: Dict[str, int] = {}
    for side in ("encoder", "decoder"):
        layers = {_layer(name, side) for name in renamed.tensors} - {None}
        needed = [f"{side}.embed_tokens.weight", f"{side}.embed_positions.weight", f"{side}.layers.0.fc1.weight"]
        for name in needed:
            if name not in renamed.tensors or renamed.tensors[name].dim() != 2:
                raise CheckpointError(f"{origin}: has no matrix for {name}; expected {EXPECTED}")
        words, positions, inner = (renamed.tensors[name] for name in needed)
        if layers != set(range(len(layers))):
            raise CheckpointError(f"{origin}: {side} layers {sorted(layers)} are not 0 to {len(layers) - 1}")  # type: ignore[type-var]
        sizes[f"{side}_layers"] = len(layers)
        sizes[f"{side}_embed_dim"] = words.size(1)
        sizes[f"{side}_ffn_embed_dim"] = inner.size(0)
        sizes[f"{side}_rows"] = words.size(0)
        sizes[f"{side}_positions"] = positions.size(0)
    return sizes


def _layer(name: str, side: str) -> Optional[int]:
    match = re.match(rf"{side}\.layers\.(\d+)\.", name)
    return int(match.group(1)) if match else None
