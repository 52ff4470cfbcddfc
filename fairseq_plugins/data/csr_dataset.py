"""Code-switching restore: sentences in which words are replaced by words of other languages; the target is the sentence."""

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import torch
from fairseq.data import data_utils
from fairseq.data.language_pair_dataset import collate

from ..common.epoch_dataset import EpochDataset
from ..common.sampling import Purpose, epoch_rng
from ..ops.counter_noise import epoch_address, streams, uniforms
from ..ops.ragged import ends_to_starts, ranges
from ..ops.word_spans import choose_words, span_distribution
from .csr_text import SwitchText

CANDIDATE = 3
"""Purpose of the random numbers that choose candidates; 0 to 2 choose the words."""

COUNTS = ("words", "covered", "switched")
"""What is counted of an item: words, those with an entry, those that were replaced."""


class Switching(NamedTuple):
    """How words are replaced."""

    ratio: float  # share of a sentence's words, in (0, 1]
    mean_span: float  # mean of the Poisson law of the spans, in words
    seed: int  # noise is a function of (seed, epoch, index)


class CodeSwitchingDataset(EpochDataset):
    """Sentences of all languages in turns: with two, item 2i is sentence i of the first, 2i + 1 sentence i of the second; where one
    has more sentences, they are the end.

    Source: the pieces, ``</s>`` and the language's id, with some words replaced. Target: the same without replacements. The
    decoder's input begins with the language's id: mBART's order. Noise is drawn for a whole batch at once, from numbers that are a
    function of (seed, epoch, index) and not of the batch.

    ``text`` has the sentences, one language behind another, ``languages`` (L,) how many there are of each.

    Attributes:
        sizes: (N,) int64, tokens of the longest that an item's source can become, which its target never exceeds.
        lengths: (N,) int64, tokens of its target.
    """

    def __init__(
        self,
        text: SwitchText,
        languages: Sequence[int],
        switching: Switching,
        dictionary: Any,
        left_pad_source: bool = True,
        left_pad_target: bool = False,
    ):
        self.text, self.switching, self.seed = text, switching, switching.seed
        self.pad, self.eos = dictionary.pad(), dictionary.eos()
        self.left_pad_source, self.left_pad_target = left_pad_source, left_pad_target
        self._distribution = span_distribution(switching.mean_span)
        sentence = np.concatenate([np.arange(count) for count in languages])
        language = np.repeat(np.arange(len(languages)), languages)
        self._rows = np.lexsort((language, sentence)).astype(np.int32)
        self.sizes = text.bounds[self._rows]
        self.lengths = np.diff(text.starts)[self._rows]
        self.most_batches: Optional[int] = None
        self.set_epoch(1)

    def __len__(self) -> int:
        return len(self._rows)

    def set_epoch(self, epoch: int) -> None:
        self.epoch, self._address = epoch, epoch_address(self.seed, epoch)

    def __getitem__(self, index: int) -> Dict[str, Any]:
        if not 0 <= index < len(self):
            raise IndexError(f"index {index} of {len(self)}")
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[int]) -> List[Dict[str, Any]]:
        """Items of a batch, which torch's data loader asks for at once."""
        numbers = np.asarray(indices, dtype=np.int64)
        if len(numbers) == 0:
            return []
        text, rows = self.text, self._rows[numbers].astype(np.int64)  # (B,)
        lengths = text.starts[rows + 1] - text.starts[rows]  # (B,)
        target = text.tokens[ranges(text.starts[rows], lengths)].astype(np.int64)  # (N,) sentences one behind another
        starts = ends_to_starts(lengths)  # (B + 1,)
        previous = np.empty_like(target)
        previous[1:] = target[:-1]
        previous[starts[:-1]] = target[starts[1:] - 1]
        covered = text.covered[rows + 1] - text.covered[rows]  # (B,)
        stream = streams(self._address, numbers)  # (B,)
        chosen = choose_words(
            text.words[rows],
            covered,
            self.switching.ratio,
            self._distribution,
            lambda purpose, places: uniforms(stream[:, None], purpose, places),
        )  # (B, most covered)
        source, source_lengths = self._replaced(rows, target, starts, chosen, stream)
        sides = [
            torch.from_numpy(flat).split(sizes.tolist())
            for flat, sizes in ((source, source_lengths), (target, lengths), (previous, lengths))
        ]
        counts = (text.words[rows], covered, chosen.sum(axis=1))
        columns = (numbers.tolist(), *sides, *(count.tolist() for count in counts))
        names = ("id", "source", "target", "prev_output_tokens", *COUNTS)
        return [dict(zip(names, values)) for values in zip(*columns)]

    def _replaced(
        self, rows: np.ndarray, target: np.ndarray, starts: np.ndarray, chosen: np.ndarray, stream: np.ndarray
    ) -> Tuple[np.ndarray, np.ndarray]:
        """Sources one behind another, and their lengths (B,): each chosen word replaced by one of its candidates."""
        text, table = self.text, self.text.table
        item, word = np.nonzero(chosen)  # (K,) the replaced words of all sentences
        place = text.covered[rows][item] + word  # (K,) among all words with an entry
        entry = text.entries[place]
        options = table.candidates[entry + 1] - table.candidates[entry]
        chance = uniforms(stream[item], CANDIDATE, word)
        candidate = table.candidates[entry] + (chance * options).astype(np.int64)
        new = table.starts[candidate + 1] - table.starts[candidate]  # (K,) pieces of the candidate

        first, pieces = starts[item] + text.places[place], text.pieces[place].astype(np.int64)
        # (N,) how often each token is written; the first of a replaced word makes room for the candidate.
        times = np.ones(len(target), dtype=np.int64)
        times[ranges(first, pieces)] = 0
        times[first] = new
        ends = np.cumsum(times)
        source = np.repeat(target, times)  # (N - pieces + new,)
        source[ranges(ends[first] - new, new)] = table.pieces[ranges(table.starts[candidate], new)]
        return source, np.diff(ends[starts[1:] - 1], prepend=0)

    def collater(self, samples: List[Dict[str, Any]]) -> Dict[str, Any]:
        """fairseq's batch of a translation task; ``switching`` holds the sums of :data:`COUNTS`."""
        batch: Dict[str, Any] = collate(
            samples, self.pad, self.eos, left_pad_source=self.left_pad_source, left_pad_target=self.left_pad_target
        )
        if batch:
            batch["switching"] = {name: sum(sample[name] for sample in samples) for name in COUNTS}
        return batch

    # ---- Batches. ----

    def ordered_indices(self) -> np.ndarray:
        """Shuffled, then sorted by the target's length and the longest source, so that every epoch has as many batches. (N,)."""
        order = epoch_rng(self.seed, self.epoch, Purpose.ORDER).permutation(len(self))
        return order[np.lexsort((self.sizes[order], self.lengths[order]))]

    def filter_indices_by_size(self, indices: np.ndarray, max_sizes: Any) -> Tuple[np.ndarray, List[int]]:
        """Leave out what is, or could become, longer than (source, target) or a single limit; returns what stays and what goes."""
        return data_utils.filter_paired_dataset_indices_by_size(self.sizes, self.lengths, indices, max_sizes)

    def size(self, index: int) -> Any:
        return int(self.sizes[index]), int(self.lengths[index])

    def batch_by_size(self, indices: np.ndarray, *limits: Any, **options: Any) -> List[np.ndarray]:
        """fairseq's batches; ``most_batches`` of them, drawn for the epoch, where that is set."""
        batches = list(super().batch_by_size(indices, *limits, **options))
        if self.most_batches is None or len(batches) <= self.most_batches:
            return batches
        rng = epoch_rng(self.seed, self.epoch, Purpose.BATCHES)
        return [batches[number] for number in np.sort(rng.permutation(len(batches))[: self.most_batches])]
