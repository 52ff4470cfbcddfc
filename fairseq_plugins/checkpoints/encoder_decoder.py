"""fairseq's transformers: mBART, NLLB and M2M-100 (also as Hugging Face folders), DeltaLM, and this package's own encoders."""

import logging
import re
from dataclasses import asdict
from typing import Any, List, Mapping, Tuple

from .inspection import CheckpointError
from .layouts import LANGUAGES_ENTRY, LAYOUT_ENTRY, SIZES, layout_from, size_options
from .loading import Rule, drop, refuse, rename, stack_rules
from .pipeline import DELTALM, ENCODER, POSITIONS, WORDS, Content, FileLayout, Kind, PretrainedFile
from .vocabulary import STYLES, Languages, as_dict, stock_languages

logger = logging.getLogger(__name__)

SHARED = "shared.weight"
ENCODER_SIZES = size_options("encoder", "max_source_positions")

_STATED = {
    "normalize_before": "encoder_normalize_before",
    "layernorm_embedding": "layernorm_embedding",
    "learned_positions": "encoder_learned_pos",
    "activation": "activation_fn",
}
"""Field of a layout -> option."""


def has_layers(content: Content) -> bool:
    """Whether it is a fairseq checkpoint with layers of an encoder and of a decoder."""
    starts = ("encoder.layers.", "decoder.layers.")
    return not content.is_folder and all(any(name.startswith(one) for name in content.tensors) for one in starts)


def of_xlmr_shape(model: Mapping[str, Any]) -> bool:
    """Learned positions, a norm after the embedding, and none after the last layer, as there is with norms before the blocks."""
    needed = (f"encoder.{POSITIONS}", "encoder.layernorm_embedding.weight")
    return all(name in model for name in needed) and "encoder.layer_norm.weight" not in model


def settle_stock(found: PretrainedFile, kind: Kind) -> None:
    """Fill in the wiring of a fairseq model by its options, and by its tensors, which count where they differ; and its languages.

    The options of released models are not always those of the training. Raises CheckpointError: there are no positions.
    """
    content, options, wiring = found.content, found.content.options, found.wiring
    if options.get("no_token_positional_embeddings"):
        raise CheckpointError(f"{content.origin}: was trained with no_token_positional_embeddings, expected positions")
    wiring.update({field: options[name] for field, name in _STATED.items() if options.get(name) is not None})
    if options.get("activation_fn") is None:
        logger.warning("%s: its options lack activation_fn: that of its family is taken", content.origin)
    if options.get("no_scale_embedding") is not None:
        wiring["scale_embedding"] = not options["no_scale_embedding"]
    # fairseq has a last norm with norms before the blocks, and only then.
    shown = {"normalize_before": "encoder.layer_norm.weight" in found.tensors}
    shown["layernorm_embedding"] = "encoder.layernorm_embedding.weight" in found.tensors
    # Without a table they may be sinusoids, or it is lost: the options tell.
    if f"encoder.{POSITIONS}" in found.tensors:
        shown["learned_positions"] = True
    for field, value in shown.items():
        stated = options.get(_STATED[field])
        if stated is not None and bool(stated) != value:
            logger.warning(
                "%s: its options say %s = %s, its tensors %s", content.origin, _STATED[field], not value, value
            )
    wiring.update(shown)
    style = STYLES.get(found.source.family, "__{}__")
    found.stated_languages = stock_languages(content.entries, options, style)


def _settle_own(found: PretrainedFile, kind: Kind) -> None:
    options = found.content.options
    layout = asdict(layout_from(as_dict(options[LAYOUT_ENTRY]), found.origin))
    found.stated = {name: layout.pop(name) for name in SIZES}
    found.wiring, languages = layout, options.get(LANGUAGES_ENTRY)
    listed = tuple(map(str, languages)) if languages else None
    found.stated_languages = Languages(listed, style=STYLES.get(layout["family"], "[{}]"))


OWN_RULES: Tuple[Rule, ...] = (
    drop(r"encoder\.version", "format counter of fairseq"),
    rename(r"(encoder\..+)", r"\1"),
    drop(r"(?:classification_heads|token_heads)\..*", "head of a task"),
)


# ---- DeltaLM. ----

_DELTALM = re.compile(r"(?:src|tgt)_embedding\..*|decoder\.layers\.\d+\.(?:fc3|ffn_1\.fc1)\..*")
_FFN = r"\.layers\.(\d+)\."
DELTALM_RULES: Tuple[Rule, ...] = (
    *stack_rules(r"(?:encoder|src_embedding)\.", "encoder."),
    *stack_rules(r"(?:decoder|tgt_embedding)\.", "decoder."),
    rename(rf"(encoder|decoder){_FFN}(ffn_layer_norm\.(?:weight|bias))", r"\1.layers.\2.\3"),
    rename(rf"encoder{_FFN}ffn\.(fc1|fc2)\.(weight|bias)", r"encoder.layers.\1.\2.\3"),
    rename(rf"decoder{_FFN}(?:ffn_1\.fc1|fc3)\.(weight|bias)", r"decoder.layers.\1.fc3.\2"),
    rename(rf"decoder{_FFN}(?:ffn_1\.fc2|fc4)\.(weight|bias)", r"decoder.layers.\1.fc4.\2"),
    rename(rf"decoder{_FFN}ffn_2\.(fc1|fc2)\.(weight|bias)", r"decoder.layers.\1.\2.\3"),
    rename(r"decoder\.output_projection\.weight", r"decoder.output_projection.weight"),
)


