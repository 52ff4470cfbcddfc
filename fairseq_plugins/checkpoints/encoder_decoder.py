"""What the files of mBART and NLLB have in common: an encoder-decoder of which the encoder is wanted."""

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Mapping, Optional, Tuple

import torch
from torch import Tensor

from .encoder_languages import Languages
from .errors import CheckpointError
from .renames import Renamed, Rule, drop, refuse, rename, split

logger = logging.getLogger(__name__)

SHARED = "shared.weight"
WORDS = "embed_tokens.weight"
POSITIONS = "embed_positions.weight"
ACTIVATIONS = ("gelu", "relu")
_TOP = r"(?:model\.)?"
_ENCODER = _TOP + r"encoder\."
_LAYER = _ENCODER + r"layers\.(\d+)\."
_OFFSET = 2  # rows before the first position: <pad> is 1

RULES: Tuple[Rule, ...] = (
    refuse(_TOP + r"(?:encoder|decoder)\.layers\.\d+\.(?:moe_layer|ffn)\..*", "is a mixture of experts"),
    rename(_TOP + r"shared\.weight", SHARED),
    rename(_ENCODER + r"embed_tokens\.weight", WORDS),
    rename(_ENCODER + r"embed_positions\.weight", POSITIONS),
    rename(_ENCODER + r"(layernorm_embedding|layer_norm)\.(weight|bias)", r"\1.\2"),
    rename(_LAYER + r"self_attn\.(q_proj|k_proj|v_proj|out_proj)\.(weight|bias)", r"layers.\1.self_attn.\2.\3"),
    split(
        _LAYER + r"self_attn\.in_proj_(weight|bias)",
        r"layers.\1.self_attn.q_proj.\2",
        r"layers.\1.self_attn.k_proj.\2",
        r"layers.\1.self_attn.v_proj.\2",
    ),
    rename(_LAYER + r"(self_attn_layer_norm|fc1|fc2|final_layer_norm)\.(weight|bias)", r"layers.\1.\2.\3"),
    drop(_ENCODER + r"version", "format counter of fairseq"),
    drop(r"_float_tensor|" + _ENCODER + r"embed_positions\.(?:_float_tensor|weights)", "buffer that is counted anew"),
    drop(_TOP + r"decoder\..*", "decoder, unused by an encoder"),
    drop(r"lm_head\.weight|final_logits_bias", "output of the decoder, unused by an encoder"),
    drop(r"(?:classification_heads?|qa_outputs|score)\..*", "head of another task"),
)
"""fairseq's and Hugging Face's names differ by ``model.`` and ``shared`` only."""


@dataclass(frozen=True)
class EncoderSource:
    """What a file says of its encoder.

    Attributes:
        renamed: its tensors under the names of fairseq's stock encoder.
        wiring: fields of ``EncoderLayout`` that it states or that follow from what it is.
        stated: sizes that it states, by the names of ``EncoderLayout``; None where it says nothing.
        heads: attention heads; None where it does not tell.
        heads_entry: what the file calls them.
        expected: what kind of file it must be, for messages.
        languages: what it says of them.
        mask_last: whether its last row is that of ``<mask>``, by what it is.
        mask_row: row of ``<mask>`` as the file itself tells it; None where it does not.
    """

    renamed: Renamed
    wiring: Dict[str, Any]
    stated: Mapping[str, Optional[int]]
    heads: Optional[int]
    heads_entry: str
    expected: str
    languages: Languages = Languages()
    mask_last: bool = False
    mask_row: Optional[int] = None


def untie(renamed: Renamed, origin: str) -> None:
    """Give ``shared`` its place, after making sure that it is not another embedding than the encoder's; changes ``renamed``.

    Raises:
        CheckpointError: the two differ.
    """
    tensors = renamed.tensors
    if SHARED not in tensors:
        return
    if WORDS not in tensors:
        tensors[WORDS] = tensors.pop(SHARED)
        renamed.sources[WORDS] = renamed.sources.pop(SHARED)
        return
    if not torch.equal(tensors[SHARED], tensors[WORDS]):
        raise CheckpointError(
            f"{origin}: {renamed.sources[SHARED]} and {renamed.sources[WORDS]} differ, expected one embedding"
        )
    renamed.discard(SHARED, "equal to the encoder's embedding")


# ---- fairseq. ----


