"""Reads VECO in fairseq's layout (released or of this package) and in Hugging Face's.

In fairseq's layout a VECO is a stock transformer of XLM-R's shape; its encoder is of the family
``xlmr``. Before fine-tuning, a decoder layer is a layer of the encoder plus cross-attention. A VECO
that was pre-trained here also has a masked-LM head, and states the row of ``<mask>``. The released
file scales embeddings by the square root of C; the files of this package do not.
"""

import logging
from typing import Any, Dict, Mapping, Optional

import torch
from torch import Tensor

from . import masked_lm
from .bart import SIZE_OPTIONS, find_wiring
from .inspection import CheckpointError
from .layouts import (
    MASK_ROW,
    PRETRAINED_HERE,
    WORDS,
    attention_shapes,
    masked_lm_shapes,
    size_options,
)
from .loading import check_shapes
from .opening import Checkpoint, open_checkpoint
from .pretrained import PARTS, PretrainedFile, convert_tensors
from .reading import PathLike
from .renaming import NameTable, stack_buffers, stack_renames
from .vocabulary import DICTIONARY_NAME, MASK, Languages, entries_beside
from .writing import save_checkpoint, start_state

logger = logging.getLogger(__name__)

EXPECTED = (
    "a VECO in fairseq's layout (encoder.* and decoder.* of XLM-R's shape, lm_head.* where it was "
    "pre-trained here), or a Hugging Face folder of model_type xlm-roberta with cross_attention.* "
    "or crossattention.*"
)
SCALE_OPTION = "no_scale_embedding"
_CROSS_MODULES = {
    **{theirs: f"encoder_attn.{ours}" for theirs, ours in masked_lm.ATTENTION.items()},
    "output.LayerNorm": "encoder_attn_layer_norm",
}
"""Module of cross-attention in a folder -> module in fairseq's decoder; named by the authors."""
_CROSS_RENAMES = masked_lm.module_renames(
    masked_lm.CROSS_ATTENTION, r"decoder.layers.\1.", _CROSS_MODULES
)

NAMES = NameTable(
    renames={
        # fairseq
        **stack_renames(r"encoder\.", "encoder."),
        **stack_renames(r"decoder\.", "decoder."),
        r"decoder\.output_projection\.weight": "decoder.output_projection.weight",
        r"lm_head\.((?:dense|layer_norm)\.(?:weight|bias)|weight|bias)": r"lm_head.\1",
        # Hugging Face
        **_CROSS_RENAMES,
        **masked_lm.FOLDER_NAMES.renames,
    },
    dropped={
        **masked_lm.FOLDER_NAMES.dropped,
        **stack_buffers(r"encoder\."),
        **stack_buffers(r"decoder\."),
        r"lm_head\.mask_row": "place of <mask>, no weight",
        r"encoder\.output_projection\.weight": "output of the encoder, which nothing uses",
        r"classification_heads\..*": "head of another task",
    },
    refused={
        r"(?:encoder|decoder)\.layer_norm\.(?:weight|bias)": (
            "has norms before the blocks, as mBART and no VECO"
        ),
    },
)

# ---- The row of <mask>. ----


def mask_marker(row: int) -> Tensor:
    """Return the marker that states the row of ``<mask>`` in a checkpoint: a tensor (row, 0)."""
    return torch.empty(row, 0)


def mask_row(state: Mapping[str, Any], origin: str) -> Optional[int]:
    """Return the row of ``<mask>`` by the marker among a VECO's tensors.

    Args:
        state: tensors of the model by name.
        origin: name of the file, for messages.

    Returns:
        the row; None if there is no marker because the VECO was not pre-trained here.

    Raises:
        CheckpointError: a VECO that was pre-trained here has no marker, or the marker states no
            row of the embedding.
    """
    marker = state.get(MASK_ROW)
    if marker is None and PRETRAINED_HERE not in state:
        return None
    words = state.get(f"encoder.{WORDS}")
    rows = words.size(0) if isinstance(words, Tensor) and words.dim() else 0
    if not isinstance(marker, Tensor):
        actual: Any = type(marker).__name__
    elif marker.dim() == 2 and 0 < marker.size(0) < rows and marker.size(1) == 0:
        return marker.size(0)
    else:
        actual = tuple(marker.shape)
    expected = f"expected (row of <mask>, 0) with one of its {rows:,} rows"
    raise CheckpointError(f"{origin}: {MASK_ROW} is {actual}, {expected}")


# ---- fairseq's layout. ----


def _convert(checkpoint: Checkpoint) -> PretrainedFile:
    """Rename the tensors of a VECO in fairseq's layout, and find its row of ``<mask>``."""
    copies = (masked_lm.TIED,)
    model = convert_tensors(checkpoint, NAMES, SIZE_OPTIONS, EXPECTED, "xlmr", copies)
    model.stated_mask = mask_row(checkpoint.tensors, checkpoint.origin)
    return model


def convert_encoder(checkpoint: Checkpoint) -> PretrainedFile:
    """Convert a VECO, and find the wiring of its encoder. Its task's languages are ignored."""
    model = _convert(checkpoint)
    find_wiring(model)
    model.wiring["scale_embedding"] = _is_scaled(model)
    model.stated_languages = Languages()
    return model


