"""Text to words separated by blanks, one sentence a line: for word vectors, in any script."""

import argparse
import importlib
import itertools
from collections import Counter
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Sequence

import regex

from . import cli
from .io import InputError, PathLike, atomic_writers, read_lines, same_number
from .lexicon_files import package
from .steps import write_manifest

Segmenter = Callable[[str], Iterable[str]]

CHARACTER, SPACES = "character", "spaces"
SAMPLE_LINES = 1000  # of a file, to see what script it is in
SPACELESS_SHARE = 0.3  # of the letters: with more of them, a text needs a segmenter
LETTER = regex.compile(r"[\p{L}\p{M}]")
VALID = f"{CHARACTER}, {SPACES} (the text is segmented already) or MODULE:FUNCTION"


def spaceless_share(lines: Iterable[str]) -> float:
    """Return the share of letters, in [0, 1], whose script puts no space between words."""
    with package():
        from fairseq_plugins.data.lexicon import is_spaceless

    letters = Counter(letter for line in lines for letter in LETTER.findall(line))
    total = sum(letters.values())
    return sum(count for letter, count in letters.items() if is_spaceless(letter)) / total if total else 0.0


def load_segmenter(name: str) -> Segmenter:
    """Return the function that cuts a sentence into words.

    Args:
        name: ``character`` (scripts without spaces by character, all others by word), ``spaces``, or ``MODULE:FUNCTION``, a
            function from a text to words that Python can import, as ``jieba:lcut``.

    Raises:
        InputError: there is no such module or function.
    """
    if name in (CHARACTER, SPACES):
        return lambda text: [text]
    module, colon, function = name.partition(":")
    if not (module and colon and function):
        raise InputError(f"--segmenter {name}: valid: {VALID}")
    try:
        found = getattr(importlib.import_module(module), function, None)
    except ImportError as error:
        raise InputError(f"--segmenter {name}: {error}; valid: a module that Python can import") from None
    if not callable(found):
        raise InputError(f"--segmenter {name}: {module} has no function {function}; valid: {VALID}")
    return found


def cutter(segmenter: Optional[str], cased: bool = False) -> Callable[[str], List[str]]:
    """Return the function from a sentence to its words, without punctuation.

    Args:
        segmenter: as in :func:`load_segmenter`; None: words are runs of letters, marks and digits.
        cased: keep upper case.
    """
    with package():  # imports fairseq: only where it is needed
        from fairseq_plugins.scoring.words import words

    segment = load_segmenter(segmenter or SPACES)
    kind = "auto" if segmenter == CHARACTER else "word"

    def cut(line: str) -> List[str]:
        return [word for part in segment(line) for word in words(_text(part, segmenter), kind, not cased)]

    return cut


def _text(part: Any, segmenter: Optional[str]) -> str:
    if not isinstance(part, str):
        raise InputError(f"--segmenter {segmenter}: gives {type(part).__name__}; valid: a function that gives strings")
    return part


def write_words(
    inputs: Sequence[PathLike], outputs: Sequence[PathLike], segmenter: Optional[str] = None, cased: bool = False
) -> Dict[str, Dict[str, int]]:
    """Write the words of text files, and a manifest beside each output (its name + ``.json``).

    Args:
        inputs: text, one sentence a line.
        outputs: one for each; a line without words stays as an empty line.
        segmenter: as in :func:`load_segmenter`; needed for scripts without spaces.
        cased: keep upper case.

    Returns:
        Counts of each output's name: ``lines``, ``words``, ``distinct``.

    Raises:
        InputError: bad input, as in :func:`read_lines`; a script without spaces and no segmenter; a file without a word.
    """
    same_number(inputs, outputs)
    cut = cutter(segmenter, cased)
    result = {}
    with atomic_writers(outputs, "--outputs", inputs) as files:
        for path, output, file in zip(inputs, outputs, files):
            distinct, lines, total = set(), 0, 0
            for line in cli.with_progress(_checked(path, segmenter), f"words: {Path(path).name}"):
                found = cut(line)
                file.write(" ".join(found) + "\n")
                distinct.update(found)
                lines, total = lines + 1, total + len(found)
            if not total:
                raise InputError(f"--inputs {path}: holds no word; valid: text with letters or digits")
            result[str(output)] = {"lines": lines, "words": total, "distinct": len(distinct)}
    for path, output in zip(inputs, outputs):
        options = {"segmenter": segmenter, "cased": cased}
        write_manifest(f"{output}.json", "words", options, result[str(output)], [path], [output])
    return result


def _checked(path: PathLike, segmenter: Optional[str]) -> Iterator[str]:
    """The lines of a file whose script fits the segmenter."""
    lines = read_lines(path, "--inputs")
    first = list(itertools.islice(lines, SAMPLE_LINES))
    share = spaceless_share(first)
    if segmenter is None and share >= SPACELESS_SHARE:
        raise InputError(
            f"--inputs {path}: {share:.0%} of the letters belong to a script without spaces between words (Chinese, "
            f"Japanese, Thai ...), and --segmenter is not given; valid: {VALID}"
        )
    yield from first
    yield from lines


def build_parser() -> argparse.ArgumentParser:
    """Return the options of ``python -m data_prep.words``."""
    parser = cli.parser("words", __doc__)
    parser.add_argument("--inputs", nargs="+", required=True, metavar="FILE", help="text, one sentence a line")
    parser.add_argument("--outputs", nargs="+", required=True, metavar="FILE", help="words, one for each of --inputs")
    add_word_options(parser)
    return parser


def add_word_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say what a word is."""
    parser.add_argument("--segmenter", metavar="NAME", help=f"for Chinese, Japanese, Thai ...: {VALID}, as jieba:lcut")
    parser.add_argument("--cased", action="store_true", help="keep upper case")


def main(argv: Optional[List[str]] = None) -> None:
    """Run the verb with these arguments (default: the command line's)."""
    args = build_parser().parse_args(argv)
    for name, counts in write_words(args.inputs, args.outputs, args.segmenter, args.cased).items():
        cli.say(f"words: {name}: " + ", ".join(f"{key} {value:,}" for key, value in counts.items()))


if __name__ == "__main__":
    cli.run("words", main)
