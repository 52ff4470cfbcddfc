"""Hypotheses out of the log of ``fairseq-generate``: the lines ``D-<number>``, in the order of the test set."""

import argparse
import re
from typing import Dict, List, Optional

from .cli import parser, run, say
from .io import InputError, PathLike, atomic_writers, read_lines

_LINE = re.compile(r"D-(\d+)\t[^\t]*\t(.*)")


def read_hypotheses(path: PathLike, option: str = "--input") -> List[str]:
    """Sentences of a generate log in the order of the test set.

    Args:
        path: what ``fairseq-generate`` printed.
        option: the option that named it, for messages.

    Raises:
        InputError: no hypothesis, one twice, or a number missing (a truncated log).
    """
    found: Dict[int, str] = {}
    for line in read_lines(path, option, strict=False):
        match = _LINE.fullmatch(line)
        if match is None:
            continue
        number = int(match[1])
        if number in found:
            raise InputError(
                f"{option} {path}: sentence {number} twice; valid: the log of one fairseq-generate run, --nbest 1"
            )
        found[number] = match[2]
    if not found:
        raise InputError(f"{option} {path}: no line D-<number>; valid: what fairseq-generate prints without --quiet")
    missing = set(range(len(found))) - set(found)
    if missing:
        raise InputError(
            f"{option} {path}: sentence {min(missing)} is missing, {max(found)} is there; the log is not whole"
        )
    return [found[number] for number in range(len(found))]


def build_parser() -> argparse.ArgumentParser:
    """Command line of the verb."""
    out = parser("hypotheses", __doc__)
    out.add_argument("--input", required=True, help="what fairseq-generate printed")
    out.add_argument("--output", required=True, help="gets one sentence a line")
    return out


def main(argv: Optional[List[str]] = None) -> None:
    """Write the hypotheses of one log."""
    args = build_parser().parse_args(argv)
    lines = read_hypotheses(args.input)
    with atomic_writers([args.output], "--output", [args.input]) as (file,):
        file.writelines(line + "\n" for line in lines)
    say(f"hypotheses: {len(lines)} sentences in {args.output}")


if __name__ == "__main__":
    run("hypotheses", main)
