"""The largest batches that a training would get."""

from typing import Any, Dict, List, Sequence

import numpy as np


def largest_batches(iterator: Any) -> List[Dict[str, Any]]:
    """Samples of fairseq's iterator over the training set: most tokens, most pairs of tokens, most sentences; equal ones once.

    Which of them needs most memory depends on the model. Padding is counted.

    Raises:
        ValueError: the batches are not known before training.
    """
    batches: Sequence[Sequence[int]] = getattr(iterator, "frozen_batches", ())
    if not batches:
        raise ValueError("the training set has no list of batches, so the largest one cannot be found")
    counts = np.array([len(batch) for batch in batches])
    lengths = np.array([_longest(iterator.dataset, batch) for batch in batches])
    chosen = {int(np.argmax(size)) for size in (counts * lengths, counts * lengths**2, counts)}
    return [iterator.collate_fn([iterator.dataset[index] for index in batches[number]]) for number in sorted(chosen)]


def _longest(dataset: Any, batch: Sequence[int]) -> int:
    try:
        return int(np.max(dataset.num_tokens_vec(np.asarray(batch))))
    except NotImplementedError:
        return max(int(dataset.num_tokens(index)) for index in batch)
