"""VECO files: fairseq's layout, released or written by this package, and Hugging Face XLM-R folders with cross-attention.

In fairseq's layout a VECO is a stock transformer of XLM-R's shape (norms after the blocks, learned positions, a norm after the
embedding). Before it is fine-tuned, each layer of its decoder is one of its encoder, plus cross-attention. One that was pre-trained
here has a masked-LM head as well, and tells which row is that of ``<mask>``. Its encoder is wired as XLM-R's, so that it is of the
family ``xlmr``; whether the embeddings are scaled by the square root of C is what the file says: yes in the released one, no in
those of this package.
"""

import logging
import re
from pathlib import Path
from typing import Any, Dict, List, Mapping, Tuple

import torch
from torch import Tensor

from .encoder_decoder import ENCODER_SIZES, has_layers, is_deltalm, of_xlmr_shape, stock_wiring
from .errors import CheckpointError
from .layouts import (
    MASK_ROW,
    PADDING_IDX,
    PRETRAINED_HERE,
    attention_shapes,
    marked_mask,
    mask_row,
    masked_lm_shapes,
)
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
from .versions import KEY, stamped
from .vocabulary import CONFIG_NAME, MASK, find_dictionary, read_dictionary, read_json
from .writing import save_checkpoint
from .xlmr import (
    ATTENTION,
    CROSS_ATTENTION,
    FOLDER,
    FOLDER_RULES,
    MODEL_TYPES,
    OUTPUT,
    TIED,
    WIRED,
    check_folder,
    has_cross_attention,
    renames_of,
    settle_folder,
)

logger = logging.getLogger(__name__)

EXPECTED = (
    "a VECO in fairseq's layout (encoder.* and decoder.* of XLM-R's shape, lm_head.* where it was pre-trained here), or a Hugging "
    "Face folder of model_type xlm-roberta with cross_attention.* or crossattention.*"
)
_OTHERS = ("mbart", "bart", "deltalm")
SCALE_OPTION = "no_scale_embedding"

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


# ---- fairseq's layout: recognising, wiring. ----


def is_veco(content: Content) -> bool:
    """Whether a file is a fairseq checkpoint of a VECO.

    Its architecture says so, or, where that is missing or tells no family (``transformer``), its tensors do: XLM-R's shape, and a
    masked-LM head beside encoder and decoder, or a decoder whose layers are layers of the encoder. A fine-tuned one without its
    options cannot be told from a BART; see ``encoder_decoder``.
    """
    model = content.tensors
    if content.is_folder or not has_layers(content) or content.arch.startswith(_OTHERS) or is_deltalm(content):
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
        logger.warning(
            "%s: its options lack %s: %s is taken, as in %s",
            found.origin,
            SCALE_OPTION,
            not released,
            "the released VECO" if released else "a VECO that was pre-trained here",
        )
    found.mask_row = mask_row(found.content.tensors, found.origin)
    if kind is ENCODER:
        wiring = stock_wiring(found, {"activation": "gelu"})
        found.wiring = {"family": "xlmr", **wiring, "scale_embedding": scaled}
        return
    problems = differing({**options, SCALE_OPTION: not scaled}, WIRED)
    if problems:
        raise CheckpointError(f"{found.origin}: {'; '.join(problems)}; expected {kind.expected}")


# ---- The Hugging Face folder, released for understanding, as the state that generation and pre-training load. ----

STATE = Kind("a VECO", EXPECTED, {part: part for part in PARTS})
ARCH = "veco_large"
"""What a written checkpoint names; its sizes are stated beside it."""

_CROSS = "decoder.layers.{}.encoder_attn"
_CROSS_RULES = (
    *(
        rule
        for name, ours in ATTENTION.items()
        for rule in renames_of(CROSS_ATTENTION + re.escape(name), f"{_CROSS}.{ours}".format(r"\1"))
    ),
    *renames_of(CROSS_ATTENTION + r"output\.LayerNorm", f"{_CROSS}_layer_norm".format(r"\1")),
)
"""What the decoder has of its own. Source: the mapping that the authors gave when they were asked for it."""


def _check_state(content: Content) -> List[str]:
    if not content.is_folder:
        return ["is a fairseq checkpoint, expected a Hugging Face folder"]
    if not has_cross_attention(content.tensors):
        return ["has no cross_attention.* tensors, so it is no VECO"]
    return check_folder(content)


