"""Options and architectures of DeltaLM, beside those of the stock transformer."""

from dataclasses import dataclass, field
from typing import Any, Dict, Optional

from fairseq.dataclass import ChoiceEnum, FairseqDataclass

EMBEDDING_POLICIES: Any = ChoiceEnum(["error", "extend", "truncate"])
DECODER_BLOCKS: Any = ChoiceEnum(["interleaved", "vanilla"])


@dataclass
class DeltaLMOptions(FairseqDataclass):
    """What DeltaLM adds to the options of the stock transformer."""

    pretrained_deltalm_checkpoint: Optional[str] = field(
        default=None,
        metadata={
            "help": "start from a DeltaLM file: a released one ({'weights': ...}) or a fairseq checkpoint of this model. Read when "
            "training starts; checkpoints of the run need it no more"
        },
    )
    init_from_mlm: Optional[str] = field(
        default=None,
        metadata={
            "help": "start from a masked LM (XLM-R, InfoXLM): a fairseq model.pt or a Hugging Face folder; decoder block b takes "
            "layers 2b and 2b + 1 (from 0)"
        },
    )
    embedding_mismatch: EMBEDDING_POLICIES = field(
        default="error",
        metadata={
            "help": "where dictionary and pretrained file have different numbers of rows: error; extend = rows beyond the file's "
            "(language tags) get random values; truncate = the file's rows beyond the dictionary's are left out"
        },
    )
    decoder_block: DECODER_BLOCKS = field(
        default="interleaved",
        metadata={
            "help": "interleaved = DeltaLM's; vanilla = the stock decoder layer, to compare with: --init-from-mlm then fills "
            "self-attention and feed-forward of layer b from layer b, cross-attention stays random"
        },
    )


_SHAPE: Dict[str, Any] = {
    "encoder_normalize_before": False,
    "decoder_normalize_before": False,
    "encoder_learned_pos": True,
    "decoder_learned_pos": True,
    "activation_fn": "gelu",
    "no_scale_embedding": True,
    "layernorm_embedding": True,
}


def _sides(layers: "tuple[int, int]", embed_dim: int, ffn_embed_dim: int, attention_heads: int) -> Dict[str, Any]:
    found: Dict[str, Any] = dict(_SHAPE)
    for side, count in zip(("encoder", "decoder"), layers):
        found[f"{side}_layers"] = count
        found[f"{side}_embed_dim"] = embed_dim
        found[f"{side}_ffn_embed_dim"] = ffn_embed_dim
        found[f"{side}_attention_heads"] = attention_heads
    return found


ARCHITECTURES: Dict[str, Dict[str, Any]] = {
    "deltalm_tiny": _sides((4, 2), 256, 1024, 4),
    "deltalm_base": _sides((12, 6), 768, 3072, 12),
    # The released large model has no layer norm after the embedding.
    "deltalm_large": {**_sides((24, 12), 1024, 4096, 16), "layernorm_embedding": False},
}
"""Defaults of each --arch; what the command line or the YAML says wins (the authors' release overwrites it)."""
