"""Rows of different lengths that lie one behind another in a flat array."""

import numpy as np


def ranges(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The places ``start .. start + length - 1`` of each row (R,), one row behind another: (sum of lengths,) int64."""
    shift = starts - (np.cumsum(lengths) - lengths)
    return np.repeat(shift, lengths) + np.arange(int(lengths.sum()))


def ends_to_starts(lengths: np.ndarray) -> np.ndarray:
    """(R + 1,) int64: where each row begins, and the end of the last one."""
    starts = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=starts[1:])
    return starts
