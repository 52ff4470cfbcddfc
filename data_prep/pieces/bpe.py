"""BPE codes: learn them (subword-nmt), text to pieces (fastBPE), pieces to text, dictionary of the pieces."""

import argparse
import contextlib
import functools
import io
from collections import Counter
from importlib import metadata
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence

from .. import cli
from ..files import atomic_texts
from ..io import InputError, PathLike, read_lines
from ..progress import heartbeat, with_progress
from ..steps import write_manifest
from .codes import END_OF_WORD, Merge, codes_lines
from .encode import add_apply_options, apply_files, apply_or_decode
from .models import FAIRSEQ_SPECIAL, RESERVED


def learn(inputs: Sequence[PathLike], codes: PathLike, merges: int, min_frequency: int = 2) -> Dict[str, int]:
    """Learn codes with subword-nmt and write them in the form that fastBPE reads, and a manifest (the name + ``.json``).

    Args:
        inputs: text, all languages together; words are what white space separates.
        codes: the output, lines ``A B 0``.
        merges: merges to learn; fewer when no pair is left that is frequent enough.
        min_frequency: least frequency of a merged pair.

    Returns:
        Counts: ``lines``, ``words`` (different ones), ``merges``.

    Raises:
        InputError: bad input, as in :func:`read_lines`, a number out of range, or a text without any such pair.
    """
    for option, value in (("merges", merges), ("min-frequency", min_frequency)):
        if value < 1:
            raise InputError(f"--{option} {value}: valid: 1 or more")
    words: Counter = Counter()
    lines = 0
    for path in inputs:
        for line in with_progress(read_lines(path, "--inputs"), f"bpe learn: reading {Path(path).name}"):
            lines += 1
            words.update(line.split())
    learned = _learn([f"{word} {count}" for word, count in words.items()], merges, min_frequency)
    with atomic_texts([codes], "--codes", inputs) as (file,):
        file.writelines(codes_lines(learned))
    counts = {"lines": lines, "words": len(words), "merges": len(learned)}
    options = {"merges": merges, "min_frequency": min_frequency, "subword-nmt": metadata.version("subword-nmt")}
    write_manifest(f"{codes}.json", "bpe learn", options, counts, inputs, [codes])
    return counts


def _learn(counted_words: List[str], merges: int, min_frequency: int) -> List[Merge]:
    try:
        from subword_nmt import learn_bpe
    except ImportError:
        raise InputError("bpe learn: the package subword-nmt is missing; valid: pip install subword-nmt") from None
    if not any(len(line.rpartition(" ")[0]) > 1 for line in counted_words):
        raise InputError("--inputs: no word has two characters, so there is nothing to merge; valid: text with words")
    learned = io.StringIO()
    with heartbeat(f"bpe learn: {merges:,} merges"), contextlib.redirect_stderr(io.StringIO()):
        learn_bpe.learn_bpe(counted_words, learned, merges, min_frequency=min_frequency, is_dict=True)
    rows = [line.split(" ") for line in learned.getvalue().split("\n")[1:] if line]
    pairs = [(left, right) for left, right in rows]
    if not pairs:
        raise InputError(f"--min-frequency {min_frequency}: no pair of this text is so frequent; valid: a lower number")
    return pairs


apply = functools.partial(apply_files, "bpe")
"""Write the pieces of text files: :func:`encode.apply_files` with a file of codes."""


def write_dictionary(inputs: Sequence[PathLike], output: PathLike, min_count: int = 1) -> Dict[str, int]:
    """Write dict.txt of files of pieces: ``PIECE COUNT``, most frequent first, equal counts in the order of the pieces.

    Args:
        inputs: pieces, all languages together.
        output: the dictionary.
        min_count: leave out rarer pieces; they become ``<unk>``.

    Returns:
        Counts: ``pieces`` (different ones found), ``kept``.

    Raises:
        InputError: bad input, as in :func:`read_lines`; one of fairseq's own symbols in a file; nothing left to write.
    """
    if min_count < 1:
        raise InputError(f"--min-count {min_count}: valid: 1 or more")
    found: Counter = Counter()
    for path in inputs:
        for line in with_progress(read_lines(path, "--inputs"), f"bpe dict: reading {Path(path).name}"):
            found.update(line.split())
    for symbol in sorted(RESERVED & found.keys()):
        raise InputError(f"--inputs: holds the piece {symbol}, which fairseq and its tasks add themselves; valid: none")
    kept = sorted((item for item in found.items() if item[1] >= min_count), key=lambda item: (-item[1], item[0]))
    with atomic_texts([output], "--output", inputs) as (file,):
        file.writelines(f"{piece} {count}\n" for piece, count in kept)
    return {"pieces": len(found), "kept": len(kept)}


def build_parser() -> argparse.ArgumentParser:
    """Return the options of ``python -m data_prep.bpe`` and its four commands."""
    parser = cli.parser("bpe", __doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="learn|apply|decode|dict")
    fit = commands.add_parser("learn", help="learn codes")
    fit.add_argument("--inputs", nargs="+", required=True, metavar="FILE", help="text, all languages together")
    fit.add_argument("--codes", required=True, metavar="FILE", help=f"output: codes, {END_OF_WORD} at the end of words")
    fit.add_argument("--merges", type=int, required=True, metavar="N", help="merges to learn")
    fit.add_argument("--min-frequency", type=int, default=2, metavar="N", help="least frequency of a merged pair")
    add_apply_options(commands, "codes", "codes of fastBPE (XLM), subword-nmt or GPT")
    listing = commands.add_parser("dict", help="write the fairseq dictionary of files of pieces")
    listing.add_argument("--inputs", nargs="+", required=True, metavar="FILE", help="pieces, all languages together")
    listing.add_argument("--output", required=True, metavar="FILE", help="dict.txt")
    listing.add_argument("--min-count", type=int, default=1, metavar="N", help="leave out rarer pieces")
    return parser


def main(argv: Optional[List[str]] = None) -> None:
    """Run the verb with these arguments (default: the command line's)."""
    args = build_parser().parse_args(argv)
    COMMANDS[args.command](args)


def _learn_command(args: argparse.Namespace) -> None:
    counts = learn(args.inputs, args.codes, args.merges, args.min_frequency)
    cli.say(f"bpe learn: {args.codes}: " + ", ".join(f"{key} {value:,}" for key, value in counts.items()))


def _dict_command(args: argparse.Namespace) -> None:
    counts = write_dictionary(args.inputs, args.output, args.min_count)
    rows = counts["kept"] + len(FAIRSEQ_SPECIAL)
    cli.say(
        f"bpe dict: {args.output}: {counts['kept']:,} of {counts['pieces']:,} pieces; {rows:,} rows in fairseq, "
        f"{rows + 1:,} with <mask>"
    )


COMMANDS: Dict[str, Any] = {
    "learn": _learn_command,
    **dict.fromkeys(("apply", "decode"), functools.partial(apply_or_decode, "bpe")),
    "dict": _dict_command,
}
