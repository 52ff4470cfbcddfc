"""The dataset of code-switching restore: source X', in which words are replaced, and target X.

``print(dataset.describe([0, 1]))`` shows sentences with their replaced words.
"""

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import torch
from fairseq.data import Dictionary, data_utils
from fairseq.data.language_pair_dataset import collate

from ..common.epoch_dataset import EpochDataset
from ..common.sampling import Purpose, epoch_rng
from .neighbours import NeighbourTable, SwitchText
from .noise import (
    Switching,
    choose_neighbours,
    choose_words,
    epoch_address,
    span_distribution,
    streams,
)
from .words import ranges, row_starts

COUNTS = ("words", "covered", "switched")
"""Counts of an item: words, those with an entry, those that were replaced."""


class Replacements(NamedTuple):
    """The replaced words of a batch."""

    sentence: np.ndarray  # (K,) int64, row of the batch
    first: np.ndarray  # (K,) int64, first token of the word, counted through the batch
    pieces: np.ndarray  # (K,) int32, tokens of the word
    neighbour: np.ndarray  # (K,) int64, number of the neighbour in the table


class SwitchedBatch(NamedTuple):
    """Sentences before and after the replacement, one after another in flat arrays."""

    target: np.ndarray  # (N,) int64, X
    lengths: np.ndarray  # (B,) int64
    source: np.ndarray  # (M,) int64, X'
    source_lengths: np.ndarray  # (B,) int64
    words: np.ndarray  # (B,) int32, words of each sentence
    covered: np.ndarray  # (B,) int32, those that have an entry
    replacements: Replacements


