"""Items that are several inputs each: a question with the windows of its passage, a query with its documents."""

from typing import Any, Dict, List

import numpy as np
import torch

from .nlu_dataset import NLUDataset


class RowGroups(NLUDataset):
    """A dataset whose items hold ``rows``; the collater puts the rows of all items of a batch below each other.

    What is computed of a whole item, as a question's answer or a query's nDCG, is then found in one batch of one process, and the
    sums over items add up over batches and processes.
    """

    longest = 0
    """Tokens of the longest input."""

    def set_rows(self, counts: np.ndarray, lengths: np.ndarray) -> None:
        """Set the sizes.

        Args:
            counts: (N,) rows of each item, at least 1.
            lengths: (N,) tokens of the longest row of each item.
        """
        self.sizes = counts * lengths  # what the item needs in a padded batch
        self.longest = int(lengths.max(initial=0))

    def collater(self, samples: List[Dict[str, Any]]) -> Dict[str, Any]:
        """As the class below, over all rows (R,); and group (R,) int64, the number of the row's item.

        id is (items,), row (R,) int64 what the class below calls id.
        """
        if not samples:
            return {}
        batch = super().collater([row for sample in samples for row in sample["rows"]])
        batch["row"] = batch["id"]
        counts = torch.tensor([len(sample["rows"]) for sample in samples])
        batch["group"] = torch.repeat_interleave(torch.arange(len(samples)), counts)
        batch["id"] = torch.tensor([sample["id"] for sample in samples])
        batch["nsentences"] = len(samples)
        return batch
