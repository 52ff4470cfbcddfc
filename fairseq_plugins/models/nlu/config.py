"""Options of ``nlu_encoder``; the same from the command line and from a YAML."""

from dataclasses import dataclass
from typing import Any, Dict, Optional

from fairseq.dataclass import ChoiceEnum, FairseqDataclass

from ...checkpoints.layouts import FAMILIES
from ...common.options import (
    EMBEDDING_POLICIES,
    check_choices,
    check_dropout,
    check_positive,
    defaults_of,
    embedding_mismatch_option,
    option,
    set_architecture,
)
from .nlu_pretrained import SIZES

FAMILY: Any = ChoiceEnum(list(FAMILIES))
UNNAMED_ROWS: Any = ChoiceEnum(["error", "dictionary"])
POOLINGS: Any = ChoiceEnum(["first", "last", "mean"])
POOLING_OF: Dict[str, str] = {"xlmr": "first", "bert": "first", "deltalm": "first", "mbart": "mean", "nllb": "mean"}
"""Family -> what stands for a sentence unless the command line says otherwise."""


def _xlmr(*sizes: int) -> Dict[str, Any]:
    return {"encoder_family": "xlmr", **dict(zip(SIZES, sizes))}


ARCHITECTURES: Dict[str, Dict[str, Any]] = {
    "veco_encoder_tiny": _xlmr(4, 256, 1024, 4),
    "veco_encoder_base": _xlmr(12, 768, 3072, 12),
    "veco_encoder_large": _xlmr(24, 1024, 4096, 16),
}
"""--arch -> options that it fills where the command line or the YAML leaves them open: a VECO without cross-attention, whose wiring
is XLM-R's. ``nlu_encoder`` itself fills none. With --pretrained-encoder the file must have these sizes."""


def _size(text: str) -> Any:
    return option(None, f"{text}; from scratch needed, with --pretrained-encoder checked against the file")


@dataclass
class NLUEncoderOptions(FairseqDataclass):
    """What ``nlu_encoder`` takes."""

    pretrained_encoder: Optional[str] = option(
        None,
        "start from the encoder of this file or folder: XLM-R, InfoXLM, BERT, mBART, mBART-50, NLLB, M2M-100, DeltaLM, VECO "
        "(fairseq or Hugging Face), or a checkpoint of this model. Read when training starts; checkpoints of the run "
        "need it no more",
    )
    encoder_family: Optional[FAMILY] = option(
        None, "wiring of an encoder from scratch; with --pretrained-encoder checked against the file"
    )
    encoder_layers: Optional[int] = _size("layers")
    encoder_embed_dim: Optional[int] = _size("width C")
    encoder_ffn_embed_dim: Optional[int] = _size("inner width of the feed-forward blocks")
    encoder_heads: Optional[int] = option(
        None,
        "attention heads; needed from scratch and where the file does not tell (released DeltaLM), else checked against the file",
    )
    max_source_positions: Optional[int] = option(
        None, "longest input in tokens: at most the file's, which is the default (from scratch: 512)"
    )
    embedding_mismatch: EMBEDDING_POLICIES = embedding_mismatch_option(
        ". A final <mask> for which alone the file has no row is no error: understanding never reads it"
    )
    unnamed_rows: UNNAMED_ROWS = option(
        "error",
        "where nothing beside the pretrained file (dict.txt, a tokenizer) nor its run's data folder tells what its rows mean: "
        "error; dictionary = they are taken to be the entries of the data's dictionary, in its order",
    )
    sentence_pooling: Optional[POOLINGS] = option(
        None,
        "what a sentence head sees: the first token, the last one, or the mean over all that are no padding; default: first for "
        "xlmr, bert and deltalm, mean for mbart and nllb",
    )
    dropout: float = option(0.1, "dropout after the embedding and after each block")
    attention_dropout: float = option(0.1, "dropout on attention weights")
    activation_dropout: float = option(0.0, "dropout after the activation of the feed-forward blocks")
    encoder_layerdrop: float = option(0.0, "probability with which a layer is left out in training")
    head_dropout: float = option(0.1, "dropout in the heads")
    checkpoint_activations: bool = option(
        False, "recompute the inside of each layer in the backward pass: less memory, a third more time"
    )


CHOICES: Dict[str, Any] = {
    "encoder_family": FAMILY,
    "embedding_mismatch": EMBEDDING_POLICIES,
    "unnamed_rows": UNNAMED_ROWS,
    "sentence_pooling": POOLINGS,
}
PROBABILITIES = ("dropout", "attention_dropout", "activation_dropout", "encoder_layerdrop")
OF_STOCK_ENCODER = (*PROBABILITIES, "checkpoint_activations")


def complete(args: Any) -> None:
    """Fill what was left open in an argparse namespace, or a hydra configuration that takes new names.

    Raises ValueError: a value that is not valid; names option, value and what is valid.
    """
    set_architecture(args, defaults_of(NLUEncoderOptions))
    check_choices(args, CHOICES)
    check_dropout(args, *PROBABILITIES, "head_dropout")
    check_positive(args, *SIZES, "max_source_positions")