LAYOUTS = (
    FileLayout(
        EXPECTED,
        is_veco,
        RULES,
        ENCODER_SIZES,
        (ENCODER, MASKED_LM),
        settle=_settle,
        tied=(TIED,),
    ),
    FileLayout(
        EXPECTED,
        lambda content: False,  # whoever wants another kind takes it for an XLM-R
        (*_CROSS_RULES, *FOLDER_RULES),
        FOLDER.sizes,
        (STATE,),
        FOLDER.wired,
        _check_state,
        settle_folder,
        tied=FOLDER.tied,
    ),
)


def veco_state_from_folder(path: PathLike) -> PretrainedFile:
    """Read all of the Hugging Face folder of a VECO (or its weights file), in the names of fairseq's layout.

    Returns the file: ``encoder.*``, ``decoder.*`` with as many layers, ``lm_head.*`` where the folder has it. What is tied is one
    tensor: each layer's self-attention, network and norms, the embeddings, the output projections. Its ``sizes`` are the fields of
    ``MaskedLMSizes``.

    Raises CheckpointError: unreadable, of another layout, without cross-attention in every layer, with tensors that are not
    accounted for, or with another ``<pad>`` than row 1.
    """
    found = open_file(path, STATE)
    if found.padding_idx != PADDING_IDX:
        raise CheckpointError(
            f"{found.origin}: pad_token_id = {found.padding_idx}, expected 1, as in every fairseq dictionary"
        )
    find_sizes(found, None, None, "heads=…", "encoder.")
    found.sizes["padding_idx"] = found.padding_idx
    has_head = any(name.startswith("lm_head.") for name in found.tensors)
    shapes = masked_lm_shapes(found.sizes, has_head)
    shapes = {name.replace("sentence_encoder.", "encoder."): shape for name, shape in shapes.items()}
    for layer in range(found.sizes["layers"]):
        shapes.update(attention_shapes(_CROSS.format(layer), found.sizes["embed_dim"]))
    check_shapes(found.tensors, shapes, found.origin, EXPECTED)
    words = f"encoder.{WORDS}"
    copies = {name.replace("encoder.", "decoder.", 1): name for name in found.tensors if name.startswith("encoder.")}
    copies.update({"decoder.output_projection.weight": words, **({OUTPUT: words} if has_head else {})})
    for copy, name in copies.items():
        found.tensors[copy], found.sources[copy] = found.tensors[name], found.sources[name]
    return found


def is_folder_of_others(path: PathLike) -> bool:
    """Whether a folder is of Hugging Face's XLM-R layout, of which a VECO may be, and no export of this package."""
    file = Path(path) / CONFIG_NAME
    if not file.is_file():
        return False
    config = read_json(file, EXPECTED)
    kind = config.get("model_type")
    # Older versions of the library state sizes, and not which model they are of.
    return KEY not in config and (kind in MODEL_TYPES or (kind is None and "num_hidden_layers" in config))


def write_veco(folder: PathLike, checkpoint: PathLike) -> PretrainedFile:
    """Make a fairseq checkpoint of the Hugging Face folder of a VECO; what is tied is stored once.

    Its options state the sizes and that embeddings are not scaled, as in the folder; the released checkpoint in fairseq's layout
    does scale them, so whoever fine-tunes from this one gives ``--no-scale-embedding``.

    Raises CheckpointError: as :func:`veco_state_from_folder`, or the file cannot be written there.
    """
    found = veco_state_from_folder(folder)
    if PRETRAINED_HERE not in found.tensors:
        # What tells a model whose embeddings are not scaled from a released one is its head.
        raise CheckpointError(
            f"checkpoint {folder}: has no lm_head; expected a masked LM, so that VECO can go on from it"
        )
    versions = {f"{side}.version": torch.tensor([3.0]) for side in ("encoder", "decoder")}
    versions[MASK_ROW] = marked_mask(_mask_row(found.content.folder, found.sizes["vocab_size"]))
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


def _mask_row(folder: Path, rows: int) -> int:
    """Where the dictionary beside the weights lists ``<mask>``; else the last row, as in every XLM-R."""
    beside = find_dictionary(folder)
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
