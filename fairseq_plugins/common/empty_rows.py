"""Sentences of a data-bin without a token: nothing but ``</s>``."""

import os
from typing import Any, Iterator, List, NamedTuple, Sequence

import numpy as np
from fairseq.data import BaseWrapperDataset, ConcatDataset
from fairseq.data.indexed_dataset import dataset_exists

from .data_bins import both_orders

LISTED = 5
"""So many line numbers are written out."""


class BinSide(NamedTuple):
    """One side of a language pair on disk."""

    folder: str  # the data-bin
    split: str  # as in ``train``
    languages: Sequence[str]  # source and target
    language: str  # the side
    impl: Any = None  # ``--dataset-impl``, None = as it is found

    def path(self, number: int) -> str:
        """File without its ending; ``number`` counts the parts ``train``, ``train1``, … of a split."""
        split = self.split + (str(number) if number else "")
        names = [os.path.join(self.folder, f"{split}.{pair}.") for pair in both_orders("-".join(self.languages))]
        there = [name for name in names if dataset_exists(name + self.languages[0], self.impl)]
        return (there or names)[0] + self.language


def refuse_empty(rows: Any, side: BinSide) -> None:
    """Refuse sentences without a token, by the sizes alone; names the file and the first lines, counted from 1.

    ``rows``: a side as fairseq's translation task reads it: indexed, cut by ``--truncate-source`` or several parts of a split.
    """
    for number, part in enumerate(_parts(rows)):
        empty = np.flatnonzero(np.asarray(part.sizes) <= 1)
        if len(empty):
            lines = _listed(empty + 1)
            raise ValueError(
                f"{side.path(number)}: {lines} without a token ({len(empty)} empty sentences in all); valid: at least one token a "
                "sentence; leave these pairs out"
            )


def _parts(rows: Any) -> Iterator[Any]:
    """The indexed datasets: what wraps them counts a ``</s>`` that is cut off and put back twice."""
    for part in rows.datasets if isinstance(rows, ConcatDataset) else [rows]:
        while isinstance(part, BaseWrapperDataset):
            part = part.dataset
        yield part


def _listed(lines: np.ndarray) -> str:
    numbers: List[str] = [str(line) for line in lines[:LISTED].tolist()]
    more = ", …" if len(lines) > LISTED else ""
    return f"line {numbers[0]} is" if len(lines) == 1 else f"lines {', '.join(numbers)}{more} are"
