"""Linear maps that bring paired vectors of two spaces together: orthogonal, or re-weighted.

Shape letters of this file: P pairs, C width.
"""

from typing import NamedTuple, Tuple

import torch
from torch import Tensor

SMALLEST = 1e-6
"""Directions whose variance is below this part of the largest hold nothing: whitening leaves them out."""


class Maps(NamedTuple):
    """One map per side, (C, C): a row vector times its map is the mapped vector."""

    source: Tensor
    target: Tensor


def orthogonal_maps(x: Tensor, y: Tensor) -> Maps:
    """The rotation of x that comes nearest to y, its partners, (P, C) both; y stays.

    Source: Schönemann 1966: with the singular value decomposition U S V^T of x^T y, the map is U V^T.
    """
    left, _, right = torch.linalg.svd(x.T @ y)
    return Maps(left @ right, torch.eye(x.size(1), dtype=x.dtype, device=x.device))


def reweighted_maps(x: Tensor, y: Tensor, power: float = 0.5) -> Maps:
    """Whitened maps whose directions are weighted by how much both sides, (P, C) each, share of them.

    Both sides are whitened, rotated to the directions in which they agree, multiplied by the correlations to the power, and
    de-whitened, each by its own covariance. Computed in float64. A power of 0.5 shares the weights between both sides.

    Source: Artetxe, Labaka and Agirre 2018 (AAAI), section 3, steps 1 to 4; symmetric as in Artetxe et al. 2018 (ACL), section 3.4.
    """
    exact = [side.double() for side in (x, y)]
    (white_x, colour_x), (white_y, colour_y) = (_whitening(side) for side in exact)
    left, correlations, right = torch.linalg.svd((exact[0] @ white_x).T @ (exact[1] @ white_y))
    weights = correlations.clamp(min=0).pow(power)
    source = white_x @ left * weights @ left.T @ colour_x @ left
    target = white_y @ right.T * weights @ right @ colour_y @ right.T
    return Maps(source.to(x.dtype), target.to(y.dtype))


def _whitening(vectors: Tensor) -> Tuple[Tensor, Tensor]:
    """Square root of the inverse covariance (not centred), and of the covariance."""
    values, directions = torch.linalg.eigh(vectors.T @ vectors)
    holds = values > SMALLEST * values.max()
    roots = torch.where(holds, values.clamp(min=0).sqrt(), 0.0)
    inverse = torch.where(holds, 1 / roots, 0.0)
    return directions * inverse @ directions.T, directions * roots @ directions.T
