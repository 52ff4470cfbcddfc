"""The law of the words that are replaced: budget, lengths, places; tests/reference has the loop over spans."""

import math

import numpy as np
import pytest

from fairseq_plugins.ops.counter_noise import epoch_address, streams, uniforms
from fairseq_plugins.ops.word_spans import budgets, choose_words, span_distribution

RATIO, MEAN = 0.35, 3.5


def drawn(words, covered, ratio=RATIO, mean=MEAN, epoch=1, items=None):
    """Masks of a batch."""
    items = np.arange(len(words)) if items is None else np.asarray(items)
    stream = streams(epoch_address(7, epoch), items)[:, None]
    law = span_distribution(mean)
    return choose_words(np.asarray(words), np.asarray(covered), ratio, law, lambda *what: uniforms(stream, *what))


def test_the_budget_is_rounded_at_random_with_the_right_mean():
    chance = np.linspace(0, 1, 1000, endpoint=False)
    for words in (1, 7, 20, 33):
        found = budgets(np.full(1000, words), np.full(1000, words), RATIO, chance)
        assert found.mean() == pytest.approx(RATIO * words, abs=2e-3)
        assert set(found.tolist()) <= {math.floor(RATIO * words), math.ceil(RATIO * words)}
    assert set(budgets(np.full(1000, 20), np.full(1000, 20), RATIO, chance).tolist()) == {7}, "0.35 * 20 is whole"
    assert 0.29 * 100 < 29, "as floating-point numbers"
    assert budgets(np.array([100]), np.array([100]), 0.29, np.zeros(1)).tolist() == [29]
    assert budgets(np.array([20, 20]), np.array([3, 0]), RATIO, np.zeros(2)).tolist() == [3, 0], (
        "no more than have an entry"
    )


def test_a_sentence_is_drawn_alone_as_in_a_batch():
    words, covered = [30, 5, 60, 1], [30, 2, 41, 1]
    whole = drawn(words, covered)
    for place in range(4):
        alone = drawn(words[place : place + 1], covered[place : place + 1], items=[place])
        assert whole[place, : covered[place]].tolist() == alone[0].tolist()
    assert drawn([], []).shape == (0, 0)
