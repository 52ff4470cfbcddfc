"""VECO files: fairseq's layout, released or written by this package, and Hugging Face XLM-R folders with cross-attention.

In fairseq's layout a VECO is a stock transformer of XLM-R's shape (norms after the blocks, learned positions, a norm after the
embedding). Before it is fine-tuned, each layer of its decoder is one of its encoder, plus cross-attention. One that was pre-trained
here has a masked-LM head as well, and tells which row is that of ``<mask>``. Its encoder is wired as XLM-R's, so that it is of the
family ``xlmr``; whether the embeddings are scaled by the square root of C is what the file says: yes in the released one, no in
those of this package.
"""

import logging
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, Dict, Mapping, Tuple

import torch
from torch import Tensor

from . import huggingface
from .dictionaries import CONFIG_NAME, MASK, find_dictionary, read_dictionary, read_json
from .encoder_decoder import has_layers, of_xlmr_shape, stock_wiring
from .encoder_layout import attention_shapes
from .errors import CheckpointError
from .fitting import MASK_ROW, PRETRAINED_HERE, marked_mask, mask_row
from .huggingface import ATTENTION, CROSS_ATTENTION, renames_of
from .loading import Rule, drop, refuse, rename
from .pipeline import (
    ENCODER_SIZES,
    PADDING_IDX,
    WORDS,
    Content,
    FileLayout,
    Heads,
    PretrainedFile,
    check_shapes,
    find_sizes,
    open_file,
)
from .reading import PathLike
from .versions import KEY, stamped
from .writing import save_checkpoint
from .xlmr import EXPECTED as MASKED_LM
from .xlmr import HEAD, OUTPUT_WEIGHT, STACK, check_wiring, masked_lm_shapes, untie

logger = logging.getLogger(__name__)

EXPECTED = (
    "a VECO in fairseq's layout (encoder.* and decoder.* of XLM-R's shape, lm_head.* where it was pre-trained here), or a Hugging "
    "Face folder of model_type xlm-roberta with cross_attention.* or crossattention.*"
)
_LAYER = r"(encoder|decoder)\.layers\.(\d+)\."
_PROJECTIONS = r"(q_proj|k_proj|v_proj|out_proj)\.(weight|bias)"
_OTHERS = ("mbart", "bart", "deltalm")
SCALE_OPTION = "no_scale_embedding"

RULES: Tuple[Rule, ...] = (
    rename(r"(encoder|decoder)\.(embed_tokens|embed_positions)\.weight", r"\1.\2.weight"),
    rename(r"(encoder|decoder)\.layernorm_embedding\.(weight|bias)", r"\1.layernorm_embedding.\2"),
    rename(_LAYER + r"self_attn\." + _PROJECTIONS, r"\1.layers.\2.self_attn.\3.\4"),
    rename(_LAYER + r"(self_attn_layer_norm|fc1|fc2|final_layer_norm)\.(weight|bias)", r"\1.layers.\2.\3.\4"),
    rename(r"decoder\.layers\.(\d+)\.encoder_attn\." + _PROJECTIONS, r"decoder.layers.\1.encoder_attn.\2.\3"),
    rename(
        r"decoder\.layers\.(\d+)\.encoder_attn_layer_norm\.(weight|bias)",
        r"decoder.layers.\1.encoder_attn_layer_norm.\2",
    ),
    rename(r"decoder\.output_projection\.weight", "decoder.output_projection.weight"),
    rename(r"lm_head\.(dense|layer_norm)\.(weight|bias)", r"lm_head.\1.\2"),
    rename(r"lm_head\.(weight|bias)", r"lm_head.\1"),
    drop(r"lm_head\.mask_row", "place of <mask>, no weight"),
    drop(r"encoder\.output_projection\.weight", "output of the encoder, which nothing uses"),
    drop(r"classification_heads\..*", "head of another task"),
    drop(r"(?:encoder|decoder)\.version", "format counter of fairseq"),
    drop(r"(?:encoder|decoder)\.embed_positions\._float_tensor", "dtype marker of fairseq"),
    refuse(r"(?:encoder|decoder)\.layer_norm\.(?:weight|bias)", "has norms before the blocks, as mBART and no VECO"),
)
"""fairseq's layout: what is kept keeps its name."""


