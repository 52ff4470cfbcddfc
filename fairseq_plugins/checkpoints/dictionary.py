"""Write the dictionary that names every row of an encoder: ``python -m fairseq_plugins.checkpoints.dictionary ENCODER DICT``.

Data that is preprocessed with it fits the encoder: pieces, languages and ``<mask>`` have the encoder's rows.
"""

import argparse
import logging
import sys
from pathlib import Path
from typing import Dict, List, Optional, Sequence

from ..own_commands import run
from .inspection import CheckpointError
from .readers import read_encoder
from .reading import PathLike
from .vocabulary import DICTIONARY_NAME, SPECIAL, STYLES, read_languages
from .writing import atomic_path

logger = logging.getLogger(__name__)


def write_dictionary(folder: PathLike, path: PathLike, languages: Sequence[str] = ()) -> List[str]:
    """Write a fairseq ``dict.txt`` at ``path`` that names every row of an encoder: languages and ``<mask>`` included, in order.

    ``languages``: in the order of their rows, for files that do not tell. Returns all entries, as many as the embedding has rows;
    those that nothing names are called ``madeupword…``.

    Raises CheckpointError: no file tells the entries or languages, or languages that are not those of the encoder.
    """
    found = read_encoder(folder, 1, languages=languages)  # whatever heads it has
    named, rows, origin = len(found.entries), found.layout.vocab_size, found.origin
    if not named:
        raise CheckpointError(
            f"{origin}: nothing beside it tells its entries; expected {DICTIONARY_NAME} or dict.LANG.txt (fairseq), "
            "tokenizer.json, vocab.txt or a sentencepiece model with the language codes"
        )
    if rows > named and found.layout.family in STYLES and not found.languages:
        raise CheckpointError(
            f"{origin}: has {rows:,} rows, of which {named:,} are named, and no list of its languages; give them, in the "
            "order of the training (--langs), or put a dict.txt that has them beside it"
        )
    entries = [*found.entries, *(f"madeupword{index:04d}" for index in range(rows - named))]
    seen: Dict[str, int] = {}
    for index, entry in enumerate(entries):
        if entry in seen:
            raise CheckpointError(f"{origin}: entries {seen[entry]} and {index} are both {entry!r}")
        if "\n" in entry or "\r" in entry:
            raise CheckpointError(f"{origin}: entry {index} is {entry!r}, which no line of a dictionary can hold")
        seen[entry] = index
    with atomic_path(path) as temporary:
        temporary.write_text("".join(f"{entry} 1\n" for entry in entries[len(SPECIAL) :]), encoding="utf-8")
    return entries


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Run the command; exit status 0, or 2 with a message."""
    parser = argparse.ArgumentParser(prog="python -m fairseq_plugins.checkpoints.dictionary", description=__doc__)
    parser.add_argument("encoder", metavar="ENCODER", help="file or folder of a pretrained encoder")
    parser.add_argument("output", metavar="DICT", help="the dict.txt to write")
    parser.add_argument(
        "--langs",
        metavar="LIST",
        default="",
        help="languages in the order of their rows, where no file tells them: a file with one per line, or en_XX,de_DE",
    )
    args = parser.parse_args(argv)

    def work() -> None:
        languages = read_languages(Path(args.langs)) if Path(args.langs).is_file() else args.langs.split(",")
        entries = write_dictionary(args.encoder, args.output, [*filter(None, languages)])
        logger.info("wrote %s: %d entries, the last of them %s", args.output, len(entries), " ".join(entries[-8:]))

    return run(parser, work)


if __name__ == "__main__":
    sys.exit(main())
