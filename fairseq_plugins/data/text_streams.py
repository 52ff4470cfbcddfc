"""Where span corruption takes its texts from: blocks of monolingual sentences, and translation pairs.

A text is one row of tokens, sentence after sentence, each with its ``</s>`` at the end. These ``</s>`` are never corrupted: in a
target they would tell the decoder to stop.
"""

from typing import Any, Sequence, Tuple

import numpy as np
from fairseq.data import TokenBlockDataset

SHORTEST = 2
"""Tokens, ``</s>`` not counted, that a text needs: one is corrupted, one stays."""


class TextStream:
    """Texts of one language or pair, in the order of the files; a share of their tokens is to be corrupted.

    Attributes:
        ratio: share of the tokens that are corrupted, in (0, 1).
        tokens: (N,) int64, tokens of each text that may be corrupted: all but the ``</s>`` of its sentences.
        separators: (N,) int64, ``</s>`` between two sentences of each text; the last one is not counted.
        left_out: texts of fewer than :data:`SHORTEST` tokens, which nothing can be learned from.
    """

    def __init__(self, ratio: float, tokens: np.ndarray, separators: np.ndarray):
        self.ratio = ratio
        self._kept = np.flatnonzero(tokens >= SHORTEST)
        self.tokens, self.separators = tokens[self._kept], separators[self._kept]
        self.left_out = len(tokens) - len(self._kept)

    def __len__(self) -> int:
        return len(self._kept)

    def read(self, index: int, rng: np.random.Generator) -> Tuple[np.ndarray, np.ndarray]:
        """The text and the places of its ``</s>``: (S,) int64, and int64 in rising order, the last one S − 1."""
        return self._read(int(self._kept[index]), rng)

    def _read(self, number: int, rng: np.random.Generator) -> Tuple[np.ndarray, np.ndarray]:
        raise NotImplementedError


class SentenceBlocks(TextStream):
    """Monolingual sentences packed into blocks by fairseq's TokenBlockDataset.

    Args:
        sentences: indexable (S,) int64 tensors that end with ``</s>``; ``sizes`` (M,) counts it.
        block_size: tokens of a block, at most; only a single sentence that is longer makes a longer block (see ``break_mode``).
        break_mode: as fairseq's ``--sample-break-mode``: complete (whole sentences), complete_doc (and no block beyond an empty
            line), eos (one sentence), none (equal blocks, which end anywhere: ``</s>`` is then added, within ``block_size``).
    """

    def __init__(self, sentences: Any, sizes: Any, block_size: int, break_mode: str, pad: int, eos: int, ratio: float):
        self.sizes, self.eos = np.asarray(sizes, dtype=np.int64), eos
        room = block_size - 1 if break_mode == "none" else block_size
        self.blocks = TokenBlockDataset(sentences, self.sizes, room, pad, eos, break_mode=break_mode)
        # Not blocks.sizes, which are 16 bits wide whatever the longest sentence.
        start, end = self.blocks.slice_indices.astype(np.int64).T
        first, _, last = self.blocks.block_to_dataset_index.astype(np.int64).T
        ends_whole = np.cumsum(self.sizes)[last] == end
        separators = last - first
        super().__init__(ratio, end - start - separators - ends_whole, separators)

    def _read(self, number: int, rng: np.random.Generator) -> Tuple[np.ndarray, np.ndarray]:
        tokens = self.blocks[number].numpy()
        first, offset, last = (int(value) for value in self.blocks.block_to_dataset_index[number])
        ends = np.cumsum(self.sizes[first : last + 1]) - offset - 1
        if ends[-1] >= len(tokens):  # the block ends inside a sentence
            ends[-1] = len(tokens)
            tokens = np.append(tokens, self.eos)
        return tokens, ends


class SentencePairs(TextStream):
    """Translation pairs ``x </s> y </s>``, or ``y </s> x </s>`` with probability 1/2.

    ``sides`` are two sequences of (S,) int64 tensors that end with ``</s>``, ``sizes`` (N,) the tokens of each, ``</s>`` counted.

    Source: DeltaLM section 2.3 and mT6 (Chi et al. 2021), translation span corruption; the order of the sides is ours.
    """

    def __init__(self, sides: Sequence[Any], sizes: Sequence[Any], ratio: float):
        self.sides = list(sides)
        tokens = np.sum([np.asarray(size, dtype=np.int64) - 1 for size in sizes], axis=0)
        super().__init__(ratio, tokens, np.ones_like(tokens))

    def _read(self, number: int, rng: np.random.Generator) -> Tuple[np.ndarray, np.ndarray]:
        sides = self.sides[::-1] if rng.integers(2) else self.sides
        rows = [side[number].numpy() for side in sides]
        return np.concatenate(rows), np.cumsum([len(row) for row in rows]) - 1
