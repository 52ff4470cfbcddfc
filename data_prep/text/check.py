"""Check raw text before anything is made from it: UTF-8, line ends, empty files and lines, equal line counts."""

import argparse
from pathlib import Path
from typing import Dict, List, Optional

from .. import cli
from ..io import InputError, PathLike, check_same_counts, read_lines
from ..layout import Pair, parse_pairs, parse_splits, text_name, text_names
from ..progress import with_progress

DEFAULT_SPLITS = "train,valid,test"


def check_file(path: PathLike, option: str, allow_empty_lines: bool = False) -> int:
    """Read a file to its end.

    Returns:
        Number of lines.

    Raises:
        InputError: bad input, as in :func:`read_lines`, or (unless allowed) a line without text.
    """
    count, empty, first = 0, 0, 0
    for line in with_progress(read_lines(path, option), f"check {Path(path).name}"):
        count += 1
        if not line.strip():
            empty += 1
            first = first or count
    if empty and not allow_empty_lines:
        raise InputError(
            f"{option} {path}, line {first}: no text ({empty} such lines in all); valid: lines with text "
            "(python -m data_prep.clean drops the others), or --allow-empty-lines"
        )
    return count


def check_text(
    text: PathLike, pairs: List[Pair], splits: List[str], allow_empty_lines: bool = False, per_pair: bool = False
) -> Dict[str, int]:
    """Check the files SPLIT.LANG of a folder.

    Args:
        text: the folder.
        pairs: language pairs; the two files of a pair must have equally many lines.
        splits: names of the splits.
        allow_empty_lines: accept lines without text.
        per_pair: the files of each pair are in a folder SRC-TGT of its own.

    Returns:
        File name to number of lines.

    Raises:
        InputError: one of the files cannot be used.
    """
    if not Path(text).is_dir():
        raise InputError(f"--text {text}: no such folder; valid: a folder with files named SPLIT.LANG, as train.en")
    names = text_names(pairs, splits, per_pair)
    counts = {name: check_file(Path(text) / name, "--text", allow_empty_lines) for name in names}
    for split in splits:
        for pair in pairs:
            of_pair = [text_name(pair, split, lang, per_pair) for lang in pair]
            check_same_counts("--text", {name: counts[name] for name in of_pair})
    return counts


def build_parser() -> argparse.ArgumentParser:
    """Return the options of ``python -m data_prep.check``."""
    parser = cli.parser("check", __doc__ + " Prints the names of the files.")
    parser.add_argument("--text", required=True, metavar="DIR", help="folder with files SPLIT.LANG")
    parser.add_argument("--pairs", required=True, metavar="PAIRS", help="language pairs, as en-de,en-fr")
    parser.add_argument("--splits", default=DEFAULT_SPLITS, metavar="NAMES", help="splits, separated by commas")
    parser.add_argument("--allow-empty-lines", action="store_true", help="accept lines without text")
    parser.add_argument("--per-pair", action="store_true", help="the files are SRC-TGT/SPLIT.LANG")
    return parser


def main(argv: Optional[List[str]] = None) -> None:
    """Run the verb with these arguments (default: the command line's)."""
    args = build_parser().parse_args(argv)
    pairs, splits = parse_pairs(args.pairs), parse_splits(args.splits)
    counts = check_text(args.text, pairs, splits, args.allow_empty_lines, args.per_pair)
    for name, count in counts.items():
        cli.say(f"check: {name}: {count:,} lines")
        print(name)
