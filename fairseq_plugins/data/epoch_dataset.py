"""What datasets share whose order, or whose items, are drawn anew for every epoch."""

import numpy as np
from fairseq.data import FairseqDataset, data_utils


class EpochDataset(FairseqDataset):
    """Batches of similar length, in an order that is a function of (seed, epoch).

    Subclasses set ``sizes`` (N,) int64, the tokens of each item, ``seed`` and ``epoch``.
    """

    sizes: np.ndarray
    seed: int
    epoch: int

    @property
    def can_reuse_epoch_itr_across_epochs(self) -> bool:
        """No: each epoch has its own order."""
        return False

    def num_tokens(self, index: int) -> int:
        """Tokens of the item."""
        return int(self.sizes[index])

    def num_tokens_vec(self, indices: np.ndarray) -> np.ndarray:
        """Tokens of several items."""
        return self.sizes[indices]

    def size(self, index: int) -> int:
        """Tokens of the item."""
        return int(self.sizes[index])

    def ordered_indices(self) -> np.ndarray:
        """Shuffled, then sorted by size. (N,)."""
        with data_utils.numpy_seed(self.seed, self.epoch):
            order = np.random.permutation(len(self.sizes))
        return order[np.argsort(self.sizes[order], kind="mergesort")]

    @property
    def supports_prefetch(self) -> bool:
        """Memory-mapped data needs none."""
        return False
