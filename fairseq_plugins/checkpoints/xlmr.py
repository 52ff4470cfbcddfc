"""Masked LMs of XLM-R's shape: fairseq's files (XLM-R, InfoXLM, RoBERTa-era, ``xlmr_mlm`` of this package); reading any of them.

Layouts met in the wild: ``decoder.sentence_encoder.`` (fairseq < 0.10) against ``encoder.sentence_encoder.``,
``emb_layer_norm`` against ``layernorm_embedding``, one fused ``in_proj_weight`` against ``q_proj``, ``k_proj`` and
``v_proj``, and InfoXLM's training files with the model under ``model_fast.`` beside a momentum copy.
"""

from dataclasses import dataclass
from typing import Any, Dict, Mapping, Optional, Tuple

import torch
from torch import Tensor

from . import huggingface, veco
from .encoder_layout import Shapes, expected_shapes, family_layout
from .errors import CheckpointError
from .huggingface import OUTPUT_WEIGHT, STACK, WORDS
from .loading import LoadReport, Renamed, Rule, drop, fused_attention, refuse, rename
from .pipeline import (
    PADDING_IDX,
    Content,
    FileLayout,
    Heads,
    Source,
    check_shapes,
    read_content,
    sizes_of,
    source_of,
)
from .reading import PathLike, fingerprint
from .reading import check_stated as check_fingerprint
from .vocabularies import DICTIONARY_NAME, MASK

EXPECTED = (
    "a fairseq masked LM of XLM-R's shape (post-norm encoder, learned positions, layer norm after the embedding, "
    "GELU, lm_head tied to the embedding; names encoder.sentence_encoder.* and encoder.lm_head.*)"
)

_TOP = r"(?:model_fast\.)?(?:(?:encoder|decoder)\.)?"
_ENCODER = _TOP + r"sentence_encoder\."
_LAYER = _ENCODER + r"layers\.(\d+)\."
_HEAD = _TOP + r"lm_head\."

