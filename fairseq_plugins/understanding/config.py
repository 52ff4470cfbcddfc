"""Options of ``nlu_encoder``, the same from the command line and from a YAML."""

from dataclasses import dataclass
from typing import Any, Dict, Optional

from fairseq.dataclass import ChoiceEnum, FairseqDataclass

from ..checkpoints.layouts import FAMILIES
from ..common.options import (
    EMBEDDING_POLICIES,
    check_choices,
    check_range,
    defaults_of,
    embedding_mismatch_option,
    option,
    set_architecture,
)

FAMILY: Any = ChoiceEnum(list(FAMILIES))
UNNAMED_ROWS: Any = ChoiceEnum(["error", "dictionary"])
POOLINGS: Any = ChoiceEnum(["first", "last", "mean"])
DEFAULT_POOLING: Dict[str, str] = {
    "xlmr": "first",
    "bert": "first",
    "deltalm": "first",
    "mbart": "mean",
    "nllb": "mean",
}
"""Family -> default of ``--sentence-pooling``."""

SIZES: Dict[str, str] = {
    "encoder_layers": "layers",
    "encoder_embed_dim": "embed_dim",
    "encoder_ffn_embed_dim": "ffn_dim",
    "encoder_heads": "heads",
}
"""Option -> field of the layout. From scratch all must be set; else the file has them."""


def _xlmr(layers: int, width: int, ffn_width: int, heads: int) -> Dict[str, Any]:
    return {
        "encoder_family": "xlmr",
        "encoder_layers": layers,
        "encoder_embed_dim": width,
        "encoder_ffn_embed_dim": ffn_width,
        "encoder_heads": heads,
    }


ARCHITECTURES: Dict[str, Dict[str, Any]] = {
    "nlu_encoder": {},
    "veco_encoder_tiny": _xlmr(4, 256, 1024, 4),
    "veco_encoder_base": _xlmr(12, 768, 3072, 12),
    "veco_encoder_large": _xlmr(24, 1024, 4096, 16),
}
"""--arch -> options that it fills unless they are set. A VECO without cross-attention is wired as
XLM-R. With --pretrained-encoder the file must have these sizes."""

OF_THE_FILE = "; from scratch required, with --pretrained-encoder compared with the file"


@dataclass
class NLUEncoderOptions(FairseqDataclass):
    """Options of ``nlu_encoder``."""

    pretrained_encoder: Optional[str] = option(
        None,
        "pretrained file or folder whose encoder training starts from: XLM-R, InfoXLM, BERT, "
        "mBART, mBART-50, NLLB, M2M-100, DeltaLM, VECO (fairseq or Hugging Face), or a checkpoint "
        "of this model; checkpoints of the run do not need it",
    )
    encoder_family: Optional[FAMILY] = option(None, f"wiring of the encoder{OF_THE_FILE}")
    encoder_layers: Optional[int] = option(None, f"encoder layers{OF_THE_FILE}")
    encoder_embed_dim: Optional[int] = option(None, f"width C{OF_THE_FILE}")
    encoder_ffn_embed_dim: Optional[int] = option(
        None, f"inner width of the feed-forward blocks{OF_THE_FILE}"
    )
    encoder_heads: Optional[int] = option(
        None,
        "attention heads; required from scratch and for files that do not state them (released "
        "DeltaLM), else compared with the file",
    )
    max_source_positions: Optional[int] = option(
        None, "longest input in tokens, at most the file's (default: the file's; from scratch 512)"
    )
    embedding_mismatch: EMBEDDING_POLICIES = embedding_mismatch_option(
        ". A final <mask> is no error if the file lacks a row for it alone: no input contains it"
    )
    unnamed_rows: UNNAMED_ROWS = option(
        "error",
        "meaning of the file's rows if neither a dict.txt or tokenizer beside it nor the data "
        "folder of its run states it: error; dictionary = the entries of the data's dictionary, "
        "in its order",
    )
    sentence_pooling: Optional[POOLINGS] = option(
        None,
        "input of a sentence head: state of the first token, of the last one, or the mean over "
        "everything but padding (default: first for xlmr, bert and deltalm, mean for mbart and "
        "nllb)",
    )
    dropout: float = option(0.1, "dropout after the embedding and after each block")
    attention_dropout: float = option(0.1, "dropout on attention weights")
    activation_dropout: float = option(
        0.0, "dropout after the activation of the feed-forward blocks"
    )
    encoder_layerdrop: float = option(0.0, "probability of skipping a layer in training")
    head_dropout: float = option(0.1, "dropout in the heads")
    checkpoint_activations: bool = option(
        False,
        "recompute the inside of each layer in the backward pass: less memory, a third more time",
    )


CHOICES: Dict[str, Any] = {
    "encoder_family": FAMILY,
    "embedding_mismatch": EMBEDDING_POLICIES,
    "unnamed_rows": UNNAMED_ROWS,
    "sentence_pooling": POOLINGS,
}
PROBABILITIES = ("dropout", "attention_dropout", "activation_dropout", "encoder_layerdrop")
STOCK_OPTIONS = (*PROBABILITIES, "checkpoint_activations")
"""Options that fairseq's encoder reads."""


def complete(args: Any) -> None:
    """Fill options that are not set, and check them. Changes ``args``.

    Args:
        args: an argparse namespace, or a hydra configuration that accepts new names.

    Raises:
        ValueError: an option has an invalid value; names option, value and valid values.
    """
    set_architecture(args, defaults_of(NLUEncoderOptions))
    check_choices(args, CHOICES)
    check_range(args, "[0, 1)", *PROBABILITIES, "head_dropout")
    check_range(args, "[1, inf)", *SIZES, "max_source_positions")
