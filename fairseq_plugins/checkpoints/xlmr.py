"""Masked LMs of XLM-R's shape: fairseq's files (XLM-R, InfoXLM, RoBERTa-era, ``xlmr_mlm`` of this package); reading any of them.

Layouts met in the wild: ``decoder.sentence_encoder.`` (fairseq < 0.10) against ``encoder.sentence_encoder.``,
``emb_layer_norm`` against ``layernorm_embedding``, one fused ``in_proj_weight`` against ``q_proj``, ``k_proj`` and
``v_proj``, and InfoXLM's training files with the model under ``model_fast.`` beside a momentum copy.
"""

from dataclasses import replace
from typing import Any, Mapping, Optional, Tuple

import torch

from .encoder_layout import Shapes, expected_shapes, family_layout
from .errors import CheckpointError
from .loading import Rule, drop, fused_attention, refuse, rename
from .pipeline import (
    PADDING_IDX,
    POSITIONS,
    WORDS,
    Content,
    FileLayout,
    Heads,
    PretrainedFile,
    check_shapes,
    find_sizes,
    layouts_of,
    open_file,
)
from .reading import PathLike

EXPECTED = (
    "a fairseq masked LM of XLM-R's shape (post-norm encoder, learned positions, layer norm after the embedding, "
    "GELU, lm_head tied to the embedding; names encoder.sentence_encoder.* and encoder.lm_head.*)"
)
STACK = "sentence_encoder."
HEAD = "lm_head."
OUTPUT_WEIGHT = HEAD + "weight"

_TOP = r"(?:model_fast\.)?(?:(?:encoder|decoder)\.)?"
_ENCODER = _TOP + r"sentence_encoder\."
_LAYER = _ENCODER + r"layers\.(\d+)\."

RULES: Tuple[Rule, ...] = (
    rename(_ENCODER + r"(embed_tokens|embed_positions)\.weight", r"sentence_encoder.\1.weight"),
    rename(
        _ENCODER + r"(?:layernorm_embedding|emb_layer_norm)\.(weight|bias)", r"sentence_encoder.layernorm_embedding.\1"
    ),
    *fused_attention(_LAYER, r"sentence_encoder.layers.\1."),
    rename(
        _LAYER + r"(self_attn_layer_norm|fc1|fc2|final_layer_norm)\.(weight|bias)", r"sentence_encoder.layers.\1.\2.\3"
    ),
    rename(_TOP + r"lm_head\.(dense|layer_norm)\.(weight|bias)", r"lm_head.\1.\2"),
    rename(_TOP + r"lm_head\.(weight|bias)", r"lm_head.\1"),
    drop(_ENCODER + r"version", "format counter of fairseq"),
    drop(_ENCODER + r"(?:embed_positions\.)?_float_tensor", "dtype marker of fairseq"),
    drop(_TOP + r"classification_heads\..*", "classification head, unused by a masked LM"),
    drop(r"model_slow\..*", "InfoXLM's momentum copy"),
    drop(r"queue|enqueue_cnt|queue_ptr|proj_matrix_(?:fast|slow)", "InfoXLM's contrastive training state"),
    refuse(_ENCODER + r"layer_norm\.(?:weight|bias)", "is a pre-norm model, as XLM-R XL and XXL are"),
    refuse(_ENCODER + r"segment_embeddings\.weight", "is a BERT with segment embeddings"),
    refuse(r"encoder\.(?:masked_lm_pooler|lm_head_transform_weight|lm_output_learned_bias)\b.*", "is a fairseq BERT"),
    refuse(
        r"(?:encoder|decoder)\.(?:embed_tokens|embed_positions|layers|layernorm_embedding|layer_norm|output_projection)\b.*",
        "is an encoder-decoder or language model such as mBART",
    ),
)
SIZES = {
    "layers": "encoder_layers",
    "embed_dim": "encoder_embed_dim",
    "ffn_dim": "encoder_ffn_embed_dim",
    "max_positions": "max_positions",
    "heads": "encoder_attention_heads",
}
_WIRING = {
    "activation_fn": "gelu",
    "encoder_normalize_before": False,
    "encoder_learned_pos": True,
    "no_scale_embedding": True,
    "layernorm_embedding": True,
    "no_token_positional_embeddings": False,
}


def check_wiring(options: Mapping[str, Any], origin: str) -> None:
    """Refuse a file whose options say that it computes something else than XLM-R."""
    for name, value in _WIRING.items():
        if options.get(name) is not None and options[name] != value:
            raise CheckpointError(
                f"{origin}: was trained with {name} = {options[name]!r}, expected {value!r}, i.e. {EXPECTED}"
            )


