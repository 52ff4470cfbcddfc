"""Orthogonal maps are the best rotations, re-weighted ones follow the equations."""

import numpy as np
import torch
from scipy.linalg import orthogonal_procrustes

from fairseq_plugins.ops.procrustes import orthogonal_maps, reweighted_maps
from tests.reference import lexicon_loops as loops


def rotation(width, seed=1):
    """A random orthogonal matrix, float64."""
    generator = torch.Generator().manual_seed(seed)
    return torch.linalg.qr(torch.randn(width, width, generator=generator, dtype=torch.float64))[0]


def pairs(count=40, width=6, noise=0.3):
    """Vectors and their rotated, noisy partners; float64."""
    generator = torch.Generator().manual_seed(3)
    x, more = (torch.randn(count, width, generator=generator, dtype=torch.float64) for _ in range(2))
    return x, x @ rotation(width) + noise * more


def test_the_map_is_scipys_and_no_rotation_is_nearer():
    x, y = pairs()
    maps = orthogonal_maps(x, y)
    expected, _ = orthogonal_procrustes(x.numpy(), y.numpy())
    np.testing.assert_allclose(maps.source.numpy(), expected, atol=1e-12)
    torch.testing.assert_close(maps.source @ maps.source.T, torch.eye(6, dtype=torch.float64))
    assert torch.equal(maps.target, torch.eye(6, dtype=torch.float64))
    best = float((x @ maps.source - y).norm())
    for seed in range(20):  # by definition: the least distance of all rotations, also of those near by
        other = rotation(6, seed + 10)
        near = torch.linalg.qr(maps.source + 0.01 * other)[0]
        near = near * torch.sign((near * maps.source).sum(0))
        assert min(float((x @ each - y).norm()) for each in (other, near)) > best


def test_reweighted_maps_follow_the_equations():
    x, y = pairs()
    found = reweighted_maps(x, y)
    expected = loops.reweighted(x.numpy(), y.numpy())
    for mine, theirs, side in zip(found, expected, (x, y)):
        # Directions may change their sign, on both sides alike: compare what does not.
        np.testing.assert_allclose((side @ mine).numpy() ** 2, (side.numpy() @ theirs) ** 2, atol=1e-9)
    joint = (x @ found.source) @ (y @ found.target).T
    np.testing.assert_allclose(joint.numpy(), x.numpy() @ expected[0] @ (y.numpy() @ expected[1]).T, atol=1e-9)
    small = reweighted_maps(0.01 * x, 0.01 * y)
    torch.testing.assert_close((x @ small.source) @ (y @ small.target).T, joint)  # the scale does not count


def test_power_zero_is_a_rotation_and_halves_make_a_whole():
    x, y = pairs()
    plain = reweighted_maps(x, y, power=0.0)
    # Whitening and de-whitening then meet as U U^T: what is left is orthogonal.
    torch.testing.assert_close(plain.source @ plain.source.T, torch.eye(6, dtype=torch.float64))
    assert not torch.allclose(reweighted_maps(x, y, power=1.0).source, plain.source)


def test_directions_that_hold_nothing_are_left_out():
    x, y = pairs(width=6)
    x[:, 5] = 0.0
    y = torch.cat([x[:, :5] * 2, torch.zeros(40, 1, dtype=torch.float64)], 1)
    maps = reweighted_maps(x, y)
    assert all(bool(side.isfinite().all()) for side in maps)
    fewer = torch.randn(4, 6, generator=torch.Generator().manual_seed(2))  # fewer pairs than dimensions
    assert bool(reweighted_maps(fewer, fewer).source.isfinite().all())


def test_float32_stays_float32():
    x, y = (side.float() for side in pairs())
    assert {side.dtype for side in (*orthogonal_maps(x, y), *reweighted_maps(x, y))} == {torch.float32}
