"""Test the shares of streams, and the texts that an epoch draws: exact counts, fair repeats."""

import numpy as np
import pytest

from fairseq_plugins.common.sampling import (
    Purpose,
    draw_texts,
    epoch_rng,
    sampling_probabilities,
)

ROOT = 3**0.5


@pytest.mark.cases(
    "temperature share expected",
    (1.0, None, [0.80, 0.05, 0.15]),  # 16, 1 and 3 of 20
    (2.0, None, [4 / (5 + ROOT), 1 / (5 + ROOT), ROOT / (5 + ROOT)]),  # square roots
    (1e9, None, [1 / 3, 1 / 3, 1 / 3]),
    (1.0, 0.5, [0.5 * 16 / 19, 0.5, 0.5 * 3 / 19]),  # the second is a pair
    (1.0, 0.0, [16 / 19, 0.0, 3 / 19]),
    (1.0, 1.0, [0.0, 1.0, 0.0]),
)
def test_probabilities_by_hand(temperature, share, expected):
    shares = sampling_probabilities([16, 1, 3], temperature, [False, True, False], share)
    assert shares == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("sizes", [[7], [16, 1, 3], [1000, 1, 77, 333]])
def test_natural_proportions_draw_every_text_once(sizes):
    shares = sampling_probabilities(sizes, 1.0, [False] * len(sizes))
    for seed in range(20):
        texts = draw_texts(sizes, shares, np.random.default_rng(seed))
        assert texts.tolist() == list(range(sum(sizes)))


def test_counts_are_shares_rounded_at_random_and_repeats_are_fair():
    """The second stream gives 75 texts of its 40: all once before any twice."""
    sizes, shares = [100, 40, 10], np.array([0.301, 0.5, 0.199])  # 45.15, 75, 29.85 of 150
    starts, counts = np.cumsum([0, *sizes]), []
    for seed in range(400):
        texts = draw_texts(sizes, shares, np.random.default_rng(seed))
        streams = np.searchsorted(starts, texts, side="right") - 1
        counts.append(np.bincount(streams, minlength=3))
        uses = np.bincount(texts, minlength=150)
        assert len(texts) == 150 and uses[:100].max() == 1
        assert set(uses[100:140]) == {1, 2}
    counts = np.array(counts)
    assert (abs(counts - shares * 150) < 1).all()
    # 46 of the first stream with probability 0.15: five standard errors of the mean.
    assert counts.mean(axis=0) == pytest.approx(shares * 150, abs=5 * (0.15 * 0.85 / 400) ** 0.5)


def test_generators_differ_by_seed_epoch_and_purpose_only():
    keys = [(1, 1, purpose) for purpose in (Purpose.TEXTS, Purpose.ORDER, Purpose.BATCHES)]
    keys += [(2, 1, Purpose.TEXTS), (1, 2, Purpose.TEXTS)]
    numbers = [epoch_rng(*key).integers(2**60) for key in keys]
    assert len(set(numbers)) == len(keys)
    assert numbers == [epoch_rng(*key).integers(2**60) for key in keys]
