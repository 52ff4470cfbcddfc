"""nDCG: by hand, by enumerating orders, and scikit-learn's."""

import math

import numpy as np
import pytest
from sklearn.metrics import ndcg_score

from fairseq_plugins.scoring.ndcg import ndcg, xglue_ndcg
from tests.reference.question_loops import ndcg_loop


def test_by_hand():
    """Grades in the order of the scores: 0, 3, 1."""
    gains = 7 / math.log2(3), 1 / 2
    assert ndcg([0.1, 0.9, 0.5], [1, 0, 3]) == pytest.approx(sum(gains) / (7 + 1 / math.log2(3)))
    assert (ndcg([1.0, 2.0], [0, 0]), ndcg([1.0], [2])) == (None, 1.0)


@pytest.mark.parametrize("k", [None, 1, 2, 4, 9])
def test_ties_are_the_mean_over_their_orders(k):
    rng = np.random.default_rng(7)
    for _ in range(25):
        documents = int(rng.integers(2, 6))
        scores, grades = rng.integers(0, 3, documents) / 3, rng.integers(0, 4, documents)
        expected = ndcg_loop(scores.tolist(), grades.tolist(), k)
        found = ndcg(scores, grades, k)
        assert (found is None) == (expected is None) == (not grades.any())
        if expected is not None:
            assert found == pytest.approx(expected, rel=1e-12)
            assert found == pytest.approx(ndcg_score([2.0**grades - 1], [scores], k=k), rel=1e-12)


def test_xglues_rules_are_scikit_learns_on_predicted_grades():
    rng = np.random.default_rng(5)
    for _ in range(25):
        documents = int(rng.integers(2, 9))
        labels, grades = rng.integers(0, 5, documents), rng.integers(0, 5, documents)
        assert xglue_ndcg(labels, grades) == pytest.approx(ndcg_score([grades], [labels]), rel=1e-12)
    assert xglue_ndcg([1, 2], [0, 0]) == 0.0 == ndcg_score([[0, 0]], [[1, 2]])
    assert xglue_ndcg([1], [3]) is None
