"""Shares of streams by hand, and what an epoch draws: exact counts, nothing twice before everything once."""

import numpy as np
import pytest

from fairseq_plugins.common.sampling import Purpose, draw_texts, epoch_rng, sampling_probabilities


@pytest.mark.cases(
    "temperature share expected",
    (1.0, None, [0.80, 0.05, 0.15]),  # 16, 1 and 3 of 20
    (2.0, None, [4 / (5 + 3**0.5), 1 / (5 + 3**0.5), 3**0.5 / (5 + 3**0.5)]),  # square roots
    (1e9, None, [1 / 3, 1 / 3, 1 / 3]),
    (1.0, 0.5, [0.5 * 16 / 19, 0.5, 0.5 * 3 / 19]),  # the second is a pair
    (1.0, 0.0, [16 / 19, 0.0, 3 / 19]),
    (1.0, 1.0, [0.0, 1.0, 0.0]),
)
def test_probabilities_by_hand(temperature, share, expected):
    found = sampling_probabilities([16, 1, 3], temperature, [False, True, False], share)
    assert found == pytest.approx(expected, abs=1e-8)
    assert found.sum() == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("sizes", [[7], [16, 1, 3], [1000, 1, 77, 333]])
def test_natural_proportions_draw_every_text_once(sizes):
    natural = sampling_probabilities(sizes, 1.0, [False] * len(sizes))
    for seed in range(20):
        assert draw_texts(sizes, natural, np.random.default_rng(seed)).tolist() == list(range(sum(sizes)))


def test_an_epoch_has_each_streams_share_up_or_down_to_a_whole_text():
    sizes, shares = [100, 40, 10], np.array([0.301, 0.5, 0.199])  # 45.15, 75 and 29.85 of 150
    starts, counts = np.cumsum([0, *sizes]), []
    for seed in range(400):
        drawn = draw_texts(sizes, shares, np.random.default_rng(seed))
        streams = np.searchsorted(starts, drawn, side="right") - 1
        counts.append(np.bincount(streams, minlength=3))
        times = np.bincount(drawn, minlength=150)
        assert len(drawn) == 150 and times[:100].max() == 1, "0.45 of the first stream, without repetition"
        assert set(times[100:140]) == {1, 2}, "75 of 40: everything once before anything twice"
    found = np.array(counts)
    assert (abs(found - shares * 150) < 1).all()
    # The rounding has the right expectation: 45 or 46 with probability 0.15, deviation sqrt(0.15 * 0.85 / 400).
    assert found.mean(axis=0) == pytest.approx(shares * 150, abs=5 * (0.15 * 0.85 / 400) ** 0.5)


def test_generators_differ_by_seed_epoch_and_purpose_only():
    keys = [*((seed, epoch, Purpose.TEXTS) for seed, epoch in ((1, 1), (2, 1), (1, 2)))]
    keys += [(1, 1, Purpose.ORDER), (1, 1, Purpose.BATCHES)]
    drawn = [epoch_rng(*key).integers(2**60) for key in keys]
    assert len(set(drawn)) == len(keys)
    assert drawn == [epoch_rng(*key).integers(2**60) for key in keys]
