"""The encoders of mBART, NLLB and M2M-100: fairseq's stock transformer, and Hugging Face folders."""

import logging
from typing import Any, Dict, Mapping, Tuple

import torch
from torch import Tensor

from .dictionaries import STYLES, Languages
from .encoder_languages import stock_languages
from .encoder_layout import FAMILIES
from .errors import CheckpointError
from .loading import Rule, drop, fused_attention, refuse, rename
from .pipeline import ENCODER_SIZES, POSITIONS, WORDS, Content, FileLayout, PretrainedFile, differing, refuse_config

logger = logging.getLogger(__name__)

SHARED = "shared.weight"
ACTIVATIONS = ("gelu", "relu")
MBART_EXPECTED = (
    "an mBART: a fairseq checkpoint with encoder.* and decoder.* and learned positions, or a Hugging Face folder of model_type "
    "mbart (model.encoder.*, model.shared.weight)"
)
NLLB_EXPECTED = (
    "a dense NLLB or M2M-100: a fairseq checkpoint with encoder.* and decoder.*, norms before the blocks and sinusoidal positions, "
    "or a Hugging Face folder of model_type m2m_100"
)
SINUSOIDS = 1024
"""Longest input of sinusoidal positions, which have no end, where the file does not say."""

_TOP = r"(?:model\.)?"
_ENCODER = _TOP + r"encoder\."
_LAYER = _ENCODER + r"layers\.(\d+)\."

MBART_RULES: Tuple[Rule, ...] = (
    refuse(_TOP + r"(?:encoder|decoder)\.layers\.\d+\.(?:moe_layer|ffn)\..*", "is a mixture of experts"),
    rename(_TOP + r"shared\.weight", SHARED),
    rename(_ENCODER + r"(embed_tokens|embed_positions)\.weight", r"\1.weight"),
    rename(_ENCODER + r"(layernorm_embedding|layer_norm)\.(weight|bias)", r"\1.\2"),
    *fused_attention(_LAYER, r"layers.\1."),
    rename(_LAYER + r"(self_attn_layer_norm|fc1|fc2|final_layer_norm)\.(weight|bias)", r"layers.\1.\2.\3"),
    drop(_ENCODER + r"version", "format counter of fairseq"),
    drop(r"_float_tensor|" + _ENCODER + r"embed_positions\.(?:_float_tensor|weights)", "buffer that is counted anew"),
    drop(_TOP + r"decoder\..*", "decoder, unused by an encoder"),
    drop(r"lm_head\.weight|final_logits_bias", "output of the decoder, unused by an encoder"),
    drop(r"(?:classification_heads?|qa_outputs|score)\..*", "head of another task"),
)
"""fairseq's and Hugging Face's names differ by ``model.`` and ``shared`` only."""

NLLB_RULES: Tuple[Rule, ...] = (
    refuse(
        r"(?:model\.)?encoder\.(?:embed_positions\.weight|layernorm_embedding\..*)",
        "has learned positions or an embedding norm",
    ),
    *MBART_RULES,
)


def has_layers(content: Content) -> bool:
    """Whether there are layers of an encoder and of a decoder."""
    return all(any(name.startswith(f"{side}.layers.") for name in content.tensors) for side in ("encoder", "decoder"))


def of_xlmr_shape(model: Mapping[str, Any]) -> bool:
    """Learned positions, a norm after the embedding, and none after the last layer, as there is with norms before the blocks."""
    needed = (f"encoder.{POSITIONS}", "encoder.layernorm_embedding.weight")
    return all(name in model for name in needed) and "encoder.layer_norm.weight" not in model


# ---- fairseq. ----


def stock_wiring(content: Content, tensors: Mapping[str, Tensor], defaults: Mapping[str, Any]) -> Dict[str, Any]:
    """Fields of ``EncoderLayout`` from the options of a fairseq model and from its tensors.

    What the tensors show counts, whatever the options say: those saved with released models are not always those of the
    training.

    Args:
        content: its options may be empty.
        tensors: of the encoder, in the names of fairseq's stock encoder.
        defaults: fields for which nothing is stated; an ``activation`` among them gives way to that of the architecture.

    Raises:
        CheckpointError: the options say that the encoder has no positions.
    """
    settings, origin = content.options, content.origin
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
        found["activation"] = _activation_of(content, str(defaults["activation"]))
    return {**defaults, **found}


def _shown(tensors: Mapping[str, Tensor]) -> Dict[str, bool]:
    """Fields that the presence of tensors decides: fairseq has a last norm with norms before the blocks, and only then."""
    first = {name.split(".")[0] for name in tensors}
    shown = {"normalize_before": "layer_norm" in first, "layernorm_embedding": "layernorm_embedding" in first}
    # Without a table positions may be sinusoids, or the table may be lost: the options tell.
    return {**shown, "learned_positions": True} if POSITIONS in tensors else shown


