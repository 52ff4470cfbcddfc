"""SQuAD or XQuAD JSON to question generation: "passage [S] answer" -> question, by article."""

from collections import Counter
from pathlib import Path
from typing import Dict, List, Optional, Sequence

from .. import cli
from ..io import InputError, PathLike
from ..options import adder
from ..progress import with_progress
from ..text.split import Shares, shares_from_ratios, split_of
from .examples import Collector, add_options, collector_from_args
from .squad import read_questions

VERB = "question_generation"
SEPARATOR = "[S]"
LANGS = ("passage", "question")


def collect(
    inputs: Sequence[PathLike], collector: Collector, shares: Shares, separator: str
) -> Dict[str, int]:
    """Put every question into the split of its article.

    The end of a long passage is cut; a question whose answer the cut removes is dropped.

    Returns:
        Split -> number of articles.

    Raises:
        InputError: as in :func:`read_questions`, or a text holds the separator.
    """
    splits: Dict[str, str] = {}  # of the articles
    for path in inputs:
        for question in with_progress(read_questions(path), VERB):
            split = splits.setdefault(question.article, split_of([question.article], shares))
            if not question.answers:
                collector.drop(split, "no answer")
                continue
            first = question.answers[0].text
            if separator in question.passage or separator in first:
                problem = f"holds the separator {separator!r}"
                raise InputError(f"{question.place}: {problem}; valid: another --separator")
            answer = collector.normalise(first)
            if not answer:
                collector.drop(split, "no answer")
                continue
            ending = f"{separator} {answer}"
            if collector.add(split, question.passage, [question.question], ending):
                passage = collector.examples[split][-1].source[: -len(f" {ending}")]
                if answer not in passage and answer in collector.normalise(question.passage):
                    collector.examples[split].pop()
                    collector.drop(split, "answer beyond the cut")
    return dict(Counter(splits.values()))


def main(argv: Optional[List[str]] = None) -> None:
    """Run the verb with these arguments (default: the command line's)."""
    parser = cli.parser(VERB, __doc__)
    add = adder(parser)
    add("--inputs", "FILE", "JSON files of one language", many=True, required=True)
    add("--separator", None, "text between passage and answer", default=SEPARATOR)
    for split in ("valid", "test"):
        add(f"--{split}-ratio", "R", f"share of the articles for {split}, in [0, 1)", default=0.1)
    add("--salt", None, "text that is hashed too: gives another split", default="")
    add_options(parser, LANGS)
    args = parser.parse_args(argv)
    if not args.separator.strip() or args.separator != args.separator.strip():
        valid = "a text without blanks around it"
        raise InputError(f"--separator {args.separator!r}: valid: {valid}")
    shares = shares_from_ratios(args.valid_ratio, args.test_ratio, salt=args.salt)
    collector = collector_from_args(shares.splits(), args)
    articles = collect(args.inputs, collector, shares, args.separator)
    names = ("separator", "valid_ratio", "test_ratio", "salt")
    options = {name: getattr(args, name) for name in names}
    more_counts = {"articles": articles}
    counts = collector.write(VERB, args.output_dir, options, args.inputs, more_counts)
    listed = ", ".join(
        f"{split} {counts[split]:,} of {articles[split]} articles" for split in collector.examples
    )
    cli.say(f"{VERB}: {listed}; manifest {Path(args.output_dir) / f'{VERB}.json'}")
