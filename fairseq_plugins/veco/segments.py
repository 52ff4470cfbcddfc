"""Texts of two segments x and y, as the files hold them: translation pairs, adjacent segments."""

from typing import Any, Dict, Optional, Sequence, Tuple

import numpy as np
from fairseq.data import TokenBlockDataset

EMPTY = 1
"""Tokens of a row without text: its ``</s>``."""

Segments = Tuple[np.ndarray, np.ndarray]
"""x and y, (S,) int64 each, without ``<s>``; a segment keeps the ``</s>`` of each sentence."""


class SegmentStream:
    """Texts of one language or pair, each of two segments, in the order of the files.

    Attributes:
        parallel: True = the segments are translations of each other.
        lengths: (N, 2) int64, tokens of both segments; ``<s>`` and every ``</s>`` count.
        left_out: reason -> number of sentences (pairs) that are in no text.
    """

    parallel: bool

    def __init__(self, lengths: np.ndarray, left_out: Dict[str, int]):
        self.lengths, self.left_out = lengths, left_out

    def __len__(self) -> int:
        return len(self.lengths)

    def read(self, index: int) -> Segments:
        """Return both segments of a text."""
        raise NotImplementedError


class ParallelPairs(SegmentStream):
    """Translation pairs: x is the source side, y the target side.

    Args:
        sides: two sequences of (S,) int64 tensors that end with ``</s>``.
        sizes: (N,) tokens of each side's tensors.
        room: most tokens of a segment, ``<s>`` and ``</s>`` counted; None = any.
    """

    parallel = True

    def __init__(self, sides: Sequence[Any], sizes: Sequence[Any], room: Optional[int] = None):
        self.sides = list(sides)
        lengths = np.stack([np.asarray(size, dtype=np.int64) for size in sizes], axis=1)
        rows = np.flatnonzero((lengths > EMPTY).all(axis=1))
        left_out = {"with an empty side": len(lengths) - len(rows)}
        if room is not None:
            fits = (lengths[rows] < room).all(axis=1)
            left_out[f"with a side longer than {room} tokens with <s>"] = int((~fits).sum())
            rows = rows[fits]
        self.rows = rows
        super().__init__(lengths[rows] + 1, left_out)

    def read(self, index: int) -> Segments:
        """Return source and target."""
        row = int(self.rows[index])
        x, y = (side[row].numpy() for side in self.sides)
        return x, y


class AdjacentSegments(SegmentStream):
    """Neighbouring segments of monolingual documents.

    Whole sentences of a document are packed into segments, in order, as many as fit. The first
    segment and the second make a text, the third and the fourth, and so on. A segment that remains
    at the end is cut in two where its halves are most alike; it is left out if it has one sentence
    only. A sentence that is longer than a segment is left out, and its neighbours are not adjacent.

    Args:
        sentences: indexable (S,) int64 tensors that end with ``</s>``.
        sizes: (M,) their tokens; ``</s>`` alone ends a document.
        room: most tokens of a segment, ``<s>`` and every ``</s>`` counted.

    Source: VECO section 2.2, "two adjacent segments"; packing and what remains are ours.
    """

    parallel = False

    def __init__(self, sentences: Any, sizes: Any, room: int, pad: int, eos: int):
        self.sentences = sentences
        sizes = np.asarray(sizes, dtype=np.int64)
        starts = np.concatenate([[0], np.cumsum(sizes)])  # M + 1, tokens before each sentence
        segments, fits = _pack(sentences, sizes, room - 1, pad, eos)
        self.cuts, single = _pair_up(segments[fits], starts)
        x, y = starts[self.cuts[:, 1:]].T - starts[self.cuts[:, :-1]].T
        left_out = {
            f"longer than {room} tokens with <s>": int((~fits).sum()),
            "without a neighbour": single,
        }
        super().__init__(np.stack([x, y], axis=1) + 1, left_out)

    def read(self, index: int) -> Segments:
        """Return a segment and the one behind it."""
        start, middle, end = self.cuts[index].tolist()
        rows = [self.sentences[number].numpy() for number in range(start, end)]
        return np.concatenate(rows[: middle - start]), np.concatenate(rows[middle - start :])


def _pack(sentences: Any, sizes: np.ndarray, room: int, pad: int, eos: int) -> Segments:
    """Pack the sentences of each document.

    Returns:
        (K, 2) int64, first sentence of a segment and the one behind its last; (K,) bool, True = not
        longer than ``room``.
    """
    if not (sizes > EMPTY).any():
        return np.zeros((0, 2), dtype=np.int64), np.zeros(0, dtype=bool)
    blocks = TokenBlockDataset(
        sentences, sizes, room, pad, eos, break_mode="complete_doc", document_sep_len=EMPTY
    )
    first, _, last = blocks.block_to_dataset_index.astype(np.int64).T
    start, end = blocks.slice_indices.astype(np.int64).T
    return np.stack([first, last + 1], axis=1), end - start <= room


def _pair_up(segments: np.ndarray, starts: np.ndarray) -> Tuple[np.ndarray, int]:
    """Join neighbours.

    Args:
        segments: (K, 2), first sentence and the one behind the last.
        starts: (M + 1,) tokens before each sentence.

    Returns:
        (N, 3) int64, first sentence of x, of y, and the one behind y; number of sentences in none.
    """
    if not len(segments):
        return np.zeros((0, 3), dtype=np.int64), 0
    first, end = segments.T
    # An empty line, or a sentence that is too long, lies between the segments of two runs.
    runs = np.flatnonzero(np.append(True, first[1:] != end[:-1]))
    counts = np.diff(np.append(runs, len(segments)))
    place = np.arange(len(segments)) - np.repeat(runs, counts)
    x = np.flatnonzero((place % 2 == 0) & (place + 1 < np.repeat(counts, counts)))
    pairs = np.stack([first[x], first[x + 1], end[x + 1]], axis=1)
    odd = (runs + counts - 1)[counts % 2 == 1]  # last segment of a run of odd length
    is_single = end[odd] - first[odd] == 1
    halves = _halve(first[odd[~is_single]], end[odd[~is_single]], starts)
    cuts = np.concatenate([pairs, halves])
    return cuts[np.argsort(cuts[:, 0])], int(is_single.sum())


def _halve(first: np.ndarray, end: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Cut segments of several sentences where the halves are most alike, earlier if equal.

    Returns (K, 3) int64.
    """
    middle = (starts[first] + starts[end]) / 2
    after = np.clip(np.searchsorted(starts, middle), first + 1, end - 1)
    before = np.clip(after - 1, first + 1, end - 1)
    is_before = middle - starts[before] <= starts[after] - middle
    return np.stack([first, np.where(is_before, before, after), end], axis=1)
