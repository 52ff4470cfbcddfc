"""JSON lines of dialogues (or documents) with one or several summaries to source and target files."""

import argparse
from pathlib import Path
from typing import Any, List, NamedTuple, Optional, Sequence, Tuple

from .. import cli
from ..io import InputError, PathLike, read_lines
from ..progress import with_progress
from .examples import (
    Collector,
    add_options,
    limits_from_args,
    named_splits,
    read_json_text,
    text_of,
)

LANGS = ("dialogue", "summary")


class Keys(NamedTuple):
    """Names in the records.

    Attributes:
        source: of the dialogue.
        target: of the summary; where there are several, ``summary1``, ``summary2`` … for ``summary``.
    """

    source: str
    target: str


def read_records(path: PathLike, keys: Keys, option: str = "--inputs") -> List[Tuple[str, Tuple[str, ...]]]:
    """Return dialogue and summaries of every line.

    Raises:
        InputError: bad text, as in :func:`read_lines`, no JSON, a key that is missing, or another number of summaries than in the
            first line; names file and line.
    """
    found: List[Tuple[str, Tuple[str, ...]]] = []
    for number, line in enumerate(read_lines(path, option, strict=False), start=1):
        where = f"{option} {path}"
        record = read_json_text(line, where, number)
        place = f"{where}, line {number}"
        source, targets = text_of(record, keys.source, place), _targets(record, keys.target, place)
        if found and len(targets) != len(found[0][1]):
            raise InputError(f"{place}: {len(targets)} references; valid: {len(found[0][1])}, as in line 1")
        found.append((source, targets))
    return found


def _targets(record: Any, key: str, where: str) -> Tuple[str, ...]:
    numbered: List[str] = []
    while f"{key}{len(numbered) + 1}" in record:
        numbered.append(text_of(record, f"{key}{len(numbered) + 1}", where))
    return tuple(numbered) or (text_of(record, key, where),)


def joined(dialogue: str, separator: str) -> str:
    """Turns on one line: line ends become the separator, or a space where it is empty."""
    turns = [turn.strip() for turn in dialogue.splitlines() if turn.strip()]
    return (f" {separator} " if separator else " ").join(turns)


def collect(
    inputs: Sequence[PathLike], splits: Sequence[str], collector: Collector, keys: Keys, separator: str
) -> None:
    """Read every file into its split."""
    for path, split in zip(inputs, splits):
        for source, targets in with_progress(read_records(path, keys), "summaries"):
            collector.add(split, joined(source, separator), targets)


def build_parser() -> argparse.ArgumentParser:
    """Return the options of ``python -m data_prep.summaries``."""
    parser = cli.parser("summaries", __doc__)
    parser.add_argument("--inputs", nargs="+", required=True, metavar="FILE", help="JSON lines")
    parser.add_argument("--splits", nargs="+", required=True, metavar="NAME", help="one per file, as train valid test")
    parser.add_argument("--source-key", default="dialogue", metavar="KEY", help="of the text that is summarised")
    parser.add_argument(
        "--target-key", default="summary", metavar="KEY", help="of the summary; several: KEY1, KEY2 and so on"
    )
    parser.add_argument("--turn-separator", default="", metavar="TEXT", help="in place of line ends; default: a space")
    add_options(parser, LANGS)
    return parser


def main(argv: Optional[List[str]] = None) -> None:
    """Run the verb with these arguments (default: the command line's)."""
    args = build_parser().parse_args(argv)
    splits = named_splits(args.splits, args.inputs, "--inputs")
    collector = Collector(splits, args.langs, limits_from_args(args), args.form)
    collect(args.inputs, splits, collector, Keys(args.source_key, args.target_key), args.turn_separator)
    options = {name: getattr(args, name) for name in ("splits", "source_key", "target_key", "turn_separator")}
    counts = collector.write("summaries", args.output_dir, options, args.inputs, {})
    listed = ", ".join(f"{name} {counts[name]:,}" for name in splits)
    cli.say(f"summaries: {listed}; manifest {Path(args.output_dir) / 'summaries.json'}")
