"""Items of several rows: a query with its documents, a question with its windows.

A metric of an item (nDCG of a query, F1 of an answer) needs all its rows. They stay together in one
batch of one process, so that the sums over items add up over batches and processes.
"""

from typing import Any, Dict, List

import numpy as np
import torch
from fairseq.logging import metrics

from ..common.summed_criterion import total
from .inputs import NLUDataset
from .languages import LanguageMixture
from .task import NLUTask


class RowGroups(NLUDataset):
    """Dataset whose items hold several ``rows``; a batch stacks the rows of all its items."""

    longest = 0
    """Tokens of the longest row."""

    def set_rows(self, counts: np.ndarray, lengths: np.ndarray) -> None:
        """Set ``sizes`` and ``longest``.

        Args:
            counts: (N,) int64, rows of each item.
            lengths: (N,) int64, tokens of the longest row of each item.
        """
        self.sizes = counts * lengths  # of an item in a padded batch
        self.longest = int(lengths.max(initial=0))

    def collater(self, samples: List[Dict[str, Any]]) -> Dict[str, Any]:
        """Collate all R rows of the items.

        Adds ``group`` (R,) int64, the number of the row's item in the batch, and ``row`` (R,), the
        id of each row; ``id`` is that of each item.
        """
        if not samples:
            return {}
        batch = super().collater([row for sample in samples for row in sample["rows"]])
        counts = torch.tensor([len(sample["rows"]) for sample in samples])
        batch["group"] = torch.repeat_interleave(torch.arange(len(samples)), counts)
        batch["row"] = batch["id"]
        batch["id"] = torch.tensor([sample["id"] for sample in samples])
        batch["nsentences"] = len(samples)
        return batch


class GroupTask(NLUTask):
    """Task whose items are several rows each. Limits on the longest input apply to single rows."""

    def get_batch_iterator(self, dataset: Any, max_tokens: Any = None, **options: Any) -> Any:
        """Make the iterator; raise ValueError if all rows of an item exceed ``max_tokens``."""
        if max_tokens is not None and _groups(dataset) and dataset.sizes.max() > max_tokens:
            raise ValueError(
                f"--max-tokens (or --max-tokens-valid) {max_tokens}: the largest item, with all "
                f"its inputs padded to its longest, has {dataset.sizes.max()} tokens; valid: at "
                "least that"
            )
        return super().get_batch_iterator(dataset, max_tokens=max_tokens, **options)

    def filter_indices_by_size(
        self,
        indices: Any,
        dataset: Any,
        max_positions: Any = None,
        ignore_invalid_inputs: bool = False,
    ) -> Any:
        """Return all indices; fairseq would leave out items by the tokens of all their rows.

        Raises:
            ValueError: a row is longer than the model or ``--max-tokens`` allow.
        """
        groups = _groups(dataset)
        if not groups:
            return super().filter_indices_by_size(
                indices, dataset, max_positions, ignore_invalid_inputs
            )
        longest = max(part.longest for part in groups)
        if max_positions is not None and longest > max_positions:
            raise ValueError(
                f"--max-positions {self.cfg.max_positions}: an input has {longest} tokens, model "
                f"and --max-tokens take {max_positions}; valid: at most that"
            )
        return indices


def log_mean(logging_outputs: List[Dict[str, Any]], name: str, part: str, unit: str) -> None:
    """Log the metric ``name``: the sum of ``part`` over the sum of ``unit``, in percent."""
    size = total(logging_outputs, unit)
    mean = 100 * total(logging_outputs, part) / max(size, 1)
    metrics.log_scalar(name, mean, size, round=2)


def _groups(dataset: Any) -> List[RowGroups]:
    """List the grouped datasets: the dataset itself, or the parts of a mixture."""
    parts = dataset.streams if isinstance(dataset, LanguageMixture) else [dataset]
    return [part for part in parts if isinstance(part, RowGroups)]
