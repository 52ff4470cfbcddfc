"""Test CKA against its definitions in numpy: streamed or at once, with permutations."""

import numpy as np
import pytest
import torch

from fairseq_plugins.ops import cka
from fairseq_plugins.ops.cka import Cka, cka_of_pairs
from tests.unit.ops.builders import normal

TIGHT = {"rel": 1e-9, "abs": 1e-11}


def related_sides(count=40, seed=1, widths=(7, 5)):
    """Draw two sides with a common part, far from the origin, with unequal norms of rows."""
    norms = 1 + torch.arange(count, dtype=torch.float64)[:, None] / count
    shared, sides = normal(count, 3, seed=seed) * norms, []
    for number, width in enumerate(widths, start=1):
        noise = 0.5 * normal(count, width, seed=seed + 9 * width)
        sides.append(shared @ normal(3, width, seed=seed + width) + noise + 20.0 * number)
    return sides


def cka_of(x, y, space=None, **options):
    return next(cka_of_pairs([x, y], [(0, 1)], space=space, **options))


def hsic_1(first, second):
    """Compute the unbiased estimator as it is written, from N x N kernels."""
    n = len(first)
    first, second = first.copy(), second.copy()
    np.fill_diagonal(first, 0.0)
    np.fill_diagonal(second, 0.0)
    ones = np.ones(n)
    means = (ones @ first @ ones) * (ones @ second @ ones) / ((n - 1) * (n - 2))
    terms = np.trace(first @ second) + means - 2 / (n - 2) * (ones @ first @ second @ ones)
    return terms / (n * (n - 3))


def define_cka(x, y):
    """Compute biased CKA as Kornblith et al. write it, unbiased CKA from uncentred kernels."""
    a, b = x.numpy(), y.numpy()
    a_centred, b_centred = a - a.mean(0), b - b.mean(0)
    biased = np.linalg.norm(b_centred.T @ a_centred) ** 2
    biased /= np.linalg.norm(a_centred.T @ a_centred) * np.linalg.norm(b_centred.T @ b_centred)
    # Shift all rows alike: kernels of values around 1e3 would cost the reference its digits.
    first, second = (a - a[0]) @ (a - a[0]).T, (b - b[0]) @ (b - b[0]).T
    norm = np.sqrt(hsic_1(first, first) * hsic_1(second, second))
    return Cka(biased, hsic_1(first, second) / norm)


@pytest.mark.cases(
    "space chunk", ("sentences", 7), ("features", 1), ("features", 39), ("features", 1000)
)
@pytest.mark.parametrize("count", [4, 5, 40])
def test_both_estimates_equal_their_definitions(space, chunk, count):
    x, y = related_sides(count)
    estimate, expected = cka_of(x, y, space, chunk=chunk), define_cka(x, y)
    assert estimate.biased == pytest.approx(expected.biased, **TIGHT)
    assert estimate.unbiased == pytest.approx(expected.unbiased, rel=1e-7, abs=1e-8)
    assert abs(estimate.biased - estimate.unbiased) > 1e-3
    assert cka_of(y, x, space)[:2] == pytest.approx(estimate[:2], rel=1e-7, abs=1e-8)


def test_float32_far_from_the_origin_keeps_its_digits():
    """Without a shift before the products, means of 1e4 would leave no digit of a spread of 1."""
    x, y = (side - side.mean(0) for side in related_sides(300))
    expected, far = define_cka(x, y), [(x + 1e4).float(), (y - 1e4).float()]
    estimate = cka_of(*far, "features", chunk=64)
    assert estimate[:2] == pytest.approx(expected[:2], rel=2e-3)
    far_expected = define_cka(*(side.double() for side in far))
    assert cka_of(*far, "sentences").biased == pytest.approx(far_expected.biased, **TIGHT)


@pytest.mark.parametrize("space", cka.SPACES)
def test_many_pairs_and_permutations_equal_each_pair_alone(space):
    """The cache of a layer serves later pairs; permutations reorder the second side."""
    layers = [*related_sides(30, 1), *related_sides(30, 2, (6, 4))]
    pairs = [(0, 2), (1, 3), (0, 3), (2, 1)]
    generator = torch.Generator().manual_seed(4)
    orders = [torch.randperm(30, generator=generator) for _ in range(3)]
    estimates = cka_of_pairs(layers, pairs, permutations=3, seed=4, space=space, chunk=16)
    for (first, second), estimate in zip(pairs, estimates):
        x, y = layers[first], layers[second]
        floors = [define_cka(x, y[order]) for order in orders]
        assert estimate[:2] == pytest.approx(define_cka(x, y)[:2], rel=1e-6, abs=1e-9)
        biased, unbiased = ([getattr(floor, name) for floor in floors] for name in Cka._fields[:2])
        assert estimate.floor_biased == pytest.approx(biased, rel=1e-8)
        assert estimate.floor_unbiased == pytest.approx(unbiased, rel=1e-6, abs=1e-9)
    assert list(cka_of_pairs(layers, [], space=space)) == []


@pytest.mark.parametrize("space", cka.SPACES)
def test_bad_input_is_refused(space):
    x, y = related_sides()
    nan = y.clone().index_fill_(0, torch.tensor([30]), float("nan"))
    simplex = torch.eye(5, dtype=x.dtype)
    for matrices, options, message in (
        ([x[:3], y[:3]], {}, "at least 4 sentences; got 3"),
        ([x, y[:39]], {"names": ["a", "b"]}, "a has 40 rows, b 39"),
        ([x, torch.full_like(y, 0.1)], {"names": ["a", "b"]}, "b: every sentence has the same"),
        ([x, nan], {}, "matrix 1: holds numbers that are not finite"),
        ([x[:5], simplex], {}, "matrix 1: the sentences are equally far"),
    ):
        with pytest.raises(ValueError, match=message):
            cka_of(*matrices, space, **options)
