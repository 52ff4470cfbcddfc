"""Word vectors as word2vec's text (``WORDS DIMENSION``, then a line per word), and for torch."""

from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from .. import cli
from ..files import atomic_texts
from ..io import InputError, PathLike, read_lines
from ..options import check_minimum
from ..progress import with_progress

DIGITS = 9  # a float32 comes back as it was
MIN_WORDS = 2


class WordVectors(NamedTuple):
    """Words and their vectors.

    Attributes:
        words: distinct, the most frequent first.
        vectors: (words, dimension) float32, finite.
    """

    words: List[str]
    vectors: np.ndarray

    def rows(self) -> Dict[str, int]:
        """Return word -> row."""
        return {word: row for row, word in enumerate(self.words)}


def read_vectors(path: PathLike, option: str, max_words: Optional[int] = None) -> WordVectors:
    """Read word2vec's text.

    A word may hold blanks (as some released files have): the last numbers of a line are the
    vector. The first line of a repeated word counts.

    Args:
        path: the file, the most frequent word first.
        option: option that named it, for messages.
        max_words: most words to read; None: all.

    Raises:
        InputError: bad input, as in :func:`read_lines`; no header; another number of words or of
            columns than it says; NaN, an infinite number or no number; fewer than two words.
    """
    place = f"{option} {path}"
    lines = read_lines(path, option, strict=False)
    header = _read_header(next(lines), place)
    limit = header.words if max_words is None else min(header.words, max_words)
    vectors = np.empty((limit, header.dimension), dtype=np.float32)
    rows: Dict[str, int] = {}
    repeated = count = 0
    for count, line in enumerate(with_progress(lines, f"reading {Path(path).name}"), start=1):
        if count > limit:
            break
        word, vector = _parse_row(line, header.dimension, f"{place}, line {count + 1}")
        if word in rows:
            repeated += 1
            continue
        vectors[len(rows)] = vector
        rows[word] = len(rows)
    header_words = f"{header.words:,}"
    if count < limit:
        problem = f"{count:,} words, but its first line says {header_words}"
        raise InputError(f"{place}: {problem}; valid: a complete file")
    if count > header.words:
        problem = f"more than the {header_words} words that its first line says"
        raise InputError(f"{place}: {problem}; valid: equal numbers")
    if repeated:
        notice = f"{repeated:,} words come twice; the first vector of each was taken"
        cli.say(f"warning: {place}: {notice}")
    if len(rows) < MIN_WORDS:
        raise InputError(f"{place}: {len(rows)} words; valid: {MIN_WORDS} or more")
    return WordVectors(list(rows), vectors[: len(rows)])


class _Header(NamedTuple):
    words: int
    dimension: int


def _read_header(line: str, place: str) -> _Header:
    cells = line.split()
    if len(cells) != 2 or not all(cell.isdecimal() and int(cell) > 0 for cell in cells):
        valid = "the numbers of words and of dimensions, as in word2vec's text"
        raise InputError(f"{place}, line 1: {line[:60]!r}; valid: {valid}")
    return _Header(int(cells[0]), int(cells[1]))


def _parse_row(line: str, dimension: int, place: str) -> Tuple[str, np.ndarray]:
    cells = line.rstrip().rsplit(" ", dimension)
    if len(cells) != dimension + 1 or not cells[0].strip():
        valid = f"a word and {dimension} numbers"
        raise InputError(f"{place}: {len(line.split())} columns; valid: {valid}")
    word = cells[0]
    try:
        vector = np.array(cells[1:], dtype=np.float32)
    except ValueError:
        problem = f"a column of {word!r} is no number"
        raise InputError(f"{place}: {problem}; valid: {dimension} numbers") from None
    if not np.isfinite(vector).all():
        problem = f"the vector of {word!r} holds NaN or an infinite number"
        raise InputError(f"{place}: {problem}; valid: finite numbers")
    return word.strip(), vector


def write_vectors(
    paths: Sequence[PathLike],
    option: str,
    sides: Sequence[WordVectors],
    inputs: Sequence[PathLike] = (),
) -> None:
    """Write word2vec's text: all files appear together, or none.

    Args:
        paths: outputs.
        option: option that named them, for messages.
        sides: vectors of each output.
        inputs: files that must not be overwritten.
    """
    with atomic_texts(paths, option, inputs) as files:
        for path, file, (words, vectors) in zip(paths, files, sides):
            file.write(f"{len(words)} {vectors.shape[1]}\n")
            form = " ".join([f"%.{DIGITS}g"] * vectors.shape[1])
            label = f"writing {Path(path).name}"
            for word, row in with_progress(zip(words, vectors), label):
                file.write(f"{word} {form % tuple(row.tolist())}\n")


def read_sides(
    source: PathLike, target: PathLike, max_words: Optional[int]
) -> Tuple[WordVectors, WordVectors]:
    """Read the vectors of both languages, which must have one dimension.

    Raises:
        InputError: as in :func:`read_vectors`, or other dimensions.
    """
    sides = (
        read_vectors(source, "--source", max_words),
        read_vectors(target, "--target", max_words),
    )
    first, second = (side.vectors.shape[1] for side in sides)
    if first != second:
        problem = f"{second} dimensions, but --source {source} has {first}"
        raise InputError(f"--target {target}: {problem}; valid: equal ones")
    return sides


# ---- Where torch computes. ----


def add_device_options(add: Any) -> None:
    """Add the options of the device, with what ``options.adder`` returned."""
    add("--device", "NAME", "device of torch: cpu or cuda", default="cpu")
    add("--threads", "N", "threads of torch on the CPU, >= 1 (default: torch's own)")
    text = "words of each side compared at a time, >= 1: memory is its square"
    add("--block", "N", text, default=4096)


def find_device(name: str) -> Any:
    """Return a device of torch.

    Raises:
        InputError: there is no such device here.
    """
    import torch

    try:
        torch.empty(1, device=name)
    except (RuntimeError, AssertionError) as error:
        valid = "cpu, cuda" if torch.cuda.is_available() else "cpu"
        reason = str(error).splitlines()[0]
        raise InputError(f"--device {name}: {reason}; valid here: {valid}") from None
    return torch.device(name)


def set_threads(threads: Optional[int]) -> None:
    """Set the number of torch's threads; None leaves it as it is.

    Raises:
        InputError: fewer than 1.
    """
    import torch

    if threads is not None:
        check_minimum("--threads", threads, 1)
        torch.set_num_threads(threads)
