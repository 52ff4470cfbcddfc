"""NLLB and M2M-100 files: dense fairseq checkpoints and Hugging Face folders. Pre-norm, sinusoidal positions."""

from pathlib import Path
from typing import Any, Mapping

from torch import Tensor

from . import encoder_decoder as common
from .encoder_decoder import EncoderSource
from .encoder_languages import Languages, stock_languages
from .encoder_layout import FAMILIES
from .errors import CheckpointError
from .renames import apply_rules, refuse
from .vocabularies import STYLES

FAMILY = "nllb"
MODEL_TYPE = "m2m_100"
POSITIONS = 1024
"""Longest input where the file does not say: sinusoids have no end."""

EXPECTED = (
    "a dense NLLB or M2M-100: a fairseq checkpoint with encoder.* and decoder.*, norms before the blocks and sinusoidal positions, "
    "or a Hugging Face folder of model_type m2m_100"
)
RULES = (
    refuse(
        r"(?:model\.)?encoder\.(?:embed_positions\.weight|layernorm_embedding\..*)",
        "has learned positions or an embedding norm",
    ),
    *common.RULES,
)


def from_fairseq(
    checkpoint: Mapping[str, Any], tensors: Mapping[str, Tensor], settings: Mapping[str, Any], origin: str
) -> EncoderSource:
    """The encoder of a fairseq checkpoint; arguments and errors as in :func:`.mbart.from_fairseq`."""
    renamed = apply_rules(tensors, RULES, origin, EXPECTED)
    stated = common.stock_sizes(settings)
    wiring = common.stock_wiring(settings, renamed.tensors, FAMILIES[FAMILY], origin)
    if not wiring["normalize_before"]:
        raise CheckpointError(f"{origin}: has its norms after the blocks and sinusoidal positions; expected {EXPECTED}")
    return EncoderSource(
        renamed,
        {"family": FAMILY, **wiring, "max_positions": stated.pop("max_positions") or POSITIONS},
        stated,
        settings.get("encoder_attention_heads"),
        "encoder_attention_heads",
        EXPECTED,
        stock_languages(checkpoint, settings, STYLES[FAMILY]),
    )


def from_folder(tensors: Mapping[str, Tensor], config: Mapping[str, Any], file: Path, origin: str) -> EncoderSource:
    """The encoder of a Hugging Face folder; arguments and errors as in :func:`.mbart.from_folder`."""
    activation = common.check_folder(config, file, "relu")
    renamed = apply_rules(tensors, RULES, origin, EXPECTED)
    common.untie(renamed, origin)
    stated = common.folder_sizes(config)
    scale = config.get("scale_embedding")
    wiring = {**FAMILIES[FAMILY], "scale_embedding": scale is None or bool(scale), "activation": activation}
    return EncoderSource(
        renamed,
        {"family": FAMILY, **wiring, "max_positions": stated.pop("max_positions") or POSITIONS},
        stated,
        config.get("encoder_attention_heads"),
        "encoder_attention_heads",
        EXPECTED,
        Languages(style=STYLES[FAMILY]),
    )
