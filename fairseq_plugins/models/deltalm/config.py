"""Options and architectures of DeltaLM, beside those of the stock transformer."""

from dataclasses import dataclass
from typing import Any, Dict, Optional

from fairseq.dataclass import ChoiceEnum, FairseqDataclass

from ...common.options import EMBEDDING_POLICIES, XLMR_WIRING, embedding_mismatch_option, option, same_sides

DECODER_BLOCKS: Any = ChoiceEnum(["interleaved", "vanilla"])


@dataclass
class DeltaLMOptions(FairseqDataclass):
    """What DeltaLM adds to the options of the stock transformer."""

    pretrained_deltalm_checkpoint: Optional[str] = option(
        None,
        "start from a DeltaLM file: a released one ({'weights': ...}) or a fairseq checkpoint of this model. Read when training "
        "starts; checkpoints of the run need it no more",
    )
    init_from_mlm: Optional[str] = option(
        None,
        "start from a masked LM (XLM-R, InfoXLM): a fairseq model.pt or a Hugging Face folder; decoder block b takes layers 2b and "
        "2b + 1 (from 0)",
    )
    embedding_mismatch: EMBEDDING_POLICIES = embedding_mismatch_option()
    decoder_block: DECODER_BLOCKS = option(
        "interleaved",
        "interleaved = DeltaLM's; vanilla = the stock decoder layer, to compare with: --init-from-mlm then fills self-attention "
        "and feed-forward of layer b from layer b, cross-attention stays random",
    )


def _sides(*sizes: int) -> Dict[str, Any]:
    """Defaults of an architecture; the decoder has half as many blocks as the encoder has layers."""
    return {**same_sides(*sizes, **XLMR_WIRING), "decoder_layers": sizes[0] // 2}


ARCHITECTURES: Dict[str, Dict[str, Any]] = {
    "deltalm_tiny": _sides(4, 256, 1024, 4),
    "deltalm_base": _sides(12, 768, 3072, 12),
    # The released large model has no layer norm after the embedding.
    "deltalm_large": {**_sides(24, 1024, 4096, 16), "layernorm_embedding": False},
}
"""Defaults of each --arch; what the command line or the YAML says wins (the authors' release overwrites it)."""