class CodeSwitchingDataset(EpochDataset):
    """Sentences of all languages, interleaved; their words are replaced anew in every epoch.

    With two languages, item 2i is sentence i of the first, and 2i + 1 sentence i of the second.
    What the longer text has more follows at the end.

    The target is the pieces, ``</s>`` and the language's id; the source is the same with some words
    replaced; the decoder's input begins with the language's id. That is mBART's order.

    Args:
        texts: the sentences of each language.
        table: neighbours of all entries.
        switching: options of the noise.
        dictionary: of all languages.
        left_pad_source, left_pad_target: the side of the padding.
        one_language_per_batch: True = a batch has sentences of one language; False = of all.

    Attributes:
        sizes: (N,) int64, tokens of the longest source that an item can get; the target is never
            longer.
        lengths: (N,) int64, tokens of the target.
        most_batches: batches per epoch, drawn at random; None = all.

    Source: CSR Eq. 3, III-B a. The paper alternates between the two languages' objectives: one
    language per batch; fairseq shuffles the batches.
    """

    def __init__(
        self,
        texts: Sequence[SwitchText],
        table: NeighbourTable,
        switching: Switching,
        dictionary: Dictionary,
        left_pad_source: bool = True,
        left_pad_target: bool = False,
        one_language_per_batch: bool = False,
    ):
        self.text, self.table = SwitchText.join(texts), table
        self.switching, self.seed, self.dictionary = switching, switching.seed, dictionary
        self.left_pad_source, self.left_pad_target = left_pad_source, left_pad_target
        self._distribution = span_distribution(switching.mean_span)
        self._starts = row_starts(self.text.lengths)  # of each sentence among the tokens
        self._first_word = row_starts(self.text.covered)  # of each sentence among the entries
        counts = [len(text.lengths) for text in texts]
        sentence = np.concatenate([np.arange(count) for count in counts])
        language = np.repeat(np.arange(len(texts)), counts)
        order = np.lexsort((language, sentence))
        self._rows = order.astype(np.int32)
        self._group = np.zeros(len(order), dtype=np.int64)  # N, batches are made within a group
        if one_language_per_batch:
            self._group = language[order]
        self.lengths = self.text.lengths[self._rows].astype(np.int64)
        self.sizes = longest_sources(self.text, table, switching.ratio)[self._rows]
        self.most_batches: Optional[int] = None
        self.set_epoch(1)

    def __len__(self) -> int:
        return len(self._rows)

    def set_epoch(self, epoch: int) -> None:
        """Draw the noise of this epoch from now on."""
        self.epoch, self._address = epoch, epoch_address(self.seed, epoch)

    # ---- Items. ----

    def __getitem__(self, index: int) -> Dict[str, Any]:
        if not 0 <= index < len(self):
            raise IndexError(f"index {index} of {len(self)}")
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[int]) -> List[Dict[str, Any]]:
        """Return the items of a batch, which torch's data loader asks for at once."""
        if len(indices) == 0:
            return []
        batch = self.switch(indices)
        starts = row_starts(batch.lengths)
        # The decoder's input: the last token, which is the language, comes first.
        previous = np.roll(batch.target, 1)
        previous[starts[:-1]] = batch.target[starts[1:] - 1]
        sources = torch.from_numpy(batch.source).split(batch.source_lengths.tolist())
        targets = torch.from_numpy(batch.target).split(batch.lengths.tolist())
        inputs = torch.from_numpy(previous).split(batch.lengths.tolist())
        switched = np.bincount(batch.replacements.sentence, minlength=len(indices)).tolist()
        words, covered = batch.words.tolist(), batch.covered.tolist()
        return [
            {
                "id": int(index),
                "source": sources[row],
                "target": targets[row],
                "prev_output_tokens": inputs[row],
                "words": words[row],
                "covered": covered[row],
                "switched": switched[row],
            }
            for row, index in enumerate(indices)
        ]

    def switch(self, indices: Sequence[int]) -> SwitchedBatch:
        """Replace words of sentences; the noise depends on seed, epoch and index alone."""
        numbers = np.asarray(indices, dtype=np.int64)
        rows, text, table = self._rows[numbers].astype(np.int64), self.text, self.table  # B
        lengths = text.lengths[rows].astype(np.int64)  # B
        target = text.tokens[ranges(self._starts[rows], lengths)].astype(np.int64)  # N
        words, covered = text.words[rows], text.covered[rows]  # B
        stream = streams(self._address, numbers)  # B
        ratio = self.switching.ratio
        is_replaced = choose_words(words, covered, ratio, self._distribution, stream)  # B C

        sentence, number = np.nonzero(is_replaced)  # K, the words that are replaced
        word = self._first_word[rows][sentence] + number  # K, among all words with an entry
        first_neighbour = table.neighbours[text.entries[word]]  # K
        counts = table.neighbours[text.entries[word] + 1] - first_neighbour
        neighbour = first_neighbour + choose_neighbours(counts, stream[sentence], number)  # K
        first = row_starts(lengths)[sentence] + text.places[word]  # K
        replacements = Replacements(sentence, first, text.pieces[word], neighbour)
        source, source_lengths = replace_words(target, lengths, replacements, table)
        return SwitchedBatch(target, lengths, source, source_lengths, words, covered, replacements)

    def collater(self, samples: List[Dict[str, Any]]) -> Dict[str, Any]:
        """Build fairseq's batch of translation; ``switching`` holds the sums of ``COUNTS``."""
        batch: Dict[str, Any] = collate(
            samples,
            self.dictionary.pad(),
            self.dictionary.eos(),
            left_pad_source=self.left_pad_source,
            left_pad_target=self.left_pad_target,
        )
        if batch:
            batch["switching"] = {name: sum(sample[name] for sample in samples) for name in COUNTS}
        return batch

    def describe(self, indices: Sequence[int]) -> str:
        """Write items of this epoch as text: source, target, and each replaced word."""
        batch = self.switch(indices)
        starts, source_starts = row_starts(batch.lengths), row_starts(batch.source_lengths)
        swaps: List[List[str]] = [[] for _ in indices]
        for sentence, first, pieces, neighbour in zip(*batch.replacements):
            start, end = self.table.starts[neighbour : neighbour + 2]
            new = self._spell(self.table.pieces[start:end])
            swaps[sentence].append(f"{self._spell(batch.target[first : first + pieces])} -> {new}")
        lines = []
        for row, index in enumerate(indices):
            target = batch.target[starts[row] : starts[row + 1]]
            source = batch.source[source_starts[row] : source_starts[row + 1]]
            lines += [
                f"{index} {self.dictionary[target[-1]]}: {len(swaps[row])} of {batch.words[row]} "
                f"words replaced, {batch.covered[row]} have an entry",
                f"  source  {self._spell(source[:-1])}",
                f"  target  {self._spell(target[:-1])}",
                f"  words   {', '.join(swaps[row])}",
            ]
        return "\n".join(lines)

    def _spell(self, tokens: np.ndarray) -> str:
        return str(self.dictionary.string(torch.from_numpy(tokens), "sentencepiece"))

    # ---- Batches. ----

    def ordered_indices(self) -> np.ndarray:
        """Shuffle, then sort by the lengths of target and longest source. (N,) int64.

        The lengths come in the same order in every epoch, so that each has as many batches.
        """
        order = epoch_rng(self.seed, self.epoch, Purpose.ORDER).permutation(len(self))
        return order[np.lexsort((self.sizes[order], self.lengths[order]))]

    def filter_indices_by_size(
        self, indices: np.ndarray, max_sizes: Any
    ) -> Tuple[np.ndarray, List[int]]:
        """Split indices into items that fit the limits and longer ones.

        A source has the longest length that it can get.

        Args:
            max_sizes: limits of source and target, or one for both.
        """
        return data_utils.filter_paired_dataset_indices_by_size(
            self.sizes, self.lengths, indices, max_sizes
        )

    def size(self, index: int) -> Any:
        """Return the tokens of the longest source, and of the target."""
        return int(self.sizes[index]), int(self.lengths[index])

    def batch_by_size(self, indices: np.ndarray, *limits: Any, **options: Any) -> List[np.ndarray]:
        """Make batches as fairseq does; if there are more than ``most_batches``, draw so many."""
        group = self._group[indices]
        batches: List[np.ndarray] = []
        for number in np.unique(group):
            batches += super().batch_by_size(indices[group == number], *limits, **options)
        if self.most_batches is None or len(batches) <= self.most_batches:
            return batches
        rng = epoch_rng(self.seed, self.epoch, Purpose.BATCHES)
        return [batches[n] for n in np.sort(rng.permutation(len(batches))[: self.most_batches])]


