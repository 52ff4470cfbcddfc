"""Hypotheses out of the log of ``fairseq-generate``: the lines ``D-<number>``, in the order of the test set."""

import argparse
import re
from typing import Dict, List, Optional, Sequence

from ..cli import parser, run, say
from ..files import atomic_texts
from ..io import InputError, PathLike, check_same_counts, count_lines, read_lines

_LINE = re.compile(r"D-(\d+)\t[^\t]*\t(.*)")


def read_shards(paths: Sequence[PathLike], option: str = "--input") -> List[str]:
    """Sentences of one test set whose parts were translated by several runs, in the order of the set.

    Args:
        paths: what each run of ``fairseq-generate`` printed.
        option: the option that named them, for messages.

    Raises:
        InputError: a log without hypothesis, a sentence twice, or a number missing.
    """
    found: Dict[int, str] = {}
    for path in paths:
        before = len(found)
        for line in read_lines(path, option, strict=False):
            match = _LINE.fullmatch(line)
            if match is None:
                continue
            number = int(match[1])
            if number in found:
                raise InputError(
                    f"{option} {path}: sentence {number} twice; valid: the log of one fairseq-generate run, --nbest 1, or those "
                    "of the parts of one set"
                )
            found[number] = match[2]
        if len(found) == before:
            raise InputError(
                f"{option} {path}: no line D-<number>; valid: what fairseq-generate prints without --quiet"
            )
    missing = set(range(len(found))) - set(found)
    if missing:
        listed = ", ".join(str(path) for path in paths)
        raise InputError(
            f"{option} {listed}: sentence {min(missing)} is missing, {max(found)} is there; the log is not whole, or "
            "fairseq-generate left out what is too long (it warns of 'invalid sizes')"
        )
    return [found[number] for number in range(len(found))]


def build_parser() -> argparse.ArgumentParser:
    """Command line of the verb."""
    out = parser("hypotheses", __doc__)
    out.add_argument(
        "--input",
        required=True,
        nargs="+",
        metavar="FILE",
        help="what fairseq-generate printed; more files are the parts of one set (--distributed-rank)",
    )
    out.add_argument("--output", required=True, help="gets one sentence per line")
    out.add_argument(
        "--lines-of",
        metavar="FILE",
        help="the text that was translated: as many sentences are demanded, so that a log without the last ones is refused",
    )
    return out


def main(argv: Optional[List[str]] = None) -> None:
    """Write the hypotheses of one set."""
    args = build_parser().parse_args(argv)
    lines = read_shards(args.input)
    if args.lines_of:
        check_same_counts(
            "--lines-of",
            {args.lines_of: count_lines(args.lines_of, "--lines-of"), "--input": len(lines)},
        )
    with atomic_texts([args.output], "--output", args.input) as (file,):
        file.writelines(line + "\n" for line in lines)
    say(f"hypotheses: {len(lines)} sentences in {args.output}")
