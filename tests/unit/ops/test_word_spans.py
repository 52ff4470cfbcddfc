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


def runs(mask):
    """Lengths of the runs of True."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]]).astype(int)))
    return (edges[1::2] - edges[::2]).tolist()


def test_the_distribution_is_poissons_without_zero():
    for mean in (0.3, 3.5, 40.0):
        below = span_distribution(mean)
        pmf = [math.exp(k * math.log(mean) - mean - math.lgamma(k + 1)) for k in range(1, len(below) + 1)]
        assert np.allclose(np.diff(below, prepend=0.0), np.array(pmf) / (1 - math.exp(-mean)), atol=1e-12)
        assert below[-1] == 1.0


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


def test_the_budget_is_used_up_exactly():
    words = np.arange(1, 120)
    for covered in (words, words // 2, np.minimum(words, 2), np.zeros_like(words)):
        for ratio in (0.05, RATIO, 0.8, 1.0):
            mask = drawn(words, covered, ratio)
            assert mask.shape == (len(words), covered.max())
            assert not (mask & (np.arange(mask.shape[1]) >= covered[:, None])).any(), "beyond the sentence"
            low, high = np.floor(np.round(ratio * words, 9)), np.ceil(np.round(ratio * words, 9))
            assert (mask.sum(axis=1) >= np.minimum(low, covered)).all()
            assert (mask.sum(axis=1) <= np.minimum(high, covered)).all()


def test_every_place_is_as_likely():
    """A single span of one word: uniform; in longer texts the first words as often as those of the middle but for the edge."""
    words = np.full(4000, 10)
    counts = drawn(words, words, ratio=0.1, mean=1.0).sum(axis=0)
    assert counts.sum() == 4000
    assert ((counts - 400) ** 2 / 400).sum() < 27.9, "0.001 of 9 degrees of freedom"
    words, pairs = np.full(6000, 5), np.zeros((5, 5))
    for mask in drawn(words, words, ratio=0.4, mean=1e-6):  # two spans of one word each
        pairs[tuple(np.flatnonzero(mask))] += 1
    apart = pairs[np.triu_indices(5, 2)]
    assert apart.sum() == 6000, "never side by side"
    assert ((apart - 1000) ** 2 / 1000).sum() < 20.5, "0.001 of 5 degrees of freedom"


def test_where_gaps_are_few_the_spans_grow():
    mask = drawn(np.full(200, 10), np.full(200, 10), ratio=0.9, mean=0.01)
    assert (mask.sum(axis=1) == 9).all() and {len(runs(row)) for row in mask} <= {1, 2}
    assert drawn([4], [4], ratio=1.0).all()


def test_a_sentence_is_drawn_alone_as_in_a_batch():
    words, covered = [30, 5, 60, 1], [30, 2, 41, 1]
    whole = drawn(words, covered)
    for place in range(4):
        alone = drawn(words[place : place + 1], covered[place : place + 1], items=[place])
        assert whole[place, : covered[place]].tolist() == alone[0].tolist()
    assert drawn([], []).shape == (0, 0)
