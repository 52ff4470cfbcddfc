"""Rows of different lengths that lie one behind another in a flat array."""

import numpy as np


def ranges(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The places ``start .. start + length - 1`` of each row (R,), one row behind another: (sum of lengths,) int64."""
    shift = starts - (np.cumsum(lengths) - lengths)
    return np.repeat(shift, lengths) + np.arange(int(lengths.sum()))


def ends_to_starts(lengths: np.ndarray) -> np.ndarray:
    """(R + 1,) int64: where each row begins, and the end of the last one."""
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
