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
from ..options import add_file_options, add_flag, adder
from ..progress import with_progress
from ..steps import describe_files, write_manifest
from .files import check_places, plugins, read_version

Segmenter = Callable[[str], Iterable[str]]

CHARACTER, SPACES = "character", "spaces"
LETTER = regex.compile(r"[\p{L}\p{M}]")
# Least share of a line's letters for it to be of a script without spaces.
SPACELESS_LETTERS = 0.3
# Least share of a text's lines for it to need a segmenter. Lines, because a Chinese sentence has
# far fewer letters than an English one: of two corpora in one file, half of the lines can be a
# fifth of the letters. Quotations are far fewer than a tenth of the lines.
SPACELESS_LINES = 0.1
SAMPLE_LINES, SAMPLE_SHARE = 1000, 0.5  # with such a share of the first lines, the rest is not read
VALID = f"{CHARACTER}, {SPACES} (the text is segmented already) or MODULE:FUNCTION"


def load_segmenter(name: str) -> Segmenter:
    """Return the function that cuts a sentence into words.

    Args:
        name: ``character`` (scripts without spaces by character, all others by word), ``spaces``,
            or ``MODULE:FUNCTION``, a function from a text to words that Python can import, as
            ``jieba:lcut``.

    Raises:
        InputError: there is no such module or function.
    """
    if name in (CHARACTER, SPACES):
        return lambda text: [text]
    module, colon, function = name.partition(":")
    if not (module and colon and function):
        raise InputError(f"--segmenter {name}: valid: {VALID}")
    try:
        segmenter = getattr(importlib.import_module(module), function, None)
    except ImportError as error:
        valid = "a module that Python can import"
        raise InputError(f"--segmenter {name}: {error}; valid: {valid}") from None
    if not callable(segmenter):
        problem = f"{module} has no function {function}"
        raise InputError(f"--segmenter {name}: {problem}; valid: {VALID}")
    return segmenter


def describe_options(segmenter: Optional[str], cased: bool) -> Dict[str, Any]:
    """Return the options for a manifest or a step, with the code of a segmenter of the user.

    That is the hash of the file of its module and of the file in which the function is written,
    and the version of its package. What these import is not checked.

    Raises:
        InputError: as in :func:`load_segmenter`.
    """
    options: Dict[str, Any] = {"segmenter": segmenter, "cased": cased}
    if segmenter is None or segmenter in (CHARACTER, SPACES):
        return options
    function, name = load_segmenter(segmenter), segmenter.partition(":")[0]
    names = name, getattr(function, "__module__", None) or name
    paths = dict.fromkeys(getattr(sys.modules.get(module), "__file__", None) for module in names)
    files = [path for path in paths if path is not None and Path(path).is_file()]
    options["segmenter_code"] = describe_files(files)
    options["segmenter_version"] = read_version(name.partition(".")[0])
    return options


def build_cutter(segmenter: Optional[str], cased: bool = False) -> Callable[[str], List[str]]:
    """Return the function from a sentence to its words, without punctuation.

    Args:
        segmenter: as in :func:`load_segmenter`; None: words are runs of letters, marks and digits.
        cased: keep upper case.
    """
    with plugins():
        from fairseq_plugins.scoring.words import words

    segment = load_segmenter(segmenter or SPACES)
    kind = "auto" if segmenter == CHARACTER else "word"

    def cut_line(line: str) -> List[str]:
        result: List[str] = []
        for part in segment(line):
            if not isinstance(part, str):
                problem = f"gives {type(part).__name__}"
                valid = "a function that gives strings"
                raise InputError(f"--segmenter {segmenter}: {problem}; valid: {valid}")
            result += words(part, kind, not cased)
        return result

    return cut_line


