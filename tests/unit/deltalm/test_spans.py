"""Span masks and what is made of them: by hand, by enumeration, and by the law of uniform compositions."""

import itertools
from collections import Counter

import numpy as np
import pytest

from fairseq_plugins.deltalm.spans import corrupt_spans, count_spans, draw_span_mask, most_spans

SENTINELS = [90, 91, 92]
TEXT = np.arange(10, 16)


def runs(mask):
    return [len(list(group)) for value, group in itertools.groupby(mask) if value]


@pytest.mark.cases(
    "mask source target bare",
    ("011010", [10, 90, 13, 91, 15], [90, 11, 12, 91, 14], [11, 12, 14]),
    ("100011", [90, 11, 12, 13, 91], [90, 10, 91, 14, 15], [10, 14, 15]),
    ("111110", [90, 15], [90, 10, 11, 12, 13, 14], [10, 11, 12, 13, 14]),
    ("101010", [90, 11, 91, 13, 92, 15], [90, 10, 91, 12, 92, 14], [10, 12, 14]),
    ("000000", [10, 11, 12, 13, 14, 15], [], []),
)
def test_corruption_by_hand(mask, source, target, bare):
    where = np.array([digit == "1" for digit in mask])
    kept = where.copy(), TEXT.copy()
    found = corrupt_spans(TEXT, where, SENTINELS)
    assert (found[0].tolist(), found[1].tolist()) == (source, target)
    assert found[0].dtype == found[1].dtype == np.int64
    without = corrupt_spans(TEXT, where, SENTINELS, target_sentinels=False)
    assert (without[0].tolist(), without[1].tolist()) == (source, bare)
    assert (where == kept[0]).all() and (TEXT == kept[1]).all(), "the input is never written"


@pytest.mark.cases(
    "length ratio mean noise spans",
    (511, 0.15, 3.0, 77, 26),  # 76.65; 25.67
    (100, 0.5, 3.0, 50, 17),  # 16.67
    (10, 0.15, 3.0, 2, 1),  # 1.5 to the even number; 0.67
    (2, 0.15, 3.0, 1, 1),  # at least one
    (2, 0.99, 3.0, 1, 1),  # at least one stays
    (3, 0.5, 1.0, 2, 2),  # x _ x
    (10, 0.9, 1.0, 9, 2),  # one kept token parts two spans only
    (20, 0.5, 100.0, 10, 1),
)
def test_counts_by_hand(length, ratio, mean, noise, spans):
    found = count_spans(length, ratio, mean)
    assert (int(found[0]), int(found[1])) == (noise, spans)
    mask = draw_span_mask(length, ratio, mean, np.random.default_rng(1))
    assert (len(mask), mask.dtype, int(mask.sum()), len(runs(mask))) == (length, bool, noise, spans)


def masks(length, noise, spans):
    """Every mask with these numbers of tokens and spans, by enumeration."""
    every = itertools.product([False, True], repeat=length)
    return [mask for mask in every if sum(mask) == noise and len(runs(mask)) == spans]


@pytest.mark.parametrize("rng", [np.random.default_rng(3), np.random.RandomState(3)])
def test_every_mask_is_equally_likely(rng):
    """7 tokens, 3 of them noise in 2 spans: 2 ways to part 3, times C(5, 2) = 10 ways to place them."""
    expected = masks(7, 3, 2)
    assert len(expected) == 20
    found = Counter(tuple(draw_span_mask(7, 0.45, 2.0, rng).tolist()) for _ in range(20 * 200))
    assert set(found) == set(expected)
    deviation = (200 * (1 - 1 / 20)) ** 0.5
    assert max(abs(count - 200) for count in found.values()) < 5 * deviation


def worst(length, ratio, mean, separators):
    """By enumeration of every place of the separators and every mask of the rest."""
    most = 0
    for count in range(min(separators, length - 2) + 1):
        every = masks(length - count, *(int(value) for value in count_spans(length - count, ratio, mean)))
        for places, mask in itertools.product(itertools.combinations(range(length), count), every):
            values = iter(mask)
            most = max(most, len(runs([place not in places and next(values) for place in range(length)])))
    return most


@pytest.mark.parametrize(("ratio", "mean"), [(0.5, 3.0), (0.3, 2.0), (0.8, 4.0)])
@pytest.mark.parametrize("separators", [0, 1, 3])
def test_most_spans_is_the_worst_case(ratio, mean, separators):
    assert most_spans(8, ratio, mean, separators) == worst(8, ratio, mean, separators)
    # The papers' sizes.
    assert most_spans(511, 0.15, 3.0, separators=0) == 26
    assert most_spans(511, 0.5, 3.0, separators=1) == 86  # 510 tokens: 255 noise, 85 spans, one of them cut
    assert most_spans(511, 0.15, 3.0, separators=511) == 70
    assert most_spans(3, 0.5, 3.0, separators=511) == 1
