"""Which rows of a vocabulary stay when it is cut to a corpus, and the files that say so."""

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, Iterator, List, Mapping, Optional, Sequence, Set, Tuple

from ..files import atomic_texts
from ..io import InputError, PathLike, read_lines
from ..progress import with_progress
from . import models as pieces
from .cut_checkpoint import wrong_rows
from .models import FAIRSEQ_SPECIAL, read_dictionary

# Symbols that are no part of text: <mask>, <2de>, </s>; [en_XX], [en]; __en__. Their rows stay whatever the corpus holds.
SYMBOL = re.compile(r"<[^<>\s]+>|\[[A-Za-z]{2,3}(?:_[A-Za-z]{2,4})?\]|__[A-Za-z_]{2,12}__")


@dataclass(frozen=True)
class Rows:
    """The rows that stay.

    Attributes:
        ids: old ids of the kept rows, ascending; new id i is old id ``ids[i]``.
        lines: the lines of the old dict.txt that stay, in order.
        kept: for each line of the old dict.txt whether it stays.
        extra: rows after those of dict.txt (languages, ``<mask>``), all kept.
        symbols: pieces of dict.txt that were kept although the corpus has too few of them.
    """

    ids: Tuple[int, ...]
    lines: Tuple[str, ...]
    kept: Tuple[bool, ...]
    extra: int
    symbols: Tuple[str, ...]


def count_corpus(
    listed: Sequence[PathLike], text: Sequence[PathLike], model: Optional[PathLike]
) -> Tuple[Counter, Dict[str, int]]:
    """Return how often each piece occurs in files of pieces, or in text that a sentencepiece model cuts.

    Raises:
        InputError: bad input, as in :func:`read_lines`, or neither or both kinds are given.
    """
    check_corpus(listed, text, model)
    found: Counter = Counter()
    counts: Counter = Counter()
    for line in _lines_of_pieces(listed, text, model):
        counts["lines"] += 1
        counts["pieces"] += len(line)
        found.update(line)
    return found, dict(counts)


def check_corpus(listed: Sequence[PathLike], text: Sequence[PathLike], model: Optional[PathLike]) -> None:
    """Check what a corpus is given as, without reading it.

    Raises:
        InputError: neither or both kinds are given, or a file is not there.
    """
    if bool(listed) == bool(text):
        raise InputError("--pieces or --text: valid: one of them, files of pieces, or text with --model")
    if bool(text) != (model is not None):
        raise InputError("--model: valid: a sentencepiece model together with --text, and only then")
    for option, files in (("--pieces", listed), ("--text", text), ("--model", [] if model is None else [model])):
        for path in files:
            if not Path(path).exists():
                raise InputError(f"{option} {path}: no such file")


def check_choice(dictionary: PathLike, min_count: int, keep: Sequence[str]) -> List[str]:
    """Check what the rows are chosen by, without the checkpoint; returns the pieces of dict.txt.

    Raises:
        InputError: a number out of range, a ``keep`` that dict.txt lacks, or a dict.txt that is none.
    """
    if min_count < 1:
        raise InputError(f"--min-count {min_count}: valid: 1 or more")
    listed = read_dictionary(dictionary)
    missing = sorted(set(keep) - set(listed))
    if missing:
        raise InputError(f"--keep {missing[0]}: not in --dict {dictionary}; valid: pieces that it lists")
    return listed


def _lines_of_pieces(
    listed: Sequence[PathLike], text: Sequence[PathLike], model: Optional[PathLike]
) -> Iterator[List[str]]:
    for path in listed:
        for line in with_progress(read_lines(path, "--pieces"), f"cut_vocabulary: {Path(path).name}"):
            yield line.split()
    if model is not None:
        processor = pieces.load_model(model)
        for path in text:
            lines = with_progress(read_lines(path, "--text"), f"cut_vocabulary: {Path(path).name}")
            yield from pieces.encode_lines(processor, lines)


def choose_rows(
    dictionary: PathLike,
    rows: int,
    found: Mapping[str, int],
    min_count: int = 1,
    keep: Sequence[str] = (),
    max_extra: int = 256,
) -> Rows:
    """Return the rows that stay: fairseq's four, frequent pieces, symbols (``SYMBOL``, ``keep``), all rows after dict.txt.

    Args:
        dictionary: dict.txt of the checkpoint.
        rows: rows of its embedding.
        found: piece to occurrences in the corpus.
        min_count: least number of occurrences.
        keep: further pieces of dict.txt that must stay.
        max_extra: most rows after those of dict.txt; more mean that the dictionary is another model's.

    Raises:
        InputError: a number out of range, a ``keep`` that dict.txt lacks, or rows and dictionary do not belong together.
    """
    listed = check_choice(dictionary, min_count, keep)
    lines = list(read_lines(dictionary, "--dict", strict=False))
    extra = rows - len(FAIRSEQ_SPECIAL) - len(listed)
    if not 0 <= extra <= max_extra:
        raise wrong_rows(dictionary, len(listed), rows, max_extra)
    wanted: Set[str] = set(keep)
    kept = [found.get(p, 0) >= min_count or p in wanted or SYMBOL.fullmatch(p) is not None for p in listed]
    if not any(found.get(piece, 0) >= min_count for piece in listed):
        raise InputError(f"--dict {dictionary}: the corpus holds none of its pieces; valid: pieces of its own model")
    first = len(FAIRSEQ_SPECIAL)
    ids = [*range(first), *(first + i for i, stays in enumerate(kept) if stays), *range(rows - extra, rows)]
    symbols = tuple(p for p, stays in zip(listed, kept) if stays and found.get(p, 0) < min_count)
    return Rows(tuple(ids), tuple(x for x, stays in zip(lines, kept) if stays), tuple(kept), extra, symbols)


def unknown_share(found: Mapping[str, int], rows: Rows) -> Tuple[int, int]:
    """Return how many pieces of the corpus have no row any more (they become ``<unk>``), and how many there are."""
    known = {line.removesuffix(" #fairseq:overwrite").rpartition(" ")[0] for line in rows.lines}
    return sum(count for piece, count in found.items() if piece not in known), sum(found.values())


def write_rows(rows: Rows, dictionary: PathLike, dict_map: PathLike, table: PathLike) -> None:
    """Write the cut dict.txt, the map of ``--resized-dict-map``, and a table for other programs.

    Args:
        rows: what stays.
        dictionary: gets the kept lines of dict.txt.
        dict_map: gets one line per piece of the *old* dict.txt, in its order, 1 = its row stays, 0 = not; fairseq's four rows and
            those after dict.txt are not listed. Source: the format that the authors of VECO read.
        table: gets one line a kept row: new id, old id, piece, separated by tabs; rows that dict.txt does not list have
            their number after it, as ``+1``.
    """
    names = [*FAIRSEQ_SPECIAL, *(line.removesuffix(" #fairseq:overwrite").rpartition(" ")[0] for line in rows.lines)]
    names += [f"+{number}" for number in range(1, rows.extra + 1)]
    with atomic_texts([dictionary, dict_map, table], "--output") as (kept, listed, numbered):
        kept.writelines(line + "\n" for line in rows.lines)
        listed.writelines(f"{int(stays)}\n" for stays in rows.kept)
        for new, (old, name) in enumerate(zip(rows.ids, names)):
            numbered.write(f"{new}\t{old}\t{name}\n")
