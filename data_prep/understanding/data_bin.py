"""The data-bin folder of an understanding task: labels, and datasets in fairseq's own format.

This file alone imports torch and fairseq; it is imported when a data-bin is made.
"""

import shutil
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Iterable, Iterator, List, Mapping, Optional, Sequence

import numpy as np
import torch
from fairseq.data import Dictionary
from fairseq.data.indexed_dataset import MMapIndexedDatasetBuilder, make_builder

from ..files import atomic_folder, locked, restore_folder
from ..io import InputError, PathLike, read_json
from ..layout import MANIFEST
from ..pieces.dictionary import RESERVED, read_dictionary
from .sources import Label, Source, check_grade

VERB = "nlu"
TEXTS = ("input0", "input1")
LABEL, OFFSETS = "label", "offsets"
DICTIONARY = "dict.txt"


# ---- The folder. ----


@contextmanager
def whole_folder(output: PathLike, sources: Sequence[Source]) -> Iterator[Path]:
    """Yield an empty folder that takes the output's place at the end, or vanishes after an error.

    Args:
        output: replaced if it is empty or holds nothing but what this verb made.
        sources: files that must not go with the old folder.

    Raises:
        InputError: the output holds other files, or a source; another run is at work there.
    """
    target = Path(output).absolute()
    if target.exists() and not target.is_dir():
        raise InputError(f"OUT {output}: a file; valid: a folder")
    with locked(target.with_name(f".{target.name}.lock"), f"OUT {output}"):
        restore_folder(target)
        _check_folder(target, output, sources)
        with atomic_folder(target, replace=True) as folder:
            yield folder


def _check_folder(target: Path, output: PathLike, sources: Sequence[Source]) -> None:
    for source in sources:
        if target.resolve() in source.path.resolve().parents:
            problem = f"holds the input {source.path}"
            raise InputError(f"OUT {output}: {problem}; valid: a folder without inputs")
    names = set()
    manifest = read_json(target / MANIFEST) or {}
    if str(manifest.get("verb", "")).startswith(VERB):
        rows = manifest.get("outputs", [])
        names = {MANIFEST, *(str(row.get("file")) for row in rows if isinstance(row, dict))}
    for path in sorted(target.rglob("*")):
        name = path.relative_to(target).as_posix()
        if name not in names and (path.is_symlink() or not path.is_dir()):
            problem = f"holds files that {VERB} did not make, as {name}"
            raise InputError(
                f"OUT {output}: {problem}; valid: a new or empty folder, or a run's own"
            )


# ---- Labels. ----


class Labels:
    """Classes, tags or grades, numbered as training has them; others are unknown and counted.

    Args:
        counts: label -> rows of train that have it, in the order of the numbers.
    """

    def __init__(self, counts: Mapping[str, int]):
        self.dictionary = Dictionary()
        for name, count in counts.items():
            self.dictionary.add_symbol(name, count)

    @property
    def names(self) -> List[str]:
        """The labels in the order of their numbers."""
        return list(self.dictionary.symbols[self.dictionary.nspecial :])

    def index(self, name: str, unknown: Counter) -> int:
        """Return the id of a label; that of ``<unk>``, counted in `unknown`, if train lacks it."""
        if name in RESERVED or name not in self.dictionary:
            unknown[name or "(none)"] += 1
            return self.dictionary.unk()
        return self.dictionary.index(name)


def collect_labels(labels: Iterable[Label]) -> Labels:
    """Assign numbers to the labels of train: whole numbers by size, others alphabetically.

    Raises:
        InputError: a label that a dictionary cannot hold, with its place, or no label.
    """
    counts = _count_labels(labels)
    are_numbers = all(name.isdecimal() for name in counts)
    names = sorted(counts, key=lambda name: (int(name) if are_numbers else 0, name))
    return Labels({name: counts[name] for name in names})


def collect_grades(labels: Iterable[Label]) -> Labels:
    """Assign numbers to grades: 0, 1, 2 … up to the largest of train, also those that no row has.

    Raises:
        InputError: another label than a grade, with its place, or no label.
    """
    counts = _count_labels(labels, are_grades=True)
    largest = max(int(name) for name in counts)
    return Labels({str(grade): counts[str(grade)] for grade in range(largest + 1)})