def stock_wiring(
    settings: Mapping[str, Any], tensors: Mapping[str, Tensor], defaults: Mapping[str, Any], origin: str
) -> Dict[str, Any]:
    """Fields of ``EncoderLayout`` from the options of a fairseq model and from its tensors.

    What the tensors show counts, whatever the options say: those saved with released models are not always those of the
    training.

    Args:
        settings: the options; may be empty.
        tensors: of the encoder, in the names of fairseq's stock encoder.
        defaults: fields for which nothing is stated; an ``activation`` among them gives way to that of the architecture.
        origin: how messages call the file.

    Raises:
        CheckpointError: the options say that the encoder has no positions.
    """
    if settings.get("no_token_positional_embeddings"):
        raise CheckpointError(f"{origin}: was trained with no_token_positional_embeddings, expected positions")
    named = {
        "normalize_before": "encoder_normalize_before",
        "layernorm_embedding": "layernorm_embedding",
        "learned_positions": "encoder_learned_pos",
        "activation": "activation_fn",
    }
    found = {field: settings[name] for field, name in named.items() if settings.get(name) is not None}
    if settings.get("no_scale_embedding") is not None:
        found["scale_embedding"] = not settings["no_scale_embedding"]
    for field, value in _shown(tensors).items():
        if field in found and bool(found[field]) != value:
            logger.warning(
                "%s: its options say %s = %s, its tensors %s: the tensors count",
                origin,
                named[field],
                found[field],
                value,
            )
        found[field] = value
    if "activation" in defaults and "activation" not in found:
        found["activation"] = _activation_of(settings, str(defaults["activation"]), origin)
    return {**defaults, **found}


def _shown(tensors: Mapping[str, Tensor]) -> Dict[str, bool]:
    """Fields that the presence of tensors decides: fairseq has a last norm with norms before the blocks, and only then."""
    first = {name.split(".")[0] for name in tensors}
    shown = {"normalize_before": "layer_norm" in first, "layernorm_embedding": "layernorm_embedding" in first}
    # Without a table positions may be sinusoids, or the table may be lost: the options tell.
    return {**shown, "learned_positions": True} if POSITIONS in tensors else shown


def _activation_of(settings: Mapping[str, Any], default: str, origin: str) -> str:
    """The default of the architecture, which is not the same in all families of fairseq."""
    arch = str(settings.get("arch") or settings.get("_name") or "")
    defaults = {"transformer": "relu", "bart": "gelu", "mbart": "gelu"}
    found = next((value for start, value in defaults.items() if arch.startswith(start)), default)
    logger.warning(
        "%s: its options lack activation_fn: %s is taken, as for --arch %s", origin, found, arch or "of its family"
    )
    return found


def stock_sizes(settings: Mapping[str, Any]) -> Dict[str, Optional[int]]:
    """Sizes that the options of a fairseq model state."""
    return {
        "layers": None if settings.get("encoder_layers_to_keep") else settings.get("encoder_layers"),
        "embed_dim": settings.get("encoder_embed_dim"),
        "ffn_dim": settings.get("encoder_ffn_embed_dim"),
        "max_positions": settings.get("max_source_positions"),
    }


# ---- Hugging Face. ----


def folder_sizes(config: Mapping[str, Any]) -> Dict[str, Optional[int]]:
    """Sizes that ``config.json`` of an mBART or M2M100 states."""
    return {
        "vocab_size": config.get("vocab_size"),
        "layers": config.get("encoder_layers"),
        "embed_dim": config.get("d_model"),
        "ffn_dim": config.get("encoder_ffn_dim"),
        "max_positions": config.get("max_position_embeddings"),
    }


def check_folder(config: Mapping[str, Any], file: Path, activation: str) -> str:
    """Refuse a configuration whose special symbols or activation are others; returns the activation.

    Args:
        config: content of ``config.json``.
        file: its path, for messages.
        activation: of the family, where the configuration does not say.

    Raises:
        CheckpointError: names each entry, its value and what is expected.
    """
    wanted = {"pad_token_id": _OFFSET - 1, "eos_token_id": _OFFSET}
    problems = [
        f"{name} = {config[name]!r}, expected {value}"
        for name, value in wanted.items()
        if config.get(name) is not None and config[name] != value
    ]
    found = str(config.get("activation_function") or activation)
    if found not in ACTIVATIONS:
        problems.append(f"activation_function = {found!r}, expected one of {', '.join(ACTIVATIONS)}")
    if problems:
        raise CheckpointError(f"checkpoint {file}: {'; '.join(problems)}")
    return found
