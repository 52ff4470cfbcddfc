"""fairseq XLM-R files (XLM-R, InfoXLM, RoBERTa-era, ``xlmr_mlm`` of this package): names and settings.

Layouts met in the wild: ``decoder.sentence_encoder.`` (fairseq < 0.10) against ``encoder.sentence_encoder.``,
``emb_layer_norm`` against ``layernorm_embedding``, one fused ``in_proj_weight`` against ``q_proj``, ``k_proj`` and
``v_proj``, and InfoXLM's training files with the model under ``model_fast.`` beside a momentum copy.
"""

from typing import Any, Dict, Mapping, Optional

from .reading import CheckpointError
from .renames import drop, refuse, rename, split

EXPECTED = (
    "a fairseq masked LM of XLM-R's shape (post-norm encoder, learned positions, layer norm after the embedding, "
    "GELU, lm_head tied to the embedding; names encoder.sentence_encoder.* and encoder.lm_head.*)"
)

_TOP = r"(?:model_fast\.)?(?:(?:encoder|decoder)\.)?"
_ENCODER = _TOP + r"sentence_encoder\."
_LAYER = _ENCODER + r"layers\.(\d+)\."
_HEAD = _TOP + r"lm_head\."

RULES = (
    rename(_ENCODER + r"(embed_tokens|embed_positions)\.weight", r"sentence_encoder.\1.weight"),
    rename(
        _ENCODER + r"(?:layernorm_embedding|emb_layer_norm)\.(weight|bias)", r"sentence_encoder.layernorm_embedding.\1"
    ),
    rename(
        _LAYER + r"self_attn\.(q_proj|k_proj|v_proj|out_proj)\.(weight|bias)",
        r"sentence_encoder.layers.\1.self_attn.\2.\3",
    ),
    split(
        _LAYER + r"self_attn\.in_proj_(weight|bias)",
        r"sentence_encoder.layers.\1.self_attn.q_proj.\2",
        r"sentence_encoder.layers.\1.self_attn.k_proj.\2",
        r"sentence_encoder.layers.\1.self_attn.v_proj.\2",
    ),
    rename(
        _LAYER + r"(self_attn_layer_norm|fc1|fc2|final_layer_norm)\.(weight|bias)", r"sentence_encoder.layers.\1.\2.\3"
    ),
    rename(_HEAD + r"(dense|layer_norm)\.(weight|bias)", r"lm_head.\1.\2"),
    rename(_HEAD + r"(weight|bias)", r"lm_head.\1"),
    drop(_ENCODER + r"version", "format counter of fairseq"),
    drop(_ENCODER + r"(?:embed_positions\.)?_float_tensor", "dtype marker of fairseq"),
    drop(_TOP + r"classification_heads\..*", "classification head, unused by a masked LM"),
    drop(r"model_slow\..*", "InfoXLM's momentum copy"),
    drop(r"queue|enqueue_cnt|queue_ptr|proj_matrix_(?:fast|slow)", "InfoXLM's contrastive training state"),
    refuse(_ENCODER + r"layer_norm\.(?:weight|bias)", "is a pre-norm model, as XLM-R XL and XXL are"),
    refuse(_ENCODER + r"segment_embeddings\.weight", "is a BERT with segment embeddings"),
    refuse(r"encoder\.(?:masked_lm_pooler|lm_head_transform_weight|lm_output_learned_bias)\b.*", "is a fairseq BERT"),
    refuse(
        r"(?:encoder|decoder)\.(?:embed_tokens|embed_positions|layers|layernorm_embedding|layer_norm|output_projection)\b.*",
        "is an encoder-decoder or language model such as mBART",
    ),
)


def find_settings(checkpoint: Mapping[str, Any]) -> Dict[str, Any]:
    """The model's options, from a checkpoint's ``args`` (old) or ``cfg["model"]`` (current); empty when absent."""
    found = checkpoint.get("args")
    if found is None:
        found = _as_dict(checkpoint.get("cfg")).get("model")
    return _as_dict(found)


def _as_dict(value: Any) -> Dict[str, Any]:
    if value is None:
        return {}
    return dict(value) if isinstance(value, Mapping) else dict(vars(value))


def check_settings(settings: Mapping[str, Any], origin: str) -> None:
    """Refuse a file whose options say that it computes something else than XLM-R.

    Raises:
        CheckpointError: names the option, its value and the one that is expected.
    """
    wanted = {
        "activation_fn": "gelu",
        "encoder_normalize_before": False,
        "encoder_learned_pos": True,
        "no_scale_embedding": True,
        "layernorm_embedding": True,
        "no_token_positional_embeddings": False,
    }
    for name, value in wanted.items():
        if settings.get(name) is not None and settings[name] != value:
            raise CheckpointError(
                f"{origin}: was trained with {name} = {settings[name]!r}, expected {value!r}, i.e. {EXPECTED}"
            )


def attention_heads(settings: Mapping[str, Any]) -> Optional[int]:
    """Attention heads, which no shape tells; None when the file does not say."""
    return settings.get("encoder_attention_heads")


def stated_sizes(settings: Mapping[str, Any]) -> Dict[str, Optional[int]]:
    """Sizes that the options state, by the names of ``MaskedLMSizes``; None where they say nothing."""
    return {
        "layers": None if settings.get("encoder_layers_to_keep") else settings.get("encoder_layers"),
        "embed_dim": settings.get("encoder_embed_dim"),
        "ffn_dim": settings.get("encoder_ffn_embed_dim"),
        "max_positions": settings.get("max_positions"),
    }
