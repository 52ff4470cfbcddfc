"""The Hugging Face folder of a VECO, released for understanding, as the state that generation and pre-training load."""

import logging
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Mapping, Tuple

import torch
from torch import Tensor

from . import huggingface, veco
from .encoder_layout import attention_shapes
from .errors import CheckpointError
from .huggingface import ATTENTION, CROSS_ATTENTION, STACK, renames_of
from .loading import LoadReport
from .pipeline import PADDING_IDX, WORDS, FileLayout, Heads, check_shapes, read_content, sizes_of, source_of
from .reading import PathLike
from .versions import KEY, stamped
from .vocabularies import CONFIG_NAME, MASK, find_dictionary, read_dictionary, read_json
from .writing import save_checkpoint
from .xlmr import masked_lm_shapes, untie

logger = logging.getLogger(__name__)

ARCH = "veco_large"
"""What a written checkpoint names; its sizes are stated beside it."""

_BLOCK = r"layers.\1.encoder_attn"
_CROSS_RULES = (
    *(
        rule
        for name, ours in ATTENTION.items()
        for rule in renames_of(CROSS_ATTENTION + re.escape(name), f"{_BLOCK}.{ours}")
    ),
    *renames_of(CROSS_ATTENTION + r"output\.LayerNorm", _BLOCK + "_layer_norm"),
)
"""What the decoder has of its own. Source: the mapping that the authors gave when they were asked for it."""

FOLDER = FileLayout(
    veco.EXPECTED,
    huggingface.FOLDER.recognised,
    (*_CROSS_RULES, *huggingface.RULES),
    huggingface.SIZES,
    huggingface.FOLDER.check,
    huggingface.FOLDER.settle,
)

_HEAD = "lm_head."


@dataclass(frozen=True)
class VECOState:
    """A VECO in fairseq's layout.

    Attributes:
        tensors: name -> float32 tensor: ``encoder.*``, ``decoder.*`` with as many layers, ``lm_head.*`` where the folder has it.
            What is tied is one tensor: each layer's self-attention, network and norms, the embeddings, the output projections.
        sources: name -> its name in the folder.
        sizes: the fields of ``MaskedLMSizes``.
        report: what became of every tensor of the folder.
    """

    tensors: Dict[str, Tensor]
    sources: Mapping[str, str]
    sizes: Dict[str, int]
    report: LoadReport


def veco_state_from_folder(path: PathLike) -> VECOState:
    """Read the Hugging Face folder of a VECO, all of it.

    Args:
        path: the folder, or its weights file.

    Raises:
        CheckpointError: unreadable, of another layout, without cross-attention in every layer, with tensors that are not accounted
            for, or with another ``<pad>`` than row 1.
    """
    content = read_content(path, veco.EXPECTED)
    origin = content.origin
    if not content.is_folder:
        raise CheckpointError(
            f"{origin}: is a fairseq checkpoint, expected a Hugging Face folder; expected {veco.EXPECTED}"
        )
    source = source_of(content, (FOLDER,), veco.EXPECTED)
    if not huggingface.has_cross_attention(content.tensors):
        raise CheckpointError(f"{origin}: has no cross_attention.* tensors, so it is no VECO; expected {veco.EXPECTED}")
    if source.padding_idx != PADDING_IDX:
        raise CheckpointError(
            f"{origin}: pad_token_id = {source.padding_idx}, expected 1, as in every fairseq dictionary"
        )
    untie(source.renamed, origin)
    sizes = {**sizes_of(source, origin, Heads(), STACK), "padding_idx": source.padding_idx}
    found, named = source.renamed.tensors, source.renamed.sources
    has_head = any(name.startswith(_HEAD) for name in found)
    check_shapes(found, expected_shapes(sizes, has_head), origin, veco.EXPECTED)
    places = _places(found, has_head)
    sources = {name: named[taken] for name, taken in places.items()}
    return VECOState({name: found[taken] for name, taken in places.items()}, sources, sizes, source.report())


def expected_shapes(sizes: Mapping[str, int], has_head: bool = True) -> Dict[str, Tuple[int, ...]]:
    """Name -> shape of what is stored once: the stack, its cross-attention, and the head where there is one."""
    shapes = masked_lm_shapes(sizes, has_head)
    for layer in range(sizes["layers"]):
        shapes.update(attention_shapes(f"layers.{layer}.encoder_attn", sizes["embed_dim"]))
    return shapes


