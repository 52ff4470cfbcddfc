"""Hugging Face BERT folders (mBERT): names, configuration, and rows in the order of a fairseq dictionary."""

from pathlib import Path
from typing import Any, Dict, Mapping, Optional

import torch
from torch import Tensor

from . import huggingface
from .encoder_decoder import POSITIONS, EncoderSource
from .encoder_layout import FAMILIES
from .errors import CheckpointError
from .renames import Renamed, apply_rules, drop

FAMILY = "bert"
MODEL_TYPE = "bert"
EXPECTED = (
    "a Hugging Face BERT (model_type bert, hidden_act gelu, absolute positions, tensors bert.*), with vocab.txt or "
    "tokenizer.json"
)
SEGMENTS = "segment_embeddings.weight"
PADDING_IDX = 1
"""Of the result, as in every fairseq dictionary."""

_PREFIX = "sentence_encoder."
_DEFAULTS = {"hidden_act": "gelu", "position_embedding_type": "absolute", "layer_norm_eps": FAMILIES[FAMILY]["epsilon"]}

RULES = (
    *huggingface.ENCODER_RULES,
    drop(r"cls\..*", "heads of the pre-training, unused by an encoder"),
    drop(r"(?:classifier|qa_outputs)\..*", "head of another task"),
)


def from_folder(tensors: Mapping[str, Tensor], config: Mapping[str, Any], file: Path, origin: str) -> EncoderSource:
    """The encoder of a Hugging Face folder, its rows still in the folder's order.

    Args:
        tensors: of the weights file.
        config: content of ``config.json``.
        file: path of ``config.json``.
        origin: how messages call the weights file.

    Raises:
        CheckpointError: tensors that are not accounted for, or another configuration.
    """
    merged = {**_DEFAULTS, **{name: value for name, value in config.items() if value is not None}}
    _check(merged, file)
    renamed = without_prefix(apply_rules(tensors, RULES, origin, EXPECTED))
    if huggingface.TOKEN_TYPES in renamed.tensors:
        renamed.tensors[SEGMENTS] = renamed.tensors.pop(huggingface.TOKEN_TYPES)
        renamed.sources[SEGMENTS] = renamed.sources.pop(huggingface.TOKEN_TYPES)
    shift_positions(renamed, first=0)
    return EncoderSource(
        renamed,
        {"family": FAMILY, "epsilon": float(merged["layer_norm_eps"]), "rows_unordered": True},
        _stated_sizes(config),
        config.get("num_attention_heads"),
        "num_attention_heads",
        EXPECTED,
    )


def _check(config: Mapping[str, Any], file: Path) -> None:
    problems = [
        f"{name} = {config[name]!r}, expected {_DEFAULTS[name]!r}"
        for name in ("hidden_act", "position_embedding_type")
        if config[name] != _DEFAULTS[name]
    ]
    epsilon = config["layer_norm_eps"]
    if not isinstance(epsilon, (int, float)) or not 0 < epsilon < 1:
        problems.append(f"layer_norm_eps = {epsilon!r}, expected a small number above 0")
    problems += [f"{flag} = true, expected false" for flag in ("is_decoder", "add_cross_attention") if config.get(flag)]
    if problems:
        raise CheckpointError(f"checkpoint {file}: {'; '.join(problems)}")


def _stated_sizes(config: Mapping[str, Any]) -> Dict[str, Optional[int]]:
    return {
        "vocab_size": config.get("vocab_size"),
        "layers": config.get("num_hidden_layers"),
        "embed_dim": config.get("hidden_size"),
        "ffn_dim": config.get("intermediate_size"),
        "max_positions": config.get("max_position_embeddings"),
        "segments": config.get("type_vocab_size"),
    }


def without_prefix(renamed: Renamed, prefix: str = _PREFIX) -> Renamed:
    """The names of an encoder from those of a masked LM."""

    def cut(name: str) -> str:
        return name[len(prefix) :] if name.startswith(prefix) else name

    renamed.tensors = {cut(name): tensor for name, tensor in renamed.tensors.items()}
    renamed.sources = {cut(name): source for name, source in renamed.sources.items()}
    return renamed


def shift_positions(renamed: Renamed, first: int) -> None:
    """Give the first position the row behind ``<pad>``, as fairseq counts; changes ``renamed``.

    Args:
        renamed: with the table of positions.
        first: row of the first position in the file.
    """
    table = renamed.tensors.get(POSITIONS)
    if table is None or table.dim() != 2 or first == PADDING_IDX + 1:
        return
    unused = torch.zeros(PADDING_IDX + 1, table.size(1), dtype=table.dtype)
    renamed.tensors[POSITIONS] = torch.cat([unused, table[first:]])