def convert_masked_lm(checkpoint: Checkpoint) -> PretrainedFile:
    """Convert a VECO that was pre-trained here, to be read as a masked LM.

    Raises:
        CheckpointError: the VECO has no masked-LM head, or its options are not XLM-R's.
    """
    model = _convert(checkpoint)
    if PRETRAINED_HERE not in model.tensors:
        raise CheckpointError(
            f"{model.origin}: is a VECO for generation, without the head of a masked LM; expected "
            "one as it was pre-trained here (lm_head.*), or its Hugging Face folder. An "
            "nlu_encoder takes its encoder as it is"
        )
    options = {**checkpoint.options, SCALE_OPTION: not _is_scaled(model)}
    checkpoint.refuse(masked_lm.wiring_problems(options), EXPECTED)
    return model


def _is_scaled(model: PretrainedFile) -> bool:
    """Return True if embeddings are scaled.

    If the options do not state it, a VECO without a masked-LM head is taken for the released one,
    which scales them.
    """
    unscaled = model.checkpoint.options.get(SCALE_OPTION)
    if unscaled is None:
        unscaled = PRETRAINED_HERE in model.tensors
        text = "%s: its options lack %s: %s is taken"
        logger.warning(text, model.origin, SCALE_OPTION, unscaled)
    return not unscaled


# ---- Hugging Face's layout, as a whole. ----


def read_veco_folder(path: PathLike) -> PretrainedFile:
    """Read encoder, decoder and head of a VECO's Hugging Face folder, in fairseq's names.

    Returns:
        the file: ``encoder.*``, ``decoder.*`` with as many layers, and ``lm_head.*``. All names of
        a tied tensor have the same tensor. ``sizes`` are the fields of ``MaskedLMSizes``.

    Raises:
        CheckpointError: the folder is unreadable, lacks the head or the cross-attention of a
            layer, or has tensors that are not accounted for.
    """
    checkpoint = open_checkpoint(path, EXPECTED)
    if not checkpoint.is_folder:
        checkpoint.refuse(["is a fairseq checkpoint, expected a Hugging Face folder"], EXPECTED)
    if not masked_lm.has_cross_attention(checkpoint.tensors):
        checkpoint.refuse(["has no cross_attention.* tensors, so it is no VECO"], EXPECTED)
    model = masked_lm.convert_folder(checkpoint, NAMES, EXPECTED)
    model.name_rows(entries_beside(checkpoint.file), DICTIONARY_NAME)
    model.take({part: part for part in PARTS}, "a VECO")
    model.find_sizes(None, "heads=…", "encoder.")
    check_shapes(model.tensors, _folder_shapes(model.sizes), model.origin, EXPECTED)
    words = f"encoder.{WORDS}"
    encoder = [name for name in model.tensors if name.startswith("encoder.")]
    copies = {name.replace("encoder.", "decoder.", 1): name for name in encoder}
    copies.update({"decoder.output_projection.weight": words, masked_lm.OUTPUT: words})
    for copy, name in copies.items():
        model.tensors[copy], model.sources[copy] = model.tensors[name], model.sources[name]
    return model


def _folder_shapes(sizes: Mapping[str, int]) -> Dict[str, Any]:
    """Return the shapes of an encoder, a masked-LM head and the decoder's cross-attention."""
    shapes = {
        name.replace("sentence_encoder.", "encoder."): shape
        for name, shape in masked_lm_shapes(sizes).items()
    }
    for layer in range(sizes["layers"]):
        shapes.update(attention_shapes(f"decoder.layers.{layer}.encoder_attn", sizes["embed_dim"]))
    return shapes


def write_veco(folder: PathLike, checkpoint: PathLike) -> PretrainedFile:
    """Write a fairseq checkpoint with the tensors of a VECO's Hugging Face folder.

    Tied tensors are stored once. Embeddings are not scaled, as in the folder, but unlike in the
    released fairseq checkpoint: fine-tuning must not scale them either.

    Raises:
        CheckpointError: as :func:`read_veco_folder`, or ``<mask>`` has no row.
    """
    model = read_veco_folder(folder)
    if model.mask_row is None:
        reason = f"has no row for {MASK}, expected one, so that VECO can go on from it"
        raise CheckpointError(f"checkpoint {folder}: {reason}")
    versions = {f"{side}.version": torch.tensor([3.0]) for side in ("encoder", "decoder")}
    state = {**model.tensors, **versions, MASK_ROW: mask_marker(model.mask_row)}
    options = _stock_options(model.sizes)
    save_checkpoint(start_state(state, cfg={"model": options}), checkpoint)
    logger.info("wrote %s: %s", checkpoint, model.report.summary())
    advice = "(no_scale_embedding): fine-tune it without a scale too"
    logger.info("%s: its embeddings are not scaled %s", checkpoint, advice)
    return model


def _stock_options(sizes: Mapping[str, int]) -> Dict[str, Any]:
    """Return the options of a fairseq transformer with these sizes and VECO's wiring."""
    options: Dict[str, Any] = {
        "_name": "veco_large",
        "activation_fn": "gelu",
        "layernorm_embedding": True,
        "no_scale_embedding": True,
        "share_all_embeddings": True,
        "share_decoder_input_output_embed": True,
    }
    positions = {"encoder": "max_source_positions", "decoder": "max_target_positions"}
    for side, longest in positions.items():
        options.update({name: sizes[size] for size, name in size_options(side, longest).items()})
        options.update({f"{side}_normalize_before": False, f"{side}_learned_pos": True})
    return options