def _settle(content: Content, found: PretrainedFile) -> None:
    check_wiring(content.options, content.origin)
    found.mask_last = True


def encoder_of(layout: FileLayout) -> FileLayout:
    """The layout for the encoder alone of a masked LM."""

    def settle(content: Content, found: PretrainedFile) -> None:
        layout.settle(content, found)
        found.renamed.discard_all(HEAD, "head of the masked LM, unused by an encoder")
        found.renamed.move(STACK, "")
        found.wiring["family"] = "xlmr"
        found.padding_row = found.padding_idx
        if found.padding_idx != PADDING_IDX:
            shift_positions(found, first=found.padding_idx + 1)
            found.padding_idx, found.rows_unordered = PADDING_IDX, True

    return replace(layout, settle=settle)


def shift_positions(found: PretrainedFile, first: int) -> None:
    """Give the first position, in row ``first`` of the file, the row behind ``<pad>``, as fairseq counts."""
    table = found.tensors.get(POSITIONS)
    if table is None or table.dim() != 2 or first == PADDING_IDX + 1:
        return
    unused = torch.zeros(PADDING_IDX + 1, table.size(1), dtype=table.dtype)
    found.tensors[POSITIONS] = torch.cat([unused, table[first:]])


_LAYOUT = FileLayout(EXPECTED, lambda content: "model" in content.entries, RULES, SIZES, settle=_settle)
MASKED_LMS = (_LAYOUT,)
ENCODERS = (
    replace(
        encoder_of(_LAYOUT),
        recognised=lambda content: (
            not content.is_folder and any("sentence_encoder." in name for name in content.tensors)
        ),
    ),
)


def read_masked_lm(
    path: PathLike, heads: Optional[int] = None, default_heads: Optional[int] = None, label: str = "heads=…"
) -> PretrainedFile:
    """Read a masked LM of XLM-R's shape, in the names of ``modules.prefix_masked_lm.MaskedLM``, without the tied output matrix.

    Args:
        path: a fairseq ``model.pt`` (XLM-R, InfoXLM, RoBERTa; old and current names; a VECO that was pre-trained here, of which
            encoder and head are taken), a Hugging Face XLM-RoBERTa folder (also one of a VECO) or its weights file, or a folder
            with a fairseq ``model.pt``.
        heads, default_heads, label: see :class:`.pipeline.Heads`.

    Returns the file; its ``sizes`` are the fields of ``MaskedLMSizes``.

    Raises CheckpointError: anything unreadable, untrusted, of another layout, unaccounted for or contradictory.
    """
    found = open_file(path, layouts_of("MASKED_LMS"), EXPECTED, "'model'")
    untie(found)
    find_sizes(found, Heads(heads, default_heads, label), STACK)
    found.sizes["padding_idx"] = found.padding_idx
    check_shapes(found.tensors, masked_lm_shapes(found.sizes), found.origin, found.expected)
    return found


def untie(found: PretrainedFile) -> None:
    """Drop ``lm_head.weight`` after making sure that it is the embedding; CheckpointError where it is another matrix."""
    tensors = found.tensors
    output, words = tensors.get(OUTPUT_WEIGHT), tensors.get(STACK + WORDS)
    if output is None or words is None:
        return
    if not torch.equal(output, words):
        raise CheckpointError(
            f"{found.origin}: the output projection ({found.sources[OUTPUT_WEIGHT]}, shape {tuple(output.shape)}) differs from the "
            f"token embedding (shape {tuple(words.shape)}); this package projects with the embedding, so an untied "
            "model cannot be used"
        )
    found.renamed.discard(OUTPUT_WEIGHT, "equal to the token embedding")


def masked_lm_shapes(sizes: Mapping[str, int], has_head: bool = True) -> Shapes:
    """Name -> shape of every tensor of a masked LM of these sizes, without the tied ``lm_head.weight``."""
    stack = expected_shapes(family_layout("xlmr", **sizes))
    shapes: Shapes = {STACK + name: shape for name, shape in stack.items()}
    if has_head:
        width = sizes["embed_dim"]
        shapes.update({"lm_head.dense.weight": (width, width), "lm_head.bias": (sizes["vocab_size"],)})
        shapes.update({f"lm_head.{name}": (width,) for name in ("dense.bias", "layer_norm.weight", "layer_norm.bias")})
    return shapes
