"""VECO files: fairseq's layout, released or written by this package, and Hugging Face XLM-R folders with cross-attention.

In fairseq's layout a VECO is a stock transformer of XLM-R's shape. Before it is fine-tuned, each layer of its decoder is one of
its encoder, plus cross-attention. One that was pre-trained here has a masked-LM head as well, and tells the row of ``<mask>``. Its
encoder is of the family ``xlmr``; whether the embeddings are scaled by the square root of C is what the file says: yes in the
released one, no in those of this package.
"""

import logging
import re
from typing import Any, Dict, List, Mapping, Optional, Tuple

import torch
from torch import Tensor

from . import xlmr
from .encoder_decoder import ENCODER_SIZES, has_layers, is_deltalm, of_xlmr_shape, settle_stock
from .inspection import CheckpointError
from .layouts import MASK_ROW, attention_shapes, masked_lm_shapes, size_options
from .loading import Rule, drop, refuse, rename, stack_rules
from .pipeline import (
    ENCODER,
    MASKED_LM,
    PARTS,
    WORDS,
    Content,
    FileLayout,
    Kind,
    PretrainedFile,
    check_shapes,
    differing,
    find_sizes,
    open_file,
)
from .reading import PathLike
from .vocabulary import MASK, Languages
from .writing import save_checkpoint, start_state

logger = logging.getLogger(__name__)

EXPECTED = (
    "a VECO in fairseq's layout (encoder.* and decoder.* of XLM-R's shape, lm_head.* where it was pre-trained here), or a Hugging "
    "Face folder of model_type xlm-roberta with cross_attention.* or crossattention.*"
)
_OTHERS = ("mbart", "bart", "deltalm")
SCALE_OPTION = "no_scale_embedding"

PRETRAINED_HERE = "lm_head.dense.weight"
"""What a VECO of this package's pre-training has, and one for generation has not."""

RULES: Tuple[Rule, ...] = (
    refuse(r"(?:encoder|decoder)\.layer_norm\.(?:weight|bias)", "has norms before the blocks, as mBART and no VECO"),
    *stack_rules(r"encoder\.", "encoder."),
    *stack_rules(r"decoder\.", "decoder."),
    rename(r"decoder\.output_projection\.weight", "decoder.output_projection.weight"),
    rename(r"lm_head\.((?:dense|layer_norm)\.(?:weight|bias)|weight|bias)", r"lm_head.\1"),
    drop(r"lm_head\.mask_row", "place of <mask>, no weight"),
    drop(r"encoder\.output_projection\.weight", "output of the encoder, which nothing uses"),
    drop(r"classification_heads\..*", "head of another task"),
)
"""fairseq's layout: what is kept keeps its name."""


def marked_mask(row: int) -> Tensor:
    """What a state holds as ``MASK_ROW``, where ``<mask>`` has this row. (row, 0)."""
    return torch.empty(row, 0)


def mask_row(model: Mapping[str, Any], origin: str) -> Optional[int]:
    """Row of ``<mask>`` in the embedding of a model in fairseq's layout; None where it was not pre-trained here.

    Raises CheckpointError: no such row, or it is missing.
    """
    stored, words = model.get(MASK_ROW), model.get("encoder.embed_tokens.weight")
    if stored is None and PRETRAINED_HERE not in model:
        return None
    rows = words.size(0) if isinstance(words, Tensor) and words.dim() else 0
    if not isinstance(stored, Tensor) or stored.dim() != 2 or stored.numel() or not 0 < stored.size(0) < rows:
        found = tuple(stored.shape) if isinstance(stored, Tensor) else type(stored).__name__
        raise CheckpointError(
            f"{origin}: {MASK_ROW} is {found}, expected (row of <mask>, 0) with one of its {rows:,} rows"
        )
    return stored.size(0)


def is_veco(content: Content) -> bool:
    """Whether a file is a fairseq checkpoint of a VECO: by its architecture, or, where that tells no family, by its tensors.

    They have XLM-R's shape, and a masked-LM head or a decoder whose layers are layers of the encoder. A fine-tuned one without its
    options cannot be told from a BART; see ``encoder_decoder``.
    """
    model = content.tensors
    if not has_layers(content) or content.arch.startswith(_OTHERS) or is_deltalm(content):
        return False
    return content.arch.startswith("veco") or (of_xlmr_shape(model) and (PRETRAINED_HERE in model or _one_stack(model)))


def _one_stack(model: Mapping[str, Any]) -> bool:
    """Whether the decoder's first layer is one of the encoder's, with the same values."""
    own = model.get("decoder.layers.0.fc1.weight")
    layers = [one for name, one in model.items() if re.fullmatch(r"encoder\.layers\.\d+\.fc1\.weight", str(name))]
    return isinstance(own, Tensor) and any(isinstance(one, Tensor) and torch.equal(one, own) for one in layers)


