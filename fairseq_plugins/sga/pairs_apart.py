"""Several language pairs in one dataset, of which every batch holds one."""

from typing import Any, Dict, List, Mapping, Tuple

import numpy as np
from fairseq.data import ConcatDataset, data_utils


class PairsApart(ConcatDataset):
    """Pairs one behind the other; a batch says by ``pair`` which one it is from, so that validation can score each by itself.

    ``pairs``: name -> fairseq's language pairs; at least one, and all collated alike.
    """

    def __init__(self, pairs: Mapping[str, Any]):
        super().__init__(list(pairs.values()))
        self.names = list(pairs)

    def pair_of(self, indices: np.ndarray) -> np.ndarray:
        """Number of the pair of each sentence. (N,) -> (N,)."""
        return np.searchsorted(self.cumulative_sizes, indices, side="right")

    def __getitem__(self, index: int) -> Dict[str, Any]:
        pair = self.names[int(self.pair_of(np.asarray(index)))]
        return {**super().__getitem__(int(index)), "id": int(index), "pair": pair}

    def collater(self, samples: List[Dict[str, Any]], **options: Any) -> Dict[str, Any]:
        """The batch as each pair's dataset makes it, with the name of the pair."""
        batch = super().collater(samples, **options)
        if samples:
            (batch["pair"],) = {sample["pair"] for sample in samples}
        return batch

    def filter_indices_by_size(self, indices: np.ndarray, max_sizes: Any) -> Tuple[np.ndarray, List[int]]:
        """Leave out what is too long, on either side."""
        sizes = self.sizes
        return data_utils.filter_paired_dataset_indices_by_size(sizes[:, 0], sizes[:, 1], indices, max_sizes)

    def batch_by_size(self, indices: np.ndarray, *limits: Any, **options: Any) -> List[Any]:
        pairs = self.pair_of(indices)
        return [
            batch
            for number in range(len(self.names))
            for batch in super(PairsApart, self).batch_by_size(indices[pairs == number], *limits, **options)
        ]
