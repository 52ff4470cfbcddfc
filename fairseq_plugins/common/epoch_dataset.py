"""Datasets whose order, or whose items, are drawn anew for every epoch."""

from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

import numpy as np
from fairseq.data import FairseqDataset, data_utils

from .sampling import Purpose, draw_texts, epoch_rng


class EpochDataset(FairseqDataset):
    """Batches of similar length, in an order that is a function of (seed, epoch).

    Subclasses set ``sizes`` (N,) int64, the tokens of each item, ``seed`` and ``epoch``.
    """

    sizes: np.ndarray
    seed: int
    epoch: int

    @property
    def can_reuse_epoch_itr_across_epochs(self) -> bool:
        """Return False: every epoch has batches of its own."""
        return False

    def num_tokens(self, index: int) -> int:
        """Count the tokens of an item, as ``--max-tokens`` does."""
        return int(self.num_tokens_vec(np.array([index]))[0])

    def num_tokens_vec(self, indices: np.ndarray) -> np.ndarray:
        """Count the tokens of several items. (N,) -> (N,)."""
        return self.sizes[indices]

    def size(self, index: int) -> Any:
        """Count the tokens of an item, as the limits on the longest input do."""
        return int(self.sizes[index])

    def ordered_indices(self) -> np.ndarray:
        """Shuffle the items, then sort them by tokens; equal lengths stay shuffled. (N,) int64."""
        order = self.permutation()
        return order[np.argsort(self.num_tokens_vec(order), kind="mergesort")]

    def permutation(self) -> np.ndarray:
        """Shuffle the items by (seed, epoch). (N,) int64."""
        with data_utils.numpy_seed(self.seed, self.epoch):
            return np.random.permutation(len(self))


class StreamDataset(EpochDataset):
    """Texts of several streams (languages, pairs), drawn anew in every epoch.

    The draw is a function of (seed, epoch).

    Args:
        streams: K sequences of texts. Noise is seeded by a stream's number, so their order counts.
        sizes: of each stream, (N,) tokens of its texts.
        probabilities: (K,) share of each stream, see ``sampling``; None = every text once, in
            order.
    """

    def __init__(
        self,
        streams: Sequence[Any],
        sizes: Sequence[np.ndarray],
        seed: int,
        probabilities: Optional[np.ndarray] = None,
    ):
        self.streams, self.seed, self.probabilities = list(streams), seed, probabilities
        self._sizes = np.concatenate(sizes)
        self._starts = np.cumsum([0, *(len(stream) for stream in self.streams)])
        self.epoch = 0
        self.set_epoch(1)

    def __len__(self) -> int:
        return len(self._drawn)

    def __iter__(self) -> Iterator[Dict[str, Any]]:
        """Iterate over the items of the epoch.

        By default Python would index until an IndexError. A subclass may never raise one, because
        indices past the end are further uses of its texts, each with noise of its own.
        """
        return (self[index] for index in range(len(self)))

    def set_epoch(self, epoch: int) -> None:
        """Draw the texts of an epoch, counted from 1."""
        if epoch == self.epoch:
            return
        self.epoch = epoch
        if self.probabilities is None:
            self._drawn = np.arange(self._starts[-1])
        else:
            self._drawn = self.draw(epoch_rng(self.seed, epoch, Purpose.TEXTS), self.probabilities)
        self.sizes = self._sizes[self._drawn]

    def draw(self, rng: np.random.Generator, probabilities: np.ndarray) -> np.ndarray:
        """Draw texts by their numbers, counted through all streams. (N,) int64."""
        return draw_texts(np.diff(self._starts).tolist(), probabilities, rng)

    def place_of(self, index: int) -> Tuple[int, int]:
        """Return the stream of an item of this epoch, and the item's number in that stream."""
        text = self._drawn[index]
        stream = int(np.searchsorted(self._starts, text, side="right")) - 1
        return stream, int(text - self._starts[stream])

    def permutation(self) -> np.ndarray:
        """Shuffle the drawn texts by (seed, epoch). (N,) int64."""
        return epoch_rng(self.seed, self.epoch, Purpose.ORDER).permutation(len(self))

    @property
    def can_reuse_epoch_itr_across_epochs(self) -> bool:
        """Return False if each epoch draws its texts: its batches must be made anew."""
        return self.probabilities is None


class JoinedDataset(StreamDataset):
    """Join datasets whose batches have one form; each draws the noise of its own items."""

    def __init__(self, parts: Sequence[Any], seed: int, probabilities: Optional[np.ndarray] = None):
        super().__init__(parts, [part.sizes for part in parts], seed, probabilities)

    def set_epoch(self, epoch: int) -> None:
        """Choose the noise of each dataset, and draw the items of the epoch."""
        for part in self.streams:
            part.set_epoch(epoch)
        super().set_epoch(epoch)

    def __getitem__(self, index: int) -> Dict[str, Any]:
        part, row = self.place_of(index)
        return {**self.streams[part][row], "id": int(index)}

    def collater(self, samples: List[Dict[str, Any]]) -> Dict[str, Any]:
        """Collate items of any of the datasets."""
        return self.streams[0].collater(samples)