def is_deltalm(content: Content) -> bool:
    """Whether a file is a fairseq checkpoint of a DeltaLM, released or of this package."""
    named = content.arch.startswith("deltalm") or any(_DELTALM.fullmatch(name) for name in content.tensors)
    return not content.is_folder and ("weights" in content.entries or named)


def _settle_deltalm(found: PretrainedFile, kind: Kind) -> None:
    if kind is ENCODER:
        settle_stock(found, kind)


# ---- mBART and NLLB. ----

_MBART = "an mBART: a fairseq checkpoint with learned positions, or a Hugging Face folder of model_type mbart"
_NLLB = (
    "a dense NLLB or M2M-100: a fairseq checkpoint with norms before the blocks and sinusoidal positions, or a Hugging Face folder "
    "of model_type m2m_100"
)
_FOLDER_SIZES = {
    "vocab_size": "vocab_size",
    "layers": "encoder_layers",
    "embed_dim": "d_model",
    "ffn_dim": "encoder_ffn_dim",
    "max_positions": "max_position_embeddings",
    "heads": "encoder_attention_heads",
}

MBART_RULES: Tuple[Rule, ...] = (
    refuse(r"(?:model\.)?(?:encoder|decoder)\.layers\.\d+\.(?:moe_layer|ffn)\..*", "is a mixture of experts"),
    rename(r"(?:model\.)?shared\.weight", SHARED),
    *stack_rules(r"(?:model\.)?encoder\.", "encoder."),
    drop(r"_float_tensor", "buffer that is counted anew"),
    drop(r"(?:model\.)?decoder\..*", "decoder, unused by an encoder"),
    drop(r"lm_head\.weight|final_logits_bias", "output of the decoder, unused by an encoder"),
    drop(r"(?:classification_heads?|qa_outputs|score)\..*", "head of another task"),
)
"""fairseq's and Hugging Face's names differ by ``model.`` and ``shared`` only."""


def _check_mbart(content: Content) -> List[str]:
    """Refuse tensors that fit several families, where no option tells which it is."""
    unscaled = content.options.get("no_scale_embedding")
    if not of_xlmr_shape(content.tensors) or content.arch or unscaled is not None:
        return []
    return [
        "tells neither arch nor no_scale_embedding, and its tensors fit BART, a post-norm mBART and a fine-tuned VECO"
    ]


def _check_nllb(content: Content) -> List[str]:
    before = "encoder.layer_norm.weight" in content.tensors
    return [] if before else ["has norms after the blocks and sinusoidal positions"]


def _settle_folder(found: PretrainedFile, kind: Kind) -> None:
    options, family = found.content.options, found.source.family
    found.wiring["scale_embedding"] = bool(options.get("scale_embedding", family == "nllb"))
    if options.get("activation_function"):
        found.wiring["activation"] = options["activation_function"]
    found.stated_languages = Languages(style=STYLES[family])


def _folder(model_type: str, family: str, expected: str) -> FileLayout:
    return FileLayout(
        expected,
        lambda content: content.is_folder and content.options.get("model_type") == model_type,
        MBART_RULES,
        _FOLDER_SIZES,
        wired={"pad_token_id": 1, "eos_token_id": 2, "activation_function": ("gelu", "relu")},
        settle=_settle_folder,
        family=family,
        tied=((SHARED, f"encoder.{WORDS}"),),
        model_types=(model_type,),
    )


LAYOUTS = (
    FileLayout(
        "an nlu_encoder checkpoint of this package",
        lambda content: not content.is_folder and content.options.get(LAYOUT_ENTRY) is not None,
        OWN_RULES,
        {"layers": "", "heads": f"{LAYOUT_ENTRY}.heads"},
        settle=_settle_own,
    ),
    FileLayout(
        DELTALM.expected,
        is_deltalm,
        DELTALM_RULES,
        ENCODER_SIZES,
        (ENCODER, DELTALM),
        settle=_settle_deltalm,
        family="deltalm",
    ),
    FileLayout(
        _MBART,
        lambda content: has_layers(content) and f"encoder.{POSITIONS}" in content.tensors,
        MBART_RULES,
        ENCODER_SIZES,
        check=_check_mbart,
        settle=settle_stock,
        family="mbart",
    ),
    FileLayout(_NLLB, has_layers, MBART_RULES, ENCODER_SIZES, check=_check_nllb, settle=settle_stock, family="nllb"),
    _folder("mbart", "mbart", _MBART),
    _folder("m2m_100", "nllb", _NLLB),
)
