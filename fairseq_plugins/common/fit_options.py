"""Name the options that fit a pretrained file to a model."""

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
"""Names of the options in messages of ``checkpoints.fitting``."""


def fit_options(args: Any) -> FitOptions:
    """Return :data:`FIT_OPTIONS` with the value of ``--embedding-mismatch``."""
    return FIT_OPTIONS._replace(rows=str(args.embedding_mismatch))


def side_sizes(sizes: Mapping[str, int], *sides: str) -> Dict[str, int]:
    """Return option -> value for sides that are wired as a masked LM of these sizes."""
    return {
        option: sizes[size]
        for side in sides
        for size, option in size_options(side, "").items()
        if size not in ("layers", "max_positions")
    }
