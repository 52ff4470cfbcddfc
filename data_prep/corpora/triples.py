"""WebNLG's triples and texts to data-to-text: a line of readable triples -> text."""

import re
from typing import Dict, Iterator, List, NamedTuple, Optional, Sequence

from .. import cli
from ..io import InputError, PathLike, read_parallel
from ..layout import SPLITS
from ..options import adder
from ..progress import with_progress
from . import examples

VERB = "triples"
LANGS = ("triples", "text")
BETWEEN_TRIPLES, BETWEEN_FIELDS = " <SEP> ", " | "
FIELDS = 3
# A word of runwayLength or ICAOLocation starts at a capital after a small letter, and before the
# last of several capitals.
WORD_STARTS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
PREDICATES = ("words", "plain")


class Form(NamedTuple):
    """Form of triples on a line.

    Attributes:
        predicates: ``words`` = runwayLength as "runway length"; ``plain`` = as it stands.
        triple_separator: text between triples.
        field_separator: text between subject, predicate and object.
    """

    predicates: str = "words"
    triple_separator: str = "[S]"
    field_separator: str = "|"


class Files(NamedTuple):
    """Parallel files of triples and texts, and their split."""

    triples: PathLike
    texts: PathLike
    split: str


class Record(NamedTuple):
    """A line of triples, as the model reads them, and its text."""

    source: str
    text: str


def linearise(line: str, form: Form, place: str) -> str:
    """Return the triples of a line as the model reads them.

    Quotation marks around a value are removed, underscores become spaces.

    Raises:
        InputError: a triple without three fields.
    """
    triples = []
    for text in line.split(BETWEEN_TRIPLES):
        fields = [field.strip() for field in text.split(BETWEEN_FIELDS)]
        if len(fields) != FIELDS or not all(fields):
            raise InputError(
                f"{place}: {text.strip()[:80]!r} has {len(fields)} fields; "
                "valid: 'subject | predicate | object', no field "
                f"empty, triples joined by '{BETWEEN_TRIPLES}'"
            )
        subject, predicate, entity = (_plain(field) for field in fields)
        if form.predicates == "words":
            words = WORD_STARTS.split(predicate)
            predicate = " ".join(word if word.isupper() else word.lower() for word in words)
        triples.append(f" {form.field_separator} ".join((subject, predicate, entity)))
    return f" {form.triple_separator} ".join(triples)


def _plain(field: str) -> str:
    if len(field) > 2 and field[0] == field[-1] == '"':
        field = field[1:-1].strip()
    return field.replace("_", " ")


def read_set(files: Files, form: Form) -> Iterator[Record]:
    """Yield linearised triples and text of every line.

    Raises:
        InputError: as in :func:`read_parallel` and :func:`linearise`.
    """
    paths = [files.triples, files.texts]
    rows = read_parallel(paths, "--triples and --texts", strict=False)
    for number, (line, text) in enumerate(rows, start=1):
        yield Record(linearise(line, form, f"--triples {files.triples}, line {number}"), text)


def collect(
    sets: Sequence[Files], collector: examples.Collector, form: Form, grouped: Sequence[str]
) -> None:
    """Read every set into its split.

    In `grouped` splits, the texts of equal triples become the references of one line.
    """
    for files in sets:
        rows = with_progress(read_set(files, form), VERB)
        if files.split not in grouped:
            for row in rows:
                collector.add(files.split, row.source, [row.text])
            continue
        references: Dict[str, List[str]] = {}
        for row in rows:
            if row.text.strip():
                references.setdefault(row.source, []).append(row.text)
        for source, texts in references.items():
            collector.add(files.split, source, texts)


def main(argv: Optional[List[str]] = None) -> None:
    """Run the verb with these arguments (default: the command line's)."""
    parser = cli.parser(VERB, __doc__)
    add = adder(parser)
    text = "files of lines subject | predicate | object <SEP> …"
    add("--triples", "FILE", text, many=True, required=True)
    text = "files of texts; line i says what line i of --triples says"
    add("--texts", "FILE", text, many=True, required=True)
    text = f"splits, one for each file, as {' '.join(SPLITS)}"
    add("--splits", "NAME", text, many=True, required=True)
    text = "splits with one line for all texts of the same triples"
    add("--grouped", "NAME", text, nargs="*", default=[])
    text, form = "form of predicates: runwayLength as 'runway length', or plain", Form()
    add("--predicates", None, text, choices=PREDICATES, default=form.predicates)
    add("--triple-separator", "TEXT", "text between triples", default=form.triple_separator)
    add("--field-separator", "TEXT", "text between fields", default=form.field_separator)
    examples.add_options(parser, LANGS)
    args = parser.parse_args(argv)
    examples.check_split_names(args.splits, args.triples, "--triples")
    if len(args.texts) != len(args.triples):
        counts = f"{len(args.texts)} files for {len(args.triples)} of --triples"
        raise InputError(f"--texts: {counts}; valid: one for each")
    if set(args.grouped) - set(args.splits) or "train" in args.grouped:
        valid = "names of --splits other than train"
        raise InputError(f"--grouped {' '.join(args.grouped)}: valid: {valid}")
    collector = examples.collector_from_args(args.splits, args)
    form = Form(args.predicates, args.triple_separator, args.field_separator)
    sets = [Files(*files) for files in zip(args.triples, args.texts, args.splits)]
    collect(sets, collector, form, args.grouped)
    options = {**form._asdict(), "splits": args.splits, "grouped": args.grouped}
    examples.write_examples(collector, VERB, args, options, [*args.triples, *args.texts])
