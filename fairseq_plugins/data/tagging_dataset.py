"""Sentences with a tag per word; the first piece of a word carries the tag."""

from typing import Any, Dict, List, NamedTuple, Sequence

import numpy as np
import torch
from fairseq.data import Dictionary

from ..ops.masks import Places
from .nlu_dataset import NLUDataset

UNSEEN = -1
"""Class of a tag that the label dictionary does not have."""


class Tags(NamedTuple):
    """The words of a subset, one row's after the other's."""

    places: np.ndarray  # (W,) int32, of the word's first piece among the pieces of its row
    classes: np.ndarray  # (W,) int64, counted from 0; UNSEEN = a tag that the label dictionary does not have
    ends: np.ndarray  # (N + 1,) int64: the words of row n are those from ``ends[n]`` to before ``ends[n + 1]``


def read_tags(labels: Any, pieces: Sequence[int], dictionary: Dictionary, origin: str) -> Tags:
    """Words and classes of rows of one symbol per piece; ValueError for numbers that do not fit, or a symbol that is no tag.

    Args:
        labels: rows (S,) of integers, with or without ``</s>`` at the end: the tag where a word starts (``<unk>`` for one that the
            ``dictionary`` of the labels lacks), ``<pad>`` elsewhere.
        pieces: of each row of input0, ``</s>`` not counted.
        origin: the subset, for messages.
    """
    if len(labels) != len(pieces):
        raise ValueError(f"subset {origin}: label has {len(labels)} rows, input0 {len(pieces)}; valid: as many")
    places: List[np.ndarray] = []
    symbols: List[np.ndarray] = []
    for index in range(len(labels)):
        row = np.asarray(labels[index])
        if len(row) and row[-1] == dictionary.eos():
            row = row[:-1]
        if len(row) != pieces[index]:
            raise ValueError(
                f"subset {origin}: row {index + 1} has {len(row)} tags in label and {pieces[index]} pieces in input0; valid: one "
                "symbol per piece, the tag where a word starts and <pad> elsewhere"
            )
        found = np.flatnonzero(row != dictionary.pad())
        places.append(found.astype(np.int32))
        symbols.append(row[found])
    ends = np.cumsum([0, *(len(found) for found in places)], dtype=np.int64)
    empty = np.zeros(0, dtype=np.int32)
    tokens = np.concatenate([empty, *symbols]).astype(np.int64)
    wrong = np.flatnonzero((tokens < dictionary.nspecial) & (tokens != dictionary.unk()))
    if len(wrong):
        row_number = int(np.searchsorted(ends, wrong[0], side="right"))
        raise ValueError(
            f"subset {origin}: row {row_number} of label has {dictionary[tokens[wrong[0]]]}, which is no tag"
        )
    classes = np.where(tokens == dictionary.unk(), UNSEEN, tokens - dictionary.nspecial)
    return Tags(np.concatenate([empty, *places]), classes, ends)


class TaggingDataset(NLUDataset):
    """Inputs with a class per word.

    ``cut_words`` are cut off with their first piece and have no target, ``words`` are not; of these, ``unseen`` have a tag that the
    label dictionary lacks.
    """

    def __init__(self, *others: Any, tags: Tags, **more: Any):
        super().__init__(*others, **more)
        assert len(self.texts) == 1 and len(tags.ends) == len(self) + 1
        self.tags = tags
        room = self.sizes - self.input_format.added(1)
        cut = tags.places >= np.repeat(room, np.diff(tags.ends))
        self.cut_words = int(cut.sum())
        self.words = len(cut) - self.cut_words
        self.unseen = int((tags.classes[~cut] == UNSEEN).sum())

    def __getitem__(self, index: int) -> Dict[str, Any]:
        made = self.assemble(int(index))
        row = slice(self.tags.ends[index], self.tags.ends[index + 1])
        places, classes = self.tags.places[row], self.tags.classes[row]
        kept = places < made.kept[0]
        return {
            "id": int(index),
            "tokens": made.tokens,
            "places": places[kept] + made.starts[0],
            "target": classes[kept],
        }

    def collater(self, samples: List[Dict[str, Any]]) -> Dict[str, Any]:
        """The batch of :class:`NLUDataset`; net_input also has select: the places of (B, S) with the first piece of a word.

        target (N,) int64 has the classes of these words in reading order, UNSEEN = -1; words (B,) int64, how many each row has.
        """
        batch = super().collater(samples)
        if batch:
            words = np.array([len(sample["target"]) for sample in samples], dtype=np.int64)
            rows = np.repeat(np.arange(len(samples)), words)
            columns = np.concatenate([sample["places"] for sample in samples])
            batch["net_input"]["select"] = Places(*map(torch.from_numpy, (rows, columns)))
            batch["target"] = torch.from_numpy(np.concatenate([sample["target"] for sample in samples]))
            batch["words"] = torch.from_numpy(words)
        return batch
