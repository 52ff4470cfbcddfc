"""Nearest neighbours of two sets of vectors in blocks: no more than a block of similarities is ever held.

Shape letters of this file: M and N sentences of the two sides, C width, K neighbours.
"""

from typing import Callable, Iterator, NamedTuple, Tuple

import torch
from torch import Tensor

BLOCK = 4096
"""Sentences of each side in a block."""
COSINE, MARGIN = "cosine", "margin"
SCORES = (COSINE, MARGIN)

Block = Tuple[slice, slice, Tensor]


class Matches(NamedTuple):
    """The best partner of each sentence of both sides.

    Attributes:
        forward: (M,) int64, of each sentence of the first side; the first one where several are equally good.
        forward_scores: (M,).
        backward: (N,) int64, of each sentence of the second side.
        backward_scores: (N,).
    """

    forward: Tensor
    forward_scores: Tensor
    backward: Tensor
    backward_scores: Tensor


def unit_rows(vectors: Tensor) -> Tensor:
    """(M, C) rows of length 1; float64 is kept, anything else becomes float32. A row of zeros stays one."""
    rows = vectors if vectors.dtype == torch.float64 else vectors.float()
    return torch.nn.functional.normalize(rows, dim=1)


def mean_similarities(x: Tensor, y: Tensor, neighbours: int, block: int = BLOCK) -> Tuple[Tensor, Tensor]:
    """Mean cosine of each sentence with its nearest ones of the other side.

    Args:
        x: (M, C) rows of length 1.
        y: (N, C) rows of length 1.
        neighbours: K, from 1 to the smaller of M and N.
        block: sentences of each side that are compared at a time.

    Returns:
        (M,) and (N,).

    Raises:
        ValueError: K out of range.
    """
    most = min(len(x), len(y))
    if not 1 <= neighbours <= most:
        raise ValueError(f"--neighbours must lie in 1 to {most}, the sentences of the smaller side; got {neighbours}")
    rows, columns = (torch.full((len(side), neighbours), -torch.inf, dtype=x.dtype, device=x.device) for side in (x, y))
    for here, there, similarity in _blocks(x, y, block):
        rows[here] = torch.cat([rows[here], similarity], 1).topk(neighbours, 1).values
        columns[there] = torch.cat([columns[there], similarity.T], 1).topk(neighbours, 1).values
    return rows.mean(1), columns.mean(1)


def best_matches(x: Tensor, y: Tensor, score: str = MARGIN, neighbours: int = 4, block: int = BLOCK) -> Matches:
    """The best partner of every sentence, among all sentences of the other side.

    ``margin`` divides the cosine by the mean of two means: that of the first sentence with its K nearest of the other side, and
    that of the second sentence with its K nearest. All pairs are scored, not only those of nearest neighbours by cosine, as some
    programs do.

    Args:
        x: (M, C) floating-point.
        y: (N, C) floating-point.
        score: ``cosine`` or ``margin``.
        neighbours: K of ``margin``.
        block: sentences of each side that are compared at a time; memory grows with its square.

    Raises:
        ValueError: an option out of range; a mean that is not positive, by which no margin can be taken.

    Source: Artetxe and Schwenk 2019, section 3.1 and equation 2 (ratio).
    """
    if score not in SCORES:
        raise ValueError(f"--score must be one of {', '.join(SCORES)}; got {score!r}")
    x, y = unit_rows(x), unit_rows(y)

    def scored(here: slice, there: slice, similarity: Tensor) -> Tensor:
        return similarity

    if score == MARGIN:
        near_x, near_y = mean_similarities(x, y, neighbours, block)
        if float(near_x.min() + near_y.min()) <= 0:
            raise ValueError(
                "--score margin: a sentence is not similar to any of the other side, so that the ratio means nothing; valid: "
                "--score cosine"
            )

        def scored(here: slice, there: slice, similarity: Tensor) -> Tensor:
            return similarity / ((near_x[here, None] + near_y[None, there]) / 2)

    return _best(x, y, scored, block)


def _best(x: Tensor, y: Tensor, scored: Callable[[slice, slice, Tensor], Tensor], block: int) -> Matches:
    """The largest score of every row and column; the first where several are equal, whatever the blocks."""
    found = []
    for side in (x, y):
        places = torch.zeros(len(side), dtype=torch.int64, device=x.device)
        found.append((places, torch.full((len(side),), -torch.inf, dtype=x.dtype, device=x.device)))
    for here, there, similarity in _blocks(x, y, block):
        scores = scored(here, there, similarity)
        for axis, own, other in ((1, here, there), (0, there, here)):
            places, best = found[1 - axis]
            values, indices = scores.max(axis)
            better = values > best[own]  # not >=: of equal scores the first block's stays
            best[own] = torch.where(better, values, best[own])
            places[own] = torch.where(better, indices + other.start, places[own])
    (forward, forward_scores), (backward, backward_scores) = found
    return Matches(forward, forward_scores, backward, backward_scores)


def _blocks(x: Tensor, y: Tensor, block: int) -> Iterator[Block]:
    """Rows, columns and cosines of each block."""
    if block < 1:
        raise ValueError(f"block must be at least 1 sentence; got {block}")
    for first in range(0, len(x), block):
        here = slice(first, min(first + block, len(x)))
        for second in range(0, len(y), block):
            there = slice(second, min(second + block, len(y)))
            yield here, there, x[here] @ y[there].T