def write_words(
    inputs: Sequence[PathLike],
    outputs: Sequence[PathLike],
    segmenter: Optional[str] = None,
    cased: bool = False,
) -> Dict[str, Dict[str, int]]:
    """Write the words of text files, and a manifest beside each output (OUTPUT.json).

    Args:
        inputs: text, one sentence per line.
        outputs: one for each input; a line without words stays as an empty line.
        segmenter: as in :func:`load_segmenter`; needed for scripts without spaces.
        cased: keep upper case.

    Returns:
        Output -> counts: ``lines``, ``words``, ``distinct``.

    Raises:
        InputError: bad input, as in :func:`read_lines`; a script without spaces and no segmenter;
            a file without a word; an output or its manifest in the place of another file.
    """
    check_output_count(inputs, outputs)
    manifests = [Path(f"{output}.json") for output in outputs]
    places = [("--outputs", output) for output in outputs]
    places += [("manifest of --outputs", path) for path in manifests]
    check_places([("--inputs", path) for path in inputs], places)
    options, cutter = describe_options(segmenter, cased), build_cutter(segmenter, cased)
    counts = {}
    with atomic_texts(outputs, "--outputs", inputs) as files:
        for path, output, file in zip(inputs, outputs, files):
            distinct, lines, total = set(), 0, 0
            label = f"words: {Path(path).name}"
            for line in with_progress(_read_checked(path, segmenter), label):
                words = cutter(line)
                file.write(" ".join(words) + "\n")
                distinct.update(words)
                lines, total = lines + 1, total + len(words)
            if not total:
                valid = "text with letters or digits"
                raise InputError(f"--inputs {path}: holds no word; valid: {valid}")
            counts[str(output)] = {"lines": lines, "words": total, "distinct": len(distinct)}
        for manifest in manifests:
            manifest.unlink(missing_ok=True)
    for path, output, manifest in zip(inputs, outputs, manifests):
        write_manifest(manifest, "words", options, counts[str(output)], [path], [output])
    return counts


# ---- Scripts without spaces. ----


def _read_checked(path: PathLike, segmenter: Optional[str]) -> Iterator[str]:
    """Yield the lines of a file; refuse a script without spaces if there is no segmenter."""
    line_count = spaceless = 0
    for number, line in enumerate(read_lines(path, "--inputs"), start=1):
        yield line
        if segmenter is None:
            line_count += LETTER.search(line) is not None
            spaceless += spaceless_share(line) >= SPACELESS_LETTERS
        if number == SAMPLE_LINES:
            _refuse_spaceless(path, spaceless, line_count, SAMPLE_SHARE)
    _refuse_spaceless(path, spaceless, line_count, SPACELESS_LINES)


def _refuse_spaceless(path: PathLike, spaceless: int, line_count: int, limit: float) -> None:
    if spaceless and spaceless >= limit * line_count:
        share = f"{spaceless:,} of {line_count:,} lines read ({spaceless / line_count:.0%})"
        raise InputError(
            f"--inputs {path}: {share} are of a script without spaces between words (Chinese, "
            f"Japanese, Thai ...), and --segmenter is not given; valid: {VALID}; or fewer than "
            f"{SPACELESS_LINES:.0%} of such lines"
        )


def spaceless_share(line: str) -> float:
    """Return the share of a line's letters, in [0, 1], in scripts without spaces between words."""
    is_spaceless = _load_is_spaceless()
    if line.isascii() or not is_spaceless(line):  # most lines of most texts
        return 0.0
    letters = LETTER.findall(line)
    return sum(map(is_spaceless, letters)) / len(letters) if letters else 0.0


@cache
def _load_is_spaceless() -> Callable[[str], bool]:
    with plugins():
        from fairseq_plugins.csr.words import is_spaceless

    return is_spaceless


# ---- The verb. ----


def add_word_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say what a word is."""
    text = f"segmenter of Chinese, Japanese, Thai ...: {VALID}, as jieba:lcut"
    adder(parser)("--segmenter", "NAME", text)
    add_flag(parser, "--cased", "keep upper case")


def main(argv: Optional[List[str]] = None) -> None:
    """Run the verb with these arguments (default: the command line's)."""
    parser = cli.parser("words", __doc__)
    add_file_options(parser, "text, one sentence per line", "words, a file for each of --inputs")
    add_word_options(parser)
    args = parser.parse_args(argv)
    counts = write_words(args.inputs, args.outputs, args.segmenter, args.cased)
    for output, part in counts.items():
        cli.say(f"words: {output}: {cli.list_counts(part)}")
