"""nDCG of a query's documents."""

from typing import Any, Optional

import numpy as np


def ndcg(scores: Any, grades: Any, k: Optional[int] = None) -> Optional[float]:
    """Discounted cumulative gain of the documents in the order of their scores, divided by that of the best order; in [0, 1].

    A document of grade g, 0 or more, at place i (from 1) gains (2^g − 1) / log2(i + 1). Documents of equal score share the mean
    gain of their places, so that the result does not depend on the order in which they are given. ``k`` places count; None: all.
    None where no document has a grade above 0, since every order is as good.

    Source: Järvelin and Kekäläinen 2002; Burges et al. 2005 (the gain); McSherry and Najork 2008 (ties).
    """
    return _normalised(scores, np.exp2(np.asarray(grades, dtype=np.float64)) - 1.0, k)


def xglue_ndcg(labels: Any, grades: Any) -> Optional[float]:
    """nDCG as XGLUE's evaluation of WPR has it, for comparisons with published numbers; in [0, 1].

    Differs from :func:`ndcg`: a document's score is its predicted grade (``labels``), the gain is the grade itself, a query whose
    documents are all of grade 0 counts as 0, and one with a single document is left out (None).

    Source: Liang et al. 2020 (XGLUE), WPR, and its released evaluation.
    """
    if len(grades) < 2:
        return None
    value = _normalised(labels, np.asarray(grades, dtype=np.float64), None)
    return 0.0 if value is None else value


def _normalised(scores: Any, gains: Any, k: Optional[int]) -> Optional[float]:
    discounts = 1.0 / np.log2(np.arange(len(gains)) + 2.0)
    discounts[k:] = 0.0 if k is not None else discounts[k:]
    best = float(np.sort(gains)[::-1] @ discounts)
    _, tie, sizes = np.unique(-np.asarray(scores, dtype=np.float64), return_inverse=True, return_counts=True)
    ends = np.cumsum(sizes)
    below = np.concatenate(([0.0], np.cumsum(discounts)))
    shares = (below[ends] - below[ends - sizes]) / sizes
    return None if best <= 0.0 else float(np.bincount(tie, weights=gains) @ shares) / best