def _places(found: Mapping[str, Tensor], has_head: bool) -> Dict[str, str]:
    """Name in fairseq's layout -> name of what is stored once."""
    places: Dict[str, str] = {}
    for side in ("encoder", "decoder"):
        for name in found:
            if name.startswith(STACK):
                places[f"{side}.{name[len(STACK) :]}"] = name
            elif side == "decoder" and not name.startswith(_HEAD):
                places[f"decoder.{name}"] = name
    places["decoder.output_projection.weight"] = STACK + WORDS
    if has_head:
        places.update({name: name for name in found if name.startswith(_HEAD)})
        places[huggingface.OUTPUT_WEIGHT] = STACK + WORDS
    return places


def is_folder_of_others(path: PathLike) -> bool:
    """Whether a folder is of Hugging Face's XLM-R layout, of which a VECO may be, and no export of this package."""
    file = Path(path) / CONFIG_NAME
    if not file.is_file():
        return False
    config = read_json(file, veco.EXPECTED)
    kind = config.get("model_type")
    # Older versions of the library state sizes, and not which model they are of.
    return KEY not in config and (kind in huggingface.MODEL_TYPES or (kind is None and "num_hidden_layers" in config))


def write_veco(folder: PathLike, checkpoint: PathLike) -> VECOState:
    """Make a fairseq checkpoint of the Hugging Face folder of a VECO; what is tied is stored once.

    Its options state the sizes and that embeddings are not scaled, as in the folder; the released checkpoint in fairseq's layout
    does scale them, so whoever fine-tunes from this one gives ``--no-scale-embedding``.

    Args:
        folder: see :func:`veco_state_from_folder`.
        checkpoint: the file to write.

    Raises:
        CheckpointError: as :func:`veco_state_from_folder`, or the file cannot be written there.
    """
    found = veco_state_from_folder(folder)
    if "lm_head.dense.weight" not in found.tensors:
        # What tells a model whose embeddings are not scaled from a released one is its head.
        raise CheckpointError(
            f"checkpoint {folder}: has no lm_head; expected a masked LM, so that VECO can go on from it"
        )
    versions = {f"{side}.version": torch.tensor([3.0]) for side in ("encoder", "decoder")}
    versions[veco.MASK_ROW] = veco.marked_mask(_mask_row(Path(folder), found.sizes["vocab_size"]))
    state: Dict[str, Any] = {
        "args": None,
        "cfg": {"model": _options(found.sizes)},
        "model": {**found.tensors, **versions},
        "criterion": None,
        "optimizer_history": [{"num_updates": 0, "lr_scheduler_state": {}}],
        "task_state": {},
        "extra_state": {"train_iterator": {"epoch": 1, "iterations_in_epoch": 0, "version": 2}},
    }
    save_checkpoint(stamped(state), checkpoint)
    logger.info("wrote %s: %s", checkpoint, found.report.summary())
    logger.info("%s: its embeddings are not scaled: fine-tune it with --no-scale-embedding", checkpoint)
    return found


def _mask_row(path: Path, rows: int) -> int:
    """Where the dictionary beside the weights lists ``<mask>``; else the last row, as in every XLM-R."""
    beside = find_dictionary(path if path.is_dir() else path.parent)
    entries = [] if beside is None else read_dictionary(beside)[:rows]
    return entries.index(MASK) if MASK in entries else rows - 1


def _options(sizes: Mapping[str, int]) -> Dict[str, Any]:
    """Of the stock transformer."""
    options: Dict[str, Any] = {"_name": ARCH, "activation_fn": "gelu", "layernorm_embedding": True}
    options.update(no_scale_embedding=True, share_all_embeddings=True, share_decoder_input_output_embed=True)
    for side, length in (("encoder", "max_source_positions"), ("decoder", "max_target_positions")):
        options[f"{side}_layers"] = sizes["layers"]
        options[f"{side}_embed_dim"] = sizes["embed_dim"]
        options[f"{side}_ffn_embed_dim"] = sizes["ffn_dim"]
        options[f"{side}_attention_heads"] = sizes["heads"]
        options[f"{side}_normalize_before"] = False
        options[f"{side}_learned_pos"] = True
        options[length] = sizes["max_positions"]
    return options
