"""Which row of a Hugging Face XLM-R folder is that of ``<pad>``: behind it the positions are counted."""

import logging
from pathlib import Path
from typing import Any, Mapping, Optional, Tuple

from . import huggingface, vocabularies
from .encoder_languages import find_dictionary
from .errors import CheckpointError

logger = logging.getLogger(__name__)

ROW = 1
"""Of ``<pad>`` in XLM-R and VECO, as in every fairseq dictionary."""

PAD = vocabularies.SPECIAL[ROW]
_UNSAID = 0
"""What transformers wrote as ``pad_token_id`` for every model in January 2020, while XLM-R's own code had 1 as a constant."""


def padding_row(config: Mapping[str, Any], folder: Path, rows: int, origin: str) -> int:
    """Row of ``<pad>`` in a folder of XLM-R's layout.

    Where ``pad_token_id`` is not 1, the tokenizer or dictionary beside it is asked. A 0 counts as not said,
    unless a file beside it says 0 too.

    Args:
        config: ``config.json``, checked.
        folder: with ``config.json``.
        rows: of the embedding.
        origin: how messages call the weights.

    Raises:
        CheckpointError: configuration and the file beside it contradict each other, or that file is damaged.

    Source: the authors' ``RobertaEmbeddings``, whose ``padding_idx`` is the constant 1.
    """
    stated = huggingface.padding_idx(config)
    if stated == ROW:
        return ROW
    beside = _beside(folder, rows)
    if beside is not None and beside[1] == stated:
        return stated
    if stated == _UNSAID and (beside is None or beside[1] == ROW):
        logger.warning(
            "%s: pad_token_id = %d in %s: row %d is taken for %s, as in every XLM-R, and positions are counted from row %d",
            origin,
            stated,
            huggingface.CONFIG_NAME,
            ROW,
            PAD,
            ROW + 1,
        )
        return ROW
    if beside is not None:
        raise contradiction(stated, beside[1], beside[0], origin)
    return stated


def contradiction(stated: int, found: int, file: str, origin: str) -> CheckpointError:
    """The error where the configuration has ``<pad>`` in another row than a file beside it."""
    return CheckpointError(
        f"{origin}: {huggingface.CONFIG_NAME} has {PAD} in row {stated} (pad_token_id), {file} beside it in row {found}; expected "
        "the same, since positions are counted from the row behind it"
    )


def _beside(folder: Path, rows: int) -> Optional[Tuple[str, int]]:
    """The file that names the rows, and which of them is that of ``<pad>``; None where no file tells."""
    entries = vocabularies.tokenizer_entries(folder, "xlmr", rows)
    if entries is not None:
        return ("the tokenizer", entries.index(PAD)) if PAD in entries else None
    file = find_dictionary(folder)
    return None if file is None else (file.name, ROW)
