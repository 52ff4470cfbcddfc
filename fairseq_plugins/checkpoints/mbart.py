"""mBART files: fairseq checkpoints (``mbart.cc25``, stock ``mbart_*``, also continued by translation), Hugging Face folders."""

from pathlib import Path
from typing import Any, Mapping

from torch import Tensor

from . import encoder_decoder as common
from .encoder_decoder import EncoderSource
from .encoder_languages import stock_languages
from .encoder_layout import FAMILIES
from .renames import apply_rules
from .vocabularies import STYLES

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
    defaults = {**FAMILIES[FAMILY], "activation": "gelu"}
    return EncoderSource(
        renamed,
        {"family": FAMILY, **common.stock_wiring(settings, renamed.tensors, defaults, origin)},
        common.stock_sizes(settings),
        settings.get("encoder_attention_heads"),
        "encoder_attention_heads",
        EXPECTED,
        stock_languages(checkpoint, settings, STYLES[FAMILY]),
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
