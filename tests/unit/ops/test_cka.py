"""CKA: equal to the definitions in numpy, streamed or at once, with the invariances that it must have."""

import numpy as np
import pytest
import torch

from fairseq_plugins.ops import cka
from fairseq_plugins.ops.cka import Cka, cka_of_pairs

TIGHT = {"rel": 1e-9, "abs": 1e-11}


def normal(*shape, seed=1, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def related(count=40, seed=1, widths=(7, 5)):
    """Two sides that share a part and lie far from the origin, with unequal norms of rows."""
    shared = normal(count, 3, seed=seed) * (1 + torch.arange(count, dtype=torch.float64)[:, None] / count)
    return [
        shared @ normal(3, width, seed=seed + width) + 0.5 * normal(count, width, seed=seed + 9 * width) + 20.0 * number
        for number, width in enumerate(widths, start=1)
    ]


def one(x, y, space=None, **options):
    return next(cka_of_pairs([x, y], [(0, 1)], space=space, **options))


def hsic_1(k, other):
    """The unbiased estimator as it is written, from N x N kernels."""
    n = len(k)
    k, other = k.copy(), other.copy()
    np.fill_diagonal(k, 0.0)
    np.fill_diagonal(other, 0.0)
    ones = np.ones(n)
    terms = np.trace(k @ other) + (ones @ k @ ones) * (ones @ other @ ones) / ((n - 1) * (n - 2))
    return (terms - 2 / (n - 2) * (ones @ k @ other @ ones)) / (n * (n - 3))


def direct(x, y):
    """Biased CKA as Kornblith et al. write it, unbiased CKA from kernels that are not centred."""
    a, b = x.numpy(), y.numpy()
    a_centred, b_centred = a - a.mean(0), b - b.mean(0)
    top = np.linalg.norm(b_centred.T @ a_centred) ** 2
    biased = top / np.linalg.norm(a_centred.T @ a_centred) / np.linalg.norm(b_centred.T @ b_centred)
    # One shift of all rows, which the kernels do feel: without it 1e3 in K would cost digits in this reference itself.
    k, other = (a - a[0]) @ (a - a[0]).T, (b - b[0]) @ (b - b[0]).T
    return Cka(biased, hsic_1(k, other) / np.sqrt(hsic_1(k, k) * hsic_1(other, other)))


@pytest.mark.parametrize(("space", "chunk"), [("sentences", 7), *(("features", chunk) for chunk in (1, 3, 39, 1000))])
@pytest.mark.parametrize("count", [4, 5, 12, 40])
def test_both_estimates_equal_their_definitions(space, chunk, count):
    x, y = related(count)
    found, expected = one(x, y, space, chunk=chunk), direct(x, y)
    assert found.biased == pytest.approx(expected.biased, **TIGHT)
    assert found.unbiased == pytest.approx(expected.unbiased, rel=1e-7, abs=1e-8)
    assert abs(found.biased - found.unbiased) > 1e-3
    assert one(y, x, space)[:2] == pytest.approx(found[:2], rel=1e-7, abs=1e-8)


def test_float32_far_from_the_origin_keeps_its_digits():
    """Without a shift before the products, means of 1e4 would leave no digit of a spread of 1."""
    x, y = (side - side.mean(0) for side in related(300))
    expected, far = direct(x, y), [(x + 1e4).float(), (y - 1e4).float()]
    found = one(*far, "features", chunk=64)
    assert found.biased == pytest.approx(expected.biased, rel=2e-3)
    assert found.unbiased == pytest.approx(expected.unbiased, rel=2e-3)
    assert one(*far, "sentences").biased == pytest.approx(direct(*(side.double() for side in far)).biased, **TIGHT)


@pytest.mark.parametrize("space", cka.SPACES)
def test_a_side_equals_what_a_rotation_scaling_and_shift_make_of_it(space):
    x = related()[0]
    rotated = x @ torch.linalg.qr(normal(7, 7, seed=5)).Q
    found = one(x, torch.cat([0.003 * rotated + normal(7, seed=6), torch.zeros(len(x), 2, dtype=x.dtype)], 1), space)
    assert found.biased == pytest.approx(1.0, abs=1e-9)
    assert found.unbiased == pytest.approx(1.0, abs=1e-7)


@pytest.mark.parametrize("space", cka.SPACES)
def test_many_pairs_and_permutations_are_what_each_pair_is_alone(space):
    """Layers of two models: what is kept of a layer for later pairs is that layer's; the second side is permuted."""
    layers = [*related(30, 1), *related(30, 2, (6, 4))]
    pairs = [(0, 2), (1, 3), (0, 3), (2, 1)]
    generator = torch.Generator().manual_seed(4)
    orders = [torch.randperm(30, generator=generator) for _ in range(3)]
    together = cka_of_pairs(layers, pairs, permutations=3, seed=4, space=space, chunk=16)
    for (first, second), found in zip(pairs, together):
        x, y = layers[first], layers[second]
        expected = [direct(x, y[order]) for order in orders]
        assert found[:2] == pytest.approx(direct(x, y)[:2], rel=1e-6, abs=1e-9)
        assert found.floor_biased == pytest.approx([each.biased for each in expected], rel=1e-8)
        assert found.floor_unbiased == pytest.approx([each.unbiased for each in expected], rel=1e-6, abs=1e-9)
    assert list(cka_of_pairs(layers, [], space=space)) == []


@pytest.mark.parametrize("space", cka.SPACES)
def test_bad_input_is_refused(space):
    x, y = related()
    same, names = torch.full_like(y, 0.1), {"names": ["a", "b"]}
    nan = y.clone().index_fill_(0, torch.tensor([30]), float("nan"))
    for matrices, options, message in (
        ([x[:3], y[:3]], {}, "at least 4 sentences; got 3"),
        ([x, y[:39]], names, "a has 40 rows, b 39"),
        ([x, same], names, "b: every sentence has the same vector"),
        ([x, nan], {}, "matrix 1: holds numbers that are not finite"),
        ([x[:5], torch.eye(5, dtype=x.dtype)], {}, "matrix 1: the sentences are equally far from each other"),
    ):
        with pytest.raises(ValueError, match=message):
            next(cka_of_pairs(matrices, [(0, 1)], space=space, **options))
