"""Hugging Face XLM-RoBERTa folders: names and configuration, in both directions.

The vocabulary order is fairseq's in these models (``<s>`` 0, ``<pad>`` 1, ``</s>`` 2, ``<unk>`` 3): no row is permuted.
"""

import json
import logging
import re
from pathlib import Path
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

import torch
from torch import Tensor

from .reading import CheckpointError
from .renames import Renamed, drop, rename

logger = logging.getLogger(__name__)

EXPECTED = (
    "a Hugging Face XLM-RoBERTa masked LM (model_type xlm-roberta, roberta or camembert, hidden_act gelu, "
    "layer_norm_eps 1e-05, one token type, tensors roberta.* and lm_head.*)"
)
CONFIG_NAME = "config.json"
WEIGHTS_NAME = "model.safetensors"
MODEL_TYPES = ("xlm-roberta", "roberta", "camembert")
LAYER_NORM_EPS = 1e-5
WORDS = "sentence_encoder.embed_tokens.weight"
POSITIONS = "sentence_encoder.embed_positions.weight"
TOKEN_TYPES = "token_type_embeddings.weight"
STORED_TOKEN_TYPES = "roberta.embeddings.token_type_embeddings.weight"
OUTPUT_WEIGHT = "lm_head.weight"
OUTPUT_BIAS = "lm_head.bias"
OUTPUT_BIAS_COPY = "lm_head.decoder.bias"

_CONFIG_DEFAULTS = {"hidden_act": "gelu", "layer_norm_eps": 1e-12, "position_embedding_type": "absolute"}
_ROBERTA = r"roberta\.embeddings\."
_TOP = r"(?:(?:roberta|bert)\.)?"
_EMBEDDINGS = _TOP + r"embeddings\."
_LAYER = _TOP + r"encoder\.layer\.(\d+)\."
CROSS_ATTENTION = _LAYER + r"cross_?attention\."
"""What VECO has beside XLM-R, also in one word, as a decoder of the library has it."""


def rename_norm(source: str, target: str) -> Tuple[Any, Any]:
    """Layer norms: ``weight``/``bias``, in old files ``gamma``/``beta``."""
    return (
        rename(source + r"\.(?:weight|gamma)", target + ".weight"),
        rename(source + r"\.(?:bias|beta)", target + ".bias"),
    )


ENCODER_RULES = (
    rename(_EMBEDDINGS + r"word_embeddings\.weight", WORDS),
    rename(_EMBEDDINGS + r"position_embeddings\.weight", POSITIONS),
    rename(_EMBEDDINGS + r"token_type_embeddings\.weight", TOKEN_TYPES),
    *rename_norm(_EMBEDDINGS + "LayerNorm", "sentence_encoder.layernorm_embedding"),
    rename(_LAYER + r"attention\.self\.query\.(weight|bias)", r"sentence_encoder.layers.\1.self_attn.q_proj.\2"),
    rename(_LAYER + r"attention\.self\.key\.(weight|bias)", r"sentence_encoder.layers.\1.self_attn.k_proj.\2"),
    rename(_LAYER + r"attention\.self\.value\.(weight|bias)", r"sentence_encoder.layers.\1.self_attn.v_proj.\2"),
    rename(_LAYER + r"attention\.output\.dense\.(weight|bias)", r"sentence_encoder.layers.\1.self_attn.out_proj.\2"),
    *rename_norm(_LAYER + r"attention\.output\.LayerNorm", r"sentence_encoder.layers.\1.self_attn_layer_norm"),
    rename(_LAYER + r"intermediate\.dense\.(weight|bias)", r"sentence_encoder.layers.\1.fc1.\2"),
    rename(_LAYER + r"output\.dense\.(weight|bias)", r"sentence_encoder.layers.\1.fc2.\2"),
    *rename_norm(_LAYER + r"output\.LayerNorm", r"sentence_encoder.layers.\1.final_layer_norm"),
    drop(_EMBEDDINGS + r"(?:position_ids|token_type_ids)", "buffer that is counted anew"),
    drop(_TOP + r"pooler\.dense\.(?:weight|bias)", "pooler, unused by a masked LM"),
)
"""What XLM-R and BERT have in common."""

RULES = (
    *ENCODER_RULES,
    rename(r"lm_head\.dense\.(weight|bias)", r"lm_head.dense.\1"),
    *rename_norm(r"lm_head\.layer_norm", "lm_head.layer_norm"),
    rename(r"lm_head\.bias", OUTPUT_BIAS),
    rename(r"lm_head\.decoder\.weight", OUTPUT_WEIGHT),
    rename(r"lm_head\.decoder\.bias", OUTPUT_BIAS_COPY),
    drop(
        CROSS_ATTENTION + r"(?:self\.(?:query|key|value)|output\.(?:dense|LayerNorm))\.(?:weight|bias|gamma|beta)",
        "cross-attention of a VECO, unused by an encoder",
    ),
)


def has_cross_attention(names: Iterable[str]) -> bool:
    """Whether these are the tensors of a VECO."""
    return any(re.match(CROSS_ATTENTION, name) for name in names)


