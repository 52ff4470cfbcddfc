"""DeltaLM files (fairseq): released ones, and checkpoints of this package."""

import re
from typing import Dict, Tuple

from torch import Tensor

from .errors import CheckpointError
from .loading import Renamed, Rule, drop, rename
from .pipeline import ENCODER_SIZES, FIRST_FC, POSITIONS, WORDS, Content, FileLayout, PretrainedFile, matrix, open_file
from .reading import PathLike

EXPECTED = (
    "a DeltaLM file: {'weights': …} with src_embedding.*, encoder.*, tgt_embedding.*, decoder.*, or a fairseq "
    "checkpoint"
)
_SIDES = (("src_embedding", "encoder"), ("tgt_embedding", "decoder"))
_ATTENTION = r"(self_attn|encoder_attn)\.(q_proj|k_proj|v_proj|out_proj)\.(weight|bias)"
_NORMS = r"(self_attn_layer_norm|encoder_attn_layer_norm|ffn_layer_norm|final_layer_norm)\.(weight|bias)"


def _embeddings(source: str, side: str) -> Tuple[Rule, ...]:
    return (
        rename(source + r"\.(embed_tokens|embed_positions)\.weight", side + r".\1.weight"),
        rename(source + r"\.(?:emb_layer_norm|layernorm_embedding)\.(weight|bias)", side + r".layernorm_embedding.\1"),
    )


RULES: Tuple[Rule, ...] = (
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


def _check_numbers(content: Content) -> None:
    for name, tensor in content.tensors.items():
        if isinstance(tensor, Tensor) and not tensor.is_floating_point():
            raise CheckpointError(f"{content.origin}: {name} holds {tensor.dtype}, expected floating-point numbers")


LAYOUT = FileLayout(EXPECTED, lambda content: not content.is_folder, RULES, ENCODER_SIZES, _check_numbers)


def read_deltalm(path: PathLike) -> PretrainedFile:
    """Read a DeltaLM file, in the names of ``models.deltalm.DeltaLMModel``; ``sizes``: option of the model -> value.

    Raises CheckpointError: unreadable, untrusted, of another layout, or with tensors that are not accounted for.
    """
    found = open_file(path, (LAYOUT,), EXPECTED, "'weights' or 'model'")
    found.sizes = deltalm_sizes(found.renamed, found.origin)
    return found


def deltalm_sizes(renamed: Renamed, origin: str) -> Dict[str, int]:
    """Option of the model -> value, for both sides. Raises CheckpointError: a matrix or a layer is missing."""
    sizes: Dict[str, int] = {}
    for side in ("encoder", "decoder"):
        found = (re.match(rf"{side}\.layers\.(\d+)\.", name) for name in renamed.tensors)
        layers = {int(match.group(1)) for match in found if match}
        words, positions, inner = (
            matrix(renamed.tensors, f"{side}.{name}", origin, EXPECTED) for name in (WORDS, POSITIONS, FIRST_FC)
        )
        if layers != set(range(len(layers))):
            raise CheckpointError(f"{origin}: {side} layers {sorted(layers)} are not 0 to {len(layers) - 1}")
        sizes[f"{side}_layers"] = len(layers)
        sizes[f"{side}_embed_dim"] = words.size(1)
        sizes[f"{side}_ffn_embed_dim"] = inner.size(0)
        sizes[f"{side}_rows"] = words.size(0)
        sizes[f"{side}_positions"] = positions.size(0)
    return sizes
