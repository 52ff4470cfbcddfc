"""batch_by_size: the same batches as stock fairseq, with none missing."""

import numpy as np
import pytest
from fairseq.data import data_utils


@pytest.mark.parametrize("seed", range(8))
def test_every_sentence_is_in_one_batch_and_stock_batches_are_kept(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = np.sort(rng.integers(1, 30, size=rng.integers(1, 70)))
    indices = rng.permutation(len(sizes))[np.argsort(sizes, kind="stable")]
    options = {
        "max_tokens": int(rng.integers(30, 300)),
        "max_sentences": [None, int(rng.integers(1, 20))][seed % 2],
        "required_batch_size_multiple": int(rng.choice([1, 2, 8])),
    }
    stock = data_utils.batch_by_size.__wrapped__
    ours = data_utils.batch_by_size(indices, lambda i: sizes[i], num_tokens_vec=sizes[indices], **options)
    theirs = stock(indices, lambda i: sizes[i], num_tokens_vec=sizes[indices], **options)
    assert [list(batch) for batch in ours[: len(theirs)]] == [list(batch) for batch in theirs]
    assert np.array_equal(np.concatenate(ours), indices)
    assert len(ours) - len(theirs) in (0, 1)
    limit = options["max_sentences"]
    assert all(limit is None or len(batch) <= limit for batch in ours)
    assert all(max(sizes[batch]) * len(batch) <= options["max_tokens"] for batch in ours)


def test_fixed_shapes_are_left_alone() -> None:
    sizes = np.full(10, 5)
    options = {"num_tokens_vec": sizes, "fixed_shapes": [(4, 5), (2, 5)], "required_batch_size_multiple": 8}
    ours = data_utils.batch_by_size(np.arange(10), lambda i: 5, **options)
    theirs = data_utils.batch_by_size.__wrapped__(np.arange(10), lambda i: 5, **options)
    assert [list(batch) for batch in ours] == [list(batch) for batch in theirs]
