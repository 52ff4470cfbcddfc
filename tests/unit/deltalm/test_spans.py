"""Test span masks and corruption, by hand and by enumeration; the sentinels of a dictionary."""

import itertools
from collections import Counter

import numpy as np
import pytest

from fairseq_plugins.deltalm.spans import (
    Demand,
    check_sentinels,
    corrupt_spans,
    count_spans,
    draw_span_mask,
    find_sentinels,
    most_spans,
)
from tests import builders
from tests.deltalm_builders import TEMPLATE

SENTINELS = [90, 91, 92]
TEXT = np.arange(10, 16)


def runs(mask):
    return [len(list(group)) for value, group in itertools.groupby(mask) if value]


@pytest.mark.cases(
    "digits source target bare",
    ("011010", [10, 90, 13, 91, 15], [90, 11, 12, 91, 14], [11, 12, 14]),
    ("100011", [90, 11, 12, 13, 91], [90, 10, 91, 14, 15], [10, 14, 15]),
    ("111110", [90, 15], [90, 10, 11, 12, 13, 14], [10, 11, 12, 13, 14]),
    ("101010", [90, 11, 91, 13, 92, 15], [90, 10, 91, 12, 92, 14], [10, 12, 14]),
    ("000000", [10, 11, 12, 13, 14, 15], [], []),
)
def test_corruption_by_hand(digits, source, target, bare):
    mask, text = np.array([digit == "1" for digit in digits]), TEXT.copy()
    for row in (mask, text):
        row.flags.writeable = False
    for target_sentinels, expected in ((True, target), (False, bare)):
        rows = corrupt_spans(text, mask, SENTINELS, target_sentinels)
        assert [row.tolist() for row in rows] == [source, expected]
        assert rows[0].dtype == rows[1].dtype == np.int64


@pytest.mark.cases(
    "length ratio mean noise spans",
    (511, 0.15, 3.0, 77, 26),  # 76.65; 25.67
    (100, 0.5, 3.0, 50, 17),  # 16.67
    (10, 0.15, 3.0, 2, 1),  # 1.5 to the even number; 0.67
    (2, 0.15, 3.0, 1, 1),  # at least one
    (2, 0.99, 3.0, 1, 1),  # at least one stays
    (3, 0.5, 1.0, 2, 2),  # x _ x
    (10, 0.9, 1.0, 9, 2),  # one intact token parts two spans only
    (20, 0.5, 100.0, 10, 1),  # fewer tokens of noise than a span's mean
)
def test_counts_by_hand(length, ratio, mean, noise, spans):
    assert [int(count) for count in count_spans(length, ratio, mean)] == [noise, spans]
    mask = draw_span_mask(length, ratio, mean, np.random.default_rng(1))
    assert (len(mask), mask.dtype, int(mask.sum()), len(runs(mask))) == (length, bool, noise, spans)


def masks(length, noise, spans):
    """Enumerate the masks with these numbers of tokens and spans."""
    rows = itertools.product([False, True], repeat=length)
    return [mask for mask in rows if sum(mask) == noise and len(runs(mask)) == spans]


@pytest.mark.parametrize("rng", [np.random.default_rng(3), np.random.RandomState(3)])
def test_every_mask_is_equally_likely(rng):
    """7 tokens, 3 of noise in 2 spans: 2 ways to part 3, times C(5, 2) = 10 ways to place them."""
    expected = masks(7, 3, 2)
    assert len(expected) == 20
    counts = Counter(tuple(draw_span_mask(7, 0.45, 2.0, rng).tolist()) for _ in range(20 * 200))
    assert set(counts) == set(expected)
    deviation = (200 * (1 - 1 / 20)) ** 0.5
    assert max(abs(count - 200) for count in counts.values()) < 5 * deviation


def count_most_spans(length, ratio, mean, separators):
    """Enumerate every place of the separators and every mask of the other tokens."""
    most = 0
    for count in range(min(separators, length - 2) + 1):
        noise, spans = (int(number) for number in count_spans(length - count, ratio, mean))
        for mask in masks(length - count, noise, spans):
            for places in itertools.combinations(range(length), count):
                tokens = iter(mask)
                row = [place not in places and next(tokens) for place in range(length)]
                most = max(most, len(runs(row)))
    return most


@pytest.mark.parametrize(("ratio", "mean"), [(0.5, 3.0), (0.3, 2.0), (0.8, 4.0)])
@pytest.mark.parametrize("separators", [0, 1, 3])
def test_most_spans_is_the_worst_case(ratio, mean, separators):
    expected = count_most_spans(8, ratio, mean, separators)
    assert most_spans(8, ratio, mean, separators) == expected


def test_most_spans_at_the_sizes_of_the_paper():
    assert most_spans(511, 0.15, 3.0, 0) == 26
    assert most_spans(511, 0.5, 3.0, 1) == 86  # 510 tokens: 255 of noise, 85 spans, one is cut
    assert most_spans(511, 0.15, 3.0, 511) == 70
    assert most_spans(3, 0.5, 3.0, 511) == 1


# ---- Sentinels. ----


def symbols(*names):
    dictionary = builders.dictionary()
    for name in names:
        dictionary.add_symbol(name)
    return dictionary


def test_sentinels_are_counted_until_a_number_is_missing_or_are_added_at_the_end():
    dictionary = symbols("<extra_id_1>", "x", "<extra_id_0>", "<extra_id_3>")
    assert find_sentinels(dictionary, TEMPLATE) == [builders.VOCAB + 2, builders.VOCAB]
    assert find_sentinels(dictionary, "[S{}]") == []
    assert find_sentinels(dictionary, "[S{}]", 2) == [len(dictionary) - 2, len(dictionary) - 1]
    assert dictionary.symbols[-2:] == ["[S0]", "[S1]"]


def test_wrong_options_are_named():
    for template, add, message in (
        ("<extra>", 5, "--sentinels .*'<extra>'"),
        (TEMPLATE, -1, "--add-sentinels .* got -1"),
        ("p{}", 5, "--add-sentinels must be 0 .* p0; got 5"),
    ):
        with pytest.raises(ValueError, match=message):
            find_sentinels(symbols(), template, add)


BLOCKS = Demand("--mask-prob", 0.15, 512, 0)
PAIRS = Demand("--pair-mask-prob", 0.5, 512, 1)


@pytest.mark.parametrize(("need", "demands"), [(26, [BLOCKS]), (86, [BLOCKS, PAIRS])])
def test_the_sentinels_that_the_worst_text_needs_are_enough(need, demands):
    check_sentinels(range(need), TEMPLATE, 3.0, demands)
    cause = f"--tokens-per-sample 512, {demands[-1].option} {demands[-1].ratio}"
    with pytest.raises(ValueError, match=f"has {need - 1}, .*{cause}.*--add-sentinels {need}"):
        check_sentinels(range(need - 1), TEMPLATE, 3.0, demands)