def model_type(config: Mapping[str, Any], names: Iterable[str]) -> Optional[str]:
    """What a configuration says, or XLM-R where it says nothing and the tensors are ``roberta.*``.

    transformers wrote no ``model_type`` before 2.3 (January 2020); VECO was made with a version of those weeks.
    """
    stated: Optional[str] = config.get("model_type")
    if stated is None and any(re.match(_ROBERTA, name) for name in names):
        return MODEL_TYPES[0]
    return stated


def read_config(folder: Path, names: Sequence[str] = ()) -> Dict[str, Any]:
    """Read and check ``config.json``.

    Args:
        folder: that holds it.
        names: of the tensors in the weights. The cross-attention of a VECO is one that the configuration may state; the names of
            XLM-R make up for a ``model_type`` that is not there, with a warning.

    Raises:
        CheckpointError: missing or damaged, or a model that computes something else; names entry and expected value.
    """
    file = folder / CONFIG_NAME
    config = read_json(file, EXPECTED)
    _check_config(config, file, names)
    if config.get("model_type") is None:
        logger.warning(
            "checkpoint %s: has no model_type: its tensors are roberta.*, so %s is taken", file, MODEL_TYPES[0]
        )
    return config


def read_json(file: Path, expected: str) -> Dict[str, Any]:
    """Read a JSON object.

    Raises:
        CheckpointError: missing, damaged or something else; ``expected`` says what the folder should hold.
    """
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise CheckpointError(f"checkpoint {file.parent}: has no {file.name}; expected {expected}") from error
    except (ValueError, OSError, RecursionError) as error:
        raise CheckpointError(f"checkpoint {file}: is no readable JSON ({error})") from error
    if not isinstance(content, dict):
        raise CheckpointError(f"checkpoint {file}: expected a JSON object, found {type(content).__name__}")
    return content


def _check_config(config: Mapping[str, Any], file: Path, names: Sequence[str]) -> None:
    problems = []
    if model_type(config, names) not in MODEL_TYPES:
        problems.append(f"model_type = {config.get('model_type')!r}, expected one of {', '.join(MODEL_TYPES)}")
    merged = {**_CONFIG_DEFAULTS, **{key: value for key, value in config.items() if value is not None}}
    if merged["hidden_act"] != "gelu":
        problems.append(f"hidden_act = {merged['hidden_act']!r}, expected 'gelu'")
    epsilon = merged["layer_norm_eps"]
    if not isinstance(epsilon, (int, float)) or abs(epsilon - LAYER_NORM_EPS) > 1e-3 * LAYER_NORM_EPS:
        missing = "" if "layer_norm_eps" in config else " (the default when the entry is missing)"
        problems.append(f"layer_norm_eps = {epsilon!r}{missing}, expected {LAYER_NORM_EPS!r}")
    if merged["position_embedding_type"] != "absolute":
        problems.append(f"position_embedding_type = {merged['position_embedding_type']!r}, expected 'absolute'")
    padding = merged.get("pad_token_id", 1)
    if not isinstance(padding, int) or padding < 0:
        problems.append(f"pad_token_id = {padding!r}, expected the index of <pad>")
    for flag in ("is_decoder", "add_cross_attention"):
        if merged.get(flag) and not has_cross_attention(names):
            problems.append(
                f"{flag} = {merged[flag]!r}, expected false (there are no cross_attention.* tensors, as VECO has)"
            )
    if problems:
        raise CheckpointError(f"checkpoint {file}: {'; '.join(problems)}")
    if merged.get("is_decoder") and any(".crossattention." in name for name in names):
        logger.warning(
            "checkpoint %s: is_decoder = true with crossattention.*: taken to be a VECO, whose encoder reads in both directions; a "
            "decoder of transformers, which reads to the left alone, has these names too",
            file,
        )


def stated_sizes(config: Mapping[str, Any], padding: int) -> Dict[str, Optional[int]]:
    """Sizes that the configuration states, by the names of ``MaskedLMSizes``; None where it says nothing.

    Args:
        config: of the folder.
        padding: row of ``<pad>``.
    """
    rows = config.get("max_position_embeddings")
    return {
        "vocab_size": config.get("vocab_size"),
        "layers": config.get("num_hidden_layers"),
        "embed_dim": config.get("hidden_size"),
        "ffn_dim": config.get("intermediate_size"),
        "max_positions": rows - padding - 1 if isinstance(rows, int) else None,
    }


def padding_idx(config: Mapping[str, Any]) -> int:
    """Index of the padding symbol, as the configuration states it; see ``padding.padding_row``."""
    value = config.get("pad_token_id")
    return 1 if value is None else int(value)


def attention_heads(config: Mapping[str, Any]) -> Optional[int]:
    """Attention heads; None when the configuration does not say."""
    return config.get("num_attention_heads")


