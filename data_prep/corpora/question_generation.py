"""SQuAD or XQuAD JSON to question generation: "passage [S] answer" -> question, no article in two splits."""

import argparse
from collections import Counter
from pathlib import Path
from typing import Dict, List, Optional, Sequence

from .. import cli
from ..io import InputError, PathLike
from ..progress import with_progress
from ..text.split import Shares, shares_from_ratios, split_of
from .examples import Collector, add_options, limits_from_args
from .squad import read_questions

SEPARATOR = "[S]"
LANGS = ("passage", "question")


def collect(inputs: Sequence[PathLike], collector: Collector, shares: Shares, separator: str) -> Dict[str, int]:
    """Put every question into the split of its article.

    The end of a long passage is cut; a question whose answer then stands no more in it is dropped.

    Returns:
        Articles of each split.

    Raises:
        InputError: as in :func:`read_questions`, or the separator occurs in a passage or an answer.
    """
    articles: Dict[str, str] = {}
    for path in inputs:
        for question in with_progress(read_questions(path), "question_generation"):
            split = articles.setdefault(question.article, split_of([question.article], shares))
            if not question.answers:
                collector.drop(split, "no answer")
                continue
            first = question.answers[0].text
            if separator in question.passage or separator in first:
                raise InputError(f"{question.place}: holds the separator {separator!r}; valid: another --separator")
            answer = collector.normal(first)
            if not answer:
                collector.drop(split, "no answer")
            elif collector.add(split, question.passage, [question.question], f"{separator} {answer}"):
                passage = collector.examples[split][-1].source[: -len(f" {separator} {answer}")]
                if answer not in passage and answer in collector.normal(question.passage):
                    collector.examples[split].pop()
                    collector.drop(split, "answer beyond the cut")
    return dict(Counter(articles.values()))


def build_parser() -> argparse.ArgumentParser:
    """Return the options of ``python -m data_prep.question_generation``."""
    parser = cli.parser("question_generation", __doc__)
    parser.add_argument("--inputs", nargs="+", required=True, metavar="FILE", help="JSON files of one language")
    parser.add_argument("--separator", default=SEPARATOR, help="between passage and answer")
    parser.add_argument("--valid-ratio", type=float, default=0.1, metavar="R", help="share of the articles, in [0, 1)")
    parser.add_argument("--test-ratio", type=float, default=0.1, metavar="R", help="share of the articles, in [0, 1)")
    parser.add_argument("--salt", default="", help="another text gives another split")
    add_options(parser, LANGS)
    return parser


def main(argv: Optional[List[str]] = None) -> None:
    """Run the verb with these arguments (default: the command line's)."""
    args = build_parser().parse_args(argv)
    if not args.separator.strip() or args.separator != args.separator.strip():
        raise InputError(f"--separator {args.separator!r}: valid: a text without blanks around it")
    shares = shares_from_ratios(args.valid_ratio, args.test_ratio, salt=args.salt)
    collector = Collector(shares.wanted(), args.langs, limits_from_args(args), args.form)
    articles = collect(args.inputs, collector, shares, args.separator)
    options = {name: getattr(args, name) for name in ("separator", "valid_ratio", "test_ratio", "salt")}
    counts = collector.write("question_generation", args.output_dir, options, args.inputs, {"articles": articles})
    listed = ", ".join(f"{name} {counts[name]:,} of {articles[name]} articles" for name in collector.examples)
    cli.say(f"question_generation: {listed}; manifest {Path(args.output_dir) / 'question_generation.json'}")
