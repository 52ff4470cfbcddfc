"""Hypotheses out of logs of ``fairseq-generate``: the lines D-N, in the order of the test set."""

import re
from typing import Dict, List, Optional, Sequence

from .. import cli
from ..files import atomic_texts
from ..io import InputError, PathLike, check_same_counts, count_lines, read_lines
from ..options import adder

_LINE = re.compile(r"D-(\d+)\t[^\t]*\t(.*)")


def read_shards(paths: Sequence[PathLike]) -> List[str]:
    """Return the sentences of a test set whose parts were translated by one or several runs.

    Args:
        paths: output of each run of ``fairseq-generate``.

    Raises:
        InputError: a log without hypothesis, a sentence twice, or a number missing.
    """
    sentences: Dict[int, str] = {}
    for path in paths:
        before = len(sentences)
        for line in read_lines(path, "--input", strict=False):
            match = _LINE.fullmatch(line)
            if match is None:
                continue
            number = int(match[1])
            if number in sentences:
                raise InputError(
                    f"--input {path}: sentence {number} twice; valid: the log of one "
                    "fairseq-generate run, --nbest 1, or those of the parts of one set"
                )
            sentences[number] = match[2]
        if len(sentences) == before:
            valid = "what fairseq-generate prints without --quiet"
            raise InputError(f"--input {path}: no line D-<number>; valid: {valid}")
    missing = set(range(len(sentences))) - set(sentences)
    if missing:
        listed = ", ".join(str(path) for path in paths)
        raise InputError(
            f"--input {listed}: sentence {min(missing)} is missing, {max(sentences)} is there; "
            "the log is not whole, or fairseq-generate left out what is too long "
            "(it warns of 'invalid sizes')"
        )
    return [sentences[number] for number in range(len(sentences))]


def main(argv: Optional[List[str]] = None) -> None:
    """Run the verb with these arguments (default: the command line's)."""
    parser = cli.parser("hypotheses", __doc__)
    add = adder(parser)
    text = "output of fairseq-generate; more files are the parts of one set (--distributed-rank)"
    add("--input", "FILE", text, many=True, required=True)
    add("--output", None, "file of the sentences, one per line", required=True)
    text = "text that was translated: a log with fewer or more sentences is refused"
    add("--lines-of", "FILE", text)
    args = parser.parse_args(argv)
    lines = read_shards(args.input)
    if args.lines_of:
        expected = count_lines(args.lines_of, "--lines-of")
        check_same_counts("--lines-of", {args.lines_of: expected, "--input": len(lines)})
    with atomic_texts([args.output], "--output", args.input) as (file,):
        file.writelines(line + "\n" for line in lines)
    cli.say(f"hypotheses: {len(lines)} sentences in {args.output}")