def settle(renamed: Renamed, origin: str) -> None:
    """Merge what XLM-R's layout has no place for; changes ``renamed``.

    The one token-type row is added to every position row (not to the word embedding, which is also the output
    projection), so that logits stay the same. A tied tensor of which only the output's copy was stored takes its place.

    Raises:
        CheckpointError: several token types, or an output bias stored twice with different values.
    """
    tensors = renamed.tensors
    if TOKEN_TYPES in tensors:
        _merge_token_types(tensors, origin)
        renamed.sources["(added to the positions)"] = renamed.sources.pop(TOKEN_TYPES)
    for kept, copy in ((WORDS, OUTPUT_WEIGHT), (OUTPUT_BIAS, OUTPUT_BIAS_COPY)):
        if kept not in tensors and copy in tensors:
            tensors[kept] = tensors.pop(copy)
            renamed.sources[kept] = renamed.sources.pop(copy)
    if OUTPUT_BIAS_COPY in tensors:
        if not torch.equal(tensors[OUTPUT_BIAS], tensors[OUTPUT_BIAS_COPY]):
            raise CheckpointError(f"{origin}: {OUTPUT_BIAS_COPY} differs from {OUTPUT_BIAS}, expected them to be tied")
        renamed.discard(OUTPUT_BIAS_COPY, f"equal to {OUTPUT_BIAS}")


def _merge_token_types(tensors: Dict[str, Tensor], origin: str) -> None:
    token_types, positions = tensors.pop(TOKEN_TYPES), tensors.get(POSITIONS)
    if token_types.dim() != 2 or token_types.size(0) != 1:
        raise CheckpointError(
            f"{origin}: {TOKEN_TYPES} has shape {tuple(token_types.shape)}, expected one row; expected {EXPECTED}"
        )
    if positions is None or not bool(token_types.any()):  # adding zeros could turn -0.0 into 0.0, and the fingerprint
        return
    if positions.dim() != 2 or positions.size(1) != token_types.size(1):
        shapes = f"{tuple(token_types.shape)} and {tuple(positions.shape)}"
        raise CheckpointError(f"{origin}: {TOKEN_TYPES} and position embedding have shapes {shapes}, not one width")
    tensors[POSITIONS] = positions + token_types


def export_config(sizes: Mapping[str, int], dtype: torch.dtype) -> Dict[str, Any]:
    """``config.json`` of a masked LM of these sizes (names of ``MaskedLMSizes``)."""
    return {
        "architectures": ["XLMRobertaForMaskedLM"],
        "attention_probs_dropout_prob": 0.1,
        "bos_token_id": 0,
        "eos_token_id": 2,
        "hidden_act": "gelu",
        "hidden_dropout_prob": 0.1,
        "hidden_size": sizes["embed_dim"],
        "initializer_range": 0.02,
        "intermediate_size": sizes["ffn_dim"],
        "layer_norm_eps": LAYER_NORM_EPS,
        "max_position_embeddings": sizes["max_positions"] + sizes["padding_idx"] + 1,
        "model_type": MODEL_TYPES[0],
        "num_attention_heads": sizes["heads"],
        "num_hidden_layers": sizes["layers"],
        "pad_token_id": sizes["padding_idx"],
        "tie_word_embeddings": True,
        "torch_dtype": str(dtype).rsplit(".", 1)[-1],
        "type_vocab_size": 1,
        "vocab_size": sizes["vocab_size"],
    }


_EXPORT: List[Tuple[str, str]] = [
    (r"sentence_encoder\.embed_tokens\.weight", "roberta.embeddings.word_embeddings.weight"),
    (r"sentence_encoder\.embed_positions\.weight", "roberta.embeddings.position_embeddings.weight"),
    (r"sentence_encoder\.layernorm_embedding\.(\w+)", r"roberta.embeddings.LayerNorm.\1"),
    (r"sentence_encoder\.layers\.(\d+)\.self_attn\.q_proj\.(\w+)", r"roberta.encoder.layer.\1.attention.self.query.\2"),
    (r"sentence_encoder\.layers\.(\d+)\.self_attn\.k_proj\.(\w+)", r"roberta.encoder.layer.\1.attention.self.key.\2"),
    (r"sentence_encoder\.layers\.(\d+)\.self_attn\.v_proj\.(\w+)", r"roberta.encoder.layer.\1.attention.self.value.\2"),
    (
        r"sentence_encoder\.layers\.(\d+)\.self_attn\.out_proj\.(\w+)",
        r"roberta.encoder.layer.\1.attention.output.dense.\2",
    ),
    (
        r"sentence_encoder\.layers\.(\d+)\.self_attn_layer_norm\.(\w+)",
        r"roberta.encoder.layer.\1.attention.output.LayerNorm.\2",
    ),
    (r"sentence_encoder\.layers\.(\d+)\.fc1\.(\w+)", r"roberta.encoder.layer.\1.intermediate.dense.\2"),
    (r"sentence_encoder\.layers\.(\d+)\.fc2\.(\w+)", r"roberta.encoder.layer.\1.output.dense.\2"),
    (r"sentence_encoder\.layers\.(\d+)\.final_layer_norm\.(\w+)", r"roberta.encoder.layer.\1.output.LayerNorm.\2"),
    (r"(lm_head\.(?:dense|layer_norm)\.\w+|lm_head\.bias)", r"\1"),
]
EXPORT_RULES = tuple(rename(pattern, target) for pattern, target in _EXPORT)
