"""The start of a fairseq transformer from a masked LM: its file, its sizes, names of options."""

import logging
from typing import Any, Dict, Mapping

from ..checkpoints.fitting import FitOptions
from ..checkpoints.layouts import size_options
from ..checkpoints.masked_lm import FAIRSEQ_EPSILON, read_masked_lm
from ..checkpoints.pretrained import PretrainedFile
from .options import USE_ITS_DICTIONARY

logger = logging.getLogger(__name__)

FIT_OPTIONS = FitOptions(
    rows="error",
    rows_option="--embedding-mismatch",
    positions={"encoder": "--max-source-positions", "decoder": "--max-target-positions"},
    shared="--share-all-embeddings",
    tied="--share-all-embeddings and --share-decoder-input-output-embed",
    dictionary=USE_ITS_DICTIONARY,
)
"""Options that ``checkpoints.fitting`` names in its messages."""

CROSS_ATTENTION = r"decoder\.layers\.\d+\.encoder_attn(?:_layer_norm)?\..*"
"""Pattern of the names of tensors that no masked LM can fill."""


def read_start(path: str, args: Any, origin: str) -> PretrainedFile:
    """Read the masked LM that a fairseq transformer starts from; it may lack a head.

    The epsilon of layer norms stays fairseq's; a file that has another is logged.

    Args:
        args: options of the model.
        origin: option and path, for messages.
    """
    masked_lm = read_masked_lm(
        path, args.encoder_attention_heads, "--encoder-attention-heads", needs_head=False
    )
    epsilon = masked_lm.sizes["epsilon"]
    if epsilon != FAIRSEQ_EPSILON:
        text = "%s: its layer norms have epsilon %g; this model's keep fairseq's, %g"
        logger.info(text, origin, epsilon, FAIRSEQ_EPSILON)
    return masked_lm


def fit_options(args: Any) -> FitOptions:
    """Return :data:`FIT_OPTIONS` with the value of ``--embedding-mismatch``."""
    return FIT_OPTIONS._replace(rows=str(args.embedding_mismatch))


def side_sizes(sizes: Mapping[str, int], *sides: str) -> Dict[str, int]:
    """Return option -> value of the width, feed-forward width and heads that each side must have.

    Args:
        sizes: sizes of a masked LM, by field of ``MaskedLMSizes``.
        sides: ``encoder``, ``decoder``, or both.
    """
    values = {}
    for side in sides:
        options = size_options(side, positions="")
        for size in ("embed_dim", "ffn_dim", "heads"):
            values[options[size]] = sizes[size]
    return values
