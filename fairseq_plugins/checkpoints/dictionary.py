"""Write the dictionary that names every row of an encoder: ``python -m fairseq_plugins.checkpoints.dictionary ENCODER DICT``.

Data that is preprocessed with it fits the encoder: pieces, languages and ``<mask>`` have the encoder's rows.
"""

import argparse
import logging
import sys
from pathlib import Path
from typing import Optional, Sequence

from .encoder_languages import read_languages
from .encoders import write_dictionary

logger = logging.getLogger(__name__)


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
