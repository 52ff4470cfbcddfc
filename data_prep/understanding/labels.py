"""Labels of a data-bin: numbered as training has them, as a fairseq dictionary; others are unknown and counted."""

from collections import Counter
from typing import Iterable, Iterator, List, Mapping, Tuple

from fairseq.data import Dictionary

from ..io import InputError, PathLike
from ..pieces.models import RESERVED, read_dictionary

MOST_NAMED = 10
MOST_GRADE = 99


class Labels:
    """The classes, tags or grades.

    Args:
        counts: label -> rows of train that have it, in the order of the numbers.
    """

    def __init__(self, counts: Mapping[str, int]):
        self.dictionary = Dictionary()
        for label, count in counts.items():
            self.dictionary.add_symbol(label, count)

    @property
    def names(self) -> List[str]:
        """The labels in the order of their numbers."""
        return list(self.dictionary.symbols[self.dictionary.nspecial :])

    def index(self, label: str, unknown: Counter) -> int:
        """Id in the dictionary; that of ``<unk>``, counted, for a label that training has not."""
        if label in RESERVED or label not in self.dictionary:
            unknown[label or "(none)"] += 1
            return self.dictionary.unk()
        return self.dictionary.index(label)

    def save(self, path: PathLike) -> None:
        """Write dict.txt."""
        self.dictionary.save(str(path))


def collect(labels: Iterable[Tuple[str, str]]) -> Labels:
    """Number the labels of train: whole numbers by size, otherwise in alphabetical order.

    Args:
        labels: label and where it stands, for messages.

    Raises:
        InputError: a label that a dictionary cannot hold, with its place, or none at all.
    """
    counts: Counter = Counter()
    for label, where in labels:
        if label not in counts:
            check_label(label, where)
        counts[label] += 1
    if not counts:
        raise InputError(
            "input: no label in train; valid: a file train.LANG=FILE with labels, or --labels with the label/dict.txt of the "
            "data-bin that was trained on"
        )
    numbers = all(label.isdecimal() for label in counts)
    ordered = sorted(counts, key=lambda label: (int(label) if numbers else 0, label))
    return Labels({label: counts[label] for label in ordered})


def collect_grades(labels: Iterable[Tuple[str, str]]) -> Labels:
    """Number grades: 0, 1, 2 … up to the largest of train, also those between that no row has.

    Raises:
        InputError: something else than a whole number, with its place.
    """

    def checked() -> Iterator[Tuple[str, str]]:
        for label, where in labels:
            check_grade(label, where)
            yield label, where

    found = collect(checked())
    counts = {label: found.dictionary.count[found.dictionary.index(label)] for label in found.names}
    return Labels({str(grade): counts.get(str(grade), 0) for grade in range(int(found.names[-1]) + 1)})


def check_label(label: str, where: str) -> None:
    """Check that a dictionary can hold a label.

    Raises:
        InputError: it is empty, holds white space, or is a symbol of fairseq's.
    """
    if label.split() != [label] or label in RESERVED:
        raise InputError(
            f"{where}: the label {label[:60]!r}; valid: one without white space, other than {' '.join(sorted(RESERVED))}; is it "
            "the right column? --label-map OLD=NEW renames labels"
        )


def check_grade(label: str, where: str) -> None:
    """Check that a label is a grade.

    Raises:
        InputError: it is not 0, 1, 2 …
    """
    if not (label.isascii() and label.isdigit()) or label != str(int(label)) or int(label) > MOST_GRADE:
        raise InputError(
            f"{where}: the grade {label[:60]!r}; valid: 0, 1, 2 … {MOST_GRADE}; --label-map Bad=0,Good=1 makes them of words"
        )


def read_labels(path: PathLike) -> Labels:
    """Return the labels of another data-bin's label/dict.txt.

    Raises:
        InputError: not a fairseq dictionary.
    """
    return Labels(dict.fromkeys(read_dictionary(path, "--labels"), 1))


def listed(unknown: Mapping[str, int]) -> str:
    """Labels with their numbers, the most frequent first."""
    order = sorted(unknown, key=lambda label: (-unknown[label], label))
    more = f" and {len(order) - MOST_NAMED} more" if len(order) > MOST_NAMED else ""
    return ", ".join(f"{label} {unknown[label]:,}" for label in order[:MOST_NAMED]) + more
