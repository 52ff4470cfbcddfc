"""Write the dictionary that names every row of an encoder: ``python -m fairseq_plugins.checkpoints.dictionary ENCODER DICT``.

Data that is preprocessed with it fits the encoder: pieces, languages and ``<mask>`` have the encoder's rows.
"""

import argparse
import logging
import sys
from pathlib import Path
from typing import Dict, List, Optional, Sequence

from .encoders import open_encoder, row_order
from .errors import CheckpointError
from .pipeline import WORDS
from .reading import PathLike
from .vocabulary import DICTIONARY_NAME, SPECIAL, STYLES, read_languages
from .writing import atomic_path

logger = logging.getLogger(__name__)


def write_dictionary(
    folder: PathLike, path: PathLike, dictionary: Optional[PathLike] = None, languages: Sequence[str] = ()
) -> List[str]:
    """Write a fairseq ``dict.txt`` at ``path`` that names every row of an encoder: languages and ``<mask>`` included, in order.

    ``dictionary``, ``languages``: see :func:`.encoders.open_encoder`. Returns all entries, the four special ones first: as many as
    the embedding has rows. Rows that nothing names, which were never used in training, are called ``madeupword…``.

    Raises CheckpointError: no file tells the entries, or rows of languages whose names no file tells; languages that are not those
    of the encoder, or for which it has no rows.
    """
    found = open_encoder(folder, dictionary, languages)
    entries, origin, rows = list(found.entries), found.origin, found.tensors[WORDS].size(0)
    if not entries:
        raise CheckpointError(
            f"{origin}: nothing beside it tells its entries; expected {DICTIONARY_NAME} or dict.LANG.txt (fairseq), "
            "tokenizer.json, vocab.txt or a sentencepiece model with the language codes"
        )
    family = found.wiring["family"]
    unnamed = rows - len(entries)
    if unnamed and family in STYLES and not found.languages:
        raise CheckpointError(
            f"{origin}: has {rows:,} rows, of which {len(entries):,} are named, and no list of its languages; give them, or a "
            "dictionary that has them, in the order of the training (--langs, --dictionary)"
        )
    if unnamed:
        logger.warning("%s: %d rows without a name are called madeupword", origin, unnamed)
    entries = [*entries, *(f"madeupword{index:04d}" for index in range(unnamed))]
    ordered = [entries[row] for row in row_order(entries, family, origin)]
    text = dictionary_text(ordered, origin)
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return ordered


def dictionary_text(entries: Sequence[str], origin: str) -> str:
    """A fairseq ``dict.txt`` with these entries, of which the first four must be fairseq's.

    Raises CheckpointError: entries that such a file cannot hold: twice the same, or with a line break.
    """
    if tuple(entries[: len(SPECIAL)]) != SPECIAL:
        raise CheckpointError(f"{origin}: its first entries are {list(entries[:4])}, expected {list(SPECIAL)}")
    seen: Dict[str, int] = {}
    for index, entry in enumerate(entries):
        if entry in seen:
            raise CheckpointError(f"{origin}: entries {seen[entry]} and {index} are both {entry!r}")
        if "\n" in entry or "\r" in entry:
            raise CheckpointError(f"{origin}: entry {index} is {entry!r}, which no line of a dictionary can hold")
        seen[entry] = index
    return "".join(f"{entry} 1\n" for entry in entries[len(SPECIAL) :])


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Run the command; exit status 0, or 2 with a message."""
    parser = argparse.ArgumentParser(prog="python -m fairseq_plugins.checkpoints.dictionary", description=__doc__)
    parser.add_argument("encoder", metavar="ENCODER", help="file or folder, as for --pretrained-encoder")
    parser.add_argument("output", metavar="DICT", help="the dict.txt to write")
    parser.add_argument("--dictionary", metavar="FILE", help="dict.txt of a fairseq model, where it is not beside it")
    parser.add_argument(
        "--langs",
        metavar="LIST",
        default="",
        help="languages in the order of their rows, where neither the encoder nor a file beside it tells them: a file with one a "
        "line, or en_XX,de_DE",
    )
    args = parser.parse_args(argv)
    try:
        entries = write_dictionary(args.encoder, args.output, args.dictionary, _languages(args.langs))
    except (ValueError, OSError) as error:
        parser.error(str(error))
    logger.info("wrote %s: %d entries, the last of them %s", args.output, len(entries), " ".join(entries[-8:]))
    return 0


def _languages(text: str) -> Sequence[str]:
    return read_languages(Path(text)) if Path(text).is_file() else [name for name in text.split(",") if name]


if __name__ == "__main__":
    sys.exit(main())
