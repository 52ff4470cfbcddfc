"""Places of rows of different lengths."""

import numpy as np

from fairseq_plugins.ops.ragged import ends_to_starts, ranges


def test_ranges_and_starts_by_hand():
    assert ranges(np.array([5, 0, 9]), np.array([2, 0, 3])).tolist() == [5, 6, 9, 10, 11]
    assert ranges(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)).tolist() == []
    assert ends_to_starts(np.array([2, 0, 3])).tolist() == [0, 2, 2, 5]
