"""Where VECO's two segments (x, y) come from: translation pairs, and adjacent segments of monolingual documents.

A segment is one row of tokens ``<s> ... </s>``. A segment of several sentences keeps the ``</s>`` of each, as in XLM-R.
"""

from typing import Any, Dict, Optional, Sequence, Tuple

import numpy as np
from fairseq.data import TokenBlockDataset

EMPTY = 1
"""Tokens of a row without text: its ``</s>``."""


class SegmentStream:
    """Texts of one language or pair, each of two segments, in the order of the files.

    Attributes:
        parallel: True = the segments are translations of each other.
        lengths: (N, 2) int64, tokens of the two segments, the ``<s>`` that is put in front and every ``</s>`` counted.
        left_out: reason -> how many sentences (pairs) are in no text.
    """

    parallel: bool

    def __init__(self, lengths: np.ndarray, left_out: Dict[str, int]):
        self.lengths, self.left_out = lengths, left_out

    def __len__(self) -> int:
        return len(self.lengths)

    def read(self, index: int) -> Tuple[np.ndarray, np.ndarray]:
        """The two segments, (S,) int64 each, without ``<s>``."""
        raise NotImplementedError


class ParallelPairs(SegmentStream):
    """Translation pairs: x is the source side, y the target side.

    ``sides`` are two sequences of (S,) int64 tensors that end with ``</s>``, which ``sizes`` (N,) count; equal lengths. ``room``:
    most tokens of a segment, ``<s>`` and ``</s>`` counted; None = any.
    """

    parallel = True

    def __init__(self, sides: Sequence[Any], sizes: Sequence[Any], room: Optional[int] = None):
        self.sides = list(sides)
        both = np.stack([np.asarray(size, dtype=np.int64) for size in sizes], axis=1)
        kept = np.flatnonzero((both > EMPTY).all(axis=1))
        left_out = {"with an empty side": len(both) - len(kept)}
        if room is not None:
            fits = (both[kept] < room).all(axis=1)
            left_out[f"with a side longer than {room} tokens with <s>"] = int((~fits).sum())
            kept = kept[fits]
        self._kept = kept
        super().__init__(both[self._kept] + 1, left_out)

    def read(self, index: int) -> Tuple[np.ndarray, np.ndarray]:
        number = int(self._kept[index])
        x, y = (side[number].numpy() for side in self.sides)
        return x, y


class AdjacentSegments(SegmentStream):
    """Neighbouring segments of monolingual documents.

    Whole sentences of a document are packed into segments, in order, as many as fit; the first segment and the second make a text,
    the third and the fourth, and so on. A segment that is left over at the end is cut in two where its halves are most alike, or
    left out if it has one sentence only. A sentence that is longer than a segment is left out; what stands before it is not
    adjacent to what stands behind it.

    Args:
        sentences: indexable (S,) int64 tensors that end with ``</s>``, which ``sizes`` (M,) count; one of it alone ends a document.
        room: most tokens of a segment, ``<s>`` and every ``</s>`` counted.

    Source: VECO, overview of pre-training (two adjacent segments of monolingual text); packing and leftovers are ours.
    """

    parallel = False

    def __init__(self, sentences: Any, sizes: Any, room: int, pad: int, eos: int):
        self.sentences = sentences
        sizes = np.asarray(sizes, dtype=np.int64)
        tokens = np.concatenate([[0], np.cumsum(sizes)])
        segments, fits = _segments(sentences, sizes, room - 1, pad, eos)
        self._cuts, alone = _pair_up(segments[fits], tokens)
        x, y = tokens[self._cuts[:, 1:]].T - tokens[self._cuts[:, :-1]].T
        left_out = {f"longer than {room} tokens with <s>": int((~fits).sum()), "without a neighbour": alone}
        super().__init__(np.stack([x, y], axis=1) + 1, left_out)

    def read(self, index: int) -> Tuple[np.ndarray, np.ndarray]:
        start, middle, end = self._cuts[index].tolist()
        rows = [self.sentences[number].numpy() for number in range(start, end)]
        return np.concatenate(rows[: middle - start]), np.concatenate(rows[middle - start :])


def document_sizes(sizes: Any) -> np.ndarray:
    """Sentences of each document, (D,) int64; an empty line ends one, further ones and those in front do not count."""
    ends = np.flatnonzero(np.append(np.asarray(sizes) == EMPTY, True))
    counts = np.diff(np.append(-1, ends)) - 1
    return np.asarray(counts[counts > 0], dtype=np.int64)


def _segments(sentences: Any, sizes: np.ndarray, room: int, pad: int, eos: int) -> Tuple[np.ndarray, np.ndarray]:
    """Sentences of a document, packed: (K, 2) int64 first sentence and one past the last; (K,) bool, not longer than ``room``."""
    if not (sizes > EMPTY).any():
        return np.zeros((0, 2), dtype=np.int64), np.zeros(0, dtype=bool)
    blocks = TokenBlockDataset(sentences, sizes, room, pad, eos, break_mode="complete_doc", document_sep_len=EMPTY)
    first, _, last = blocks.block_to_dataset_index.astype(np.int64).T
    start, end = blocks.slice_indices.astype(np.int64).T
    return np.stack([first, last + 1], axis=1), end - start <= room


def _pair_up(segments: np.ndarray, tokens: np.ndarray) -> Tuple[np.ndarray, int]:
    """Put neighbours together: (N, 3) int64, first sentence of x, of y, and one past the last; how many sentences are in none.

    ``segments`` (K, 2) holds the first sentence and one past the last, ``tokens`` (M + 1,) the tokens before each sentence.
    """
    if not len(segments):
        return np.zeros((0, 3), dtype=np.int64), 0
    first, end = segments.T
    # An empty line, or a sentence that is too long, lies between segments of two runs.
    starts = np.flatnonzero(np.append(True, first[1:] != end[:-1]))
    counts = np.diff(np.append(starts, len(segments)))
    place = np.arange(len(segments)) - np.repeat(starts, counts)
    x = np.flatnonzero((place % 2 == 0) & (place + 1 < np.repeat(counts, counts)))
    paired = np.stack([first[x], first[x + 1], end[x + 1]], axis=1)
    over = (starts + counts - 1)[counts % 2 == 1]
    single = end[over] - first[over] == 1
    halves = _halve(first[over[~single]], end[over[~single]], tokens)
    cuts = np.concatenate([paired, halves])
    return cuts[np.argsort(cuts[:, 0])], int(single.sum())


def _halve(first: np.ndarray, end: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """Cut segments of two sentences or more where the halves are most alike, the earlier of two such places. (K, 3) int64."""
    middle = (tokens[first] + tokens[end]) / 2
    after = np.clip(np.searchsorted(tokens, middle), first + 1, end - 1)
    before = np.clip(after - 1, first + 1, end - 1)
    cut = np.where(middle - tokens[before] <= tokens[after] - middle, before, after)
    return np.stack([first, cut, end], axis=1)
