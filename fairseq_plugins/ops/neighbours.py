"""Nearest neighbours of two sets of vectors in blocks: no more than a block of similarities is ever held.

Shape letters of this file: M and N sentences of the two sides, C width, K neighbours.
"""

from typing import Dict, Iterator, NamedTuple, Optional, Tuple

import torch
from torch import Tensor

BLOCK = 4096
"""Sentences of each side in a block."""
CHUNK = 256
"""Rows of a block that are ranked at a time on a CPU: they fit its cache."""
COSINE, MARGIN = "cosine", "margin"
SCORES = (COSINE, MARGIN)

Block = Tuple[slice, slice, Tensor]
TurnedBlock = Tuple[slice, slice, Tensor, Tensor]


class Matches(NamedTuple):
    """The best partner of each sentence of both sides, the first one where several are equally good."""

    forward: Tensor  # (M,) int64, of the first side
    forward_scores: Tensor  # (M,) float
    backward: Tensor  # (N,) int64, of the second side
    backward_scores: Tensor  # (N,) float


def unit_rows(vectors: Tensor) -> Tensor:
    """(M, C) rows of length 1; float64 is kept, anything else becomes float32. A row of zeros stays one."""
    rows = vectors if vectors.dtype == torch.float64 else vectors.float()
    return torch.nn.functional.normalize(rows, dim=1)


class Workspace:
    """Memory that is used again: fresh pages cost a large product a third of its time."""

    def __init__(self) -> None:
        self._held: Dict[str, Tensor] = {}

    def take(self, name: str, rows: int, columns: int, like: Tensor) -> Tensor:
        """A (rows, columns) tensor of any content; the one before of this name is lost."""
        held = self._held.get(name)
        if (
            held is None
            or held.shape != (rows, columns)
            or (held.dtype, held.device) != (like.dtype, like.device)
        ):
            held = self._held[name] = like.new_empty(rows, columns)
        return held


class Similarities:
    """Cosines of two sides (M, C) and (N, C), rows of length 1, block by block, as often as they are asked for.

    A single block is computed once and kept, in ``workspace`` where one is given, so that the next one takes its place. Memory
    grows with the square of ``block``, the rows of each side that are compared at a time.
    """

    def __init__(
        self, x: Tensor, y: Tensor, block: int = BLOCK, workspace: Optional[Workspace] = None
    ):
        self.x, self.y, self.block = x, y, block
        self._workspace = workspace or Workspace()
        self._only: Optional[TurnedBlock] = None

    def __iter__(self) -> Iterator[TurnedBlock]:
        """Rows, columns, cosines, and the cosines with rows and columns exchanged, of each block."""
        if max(len(self.x), len(self.y)) > self.block:
            for here, there, similarity in _blocks(self.x, self.y, self.block):
                yield here, there, similarity, similarity.T.contiguous()
            return
        if self._only is None:
            rows, columns = len(self.x), len(self.y)
            similarity = torch.mm(
                self.x, self.y.T, out=self._workspace.take("cosines", rows, columns, self.x)
            )
            turned = self._workspace.take("turned", columns, rows, self.x).copy_(similarity.T)
            self._only = (slice(0, rows), slice(0, columns), similarity, turned)
        yield self._only


def row_chunks(matrix: Tensor) -> Iterator[Tuple[slice, Tensor]]:
    """The rows of a matrix, some at a time: on a CPU, so many that what is computed from them stays in its cache."""
    size = CHUNK if matrix.device.type == "cpu" else max(len(matrix), 1)
    for first in range(0, len(matrix), size):
        rows = slice(first, min(first + size, len(matrix)))
        yield rows, matrix[rows]


def nearest_similarities(similarities: Similarities, neighbours: int) -> Tuple[Tensor, Tensor]:
    """The ``neighbours`` largest cosines of each row (M, K) and of each column (N, K), the largest first."""
    x, y = similarities.x, similarities.y
    most = min(len(x), len(y))
    if not 1 <= neighbours <= most:
        raise ValueError(
            f"--neighbours must lie in 1 to {most}, the sentences of the smaller side; got {neighbours}"
        )
    found = [
        torch.full((len(side), neighbours), -torch.inf, dtype=x.dtype, device=x.device)
        for side in (x, y)
    ]
    for here, there, similarity, turned in similarities:
        for values, matrix in ((found[0][here], similarity), (found[1][there], turned)):
            for rows, part in row_chunks(matrix):
                best = part.topk(min(neighbours, part.size(1)), 1).values
                values[rows] = torch.cat([values[rows], best], 1).topk(neighbours, 1).values
    return found[0], found[1]


def best_matches(
    x: Tensor, y: Tensor, score: str = MARGIN, neighbours: int = 4, block: int = BLOCK
) -> Matches:
    """The best partner of every sentence, among all sentences of the other side: vectors (M, C) and (N, C).

    ``margin`` divides the cosine by the mean of two means: that of the first sentence with its ``neighbours`` nearest of the other
    side, and that of the second sentence with its own. All pairs are scored, not only those of nearest neighbours by cosine, as
    some programs do. Memory grows with the square of ``block``.

    Source: Artetxe and Schwenk 2019, section 3.1 and equation 2 (ratio).
    """
    if score not in SCORES:
        raise ValueError(f"--score must be one of {', '.join(SCORES)}; got {score!r}")
    x, y = unit_rows(x), unit_rows(y)
    near = None
    if score == MARGIN:
        near = [
            values.mean(1) for values in nearest_similarities(Similarities(x, y, block), neighbours)
        ]
        if float(near[0].min() + near[1].min()) <= 0:
            reason = "a sentence is not similar to any of the other side, so that the ratio means nothing"
            raise ValueError(f"--score margin: {reason}; valid: --score cosine")
    best = [torch.full((len(side),), -torch.inf, dtype=x.dtype, device=x.device) for side in (x, y)]
    places = [torch.zeros(len(side), dtype=torch.int64, device=x.device) for side in (x, y)]
    for here, there, scores in _blocks(x, y, block):
        if near is not None:
            scores = scores / ((near[0][here, None] + near[1][None, there]) / 2)
        for side, own, other in ((0, here, there), (1, there, here)):
            values, indices = scores.max(1 - side)
            better = values > best[side][own]  # not >=: of equal scores the first block's stays
            best[side][own] = torch.where(better, values, best[side][own])
            places[side][own] = torch.where(better, indices + other.start, places[side][own])
    return Matches(places[0], best[0], places[1], best[1])


def _blocks(x: Tensor, y: Tensor, block: int) -> Iterator[Block]:
    if block < 1:
        raise ValueError(f"block must be at least 1 sentence; got {block}")
    for first in range(0, len(x), block):
        here = slice(first, min(first + block, len(x)))
        for second in range(0, len(y), block):
            there = slice(second, min(second + block, len(y)))
            yield here, there, x[here] @ y[there].T
