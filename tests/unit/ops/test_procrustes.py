"""Test that orthogonal maps are the best rotations, and re-weighted ones follow the equations."""

import numpy as np
import torch
from scipy.linalg import orthogonal_procrustes

from fairseq_plugins.ops.procrustes import orthogonal_maps, reweighted_maps
from tests.reference import lexicon_loops as loops


def draw_pairs():
    """Draw vectors (40, 6) and their rotated, noisy partners; float64."""
    generator = torch.Generator().manual_seed(3)
    x, noise, matrix = (
        torch.randn(rows, 6, generator=generator, dtype=torch.float64) for rows in (40, 40, 6)
    )
    return x, x @ torch.linalg.qr(matrix)[0] + 0.3 * noise


def cosines(x, y, maps):
    return (x @ maps[0]) @ (y @ maps[1]).T


def test_the_orthogonal_map_is_that_of_scipy():
    x, y = draw_pairs()
    maps = orthogonal_maps(x, y)
    expected = orthogonal_procrustes(x.numpy(), y.numpy())[0]
    np.testing.assert_allclose(maps.source.numpy(), expected, atol=1e-12)
    assert torch.equal(maps.target, torch.eye(6, dtype=torch.float64))


def test_reweighted_maps_follow_the_equations():
    """Directions may change their sign, on both sides alike: squares and products do not."""
    x, y = draw_pairs()
    for power in (0.0, 0.5, 1.0):
        maps, expected = reweighted_maps(x, y, power), loops.reweighted(x.numpy(), y.numpy(), power)
        for ours, theirs, side in zip(maps, expected, (x, y)):
            squares = (side.numpy() @ theirs) ** 2
            np.testing.assert_allclose((side @ ours).numpy() ** 2, squares, atol=1e-9)
        joint = cosines(x, y, maps)
        np.testing.assert_allclose(
            joint.numpy(), cosines(x.numpy(), y.numpy(), expected), atol=1e-9
        )
        scaled = reweighted_maps(0.01 * x, 0.01 * y, power)  # the scale must not matter
        torch.testing.assert_close(cosines(x, y, scaled), joint)
    assert all(
        torch.equal(*maps) for maps in zip(reweighted_maps(x, y), reweighted_maps(x, y, 0.5))
    )


def test_empty_directions_are_left_out():
    """Maps equal those without the empty column; fewer pairs than dimensions are enough."""
    x = draw_pairs()[0]
    x[:, 5] = 0.0
    y = torch.cat([x[:, :5] * 2 + 0.1 * x[:, :5].flip(0), torch.zeros_like(x[:, :1])], 1)
    narrow = x[:, :5], y[:, :5]
    expected = cosines(*narrow, reweighted_maps(*narrow))
    torch.testing.assert_close(cosines(x, y, reweighted_maps(x, y)), expected)
    vectors = torch.randn(4, 6, generator=torch.Generator().manual_seed(2))
    maps = *orthogonal_maps(vectors, vectors), *reweighted_maps(vectors, vectors)
    assert all(bool(side.isfinite().all()) and side.dtype == torch.float32 for side in maps)
