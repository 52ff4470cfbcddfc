"""Names of options for the messages of ``checkpoints.fitting``; sizes of a file as options."""

from typing import Any, Dict, Mapping

from ..checkpoints.fitting import FitOptions
from ..checkpoints.layouts import size_options
from .options import USE_ITS_DICTIONARY

FIT_OPTIONS = FitOptions(
    rows="error",
    rows_option="--embedding-mismatch",
    positions={"encoder": "--max-source-positions", "decoder": "--max-target-positions"},
    shared="--share-all-embeddings",
    tied="--share-all-embeddings and --share-decoder-input-output-embed",
    dictionary=USE_ITS_DICTIONARY,
)
"""Options that ``checkpoints.fitting`` names in its messages."""


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
