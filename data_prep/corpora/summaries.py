"""JSON lines of dialogues (or documents) with one or several summaries to source and target."""

from typing import Any, List, NamedTuple, Optional, Sequence, Tuple

from .. import cli
from ..io import InputError, PathLike, get_text, parse_json, read_lines
from ..options import adder
from ..progress import with_progress
from . import examples

VERB = "summaries"
LANGS = ("dialogue", "summary")


class Keys(NamedTuple):
    """Keys of the records.

    Attributes:
        source: of the dialogue.
        target: of the summary; KEY1, KEY2 … if there are several.
    """

    source: str
    target: str


def read_records(path: PathLike, keys: Keys) -> List[examples.Example]:
    """Return dialogue and summaries of every line.

    Raises:
        InputError: bad text, as in :func:`read_lines`, no JSON, a missing key, or another number
            of summaries than in the first line; names file and line.
    """
    place = f"--inputs {path}"
    records: List[examples.Example] = []
    for number, line in enumerate(read_lines(path, "--inputs", strict=False), start=1):
        place = f"{place}, line {number}"
        record = parse_json(line, place, number)
        source = get_text(record, keys.source, place)
        targets = _read_targets(record, keys.target, place)
        width = len(records[0].targets) if records else len(targets)
        if len(targets) != width:
            raise InputError(f"{place}: {len(targets)} references; valid: {width}, as in line 1")
        records.append(examples.Example(source, targets))
    return records


def _read_targets(record: Any, key: str, place: str) -> Tuple[str, ...]:
    targets: List[str] = []
    while f"{key}{len(targets) + 1}" in record:
        targets.append(get_text(record, f"{key}{len(targets) + 1}", place))
    return tuple(targets) or (get_text(record, key, place),)


def join_turns(dialogue: str, separator: str) -> str:
    """Put the separator between turns, which lines are; without one they stay lines."""
    turns = [turn.strip() for turn in dialogue.splitlines() if turn.strip()]
    return (f" {separator} " if separator else "\n").join(turns)


def collect(
    inputs: Sequence[PathLike],
    splits: Sequence[str],
    collector: examples.Collector,
    keys: Keys,
    separator: str,
) -> None:
    """Read every file into its split."""
    for path, split in zip(inputs, splits):
        for source, targets in with_progress(read_records(path, keys), VERB):
            collector.add(split, join_turns(source, separator), targets)


def main(argv: Optional[List[str]] = None) -> None:
    """Run the verb with these arguments (default: the command line's)."""
    parser = cli.parser(VERB, __doc__)
    add = adder(parser)
    add("--inputs", "FILE", "JSON lines, a file for each split", many=True, required=True)
    text = "splits, one for each file, as train valid test"
    add("--splits", "NAME", text, many=True, required=True)
    add("--source-key", "KEY", "key of the text that is summarised", default="dialogue")
    text = "key of the summary; KEY1, KEY2 and so on if there are several"
    add("--target-key", "KEY", text, default="summary")
    add("--turn-separator", "TEXT", "text in place of line ends; default: a space", default="")
    examples.add_options(parser, LANGS)
    examples.add_sentence_option(parser)
    args = parser.parse_args(argv)
    if args.turn_separator and args.sentence_separator:
        pair = f"--turn-separator {args.turn_separator} --sentence-separator"
        raise InputError(f"{pair} {args.sentence_separator}: valid: one of them")
    examples.check_split_names(args.splits, args.inputs, "--inputs")
    collector = examples.collector_from_args(args.splits, args)
    keys = Keys(args.source_key, args.target_key)
    collect(args.inputs, args.splits, collector, keys, args.turn_separator)
    names = ("splits", "source_key", "target_key", "turn_separator")
    options = {name: getattr(args, name) for name in names}
    examples.write_examples(collector, VERB, args, options, args.inputs)
