"""Text to words separated by blanks, one sentence per line: for word vectors, in any script."""

import argparse
import importlib
import sys
from functools import cache
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Sequence

import regex

from .. import cli
from ..files import atomic_texts
from ..io import InputError, PathLike, check_output_count, read_lines
from ..progress import with_progress
from ..steps import describe_files, write_manifest
from .files import check_places, package, version

Segmenter = Callable[[str], Iterable[str]]

CHARACTER, SPACES = "character", "spaces"
LETTER = regex.compile(r"[\p{L}\p{M}]")
SPACELESS_LETTERS = 0.3  # of a line's letters: with so many, the line is of a script without spaces
# Of a text's lines: with so many, it needs a segmenter. Lines, because a Chinese sentence has far fewer letters than an English
# one: of two corpora in one file, half of the lines can be a fifth of the letters. Quotations are far fewer than a tenth of lines.
SPACELESS_LINES = 0.1
SAMPLE_LINES, SAMPLE_SHARE = 1000, 0.5  # the first lines: with so many, the rest need not be seen
VALID = f"{CHARACTER}, {SPACES} (the text is segmented already) or MODULE:FUNCTION"


@cache
def _is_spaceless() -> Callable[[str], bool]:
    with package():  # imports fairseq: only where it is needed
        from fairseq_plugins.data.csr_lexicon import is_spaceless

    return is_spaceless


def spaceless_share(line: str) -> float:
    """Return the share of a line's letters, in [0, 1], whose script puts no space between words."""
    is_spaceless = _is_spaceless()
    if line.isascii() or not is_spaceless(
        line
    ):  # most lines of most texts: it costs nearly nothing
        return 0.0
    letters = LETTER.findall(line)
    return sum(map(is_spaceless, letters)) / len(letters) if letters else 0.0


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
        raise InputError(
            f"--segmenter {name}: {error}; valid: a module that Python can import"
        ) from None
    if not callable(found):
        raise InputError(f"--segmenter {name}: {module} has no function {function}; valid: {VALID}")
    return found


def shown(segmenter: Optional[str], cased: bool) -> Dict[str, Any]:
    """For a manifest and a step: the options, and of a segmenter of the user what tells whether it is still the same.

    That is the hash of the file of its module and of the file in which the function is written, and the version of its package.
    What these import is not looked at.

    Raises:
        InputError: as in :func:`load_segmenter`.
    """
    options = {"segmenter": segmenter, "cased": cased}
    if segmenter is None or segmenter in (CHARACTER, SPACES):
        return options
    function, name = load_segmenter(segmenter), segmenter.partition(":")[0]
    modules = [
        sys.modules.get(each) for each in (name, getattr(function, "__module__", None) or name)
    ]
    files = dict.fromkeys(getattr(module, "__file__", None) for module in modules)
    code = describe_files([file for file in files if file is not None and Path(file).is_file()])
    return {**options, "segmenter_code": code, "segmenter_version": version(name.partition(".")[0])}


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
        return [
            word
            for part in segment(line)
            for word in words(_text(part, segmenter), kind, not cased)
        ]

    return cut


def _text(part: Any, segmenter: Optional[str]) -> str:
    if not isinstance(part, str):
        raise InputError(
            f"--segmenter {segmenter}: gives {type(part).__name__}; valid: a function that gives strings"
        )
    return part


def write_words(
    inputs: Sequence[PathLike],
    outputs: Sequence[PathLike],
    segmenter: Optional[str] = None,
    cased: bool = False,
) -> Dict[str, Dict[str, int]]:
    """Write the words of text files, and a manifest beside each output (its name + ``.json``).

    Args:
        inputs: text, one sentence per line.
        outputs: one for each; a line without words stays as an empty line.
        segmenter: as in :func:`load_segmenter`; needed for scripts without spaces.
        cased: keep upper case.

    Returns:
        Counts of each output's name: ``lines``, ``words``, ``distinct``.

    Raises:
        InputError: bad input, as in :func:`read_lines`; a script without spaces and no segmenter; a file without a word; an output
            or its manifest in the place of another file.
    """
    check_output_count(inputs, outputs)
    manifests = [Path(f"{output}.json") for output in outputs]
    places = [("--outputs", Path(output)) for output in outputs] + [
        ("manifest of --outputs", path) for path in manifests
    ]
    check_places([("--inputs", path) for path in inputs], places)
    options, cut = shown(segmenter, cased), cutter(segmenter, cased)
    result = {}
    with atomic_texts(outputs, "--outputs", inputs) as files:
        for path, output, file in zip(inputs, outputs, files):
            distinct, lines, total = set(), 0, 0
            for line in with_progress(_checked(path, segmenter), f"words: {Path(path).name}"):
                found = cut(line)
                file.write(" ".join(found) + "\n")
                distinct.update(found)
                lines, total = lines + 1, total + len(found)
            if not total:
                raise InputError(
                    f"--inputs {path}: holds no word; valid: text with letters or digits"
                )
            result[str(output)] = {"lines": lines, "words": total, "distinct": len(distinct)}
        for manifest in manifests:
            manifest.unlink(missing_ok=True)
    for path, output, manifest in zip(inputs, outputs, manifests):
        write_manifest(manifest, "words", options, result[str(output)], [path], [output])
    return result


def _checked(path: PathLike, segmenter: Optional[str]) -> Iterator[str]:
    """The lines of a file whose script fits the segmenter: most of its first lines, and nearly all of its lines."""
    counted = spaceless = 0
    for number, line in enumerate(read_lines(path, "--inputs"), start=1):
        yield line
        if segmenter is None:
            counted += LETTER.search(line) is not None
            spaceless += spaceless_share(line) >= SPACELESS_LETTERS
        if number == SAMPLE_LINES:
            _refuse_spaceless(path, spaceless, counted, SAMPLE_SHARE)
    _refuse_spaceless(path, spaceless, counted, SPACELESS_LINES)


def _refuse_spaceless(path: PathLike, spaceless: int, counted: int, most: float) -> None:
    if spaceless and spaceless >= most * counted:
        raise InputError(
            f"--inputs {path}: {spaceless:,} of {counted:,} lines read ({spaceless / counted:.0%}) are of a script without spaces "
            f"between words (Chinese, Japanese, Thai ...), and --segmenter is not given; valid: {VALID}; or fewer than "
            f"{SPACELESS_LINES:.0%} of such lines"
        )


def build_parser() -> argparse.ArgumentParser:
    """Return the options of ``python -m data_prep.words``."""
    parser = cli.parser("words", __doc__)
    parser.add_argument(
        "--inputs", nargs="+", required=True, metavar="FILE", help="text, one sentence per line"
    )
    parser.add_argument(
        "--outputs",
        nargs="+",
        required=True,
        metavar="FILE",
        help="words, one for each of --inputs",
    )
    add_word_options(parser)
    return parser


def add_word_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say what a word is."""
    parser.add_argument(
        "--segmenter",
        metavar="NAME",
        help=f"for Chinese, Japanese, Thai ...: {VALID}, as jieba:lcut",
    )
    parser.add_argument("--cased", action="store_true", help="keep upper case")


def main(argv: Optional[List[str]] = None) -> None:
    """Run the verb with these arguments (default: the command line's)."""
    args = build_parser().parse_args(argv)
    for name, counts in write_words(args.inputs, args.outputs, args.segmenter, args.cased).items():
        cli.say(f"words: {name}: " + ", ".join(f"{key} {value:,}" for key, value in counts.items()))
