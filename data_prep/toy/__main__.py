"""Writes the toy corpus: sentences, gold lexicons and a manifest of hashes. The same seed gives the same bytes."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from typing import Callable, List, Optional

from ..files import locked
from ..io import InputError
from .corpus import LANGUAGES, SPLITS, check_languages, write_corpus

logger = logging.getLogger("data_prep.toy")
PROGRESS_EVERY = 50_000


def _whole_number(minimum: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not (text.isascii() and text.isdigit()) or int(text) < minimum:
            raise argparse.ArgumentTypeError(f"{text!r} is not valid: an integer >= {minimum} is needed")
        return int(text)

    return parse


def _languages(text: str) -> List[str]:
    languages = [code.strip() for code in text.split(",")]
    try:
        check_languages(languages)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return languages


def make_parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line."""
    parser = argparse.ArgumentParser(prog="python -m data_prep.toy", description=__doc__)
    parser.add_argument("--out", required=True, metavar="DIR", help="folder to write (made if missing)")
    parser.add_argument("--seed", type=_whole_number(0), default=1, help="integer >= 0 (default 1)")
    parser.add_argument("--train", type=_whole_number(1), default=20_000, help="training sentences (default 20000)")
    parser.add_argument("--valid", type=_whole_number(1), default=500, help="validation sentences (default 500)")
    parser.add_argument("--test", type=_whole_number(1), default=500, help="test sentences (default 500)")
    parser.add_argument("--langs", type=_languages, default=list(LANGUAGES), help="comma-separated, out of en,de,tr")
    parser.add_argument("--split-only", choices=SPLITS, help="write this split alone")
    return parser


def _log_progress(done: int, total: int) -> None:
    if done % PROGRESS_EVERY == 0 or done == total:
        logger.info("%d of %d sentences", done, total)


def main(argv: Optional[List[str]] = None) -> int:
    """Runs the command; returns the exit status (2 for a bad argument)."""
    parser = make_parser()
    args = parser.parse_args(argv)
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s | %(name)s | %(message)s")
    counts = {split: getattr(args, split) for split in SPLITS if args.split_only in (None, split)}
    try:
        with locked(os.path.join(args.out, ".lock"), f"--out {args.out}"):
            write_corpus(args.out, args.seed, counts, args.langs, _log_progress)
    except InputError as error:
        parser.error(str(error))
    except OSError as error:
        parser.error(f"argument --out: {args.out!r} cannot be written ({error.strerror}); a writable folder is needed")
    logger.info("wrote %s to %s", ", ".join(f"{split} {count}" for split, count in counts.items()), args.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
