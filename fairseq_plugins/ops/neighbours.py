"""Nearest neighbours of two sets of vectors, in blocks: at most a block of similarities is held.

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


class Block(NamedTuple):
    """Cosines of some sentences of both sides."""

    rows: slice  # sentences of the first side
    columns: slice  # sentences of the second side
    cosines: Tensor  # (rows, columns)


class TransposedBlock(NamedTuple):
    """Cosines of some sentences of both sides, in both orders."""

    rows: slice
    columns: slice
    cosines: Tensor  # (rows, columns)
    transposed: Tensor  # (columns, rows), contiguous


class Matches(NamedTuple):
    """The best partner of each sentence of both sides; of equally good ones the first."""

    forward: Tensor  # (M,) int64, of the first side
    forward_scores: Tensor  # (M,) float
    backward: Tensor  # (N,) int64, of the second side
    backward_scores: Tensor  # (N,) float


def unit_rows(vectors: Tensor) -> Tensor:
    """Scale rows (M, C) to length 1; a row of zeros stays. All but float64 becomes float32."""
    rows = vectors if vectors.dtype == torch.float64 else vectors.float()
    return torch.nn.functional.normalize(rows, dim=1)


class Workspace:
    """Memory for several products in turn: fresh pages cost a large product a third of its time."""

    def __init__(self) -> None:
        self._tensors: Dict[str, Tensor] = {}

    def take(self, name: str, rows: int, columns: int, like: Tensor) -> Tensor:
        """Return a tensor (rows, columns) of any content; the last one of this name is lost."""
        tensor = self._tensors.get(name)
        expected = ((rows, columns), like.dtype, like.device)
        if tensor is None or (tuple(tensor.shape), tensor.dtype, tensor.device) != expected:
            tensor = self._tensors[name] = like.new_empty(rows, columns)
        return tensor


class Similarities:
    """Cosines of two sides, block by block; may be iterated over several times.

    If a single block holds all, it is computed once and stays.

    Args:
        x, y: (M, C) and (N, C), rows of length 1.
        block: rows of each side that are compared at a time; memory grows with its square.
        workspace: memory of a single block, which the next object with this workspace overwrites.
    """

    def __init__(
        self, x: Tensor, y: Tensor, block: int = BLOCK, workspace: Optional[Workspace] = None
    ):
        self.x, self.y, self.block = x, y, block
        self._workspace = workspace or Workspace()
        self._single: Optional[TransposedBlock] = None

    def __iter__(self) -> Iterator[TransposedBlock]:
        """Compute block after block."""
        if max(len(self.x), len(self.y)) > self.block:
            for block in _compute_blocks(self.x, self.y, self.block):
                yield TransposedBlock(*block, block.cosines.T.contiguous())
            return
        if self._single is None:
            rows, columns = len(self.x), len(self.y)
            cosines = self._workspace.take("cosines", rows, columns, self.x)
            torch.mm(self.x, self.y.T, out=cosines)
            transposed = self._workspace.take("transposed", columns, rows, self.x)
            transposed.copy_(cosines.T)
            self._single = TransposedBlock(slice(0, rows), slice(0, columns), cosines, transposed)
        yield self._single


def row_chunks(matrix: Tensor) -> Iterator[Tuple[slice, Tensor]]:
    """Yield rows of a matrix, on a CPU few enough that results stay in its cache."""
    size = CHUNK if matrix.device.type == "cpu" else max(len(matrix), 1)
    for first in range(0, len(matrix), size):
        rows = slice(first, min(first + size, len(matrix)))
        yield rows, matrix[rows]


def nearest_similarities(similarities: Similarities, neighbours: int) -> Tuple[Tensor, Tensor]:
    """Find the ``neighbours`` largest cosines of each row, (M, K), and of each column, (N, K).

    The largest stands first. Raises ValueError for more neighbours than sentences.
    """
    x, y = similarities.x, similarities.y
    most = min(len(x), len(y))
    if not 1 <= neighbours <= most:
        raise ValueError(
            f"--neighbours must lie in 1 to {most}, the sentences of the smaller side; got "
            f"{neighbours}"
        )
    of_rows = x.new_full((len(x), neighbours), -torch.inf)
    of_columns = x.new_full((len(y), neighbours), -torch.inf)
    for block in similarities:
        _keep_largest(of_rows[block.rows], block.cosines)
        _keep_largest(of_columns[block.columns], block.transposed)
    return of_rows, of_columns


def _keep_largest(largest: Tensor, cosines: Tensor) -> None:
    """Replace each row of ``largest`` (M, K) by the largest of it and of ``cosines`` (M, N)."""
    count = largest.size(1)
    for rows, chunk in row_chunks(cosines):
        chunk_largest = chunk.topk(min(count, chunk.size(1)), 1).values
        largest[rows] = torch.cat([largest[rows], chunk_largest], 1).topk(count, 1).values


def best_matches(
    x: Tensor, y: Tensor, score: str = MARGIN, neighbours: int = 4, block: int = BLOCK
) -> Matches:
    """Find the best partner of every sentence among all sentences of the other side.

    ``margin`` divides the cosine by the mean of two means: that of the first sentence with its
    nearest neighbours on the other side, and that of the second sentence with its. All pairs are
    scored, not only those of nearest neighbours by cosine, as some programs do.

    Args:
        x, y: vectors, (M, C) and (N, C).
        score: ``cosine`` or ``margin``.
        neighbours: nearest neighbours of ``margin``.
        block: rows of each side that are compared at a time; memory grows with its square.

    Raises:
        ValueError: an unknown score, or a margin without meaning.

    Source: Artetxe and Schwenk 2019, section 3.1 and equation 2 (ratio).
    """
    if score not in SCORES:
        raise ValueError(f"--score must be one of {', '.join(SCORES)}; got {score!r}")
    x, y = unit_rows(x), unit_rows(y)
    means = None
    if score == MARGIN:
        near_x, near_y = nearest_similarities(Similarities(x, y, block), neighbours)
        means = near_x.mean(1), near_y.mean(1)
        if float(means[0].min() + means[1].min()) <= 0:
            raise ValueError(
                "--score margin: a sentence is not similar to any of the other side, so that the "
                "ratio means nothing; valid: --score cosine"
            )
    forward, backward = _Best(x), _Best(y)
    for rows, columns, scores in _compute_blocks(x, y, block):
        if means is not None:
            scores = scores / ((means[0][rows, None] + means[1][None, columns]) / 2)
        forward.update(rows, columns, *scores.max(1))
        backward.update(columns, rows, *scores.max(0))
    return Matches(forward.places, forward.scores, backward.places, backward.scores)


class _Best:
    """Best partner of each sentence of a side (M, C) so far."""

    def __init__(self, side: Tensor):
        self.scores = side.new_full((len(side),), -torch.inf)
        self.places = torch.zeros(len(side), dtype=torch.int64, device=side.device)

    def update(self, rows: slice, partners: slice, scores: Tensor, places: Tensor) -> None:
        """Take over better partners; ``places`` are counted from the first of ``partners``."""
        is_better = scores > self.scores[rows]  # not >=: of equal scores the first block's stays
        self.scores[rows] = torch.where(is_better, scores, self.scores[rows])
        self.places[rows] = torch.where(is_better, places + partners.start, self.places[rows])


def _compute_blocks(x: Tensor, y: Tensor, size: int) -> Iterator[Block]:
    if size < 1:
        raise ValueError(f"block must be at least 1 sentence; got {size}")
    for first in range(0, len(x), size):
        rows = slice(first, min(first + size, len(x)))
        for second in range(0, len(y), size):
            columns = slice(second, min(second + size, len(y)))
            yield Block(rows, columns, x[rows] @ y[columns].T)
