"""Write the dictionary that names every row of an encoder: ``fairseq-plugins dictionary ENCODER DICT``.

Data that is preprocessed with it fits the encoder: pieces, languages and ``<mask>`` have the encoder's rows.
"""

import logging
import sys
from typing import Dict, List, Sequence

from data_prep.files import atomic_path

from ..own_commands import forward
from .inspection import CheckpointError
from .readers import read_encoder
from .reading import PathLike
from .vocabulary import DICTIONARY_NAME, SPECIAL, STYLES

logger = logging.getLogger(__name__)


def write_dictionary(folder: PathLike, path: PathLike, languages: Sequence[str] = ()) -> List[str]:
    """Write a fairseq ``dict.txt`` that names every row of an encoder, in order.

    Args:
        folder: of the encoder, or its file.
        path: of the dictionary.
        languages: in the order of their rows, for files that do not state them.

    Returns:
        all entries, as many as the embedding has rows; those that nothing names are called
        ``madeupword...``.

    Raises:
        CheckpointError: no file states the entries or languages, or languages that are not those
            of the encoder.
    """
    encoder = read_encoder(folder, 1, languages=languages)  # whatever heads it has
    names, rows, origin = len(encoder.entries), encoder.layout.vocab_size, encoder.origin
    if not names:
        raise CheckpointError(
            f"{origin}: nothing beside it tells its entries; expected {DICTIONARY_NAME} or "
            "dict.LANG.txt (fairseq), tokenizer.json, vocab.txt or a sentencepiece model with the "
            "language codes"
        )
    if rows > names and encoder.layout.family in STYLES and not encoder.languages:
        raise CheckpointError(
            f"{origin}: has {rows:,} rows, of which {names:,} are named, and no list of its "
            "languages; give them, in the order of the training (--langs), or put a dict.txt that "
            "has them beside it"
        )
    entries = [*encoder.entries, *(f"madeupword{index:04d}" for index in range(rows - names))]
    _check_lines(entries, origin)
    with atomic_path(path) as temporary:
        text = "".join(f"{entry} 1\n" for entry in entries[len(SPECIAL) :])
        temporary.write_text(text, encoding="utf-8")
    return entries


def _check_lines(entries: Sequence[str], origin: str) -> None:
    """Raise CheckpointError if an entry occurs twice, or no line of a dictionary can hold it."""
    rows: Dict[str, int] = {}
    for row, entry in enumerate(entries):
        if entry in rows:
            pair = f"entries {rows[entry]} and {row} are both {entry!r}"
            raise CheckpointError(f"{origin}: {pair}")
        if "\n" in entry or "\r" in entry:
            reason = f"entry {row} is {entry!r}, which no line of a dictionary can hold"
            raise CheckpointError(f"{origin}: {reason}")
        rows[entry] = row


if __name__ == "__main__":
    sys.exit(forward("dictionary"))
