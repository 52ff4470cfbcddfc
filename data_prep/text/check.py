"""Check raw text: UTF-8, line ends, empty files and lines, equal line counts."""

from pathlib import Path
from typing import Dict, List, Optional

from .. import cli
from ..io import InputError, PathLike, check_same_counts, read_lines
from ..layout import Pair, add_pair_options, parse_pairs, parse_splits, text_name, text_names
from ..options import add_flag, adder
from ..progress import with_progress


def check_text(
    text: PathLike,
    pairs: List[Pair],
    splits: List[str],
    allow_empty_lines: bool = False,
    per_pair: bool = False,
) -> Dict[str, int]:
    """Check the files SPLIT.LANG of a folder.

    Args:
        text: the folder.
        pairs: language pairs; the two files of a pair must have equally many lines.
        splits: names of the splits.
        allow_empty_lines: accept lines without text.
        per_pair: the files of each pair lie in a folder SRC-TGT of its own.

    Returns:
        File name -> number of lines.

    Raises:
        InputError: a file cannot be used.
    """
    if not Path(text).is_dir():
        valid = "a folder with files named SPLIT.LANG, as train.en"
        raise InputError(f"--text {text}: no such folder; valid: {valid}")
    names = text_names(pairs, splits, per_pair)
    counts = {name: _check_file(Path(text) / name, allow_empty_lines) for name in names}
    for split in splits:
        for pair in pairs:
            sides = [text_name(pair, split, lang, per_pair) for lang in pair]
            check_same_counts("--text", {name: counts[name] for name in sides})
    return counts


def _check_file(path: Path, allow_empty_lines: bool) -> int:
    """Return the number of lines of a file that can be used."""
    count, empty, first = 0, 0, 0
    for line in with_progress(read_lines(path, "--text"), f"check {path.name}"):
        count += 1
        if not line.strip():
            empty += 1
            first = first or count
    if empty and not allow_empty_lines:
        remedy = "lines with text (python -m data_prep clean drops the others)"
        raise InputError(
            f"--text {path}, line {first}: no text ({empty} such lines in all); "
            f"valid: {remedy}, or --allow-empty-lines"
        )
    return count


def main(argv: Optional[List[str]] = None) -> None:
    """Run the verb with these arguments (default: the command line's)."""
    parser = cli.parser("check", f"{__doc__} Prints the names of the files.")
    adder(parser)("--text", "DIR", "folder with files SPLIT.LANG", required=True)
    add_pair_options(parser)
    add_flag(parser, "--allow-empty-lines", "accept lines without text")
    args = parser.parse_args(argv)
    pairs, splits = parse_pairs(args.pairs), parse_splits(args.splits)
    counts = check_text(args.text, pairs, splits, args.allow_empty_lines, args.per_pair)
    for name, count in counts.items():
        cli.say(f"check: {name}: {count:,} lines")
        print(name)
