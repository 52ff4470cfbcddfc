"""The Hugging Face folder of a VECO, released for understanding, as the state that generation and pre-training load."""

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Mapping, Tuple

import torch
from torch import Tensor

from . import huggingface, masked_lm, veco
from .encoder_languages import find_dictionary
from .errors import CheckpointError
from .huggingface import CROSS_ATTENTION, rename_norm
from .loading import LoadReport
from .reading import PathLike, read_checkpoint
from .renames import apply_rules, rename
from .versions import KEY, stamped
from .vocabularies import MASK, read_dictionary
from .writing import atomic_path

logger = logging.getLogger(__name__)

ARCH = "veco_large"
"""What a written checkpoint names; its sizes are stated beside it."""

_ATTENTION = r"layers.\1.encoder_attn"
CROSS_RULES = (
    rename(CROSS_ATTENTION + r"self\.query\.(weight|bias)", _ATTENTION + r".q_proj.\2"),
    rename(CROSS_ATTENTION + r"self\.key\.(weight|bias)", _ATTENTION + r".k_proj.\2"),
    rename(CROSS_ATTENTION + r"self\.value\.(weight|bias)", _ATTENTION + r".v_proj.\2"),
    rename(CROSS_ATTENTION + r"output\.dense\.(weight|bias)", _ATTENTION + r".out_proj.\2"),
    *rename_norm(CROSS_ATTENTION + r"output\.LayerNorm", _ATTENTION + "_layer_norm"),
)
"""What the decoder has of its own. Source: the mapping that the authors gave when they were asked for it."""

_STACK = "sentence_encoder."
_HEAD = "lm_head."
_WORDS = "embed_tokens.weight"


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
    file = masked_lm.find_weights(Path(path))
    origin = f"checkpoint {file}"
    content = read_checkpoint(file)
    if isinstance(content.get("model"), Mapping):
        raise CheckpointError(
            f"{origin}: is a fairseq checkpoint, expected a Hugging Face folder; expected {veco.EXPECTED}"
        )
    source = masked_lm.read_source(content, file, origin)
    own = {name: one for name, one in content.items() if huggingface.has_cross_attention([name])}
    if not own:
        raise CheckpointError(f"{origin}: has no cross_attention.* tensors, so it is no VECO; expected {veco.EXPECTED}")
    if source.padding_idx != 1:
        raise CheckpointError(
            f"{origin}: pad_token_id = {source.padding_idx}, expected 1, as in every fairseq dictionary"
        )
    stack = source.renamed
    masked_lm.untie(stack, origin)
    sizes = masked_lm.infer_sizes(stack.tensors, source, origin)
    sizes["heads"] = masked_lm.choose_heads(None, source.heads, source.heads_entry, sizes["embed_dim"], origin)
    masked_lm.check_stated(sizes, source.stated, origin)
    cross = apply_rules(masked_lm.float_tensors(own, origin), CROSS_RULES, origin, veco.EXPECTED)
    has_head = any(name.startswith(_HEAD) for name in stack.tensors)
    found = {**stack.tensors, **cross.tensors}
    masked_lm.compare_shapes(found, expected_shapes(sizes, has_head), origin, veco.EXPECTED)
    reasons = {name: why for name, why in stack.dropped.items() if name not in own}
    report = LoadReport((*stack.used(), *cross.used()), dropped=tuple(reasons), reasons=reasons)
    places = _places(found, has_head)
    named = {**stack.sources, **cross.sources}
    sources = {name: named[taken] for name, taken in places.items()}
    return VECOState({name: found[taken] for name, taken in places.items()}, sources, sizes, report)


def expected_shapes(sizes: Mapping[str, int], has_head: bool = True) -> Dict[str, Tuple[int, ...]]:
    """Name -> shape of what is stored once: the stack, its cross-attention, and the head where there is one."""
    width = sizes["embed_dim"]
    shapes = {
        name: shape
        for name, shape in masked_lm.expected_shapes(sizes).items()
        if has_head or not name.startswith(_HEAD)
    }
    for layer in range(sizes["layers"]):
        start = f"layers.{layer}.encoder_attn"
        for projection in ("q_proj", "k_proj", "v_proj", "out_proj"):
            shapes[f"{start}.{projection}.weight"] = (width, width)
            shapes[f"{start}.{projection}.bias"] = (width,)
        shapes[f"{start}_layer_norm.weight"] = shapes[f"{start}_layer_norm.bias"] = (width,)
    return shapes


def _places(found: Mapping[str, Tensor], has_head: bool) -> Dict[str, str]:
    """Name in fairseq's layout -> name of what is stored once."""
    places: Dict[str, str] = {}
    for side in ("encoder", "decoder"):
        for name in found:
            if name.startswith(_STACK):
                places[f"{side}.{name[len(_STACK) :]}"] = name
            elif side == "decoder" and not name.startswith(_HEAD):
                places[f"decoder.{name}"] = name
    places["decoder.output_projection.weight"] = _STACK + _WORDS
    if has_head:
        places.update({name: name for name in found if name.startswith(_HEAD)})
        places[huggingface.OUTPUT_WEIGHT] = _STACK + _WORDS
    return places


def is_folder_of_others(path: PathLike) -> bool:
    """Whether a folder is of Hugging Face's XLM-R layout, of which a VECO may be, and no export of this package."""
    file = Path(path) / huggingface.CONFIG_NAME
    if not file.is_file():
        return False
    config = huggingface.read_json(file, veco.EXPECTED)
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
    with atomic_path(checkpoint) as temporary:
        torch.save(stamped(state), temporary)
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