def _count_labels(labels: Iterable[Label], are_grades: bool = False) -> Counter:
    counts: Counter = Counter()
    for name, place in labels:
        if name not in counts:
            _check_label(name, place, are_grades)
        counts[name] += 1
    if not counts:
        raise InputError(
            "input: no label in train; valid: a file train.LANG=FILE with labels, or --labels with "
            "the label/dict.txt of the data-bin that was trained on"
        )
    return counts


def _check_label(name: str, place: str, is_grade: bool) -> None:
    if is_grade:
        check_grade(name, place)
    if name.split() != [name] or name in RESERVED:
        valid = f"one without white space, other than {' '.join(sorted(RESERVED))}"
        hint = "is it the right column? --label-map OLD=NEW renames labels"
        raise InputError(f"{place}: the label {name[:60]!r}; valid: {valid}; {hint}")


def read_labels(path: PathLike) -> Labels:
    """Return the labels of another data-bin's label/dict.txt.

    Raises:
        InputError: not a fairseq dictionary.
    """
    return Labels(dict.fromkeys(read_dictionary(path, "--labels"), 1))


# ---- Datasets. ----


class Rows:
    """Writer of a dataset, FOLDER/SPLIT.LANG.bin and .idx.

    Args:
        prefix: the two files without their endings.
        builder: builder of fairseq.
    """

    def __init__(self, prefix: Path, builder: Any):
        self.prefix, self.builder = prefix, builder

    def add(self, ids: Sequence[int]) -> None:
        """Append a row."""
        self.builder.add_item(torch.tensor(ids, dtype=torch.int64))

    def close(self) -> None:
        """Write the index."""
        self.builder.finalize(f"{self.prefix}.idx")


class DataBin:
    """Datasets below one folder, with one dictionary of pieces.

    Args:
        folder: the folder.
        dictionary: file in fairseq's format; it is copied to the places where tasks look for it.
        segmenter: of the pieces.
    """

    def __init__(self, folder: Path, dictionary: PathLike, segmenter: Any):
        self.folder, self.segmenter = folder, segmenter
        self.file = Path(dictionary)
        self.dictionary = Dictionary.load(str(dictionary))
        special, indices = self.dictionary.nspecial, self.dictionary.indices
        self.pieces = {piece: index for piece, index in indices.items() if index >= special}

    def ids(self, pieces: Sequence[str]) -> List[int]:
        """Return the ids of pieces; unknown ones, and fairseq's symbols in text, are ``<unk>``."""
        unknown = self.dictionary.unk()
        return [self.pieces.get(piece, unknown) for piece in pieces]

    def encode(self, texts: Sequence[str]) -> List[List[int]]:
        """Return the ids of each text, without ``</s>``."""
        return [self.ids(pieces) for pieces in self.segmenter.encode(texts)]

    def texts(self, number: int, source: Source) -> Rows:
        """Return the writer of the first (0) or second text of a source."""
        prefix = self._prefix(TEXTS[number], source)
        dictionary = prefix.parent / DICTIONARY
        if not dictionary.exists():
            shutil.copyfile(self.file, dictionary)
        return self._rows(prefix, self.dictionary)

    def labels(self, dictionary: Dictionary, source: Source) -> Rows:
        """Return the writer of the labels of a source."""
        return self._rows(self._prefix(LABEL, source), dictionary)

    def offsets(self, source: Source) -> Rows:
        """Return the writer of begin and end (int32) of each piece of the passages of a source."""
        prefix = self._prefix(OFFSETS, source)
        return Rows(prefix, MMapIndexedDatasetBuilder(f"{prefix}.bin", dtype=np.int32))

    def row(self, ids: Sequence[int]) -> List[int]:
        """Return a row of pieces or labels with its ``</s>``."""
        return [*ids, self.dictionary.eos()]

    @staticmethod
    def _rows(prefix: Path, dictionary: Dictionary) -> Rows:
        size = len(dictionary)
        return Rows(prefix, make_builder(f"{prefix}.bin", "mmap", vocab_size=size))

    def _prefix(self, folder: str, source: Source) -> Path:
        (self.folder / folder).mkdir(exist_ok=True)
        return self.folder / folder / source.name

    def finish(self, labels: Optional[Labels]) -> None:
        """Write the dictionaries of pieces and labels, and the model that made the pieces."""
        if labels is not None:
            (self.folder / LABEL).mkdir(exist_ok=True)
            labels.dictionary.save(str(self.folder / LABEL / DICTIONARY))
        shutil.copyfile(self.file, self.folder / DICTIONARY)
        shutil.copyfile(self.segmenter.path, self.folder / self.segmenter.file_name)