RULES: Tuple[Rule, ...] = (
    rename(_ENCODER + r"(embed_tokens|embed_positions)\.weight", r"sentence_encoder.\1.weight"),
    rename(
        _ENCODER + r"(?:layernorm_embedding|emb_layer_norm)\.(weight|bias)", r"sentence_encoder.layernorm_embedding.\1"
    ),
    *fused_attention(_LAYER, r"sentence_encoder.layers.\1."),
    rename(
        _LAYER + r"(self_attn_layer_norm|fc1|fc2|final_layer_norm)\.(weight|bias)", r"sentence_encoder.layers.\1.\2.\3"
    ),
    rename(_HEAD + r"(dense|layer_norm)\.(weight|bias)", r"lm_head.\1.\2"),
    rename(_HEAD + r"(weight|bias)", r"lm_head.\1"),
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


def _settle(content: Content, source: Source) -> None:
    _check_wiring(content.options, content.origin)
    source.mask_last = True


def _check_wiring(options: Mapping[str, Any], origin: str) -> None:
    """Refuse a file whose options say that it computes something else than XLM-R."""
    for name, value in _WIRING.items():
        if options.get(name) is not None and options[name] != value:
            raise CheckpointError(
                f"{origin}: was trained with {name} = {options[name]!r}, expected {value!r}, i.e. {EXPECTED}"
            )


def _settle_veco(content: Content, source: Source) -> None:
    """Encoder and head of a VECO that was pre-trained here."""
    renamed = source.renamed
    if veco.HEAD not in renamed.tensors:
        raise CheckpointError(
            f"{content.origin}: is a VECO for generation, without the head of a masked LM; expected one as it was pre-trained "
            f"here (lm_head.*), its Hugging Face folder, or {EXPECTED}. An nlu_encoder takes its encoder as it is"
        )
    _check_wiring({**content.options, veco.SCALE_OPTION: not veco.scaled(content, renamed)}, content.origin)
    renamed.discard_all("decoder.", "decoder, unused by a masked LM")
    renamed.move("encoder.", STACK)
    source.mask_row = veco.mask_row(content.tensors, content.origin)


LAYOUTS = (
    FileLayout(veco.EXPECTED, veco.is_veco, veco.RULES, veco.SIZES, settle=_settle_veco),
    FileLayout(EXPECTED, lambda content: "model" in content.entries, RULES, SIZES, settle=_settle),
    huggingface.FOLDER,
)
"""The masked LMs of XLM-R's shape."""


@dataclass(frozen=True)
class MaskedLMFile:
    """A masked LM as read from disk.

    Attributes:
        sizes: the fields of ``MaskedLMSizes``.
        tensors: name -> float32 tensor, in the names of ``modules.prefix_masked_lm.MaskedLM``, without the tied
            ``lm_head.weight``.
        fingerprint: of ``tensors``.
        report: what became of every tensor *of the file* (source names).
        dictionary_path: ``dict.txt`` beside the weights, None when there is none.
        mask_row: row of ``<mask>`` as the file itself tells it; None where it does not.
        mask_last: whether the last row is that of ``<mask>`` by what the file is: any but a VECO that was pre-trained here, which
            has it where its data's dictionary has.
    """

    sizes: Dict[str, int]
    tensors: Dict[str, Tensor]
    fingerprint: str
    report: LoadReport
    dictionary_path: Optional[str]
    mask_row: Optional[int] = None
    mask_last: bool = True

    def check_rows(self, origin: str, mask_anywhere: bool = False) -> None:
        """Refuse rows of another order than fairseq's.

        Args:
            origin: option and path of the file, for messages.
            mask_anywhere: the caller asks the file for the row of ``<mask>``; otherwise it must be the last one.

        Raises:
            ValueError: ``<pad>`` or ``<mask>`` is in another row.
        """
        row, rows = self.sizes["padding_idx"], self.sizes["vocab_size"]
        if row != PADDING_IDX:
            raise ValueError(
                f"{origin} has {huggingface.PAD} in row {row}; valid here: {PADDING_IDX}, as in every fairseq dictionary, with "
                f"positions from {PADDING_IDX + 1}"
            )
        if self.mask_row not in (None, rows - 1) and not mask_anywhere:
            raise ValueError(
                f"{origin} has {MASK} in row {self.mask_row} and {rows - 1 - self.mask_row:,} rows behind it; valid here: a "
                f"masked LM whose last row is that of {MASK}"
            )


def read_masked_lm(
    path: PathLike, heads: Optional[int] = None, default_heads: Optional[int] = None, label: str = "heads=…"
) -> MaskedLMFile:
    """Read a masked LM of XLM-R's shape.

    Args:
        path: a fairseq ``model.pt`` (XLM-R, InfoXLM, RoBERTa; old and current names; a VECO that was pre-trained here, of which
            encoder and head are taken), a Hugging Face XLM-RoBERTa folder (``config.json`` with ``model.safetensors`` or
            ``pytorch_model.bin``; also one of a VECO), a weights file in such a folder, or a folder with a fairseq ``model.pt``.
        heads, default_heads, label: see :class:`.pipeline.Heads`.

    Raises:
        CheckpointError: anything unreadable, untrusted, of another layout, unaccounted for or contradictory.
    """
    content = read_content(path, f"'model', as in {EXPECTED}")
    source = source_of(content, LAYOUTS, EXPECTED)
    untie(source.renamed, content.origin)
    found = sizes_of(source, content.origin, Heads(heads, default_heads, label), STACK)
    sizes = {**found, "padding_idx": source.padding_idx}
    tensors = source.renamed.tensors
    check_shapes(tensors, masked_lm_shapes(sizes), content.origin, source.expected)
    made = fingerprint(tensors)
    check_fingerprint(content.file, made)
    dictionary = content.file.parent / DICTIONARY_NAME
    beside = str(dictionary) if dictionary.is_file() else None
    return MaskedLMFile(sizes, tensors, made, source.report(), beside, source.mask_row, source.mask_last)


def untie(renamed: Renamed, origin: str) -> None:
    """Drop ``lm_head.weight`` after making sure that it is the embedding.

    Raises:
        CheckpointError: it is another matrix.
    """
    output, words = renamed.tensors.get(OUTPUT_WEIGHT), renamed.tensors.get(WORDS)
    if output is None or words is None:
        return
    if not torch.equal(output, words):
        raise CheckpointError(
            f"{origin}: the output projection ({renamed.sources[OUTPUT_WEIGHT]}, shape {tuple(output.shape)}) differs from the "
            f"token embedding (shape {tuple(words.shape)}); this package projects with the embedding, so an untied "
            "model cannot be used"
        )
    renamed.discard(OUTPUT_WEIGHT, "equal to the token embedding")


def masked_lm_shapes(sizes: Mapping[str, int], has_head: bool = True) -> Shapes:
    """Name -> shape of every tensor of a masked LM of these sizes, without the tied ``lm_head.weight``."""
    stack = expected_shapes(family_layout("xlmr", **sizes))
    shapes: Shapes = {STACK + name: shape for name, shape in stack.items()}
    if has_head:
        width = sizes["embed_dim"]
        shapes.update({"lm_head.dense.weight": (width, width), "lm_head.bias": (sizes["vocab_size"],)})
        shapes.update({f"lm_head.{name}": (width,) for name in ("dense.bias", "layer_norm.weight", "layer_norm.bias")})
    return shapes
