"""WebNLG's triples and texts to data-to-text: one line of readable triples -> text; a line a set where references are grouped."""

import argparse
import re
from pathlib import Path
from typing import Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from .. import cli
from ..io import InputError, PathLike, read_parallel
from ..progress import with_progress
from .examples import Collector, add_options, limits_from_args, named_splits

LANGS = ("triples", "text")
BETWEEN_TRIPLES, BETWEEN_FIELDS = " <SEP> ", " | "
FIELDS = 3
# runwayLength, ICAOLocation: a word starts at a capital after a small letter, and before the last of several capitals.
WORD_STARTS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
PREDICATES = ("words", "plain")


class Form(NamedTuple):
    """How triples are written.

    Attributes:
        predicates: ``words`` = runwayLength as "runway length"; ``plain`` = as it stands.
        triple_separator: between triples.
        field_separator: between subject, predicate and object.
    """

    predicates: str = "words"
    triple_separator: str = "[S]"
    field_separator: str = "|"


def linearise(line: str, form: Form, where: str) -> str:
    """Return the triples of a line of the file as the model reads them.

    Quotation marks around a value are taken off, underscores become spaces.

    Raises:
        InputError: a triple without three fields.
    """
    triples = []
    for text in line.split(BETWEEN_TRIPLES):
        fields = [field.strip() for field in text.split(BETWEEN_FIELDS)]
        if len(fields) != FIELDS or not all(fields):
            raise InputError(
                f"{where}: {text.strip()[:80]!r} has {len(fields)} fields; valid: 'subject | predicate | object', no field "
                f"empty, triples joined by '{BETWEEN_TRIPLES}'"
            )
        subject, predicate, value = (_plain(field) for field in fields)
        if form.predicates == "words":
            predicate = " ".join(word if word.isupper() else word.lower() for word in WORD_STARTS.split(predicate))
        triples.append(f" {form.field_separator} ".join((subject, predicate, value)))
    return f" {form.triple_separator} ".join(triples)


def _plain(field: str) -> str:
    if len(field) > 2 and field[0] == field[-1] == '"':
        field = field[1:-1].strip()
    return field.replace("_", " ")


def read_set(triples: PathLike, texts: PathLike, form: Form) -> Iterator[Tuple[str, str]]:
    """Yield linearised triples and text of every line.

    Raises:
        InputError: as in :func:`read_parallel` and :func:`linearise`.
    """
    for number, (line, text) in enumerate(
        read_parallel([triples, texts], "--triples and --texts", strict=False), start=1
    ):
        yield linearise(line, form, f"--triples {triples}, line {number}"), text


def collect(
    files: Sequence[Tuple[PathLike, PathLike, str]], collector: Collector, form: Form, grouped: Sequence[str]
) -> None:
    """Read every pair of files into its split; the texts of equal triples become the references of one line where asked for."""
    for triples, texts, split in files:
        rows = with_progress(read_set(triples, texts, form), "triples")
        if split not in grouped:
            for source, text in rows:
                collector.add(split, source, [text])
            continue
        sets: Dict[str, List[str]] = {}
        for source, text in rows:
            if text.strip():
                sets.setdefault(source, []).append(text)
        for source, references in sets.items():
            collector.add(split, source, references)


def build_parser() -> argparse.ArgumentParser:
    """Return the options of ``python -m data_prep.triples``."""
    parser = cli.parser("triples", __doc__)
    parser.add_argument(
        "--triples", nargs="+", required=True, metavar="FILE", help="subject | predicate | object <SEP> …"
    )
    parser.add_argument(
        "--texts", nargs="+", required=True, metavar="FILE", help="line i says what line i of --triples says"
    )
    parser.add_argument("--splits", nargs="+", required=True, metavar="NAME", help="one per file, as train valid test")
    parser.add_argument(
        "--grouped",
        nargs="*",
        default=[],
        metavar="NAME",
        help="splits with one line for all texts of the same triples",
    )
    parser.add_argument(
        "--predicates", choices=PREDICATES, default="words", help="runwayLength as 'runway length', or plain"
    )
    parser.add_argument("--triple-separator", default=Form().triple_separator, metavar="TEXT", help="between triples")
    parser.add_argument("--field-separator", default=Form().field_separator, metavar="TEXT", help="between fields")
    add_options(parser, LANGS)
    return parser


def main(argv: Optional[List[str]] = None) -> None:
    """Run the verb with these arguments (default: the command line's)."""
    args = build_parser().parse_args(argv)
    splits = named_splits(args.splits, args.triples, "--triples")
    if len(args.texts) != len(args.triples):
        raise InputError(f"--texts: {len(args.texts)} files for {len(args.triples)} of --triples; valid: one for each")
    if set(args.grouped) - set(splits) or "train" in args.grouped:
        raise InputError(f"--grouped {' '.join(args.grouped)}: valid: names of --splits other than train")
    collector = Collector(splits, args.langs, limits_from_args(args), args.form)
    form = Form(args.predicates, args.triple_separator, args.field_separator)
    collect(list(zip(args.triples, args.texts, splits)), collector, form, args.grouped)
    options = {**form._asdict(), "splits": splits, "grouped": args.grouped}
    counts = collector.write("triples", args.output_dir, options, [*args.triples, *args.texts], {})
    listed = ", ".join(f"{name} {counts[name]:,}" for name in splits)
    cli.say(f"triples: {listed}; manifest {Path(args.output_dir) / 'triples.json'}")
