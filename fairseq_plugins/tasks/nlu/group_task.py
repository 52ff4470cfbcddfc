"""Understanding tasks whose items are several inputs each."""

from typing import Any, List

from ...data.nlu_dataset import RowGroups
from .understanding import NLUTask


class GroupTask(NLUTask):
    """Leaves no item out for the size of all its inputs together."""

    def get_batch_iterator(self, dataset: Any, max_tokens: Any = None, **more: Any) -> Any:
        """The base's iterator; ValueError where an item with all its inputs does not fit into a batch."""
        if max_tokens is not None and _parts(dataset) and dataset.sizes.max() > max_tokens:
            raise ValueError(
                f"--max-tokens (or --max-tokens-valid) {max_tokens}: the largest item, with all its inputs padded to its longest, "
                f"has {dataset.sizes.max()} tokens; valid: at least that"
            )
        return super().get_batch_iterator(dataset, max_tokens=max_tokens, **more)

    def filter_indices_by_size(
        self, indices: Any, dataset: Any, max_positions: Any = None, ignore_invalid_inputs: bool = False
    ) -> Any:
        """All items: what fairseq would compare with the model's positions is the sum over an item's inputs.

        Raises ValueError: an input is longer than the model or --max-tokens allow.
        """
        parts = _parts(dataset)
        if not parts:
            return super().filter_indices_by_size(indices, dataset, max_positions, ignore_invalid_inputs)
        longest = max(part.longest for part in parts)
        if max_positions is not None and longest > max_positions:
            raise ValueError(
                f"--max-positions {self.cfg.max_positions}: an input has {longest} tokens, model and --max-tokens take "
                f"{max_positions}; valid: at most that"
            )
        return indices


def _parts(dataset: Any) -> List[RowGroups]:
    """The dataset, or those it mixes, if their items are several inputs each."""
    return [part for part in getattr(dataset, "streams", [dataset]) if isinstance(part, RowGroups)]
