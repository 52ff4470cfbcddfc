"""Word vectors as word2vec's text: a line ``WORDS DIMENSION``, then a line a word, the most frequent first."""

from pathlib import Path
from typing import Dict, List, NamedTuple, Optional, Sequence

import numpy as np

from .. import cli
from ..files import atomic_texts
from ..io import InputError, PathLike, read_lines
from ..progress import with_progress

DIGITS = 9  # a float32 comes back as it was


class WordVectors(NamedTuple):
    """Words and their vectors.

    Attributes:
        words: different ones, the most frequent first.
        vectors: (words, dimension) float32, finite.
    """

    words: List[str]
    vectors: np.ndarray

    def rows(self) -> Dict[str, int]:
        """Return word -> row."""
        return {word: row for row, word in enumerate(self.words)}


def read_vectors(path: PathLike, option: str, max_words: Optional[int] = None) -> WordVectors:
    """Read word2vec's text.

    A word may hold blanks (as some released files have): the last numbers of a line are the vector. Of a word that comes twice,
    the first line counts.

    Args:
        path: the file.
        option: the option that named it, for messages.
        max_words: read so many of the first (most frequent) words; None: all.

    Raises:
        InputError: bad input, as in :func:`read_lines`; no header; another number of words or of columns than it says; a number
            that is none, NaN or infinite; fewer than two words.
    """
    lines = read_lines(path, option, strict=False)
    count, dimension = _header(next(lines), path, option)
    wanted = count if max_words is None else min(count, max_words)
    vectors = np.empty((wanted, dimension), dtype=np.float32)
    rows: Dict[str, int] = {}
    repeated = number = 0
    for number, line in enumerate(with_progress(lines, f"reading {Path(path).name}"), start=2):
        if number - 1 > wanted:
            break
        word, values = _row(line, dimension, f"{option} {path}, line {number}")
        if word in rows:
            repeated += 1
            continue
        vectors[len(rows)] = values
        rows[word] = len(rows)
    found = min(number - 1, wanted) if number else 0
    if found < wanted:
        raise InputError(
            f"{option} {path}: {found:,} words, but its first line says {count:,}; valid: a complete file"
        )
    if number - 1 > count:
        raise InputError(
            f"{option} {path}: more than the {count:,} words that its first line says; valid: equal numbers"
        )
    if repeated:
        cli.say(
            f"warning: {option} {path}: {repeated:,} words come twice; the first vector of each was taken"
        )
    if len(rows) < 2:
        raise InputError(f"{option} {path}: {len(rows)} words; valid: 2 or more")
    return WordVectors(list(rows), vectors[: len(rows)])


def _header(line: str, path: PathLike, option: str) -> List[int]:
    cells = line.split()
    if len(cells) != 2 or not all(cell.isdecimal() and int(cell) > 0 for cell in cells):
        raise InputError(
            f"{option} {path}, line 1: {line[:60]!r}; valid: the numbers of words and of dimensions, as in word2vec's text"
        )
    return [int(cell) for cell in cells]


def _row(line: str, dimension: int, where: str) -> "tuple[str, np.ndarray]":
    cells = line.rstrip().rsplit(" ", dimension)
    if len(cells) != dimension + 1 or not cells[0].strip():
        raise InputError(
            f"{where}: {len(line.split())} columns; valid: a word and {dimension} numbers"
        )
    try:
        values = np.array(cells[1:], dtype=np.float32)
    except ValueError:
        raise InputError(
            f"{where}: a column of {cells[0]!r} is no number; valid: {dimension} numbers"
        ) from None
    if not np.isfinite(values).all():
        raise InputError(
            f"{where}: the vector of {cells[0]!r} holds NaN or an infinite number; valid: finite numbers"
        )
    return cells[0].strip(), values


def write_vectors(
    paths: Sequence[PathLike],
    option: str,
    sides: Sequence[WordVectors],
    inputs: Sequence[PathLike] = (),
) -> None:
    """Write word2vec's text: all files appear together, or none.

    Args:
        paths: the outputs.
        option: the option that named them, for messages.
        sides: one for each.
        inputs: files that must not be overwritten.
    """
    with atomic_texts(paths, option, inputs) as files:
        for path, file, (words, vectors) in zip(paths, files, sides):
            file.write(f"{len(words)} {vectors.shape[1]}\n")
            form = " ".join([f"%.{DIGITS}g"] * vectors.shape[1])
            for word, row in with_progress(zip(words, vectors), f"writing {Path(path).name}"):
                file.write(f"{word} {form % tuple(row.tolist())}\n")
