"""mBART files: fairseq checkpoints (``mbart.cc25``, stock ``mbart_*``, also continued by translation), Hugging Face folders."""

from pathlib import Path
from typing import Any, Dict, Mapping

from torch import Tensor

from . import encoder_decoder as common
from .encoder_decoder import EncoderSource
from .encoder_layout import FAMILIES
from .renames import apply_rules

FAMILY = "mbart"
MODEL_TYPE = "mbart"
EXPECTED = (
    "an mBART: a fairseq checkpoint with encoder.* and decoder.* and learned positions, or a Hugging Face folder of model_type "
    "mbart (model.encoder.*, model.shared.weight)"
)
RULES = common.RULES


def from_fairseq(
    checkpoint: Mapping[str, Any], tensors: Mapping[str, Tensor], settings: Mapping[str, Any], origin: str
) -> EncoderSource:
    """The encoder of a fairseq checkpoint.

    Args:
        checkpoint: the whole file.
        tensors: its model.
        settings: options of the model.
        origin: how messages call the file.

    Raises:
        CheckpointError: tensors that are not accounted for, or options of another model.
    """
    renamed = apply_rules(tensors, RULES, origin, EXPECTED)
    # Stock mbart_* models have the norm after each block unless told otherwise, so the tensors decide.
    defaults: Dict[str, Any] = {
        **FAMILIES[FAMILY],
        "normalize_before": "layer_norm.weight" in renamed.tensors,
        "layernorm_embedding": "layernorm_embedding.weight" in renamed.tensors,
    }
    return EncoderSource(
        renamed,
        {"family": FAMILY, **common.stock_wiring(settings, defaults, origin)},
        common.stock_sizes(settings),
        settings.get("encoder_attention_heads"),
        "encoder_attention_heads",
        EXPECTED,
        common.stock_languages(checkpoint, settings),
        common.stock_language_style(checkpoint, settings, "[{}]"),
    )


def from_folder(tensors: Mapping[str, Tensor], config: Mapping[str, Any], file: Path, origin: str) -> EncoderSource:
    """The encoder of a Hugging Face folder.

    Args:
        tensors: of the weights file.
        config: content of ``config.json``.
        file: path of ``config.json``.
        origin: how messages call the weights file.

    Raises:
        CheckpointError: tensors that are not accounted for, or another configuration.
    """
    activation = common.check_folder(config, file, "gelu")
    renamed = apply_rules(tensors, RULES, origin, EXPECTED)
    common.untie(renamed, origin)
    wiring = {**FAMILIES[FAMILY], "scale_embedding": bool(config.get("scale_embedding")), "activation": activation}
    return EncoderSource(
        renamed,
        {"family": FAMILY, **wiring},
        common.folder_sizes(config),
        config.get("encoder_attention_heads"),
        "encoder_attention_heads",
        EXPECTED,
    )
