"""nDCG of a query's documents."""

from typing import Any, Optional

import numpy as np


def ndcg(scores: Any, grades: Any, k: Optional[int] = None) -> Optional[float]:
    """Discounted cumulative gain of the documents in the order of their scores, divided by that of the best order.

    A document of grade g at place i (from 1) gains (2^g − 1) / log2(i + 1). Documents of equal score share the mean gain of their
    places, so that the result does not depend on the order in which they are given.

    Args:
        scores: (documents,) higher is better.
        grades: (documents,) 0 or more.
        k: places that count; None: all.

    Returns:
        A number in [0, 1]; None where no document has a grade above 0, since every order is as good.

    Source: Järvelin and Kekäläinen 2002; Burges et al. 2005 (the gain); McSherry and Najork 2008 (ties).
    """
    gains = np.exp2(np.asarray(grades, dtype=np.float64)) - 1.0
    discounts = 1.0 / np.log2(np.arange(len(gains)) + 2.0)
    discounts[k:] = 0.0 if k is not None else discounts[k:]
    best = float(np.sort(gains)[::-1] @ discounts)
    if best <= 0.0:
        return None
    _, tie, sizes = np.unique(-np.asarray(scores, dtype=np.float64), return_inverse=True, return_counts=True)
    ends = np.cumsum(sizes)
    below = np.concatenate(([0.0], np.cumsum(discounts)))
    shares = (below[ends] - below[ends - sizes]) / sizes
    return float(np.bincount(tie, weights=gains) @ shares) / best
