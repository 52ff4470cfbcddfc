"""Linear maps that bring paired vectors of two spaces together: orthogonal, or re-weighted.

Shape letters of this file: P pairs, C width.
"""

from typing import NamedTuple

import torch
from torch import Tensor

SMALLEST = 1e-6
"""Whitening leaves out directions whose variance is below this share of the largest."""


class Maps(NamedTuple):
    """A map for each side, (C, C): a row vector times its map is the mapped vector."""

    source: Tensor
    target: Tensor


def orthogonal_maps(x: Tensor, y: Tensor) -> Maps:
    """Compute the rotation of x that comes nearest to its partners y, (P, C) each; y stays.

    With the singular value decomposition U S V^T of x^T y, the map is U V^T.

    Source: Schönemann 1966.
    """
    u, _, vt = torch.linalg.svd(x.T @ y)
    return Maps(u @ vt, torch.eye(x.size(1), dtype=x.dtype, device=x.device))


def reweighted_maps(x: Tensor, y: Tensor, power: float = 0.5) -> Maps:
    """Compute whitened maps whose directions are weighted by how strongly both sides agree in them.

    Both sides are whitened, rotated to the directions in which they agree, multiplied by the
    correlations to the power, and de-whitened, each by its covariance. Computed in float64.

    Args:
        x, y: (P, C) each, partners in the same row.
        power: of the correlations; 0.5 shares the weights between both sides.

    Source: Artetxe, Labaka and Agirre 2018 (AAAI), section 3, steps 1 to 4; symmetric as in Artetxe
    et al. 2018 (ACL), section 3.4.
    """
    whitening_x, whitening_y = _compute_whitening(x.double()), _compute_whitening(y.double())
    white_x, white_y = x.double() @ whitening_x.whiten, y.double() @ whitening_y.whiten
    u, correlations, vt = torch.linalg.svd(white_x.T @ white_y)
    weights = correlations.clamp(min=0).pow(power)
    source = whitening_x.whiten @ u * weights @ u.T @ whitening_x.colour @ u
    target = whitening_y.whiten @ vt.T * weights @ vt @ whitening_y.colour @ vt.T
    return Maps(source.to(x.dtype), target.to(y.dtype))


class _Whitening(NamedTuple):
    """Roots of a covariance (neither centred nor divided by P), (C, C) each."""

    whiten: Tensor  # of its inverse
    colour: Tensor  # of the covariance


def _compute_whitening(vectors: Tensor) -> _Whitening:
    variances, directions = torch.linalg.eigh(vectors.T @ vectors)
    is_used = variances > SMALLEST * variances.max()
    roots = torch.where(is_used, variances.clamp(min=0).sqrt(), 0.0)
    inverse = torch.where(is_used, 1 / roots, 0.0)
    return _Whitening(
        whiten=directions * inverse @ directions.T, colour=directions * roots @ directions.T
    )