def replace_words(
    target: np.ndarray, lengths: np.ndarray, replacements: Replacements, table: NeighbourTable
) -> Tuple[np.ndarray, np.ndarray]:
    """Make sources of targets: write neighbours in place of words.

    Args:
        target: (N,) int64, targets one after another.
        lengths: (B,) int64, tokens of each target.

    Returns:
        The sources, (M,) int64, and their lengths, (B,) int64.
    """
    first, neighbour = replacements.first, replacements.neighbour
    pieces = table.starts[neighbour + 1] - table.starts[neighbour]  # K, of the neighbours
    # How often each token is written: the first of a replaced word makes room for the neighbour.
    times = np.ones(len(target), dtype=np.int64)  # N
    times[ranges(first, replacements.pieces.astype(np.int64))] = 0
    times[first] = pieces
    source = np.repeat(target, times)  # M
    ends = np.cumsum(times)  # N, in the source
    new = table.pieces[ranges(table.starts[neighbour], pieces)]
    source[ranges(ends[first] - pieces, pieces)] = new
    return source, np.diff(ends[row_starts(lengths)[1:] - 1], prepend=0)


def longest_sources(text: SwitchText, table: NeighbourTable, ratio: float) -> np.ndarray:
    """Bound the tokens of each sentence after any replacement. (R,) int64.

    The bound is reached if the words that can grow most are replaced by their longest neighbours.
    """
    growth = np.zeros(0, dtype=np.int64)
    if len(text.entries):
        growth = np.maximum(table.longest[text.entries] - text.pieces, 0)  # W
    # np.round: as in ``noise.budgets``.
    budget = np.ceil(np.round(ratio * text.words, 9)).astype(np.int64)
    most = np.minimum(budget, text.covered)  # R, words replaced
    sentence = np.repeat(np.arange(len(most)), text.covered)  # W
    order = np.lexsort((-growth, sentence))  # W, of each sentence the largest growth first
    # Place in ``order`` within the sentence: 0 = grows most.
    rank = np.arange(len(growth)) - np.repeat(row_starts(text.covered)[:-1], text.covered)  # W
    largest = rank < most[sentence]
    weights = growth[order][largest]
    total = np.bincount(sentence[largest], weights=weights, minlength=len(most)).astype(np.int64)
    return text.lengths + total
