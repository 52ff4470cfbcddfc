"""Texts of two segments x and y, read from files: translation pairs, adjacent segments."""

from typing import Any, Dict, Optional, Sequence, Tuple

import numpy as np
from fairseq.data import TokenBlockDataset

EMPTY = 1
"""Tokens of an empty line: its ``</s>``."""

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

    Whole sentences of a document are packed into segments, in order, as many as fit. The first and
    second segment make a text, the third and fourth another, and so on. If a segment remains at the
    end, it is cut between sentences into halves as equal as possible, or left out if it is a single
    sentence. A sentence longer than a segment is left out, and ends a document as an empty
    line does.

    Args:
        sentences: indexable (S,) int64 tensors that end with ``</s>``.
        sizes: (M,) their tokens; an empty line ends a document.
        room: most tokens of a segment, ``<s>`` and every ``</s>`` counted.
        pad, eos: ids.

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
        """Return a segment and the one after it."""
        start, middle, end = self.cuts[index].tolist()
        rows = [self.sentences[number].numpy() for number in range(start, end)]
        return np.concatenate(rows[: middle - start]), np.concatenate(rows[middle - start :])


def _pack(
    sentences: Any, sizes: np.ndarray, room: int, pad: int, eos: int
) -> Tuple[np.ndarray, np.ndarray]:
    """Pack the sentences of each document into segments.

    Returns:
        (K, 2) int64, the first sentence of each segment and the one after its last; (K,) bool,
        True = the segment is not longer than ``room``.
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
    """Pair each segment with the next; halve a segment that remains.

    Args:
        segments: (K, 2), first sentence and the one after the last.
        starts: (M + 1,) tokens before each sentence.

    Returns:
        (N, 3) int64, the first sentence of x, that of y, and the one after y; and the number of
        remaining segments that are a single sentence.
    """
    if not len(segments):
        return np.zeros((0, 3), dtype=np.int64), 0
    first, end = segments.T
    # Runs of adjacent segments; between two runs lies an empty line or a sentence that is too long.
    runs = np.flatnonzero(np.append(True, first[1:] != end[:-1]))  # first segment of each run
    counts = np.diff(np.append(runs, len(segments)))
    place = np.arange(len(segments)) - np.repeat(runs, counts)  # K, of a segment in its run
    x = np.flatnonzero((place % 2 == 0) & (place + 1 < np.repeat(counts, counts)))
    pairs = np.stack([first[x], first[x + 1], end[x + 1]], axis=1)
    odd = (runs + counts - 1)[counts % 2 == 1]  # last segment of a run of odd length
    is_single = end[odd] - first[odd] == 1
    halves = _halve(first[odd[~is_single]], end[odd[~is_single]], starts)
    cuts = np.concatenate([pairs, halves])
    return cuts[np.argsort(cuts[:, 0])], int(is_single.sum())


def _halve(first: np.ndarray, end: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Cut segments of several sentences into halves of nearly equal length.

    Of two equally good cuts the earlier is taken.

    Args:
        first, end: (K,) first sentence of each segment, and the one after its last.
        starts: (M + 1,) tokens before each sentence.

    Returns:
        (K, 3) int64, ``first``, the first sentence of the second half, ``end``.
    """
    middle = (starts[first] + starts[end]) / 2
    after = np.clip(np.searchsorted(starts, middle), first + 1, end - 1)
    before = np.clip(after - 1, first + 1, end - 1)
    is_before = middle - starts[before] <= starts[after] - middle
    return np.stack([first, np.where(is_before, before, after), end], axis=1)