def _settle(found: PretrainedFile, kind: Kind) -> None:
    """Encoder, or encoder and head of a VECO that was pre-trained here; whether embeddings are scaled is told, or guessed."""
    options, released = found.content.options, PRETRAINED_HERE not in found.tensors
    if kind is MASKED_LM and released:
        raise CheckpointError(
            f"{found.origin}: is a VECO for generation, without the head of a masked LM; expected one as it was pre-trained "
            f"here (lm_head.*), its Hugging Face folder, or {kind.expected}. An nlu_encoder takes its encoder as it is"
        )
    stated = options.get(SCALE_OPTION)
    scaled = released if stated is None else not stated
    if stated is None:
        logger.warning("%s: its options lack %s: %s is taken", found.origin, SCALE_OPTION, not released)
    found.marked = mask_row(found.content.tensors, found.origin)
    if kind is ENCODER:
        settle_stock(found, kind)
        found.wiring["scale_embedding"], found.stated_languages = scaled, Languages()
        return
    problems = differing({**options, SCALE_OPTION: not scaled}, xlmr.WIRED)
    if problems:
        raise CheckpointError(f"{found.origin}: {'; '.join(problems)}; expected {kind.expected}")


STATE = Kind("a VECO", EXPECTED, {part: part for part in PARTS})

_CROSS = "decoder.layers.{}.encoder_attn"
_CROSS_RULES = (
    *(
        rule
        for name, ours in xlmr.ATTENTION.items()
        for rule in xlmr.renames_of(xlmr.CROSS_ATTENTION + re.escape(name), f"{_CROSS}.{ours}".format(r"\1"))
    ),
    *xlmr.renames_of(xlmr.CROSS_ATTENTION + r"output\.LayerNorm", f"{_CROSS}_layer_norm".format(r"\1")),
)
"""What the decoder has of its own. Source: the mapping that the authors gave when they were asked for it."""


def _check_state(content: Content) -> List[str]:
    if not content.is_folder:
        return ["is a fairseq checkpoint, expected a Hugging Face folder"]
    if not xlmr.has_cross_attention(content.tensors):
        return ["has no cross_attention.* tensors, so it is no VECO"]
    return xlmr.check_folder(content)


LAYOUTS = (
    FileLayout(
        EXPECTED, is_veco, RULES, ENCODER_SIZES, (ENCODER, MASKED_LM), settle=_settle, family="xlmr", tied=(xlmr.TIED,)
    ),
    FileLayout(
        EXPECTED,
        lambda content: False,  # whoever wants another kind takes it for an XLM-R
        (*_CROSS_RULES, *xlmr.FOLDER_RULES),
        xlmr.FOLDER.sizes,
        (STATE,),
        xlmr.FOLDER.wired,
        _check_state,
        xlmr.settle_folder,
        mask_last=True,
        tied=xlmr.FOLDER.tied,
    ),
)


def veco_state_from_folder(path: PathLike) -> PretrainedFile:
    """Read all of the Hugging Face folder of a VECO (or its weights file), in the names of fairseq's layout.

    Returns the file: ``encoder.*``, ``decoder.*`` with as many layers, ``lm_head.*``. What is tied is one tensor. Its ``sizes`` are
    the fields of ``MaskedLMSizes``. Raises CheckpointError: unreadable, of another layout, without a head or cross-attention in
    every layer, with tensors that are not accounted for.
    """
    found = open_file(path, STATE)
    find_sizes(found, None, "heads=…", "encoder.")
    shapes = masked_lm_shapes(found.sizes)
    shapes = {name.replace("sentence_encoder.", "encoder."): shape for name, shape in shapes.items()}
    for layer in range(found.sizes["layers"]):
        shapes.update(attention_shapes(_CROSS.format(layer), found.sizes["embed_dim"]))
    check_shapes(found.tensors, shapes, found.origin, EXPECTED)
    words = f"encoder.{WORDS}"
    copies = {name.replace("encoder.", "decoder.", 1): name for name in found.tensors if name.startswith("encoder.")}
    copies.update({"decoder.output_projection.weight": words, xlmr.OUTPUT: words})
    for copy, name in copies.items():
        found.tensors[copy], found.sources[copy] = found.tensors[name], found.sources[name]
    return found


def write_veco(folder: PathLike, checkpoint: PathLike) -> PretrainedFile:
    """Make a fairseq checkpoint of the Hugging Face folder of a VECO; what is tied is stored once.

    Embeddings are not scaled, as in the folder; the released checkpoint in fairseq's layout does scale them, which matters for
    fine-tuning. Raises CheckpointError: as :func:`veco_state_from_folder`, or no row is that of ``<mask>``.
    """
    found = veco_state_from_folder(folder)
    if found.mask_row is None:
        raise CheckpointError(
            f"checkpoint {folder}: has no row for {MASK}, expected one, so that VECO can go on from it"
        )
    versions = {f"{side}.version": torch.tensor([3.0]) for side in ("encoder", "decoder")}
    versions[MASK_ROW] = marked_mask(found.mask_row)
    options: Dict[str, Any] = {"_name": "veco_large", "activation_fn": "gelu", "layernorm_embedding": True}
    options.update(no_scale_embedding=True, share_all_embeddings=True, share_decoder_input_output_embed=True)
    for side, length in (("encoder", "max_source_positions"), ("decoder", "max_target_positions")):
        options.update({option: found.sizes[size] for size, option in size_options(side, length).items()})
        options.update({f"{side}_normalize_before": False, f"{side}_learned_pos": True})
    save_checkpoint(start_state({**found.tensors, **versions}, cfg={"model": options}), checkpoint)
    logger.info("wrote %s: %s", checkpoint, found.report.summary())
    logger.info("%s: its embeddings are not scaled (no_scale_embedding): fine-tune it without a scale too", checkpoint)
    return found