# ---- fairseq's layout: recognising, wiring. ----


def is_veco(content: Content) -> bool:
    """Whether a file is a fairseq checkpoint of a VECO.

    Its architecture says so, or, where that is missing or tells no family (``transformer``), its tensors do: XLM-R's shape, and a
    masked-LM head beside encoder and decoder, or a decoder whose layers are layers of the encoder. A fine-tuned one without its
    options cannot be told from a BART; see ``encoder_decoder``.
    """
    model = content.tensors
    if content.is_folder or not has_layers(content) or content.arch.startswith(_OTHERS):
        return False
    return content.arch.startswith("veco") or (of_xlmr_shape(model) and (PRETRAINED_HERE in model or _one_stack(model)))


def _one_stack(model: Mapping[str, Any]) -> bool:
    """Whether the decoder's first layer is one of the encoder's, with the same values."""
    own = model.get("decoder.layers.0.fc1.weight")
    layers = [one for name, one in model.items() if re.fullmatch(r"encoder\.layers\.\d+\.fc1\.weight", str(name))]
    return isinstance(own, Tensor) and any(isinstance(one, Tensor) and torch.equal(one, own) for one in layers)


def _scaled(found: PretrainedFile) -> bool:
    """Whether embeddings are multiplied by the square root of C."""
    stated = found.content.options.get(SCALE_OPTION)
    if stated is not None:
        return not stated
    released = PRETRAINED_HERE not in found.tensors
    logger.warning(
        "%s: its options lack %s: %s is taken, as in %s",
        found.origin,
        SCALE_OPTION,
        not released,
        "the released VECO" if released else "a VECO that was pre-trained here",
    )
    return released


def _settle_encoder(content: Content, found: PretrainedFile) -> None:
    scaled = _scaled(found)
    found.renamed.discard_all(HEAD, "head of the masked LM, unused by an encoder")
    found.renamed.discard_all("decoder.", "decoder, unused by an encoder")
    found.renamed.move("encoder.", "")
    wiring = stock_wiring(content, found.tensors, {"activation": "gelu"})
    found.wiring = {"family": "xlmr", **wiring, "scale_embedding": scaled}
    found.mask_row = mask_row(content.tensors, content.origin)


def _settle_masked_lm(content: Content, found: PretrainedFile) -> None:
    """Encoder and head of a VECO that was pre-trained here."""
    if PRETRAINED_HERE not in found.tensors:
        raise CheckpointError(
            f"{content.origin}: is a VECO for generation, without the head of a masked LM; expected one as it was pre-trained "
            f"here (lm_head.*), its Hugging Face folder, or {MASKED_LM}. An nlu_encoder takes its encoder as it is"
        )
    check_wiring({**content.options, SCALE_OPTION: not _scaled(found)}, content.origin)
    found.renamed.discard_all("decoder.", "decoder, unused by a masked LM")
    found.renamed.move("encoder.", STACK)
    found.mask_row = mask_row(content.tensors, content.origin)


_LAYOUT = FileLayout(EXPECTED, is_veco, RULES, ENCODER_SIZES)
MASKED_LMS = (replace(_LAYOUT, settle=_settle_masked_lm),)
ENCODERS = (replace(_LAYOUT, settle=_settle_encoder),)


# ---- The Hugging Face folder, released for understanding, as the state that generation and pre-training load. ----

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


def _check_folder(content: Content) -> None:
    if not content.is_folder:
        raise CheckpointError(
            f"{content.origin}: is a fairseq checkpoint, expected a Hugging Face folder; expected {EXPECTED}"
        )
    huggingface.FOLDER.check(content)
    if not huggingface.has_cross_attention(content.tensors):
        raise CheckpointError(
            f"{content.origin}: has no cross_attention.* tensors, so it is no VECO; expected {EXPECTED}"
        )


