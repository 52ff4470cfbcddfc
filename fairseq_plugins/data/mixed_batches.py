"""Batches of two datasets in one epoch, each batch from one of them."""

from typing import Any, Dict, Iterator, List, Tuple

import numpy as np
from fairseq import utils
from fairseq.data import FairseqDataset

from ..common.sampling import Purpose, epoch_rng
from .span_corruption_dataset import SpanCorruptionDataset


class MixedBatchesDataset(FairseqDataset):
    """A translation set whose epoch also holds batches of corrupted texts, as a given share of all batches.

    An epoch is one pass over the translation set. The batches of corrupted texts are drawn without repetition as long as they last,
    then again, with other noise. Indices from ``len(translation)`` on are corrupted texts, from ``len(self)`` on repeated ones.

    ``share`` of the batches are corrupted texts, in [0, 1); ``max_sizes``: longest uncorrupted text and longest target of these, in
    tokens, beside the limits for all.
    """

    def __init__(
        self,
        translation: FairseqDataset,
        corrupted: SpanCorruptionDataset,
        share: float,
        max_sizes: Tuple[int, int],
        seed: int,
    ):
        self.translation, self.corrupted = translation, corrupted
        self.share, self.max_sizes, self.seed = share, max_sizes, seed
        self.first = len(translation)
        self.epoch = 1

    def __len__(self) -> int:
        return self.first + len(self.corrupted)

    def set_epoch(self, epoch: int) -> None:
        """Texts, their noise and the choice of batches differ from epoch to epoch."""
        self.epoch = epoch
        self.translation.set_epoch(epoch)
        self.corrupted.set_epoch(epoch)

    def __getitem__(self, index: int) -> Dict[str, Any]:
        if index < self.first:
            return self.translation[index]
        times, text = divmod(index - self.first, len(self.corrupted))
        return {**self.corrupted.repeated(text, times), "id": index}

    def __iter__(self) -> Iterator[Dict[str, Any]]:
        """Every item once; without this, iterating would go on with repeated texts for ever."""
        return (self[index] for index in range(len(self)))

    def collater(self, samples: List[Dict[str, Any]], **options: Any) -> Dict[str, Any]:
        """The collater of the set that all the samples come from."""
        if samples and samples[0]["id"] >= self.first:
            assert all(sample["id"] >= self.first for sample in samples), "a batch has one origin"
            return self.corrupted.collater(samples)
        return self.translation.collater(samples, **options)

    def ordered_indices(self) -> np.ndarray:
        """The translation set's order, as without mixing, then the texts'. (N,)."""
        return np.concatenate([self.translation.ordered_indices(), self.corrupted.ordered_indices() + self.first])

    def filter_indices_by_size(self, indices: np.ndarray, max_sizes: Any) -> Tuple[np.ndarray, List[int]]:
        """Leave out what is too long for the model, and texts that are longer than their own limit."""
        own = utils.resolve_max_positions(self.max_sizes, max_sizes)
        pairs, ignored = self.translation.filter_indices_by_size(indices[indices < self.first], max_sizes)
        texts, long = self.corrupted.filter_indices_by_size(indices[indices >= self.first] - self.first, own)
        return np.concatenate([pairs, texts + self.first]), [*ignored, *(index + self.first for index in long)]

    def batch_by_size(self, indices: np.ndarray, *limits: Any, **options: Any) -> List[np.ndarray]:
        """Batches of each set by itself; those of the texts are repeated or cut to their share."""
        pairs = self.translation.batch_by_size(indices[indices < self.first], *limits, **options)
        texts = self.corrupted.batch_by_size(indices[indices >= self.first] - self.first, *limits, **options)
        wanted = round(len(pairs) * self.share / (1.0 - self.share))
        if wanted and not len(texts):
            raise ValueError(
                f"--mix-monolingual: no text fits into {self.max_sizes[0]} tokens (--tokens-per-sample), --max-source-positions, "
                "--max-target-positions and --max-tokens; raise them or set --mix-share 0"
            )
        return [*pairs, *self._repeat(texts, wanted)]

    def _repeat(self, batches: List[np.ndarray], count: int) -> List[np.ndarray]:
        """``count`` of the batches in random order; each round takes indices of its own, for noise of its own."""
        rng = epoch_rng(self.seed, self.epoch, Purpose.BATCHES)
        chosen: List[np.ndarray] = []
        while len(chosen) < count:
            shift = self.first + len(self.corrupted) * (len(chosen) // len(batches))
            order = rng.permutation(len(batches))[: count - len(chosen)]
            chosen += [np.asarray(batches[number]) + shift for number in order]
        return chosen

    def num_tokens(self, index: int) -> int:
        if index < self.first:
            return int(self.translation.num_tokens(index))
        return self.corrupted.num_tokens(index - self.first)

    def size(self, index: int) -> Any:
        return self.translation.size(index) if index < self.first else self.corrupted.size(index - self.first)

    @property
    def can_reuse_epoch_itr_across_epochs(self) -> bool:
        return False
