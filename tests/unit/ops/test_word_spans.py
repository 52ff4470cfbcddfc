"""The law of the words that are replaced: budget, lengths, places; tests/reference has the loop over spans."""

import math

import numpy as np
import pytest

from fairseq_plugins.ops.word_spans import budgets

RATIO = 0.35


def test_the_budget_is_rounded_at_random_with_the_right_mean():
    chance = np.linspace(0, 1, 1000, endpoint=False)
    for words in (1, 7, 20, 33):
        found = budgets(np.full(1000, words), np.full(1000, words), RATIO, chance)
        assert found.mean() == pytest.approx(RATIO * words, abs=2e-3)
        assert set(found.tolist()) <= {math.floor(RATIO * words), math.ceil(RATIO * words)}
    assert set(budgets(np.full(1000, 20), np.full(1000, 20), RATIO, chance).tolist()) == {7}, "0.35 * 20 is whole"
    assert 0.29 * 100 < 29, "as floating-point numbers"
    assert budgets(np.array([100]), np.array([100]), 0.29, np.zeros(1)).tolist() == [29]
    assert budgets(np.array([20, 20]), np.array([3, 0]), RATIO, np.zeros(2)).tolist() == [3, 0]
