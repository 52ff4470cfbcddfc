"""BPE codes: learn them (subword-nmt), text to pieces and back (fastBPE), the dictionary."""

import contextlib
import io
from collections import Counter
from importlib import metadata
from pathlib import Path
from typing import Dict, List, Optional, Sequence

from .. import cli
from ..files import atomic_texts
from ..io import InputError, PathLike, read_lines
from ..options import adder, check_minimum
from ..progress import heartbeat, with_progress
from ..steps import write_manifest
from .codes import END_OF_WORD, Merge, format_codes
from .dictionary import FAIRSEQ_SPECIAL, RESERVED
from .encode import add_apply_options, apply_or_decode


def learn(
    inputs: Sequence[PathLike], codes: PathLike, merges: int, min_frequency: int = 2
) -> Dict[str, int]:
    """Learn codes with subword-nmt; write them as fastBPE reads them, and a manifest (CODES.json).

    Args:
        inputs: text, all languages together; words end at white space.
        codes: output, lines ``A B 0``.
        merges: merges to learn; fewer if no pair is left that is frequent enough.
        min_frequency: least frequency of a merged pair.

    Returns:
        Counts: ``lines``, ``words`` (different ones), ``merges``.

    Raises:
        InputError: bad input, as in :func:`read_lines`, a number out of range, or a text without
            any such pair.
    """
    check_minimum("--merges", merges, 1)
    check_minimum("--min-frequency", min_frequency, 1)
    words: Counter = Counter()
    lines = 0
    for path in inputs:
        label = f"bpe learn: reading {Path(path).name}"
        for line in with_progress(read_lines(path, "--inputs"), label):
            lines += 1
            words.update(line.split())
    pairs = _learn(words, merges, min_frequency)
    with atomic_texts([codes], "--codes", inputs) as (file,):
        file.writelines(format_codes(pairs))
    counts = {"lines": lines, "words": len(words), "merges": len(pairs)}
    version = metadata.version("subword-nmt")
    options = {"merges": merges, "min_frequency": min_frequency, "subword-nmt": version}
    write_manifest(f"{codes}.json", "bpe learn", options, counts, inputs, [codes])
    return counts


def _learn(words: Dict[str, int], merges: int, min_frequency: int) -> List[Merge]:
    try:
        from subword_nmt import learn_bpe
    except ImportError:
        reason = "the package subword-nmt is missing"
        raise InputError(f"bpe learn: {reason}; valid: pip install subword-nmt") from None
    if not any(len(word) > 1 for word in words):
        reason = "no word has two characters, so there is nothing to merge"
        raise InputError(f"--inputs: {reason}; valid: text with words")
    output = io.StringIO()
    dictionary = [f"{word} {count}" for word, count in words.items()]
    with heartbeat(f"bpe learn: {merges:,} merges"), contextlib.redirect_stderr(io.StringIO()):
        learn_bpe.learn_bpe(dictionary, output, merges, min_frequency=min_frequency, is_dict=True)
    rows = [line.split(" ") for line in output.getvalue().split("\n")[1:] if line]
    if not rows:
        reason = "no pair of this text is so frequent"
        raise InputError(f"--min-frequency {min_frequency}: {reason}; valid: a lower number")
    return [(row[0], row[1]) for row in rows]


def write_dictionary(
    inputs: Sequence[PathLike], output: PathLike, min_count: int = 1
) -> Dict[str, int]:
    """Write dict.txt of files of pieces, most frequent first, equal counts in order of the pieces.

    Args:
        inputs: pieces, all languages together.
        output: the dictionary.
        min_count: least count of a piece; rarer ones become ``<unk>``.

    Returns:
        Counts: ``pieces`` (different ones), ``kept``.

    Raises:
        InputError: bad input, as in :func:`read_lines`; one of fairseq's own symbols in a file;
            nothing left to write.
    """
    check_minimum("--min-count", min_count, 1)
    counts: Counter = Counter()
    for path in inputs:
        label = f"bpe dict: reading {Path(path).name}"
        for line in with_progress(read_lines(path, "--inputs"), label):
            counts.update(line.split())
    for symbol in sorted(RESERVED & counts.keys()):
        reason = f"holds the piece {symbol}, which fairseq and its tasks add themselves"
        raise InputError(f"--inputs: {reason}; valid: none")
    rows = [(piece, count) for piece, count in counts.items() if count >= min_count]
    rows.sort(key=lambda row: (-row[1], row[0]))
    with atomic_texts([output], "--output", inputs) as (file,):
        file.writelines(f"{piece} {count}\n" for piece, count in rows)
    return {"pieces": len(counts), "kept": len(rows)}


def main(argv: Optional[List[str]] = None) -> None:
    """Run the verb with these arguments (default: the command line's)."""
    parser = cli.parser("bpe", __doc__)
    names = "learn|apply|decode|dict"
    commands = parser.add_subparsers(dest="command", required=True, metavar=names)
    add = adder(commands.add_parser("learn", help="learn codes"))
    add("--inputs", "FILE", "text, all languages together", many=True, required=True)
    text = f"output: codes, {END_OF_WORD} at the end of words"
    add("--codes", "FILE", text, required=True)
    add("--merges", "N", "merges to learn, >= 1", required=True)
    add("--min-frequency", "N", "least frequency of a merged pair, >= 1", default=2)
    add_apply_options(commands, "codes", "codes of fastBPE (XLM), subword-nmt or GPT")
    text = "write the fairseq dictionary of files of pieces"
    add = adder(commands.add_parser("dict", help=text))
    add("--inputs", "FILE", "pieces, all languages together", many=True, required=True)
    add("--output", "FILE", "dict.txt", required=True)
    add("--min-count", "N", "least count of a piece, >= 1", default=1)
    args = parser.parse_args(argv)
    if args.command == "learn":
        counts = learn(args.inputs, args.codes, args.merges, args.min_frequency)
        cli.say(f"bpe learn: {args.codes}: {cli.list_counts(counts)}")
    elif args.command == "dict":
        counts = write_dictionary(args.inputs, args.output, args.min_count)
        rows = counts["kept"] + len(FAIRSEQ_SPECIAL)
        sizes = f"{counts['kept']:,} of {counts['pieces']:,} pieces; {rows:,} rows in fairseq"
        cli.say(f"bpe dict: {args.output}: {sizes}, {rows + 1:,} with <mask>")
    else:
        apply_or_decode("bpe", args)
