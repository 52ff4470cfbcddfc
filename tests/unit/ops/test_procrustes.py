"""Orthogonal maps are the best rotations, re-weighted ones follow the equations."""

import numpy as np
import torch
from scipy.linalg import orthogonal_procrustes

from fairseq_plugins.ops.procrustes import orthogonal_maps, reweighted_maps
from tests.reference import lexicon_loops as loops


def pairs():
    """Vectors (40, 6) and their rotated, noisy partners; float64."""
    generator = torch.Generator().manual_seed(3)
    x, more, rotation = (torch.randn(n, 6, generator=generator, dtype=torch.float64) for n in (40, 40, 6))
    return x, x @ torch.linalg.qr(rotation)[0] + 0.3 * more


def test_the_map_is_scipys():
    x, y = pairs()
    maps = orthogonal_maps(x, y)
    np.testing.assert_allclose(maps.source.numpy(), orthogonal_procrustes(x.numpy(), y.numpy())[0], atol=1e-12)
    assert torch.equal(maps.target, torch.eye(6, dtype=torch.float64))


def test_reweighted_maps_follow_the_equations():
    x, y = pairs()
    for power in (0.0, 0.5, 1.0):
        found, expected = reweighted_maps(x, y, power), loops.reweighted(x.numpy(), y.numpy(), power)
        for mine, theirs, side in zip(found, expected, (x, y)):
            # Directions may change their sign, on both sides alike: compare what does not.
            np.testing.assert_allclose((side @ mine).numpy() ** 2, (side.numpy() @ theirs) ** 2, atol=1e-9)
        joint = (x @ found.source) @ (y @ found.target).T
        np.testing.assert_allclose(joint.numpy(), x.numpy() @ expected[0] @ (y.numpy() @ expected[1]).T, atol=1e-9)
        small = reweighted_maps(0.01 * x, 0.01 * y, power)
        torch.testing.assert_close((x @ small.source) @ (y @ small.target).T, joint)  # the scale does not count
    assert all(torch.equal(*maps) for maps in zip(reweighted_maps(x, y), reweighted_maps(x, y, 0.5)))


def test_directions_that_hold_nothing_are_left_out():
    """As if the column were not there; fewer pairs than dimensions; float32 stays float32."""
    x = pairs()[0]
    x[:, 5] = 0.0
    y = torch.cat([x[:, :5] * 2 + 0.1 * x[:, :5].flip(0), torch.zeros(40, 1, dtype=torch.float64)], 1)
    found, alone = reweighted_maps(x, y), reweighted_maps(x[:, :5], y[:, :5])
    joint = (x[:, :5] @ alone.source) @ (y[:, :5] @ alone.target).T
    torch.testing.assert_close((x @ found.source) @ (y @ found.target).T, joint)
    fewer = torch.randn(4, 6, generator=torch.Generator().manual_seed(2))
    maps = *orthogonal_maps(fewer, fewer), *reweighted_maps(fewer, fewer)
    assert all(bool(side.isfinite().all()) and side.dtype == torch.float32 for side in maps)