def _activation_of(content: Content, default: str) -> str:
    """The default of the architecture, which is not the same in all families of fairseq."""
    defaults = {"transformer": "relu", "bart": "gelu", "mbart": "gelu"}
    found = next((value for start, value in defaults.items() if content.arch.startswith(start)), default)
    logger.warning(
        "%s: its options lack activation_fn: %s is taken, as for --arch %s",
        content.origin,
        found,
        content.arch or "of its family",
    )
    return found


# ---- mBART and NLLB. ----

FOLDER_SIZES = {
    "vocab_size": "vocab_size",
    "layers": "encoder_layers",
    "embed_dim": "d_model",
    "ffn_dim": "encoder_ffn_dim",
    "max_positions": "max_position_embeddings",
    "heads": "encoder_attention_heads",
}


def _is_stock(content: Content) -> bool:
    return not content.is_folder and has_layers(content)


def _check_mbart(content: Content) -> None:
    """Refuse tensors that fit several families, where no option tells which it is."""
    unscaled = content.options.get("no_scale_embedding")
    if of_xlmr_shape(content.tensors) and not content.arch and unscaled is None:
        raise CheckpointError(
            f"{content.origin}: its options tell neither arch nor no_scale_embedding, and its tensors fit BART, a post-norm mBART "
            "and a fine-tuned VECO, which differ in what they do with the embeddings; expected the options of its "
            "training (args or cfg)"
        )


def _settle_mbart(content: Content, found: PretrainedFile) -> None:
    wiring = stock_wiring(content, found.tensors, {**FAMILIES["mbart"], "activation": "gelu"})
    found.wiring = {"family": "mbart", **wiring}
    found.stated_languages = stock_languages(content.entries, content.options, STYLES["mbart"])


def _settle_nllb(content: Content, found: PretrainedFile) -> None:
    wiring = stock_wiring(content, found.tensors, FAMILIES["nllb"])
    if not wiring["normalize_before"]:
        raise CheckpointError(
            f"{content.origin}: has its norms after the blocks and sinusoidal positions; expected {NLLB_EXPECTED}"
        )
    found.wiring = {"family": "nllb", **wiring, "max_positions": found.stated.pop("max_positions") or SINUSOIDS}
    found.stated_languages = stock_languages(content.entries, content.options, STYLES["nllb"])


def _check_folder(content: Content) -> None:
    problems = differing(content.options, {"pad_token_id": 1, "eos_token_id": 2})
    found = content.options.get("activation_function")
    if found and found not in ACTIVATIONS:
        problems.append(f"activation_function = {found!r}, expected one of {', '.join(ACTIVATIONS)}")
    refuse_config(problems, content)


def _settle_folder(content: Content, found: PretrainedFile) -> None:
    family, activation = ("mbart", "gelu") if content.options["model_type"] == "mbart" else ("nllb", "relu")
    scale = content.options.get("scale_embedding")
    _untie(found)
    found.wiring = {
        "family": family,
        **FAMILIES[family],
        "scale_embedding": family == "nllb" if scale is None else bool(scale),
        "activation": content.options.get("activation_function") or activation,
    }
    if family == "nllb":
        found.wiring["max_positions"] = found.stated.pop("max_positions") or SINUSOIDS
        found.stated_languages = Languages(style=STYLES[family])


def _untie(found: PretrainedFile) -> None:
    """Give ``shared`` its place, after making sure that it is not another embedding than the encoder's."""
    tensors, renamed = found.tensors, found.renamed
    if SHARED in tensors and WORDS in tensors:
        if not torch.equal(tensors[SHARED], tensors[WORDS]):
            raise CheckpointError(
                f"{found.origin}: {renamed.sources[SHARED]} and {renamed.sources[WORDS]} differ, expected one embedding"
            )
        renamed.discard(SHARED, "equal to the encoder's embedding")
    renamed.move(SHARED, WORDS)


def _folder(model_type: str, expected: str, rules: Tuple[Rule, ...]) -> FileLayout:
    return FileLayout(
        expected,
        lambda content: content.is_folder and content.options.get("model_type") == model_type,
        rules,
        FOLDER_SIZES,
        _check_folder,
        _settle_folder,
        model_types=(model_type,),
    )


NLLB = FileLayout(NLLB_EXPECTED, _is_stock, NLLB_RULES, ENCODER_SIZES, settle=_settle_nllb)
MBART = FileLayout(
    MBART_EXPECTED,
    lambda content: _is_stock(content) and f"encoder.{POSITIONS}" in content.tensors,
    MBART_RULES,
    ENCODER_SIZES,
    _check_mbart,
    _settle_mbart,
)
ENCODERS = (
    MBART,
    NLLB,
    _folder("mbart", MBART_EXPECTED, MBART_RULES),
    _folder("m2m_100", NLLB_EXPECTED, NLLB_RULES),
)