FOLDER = replace(
    huggingface.FOLDER,
    expected=EXPECTED,
    recognised=lambda content: True,
    rules=(*_CROSS_RULES, *huggingface.RULES),
    check=_check_folder,
)


def veco_state_from_folder(path: PathLike) -> PretrainedFile:
    """Read the Hugging Face folder of a VECO, all of it.

    Args:
        path: the folder, or its weights file.

    Returns:
        The file; its tensors are those of fairseq's layout: ``encoder.*``, ``decoder.*`` with as many layers, ``lm_head.*`` where
        the folder has it. What is tied is one tensor: each layer's self-attention, network and norms, the embeddings, the output
        projections. Its ``sizes`` are the fields of ``MaskedLMSizes``.

    Raises:
        CheckpointError: unreadable, of another layout, without cross-attention in every layer, with tensors that are not accounted
            for, or with another ``<pad>`` than row 1.
    """
    found = open_file(path, (FOLDER,), EXPECTED)
    if found.padding_idx != PADDING_IDX:
        raise CheckpointError(
            f"{found.origin}: pad_token_id = {found.padding_idx}, expected 1, as in every fairseq dictionary"
        )
    untie(found)
    find_sizes(found, Heads(), STACK)
    found.sizes["padding_idx"] = found.padding_idx
    has_head = any(name.startswith(HEAD) for name in found.tensors)
    shapes = masked_lm_shapes(found.sizes, has_head)
    for layer in range(found.sizes["layers"]):
        shapes.update(attention_shapes(f"layers.{layer}.encoder_attn", found.sizes["embed_dim"]))
    check_shapes(found.tensors, shapes, found.origin, EXPECTED)
    places = _places(found.tensors, has_head)
    tensors, sources = found.tensors, found.sources
    found.renamed.tensors = {name: tensors[taken] for name, taken in places.items()}
    merged = {name: source for name, source in sources.items() if name not in tensors}
    found.renamed.sources = {**{name: sources[taken] for name, taken in places.items()}, **merged}
    return found


def _places(found: Mapping[str, Tensor], has_head: bool) -> Dict[str, str]:
    """Name in fairseq's layout -> name of what is stored once."""
    places: Dict[str, str] = {}
    for side in ("encoder", "decoder"):
        for name in found:
            if name.startswith(STACK):
                places[f"{side}.{name[len(STACK) :]}"] = name
            elif side == "decoder" and not name.startswith(HEAD):
                places[f"decoder.{name}"] = name
    places["decoder.output_projection.weight"] = STACK + WORDS
    if has_head:
        places.update({name: name for name in found if name.startswith(HEAD)})
        places[OUTPUT_WEIGHT] = STACK + WORDS
    return places


def is_folder_of_others(path: PathLike) -> bool:
    """Whether a folder is of Hugging Face's XLM-R layout, of which a VECO may be, and no export of this package."""
    file = Path(path) / CONFIG_NAME
    if not file.is_file():
        return False
    config = read_json(file, EXPECTED)
    kind = config.get("model_type")
    # Older versions of the library state sizes, and not which model they are of.
    return KEY not in config and (kind in huggingface.MODEL_TYPES or (kind is None and "num_hidden_layers" in config))


def write_veco(folder: PathLike, checkpoint: PathLike) -> PretrainedFile:
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
    if PRETRAINED_HERE not in found.tensors:
        # What tells a model whose embeddings are not scaled from a released one is its head.
        raise CheckpointError(
            f"checkpoint {folder}: has no lm_head; expected a masked LM, so that VECO can go on from it"
        )
    versions = {f"{side}.version": torch.tensor([3.0]) for side in ("encoder", "decoder")}
    versions[MASK_ROW] = marked_mask(_mask_row(Path(folder), found.sizes["vocab_size"]))
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
