"""The nearest words of two vocabularies, by the product of their vectors or by CSLS, in blocks.

Shape letters of this file: M and N words of the two sides, C width, K ranks.
"""

from typing import Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple

import torch
from torch import Tensor

from .neighbours import BLOCK, Similarities, Workspace, nearest_similarities, row_chunks

NEIGHBOURS = 10
"""Nearest words of the other side, whose mean cosine says how crowded the place of a word is."""


class Ranked(NamedTuple):
    """The best partners of each word, the best first."""

    places: Tensor  # (M, K) int64, words of the other side
    scores: Tensor  # (M, K) products or CSLS


class Certainty(NamedTuple):
    """Measures of how reliable the partners of two vocabularies are."""

    mutual: float  # share of the words of both sides, in [0, 1], whose partner's partner they are
    margin: float  # mean difference between the scores of the best and of the second partner
    objective: float  # mean cosine of a word with its nearest word, over both sides


class _Scores(NamedTuple):
    """Products of some words with some of the other side; CSLS takes off half of its means."""

    side: int  # 0 or 1, side of the words
    rows: slice  # the words
    first: int  # place of the first word of the other side
    scores: Tensor  # (rows, words of the other side)


class Products:
    """Dot products of all pairs.

    Args:
        x, y: (M, C) and (N, C); of rows of length 1 the products are cosines.
        block, workspace: see :class:`.neighbours.Similarities`.

    Source: CSR III-B, "the dot product distance of the corresponding embedding pair".
    """

    def __init__(
        self, x: Tensor, y: Tensor, block: int = BLOCK, workspace: Optional[Workspace] = None
    ):
        self.similarities = Similarities(x, y, block, workspace)

    def ranked(self, depth: int) -> Tuple[Ranked, Ranked]:
        """Find the ``depth`` best partners of each word of both sides; fewer on a smaller side."""
        if depth < 1:
            raise ValueError(f"--top must be at least 1; got {depth}")
        sides = []
        for chunks in self._find_best(lambda side, rows: depth):
            places = torch.cat([chunk.places for chunk in chunks])
            sides.append(Ranked(places, torch.cat([chunk.scores for chunk in chunks])))
        return sides[0], sides[1]

    def _find_best(self, depth: Callable[[int, slice], int]) -> Tuple[List[Ranked], List[Ranked]]:
        """Find the best partners of each chunk of words of both sides.

        CSLS's scores lack the mean of the words themselves, which does not change the order.

        Args:
            depth: (side, words) -> number of partners of each word.
        """
        best: Tuple[Dict[int, Ranked], Dict[int, Ranked]] = ({}, {})
        for side, rows, first, scores in self._score_chunks():
            count = depth(side, rows)
            ranked = _rank(scores, count)
            ranked = Ranked(ranked.places + first, ranked.scores)
            earlier = best[side].get(rows.start)
            if earlier is not None:
                ranked = _merge(earlier, ranked, count)
            best[side][rows.start] = ranked
        forward, backward = ([chunks[start] for start in sorted(chunks)] for chunks in best)
        return forward, backward

    def _score_chunks(self) -> Iterator[_Scores]:
        """Score the words of both sides, block by block."""
        for block in self.similarities:
            yield from self._score_rows(0, block.rows, block.columns, block.cosines)
            yield from self._score_rows(1, block.columns, block.rows, block.transposed)

    def _score_rows(
        self, side: int, words: slice, partners: slice, products: Tensor
    ) -> Iterator[_Scores]:
        for rows, chunk in row_chunks(products):
            chunk_words = slice(words.start + rows.start, words.start + rows.stop)
            scores = self._adjust(chunk, side, partners)
            yield _Scores(side, chunk_words, partners.start, scores)

    def _adjust(self, products: Tensor, side: int, partners: slice) -> Tensor:
        """Return the scores of products of words of a side with partners of the other."""
        return products


class Csls(Products):
    """CSLS of all pairs: twice the cosine, less each word's mean cosine with its nearest words.

    Args:
        x, y: (M, C) and (N, C), rows of length 1.
        neighbours: nearest words of the other side that the mean is over; at most the smaller side.
        block, workspace: see :class:`.neighbours.Similarities`.

    Source: Conneau et al. 2018, section 2.3, CSLS(Wx, y) = 2 cos(Wx, y) - r_T(Wx) - r_S(y).
    """

    def __init__(
        self,
        x: Tensor,
        y: Tensor,
        neighbours: int = NEIGHBOURS,
        block: int = BLOCK,
        workspace: Optional[Workspace] = None,
    ):
        if neighbours < 1:
            raise ValueError(f"--neighbours must be at least 1; got {neighbours}")
        super().__init__(x, y, block, workspace)
        near = nearest_similarities(self.similarities, min(neighbours, len(x), len(y)))
        self.means = [cosines.mean(1) for cosines in near]  # r_T of each x, r_S of each y
        self.objective = float((near[0][:, 0].mean() + near[1][:, 0].mean()) / 2)

    def ranked(self, depth: int) -> Tuple[Ranked, Ranked]:
        """Find the ``depth`` best partners of each word of both sides; fewer on a smaller side."""
        forward, backward = (
            Ranked(side.places, 2 * side.scores - means[:, None])
            for side, means in zip(super().ranked(depth), self.means)
        )
        return forward, backward

    def partners(self, ranks: Optional[Tuple[Tensor, Tensor]] = None) -> Tuple[Tensor, Tensor]:
        """Find a partner of each word of both sides.

        Args:
            ranks: (M,) and (N,) int64, which partner to take for each word: 0 = the best, a rank
                past the last = the last. Self-learning draws them at random. None = 0 everywhere.
                A chunk of words is ranked to its largest rank, so sort words of similar rank
                together.

        Returns:
            (M,) and (N,) int64.
        """
        if ranks is None:
            forward, backward = self.ranked(1)
            return forward.places[:, 0], backward.places[:, 0]
        sizes = len(self.similarities.x), len(self.similarities.y)
        clamped = [ranks[0].clamp(0, sizes[1] - 1), ranks[1].clamp(0, sizes[0] - 1)]
        best = self._find_best(lambda side, rows: int(clamped[side][rows].max()) + 1)
        partners = []
        for chunks, side_ranks in zip(best, clamped):
            chunk_ranks = side_ranks[:, None].split([len(chunk.places) for chunk in chunks])
            rows = [chunk.places.gather(1, rank) for chunk, rank in zip(chunks, chunk_ranks)]
            partners.append(torch.cat(rows)[:, 0])
        return partners[0], partners[1]

    def certainty(self) -> Certainty:
        """Measure how reliable the best partners are.

        The margin is 0 if a side has one word, and so no second partner.
        """
        sides = self.ranked(2)
        partners = [ranked.places[:, 0] for ranked in sides]
        mutual = total = 0.0
        gaps: List[Tensor] = []
        for side, ranked in enumerate(sides):
            words = torch.arange(len(partners[side]), device=partners[side].device)
            mutual += float((partners[1 - side][partners[side]] == words).sum())
            total += len(words)
            gaps.append(ranked.scores[:, 0] - ranked.scores[:, -1])
        return Certainty(mutual / total, float(torch.cat(gaps).mean()), self.objective)

    def _adjust(self, products: Tensor, side: int, partners: slice) -> Tensor:
        """Take off half of the mean cosine of each partner."""
        return products - self.means[1 - side][partners] / 2


def _rank(scores: Tensor, count: int) -> Ranked:
    """Find the largest of each row, in descending order; of one, the first of equal ones."""
    if count == 1:
        best, places = scores.max(1, keepdim=True)
        return Ranked(places, best)
    best, places = scores.topk(min(count, scores.size(1)), 1)
    return Ranked(places, best)


def _merge(first: Ranked, second: Ranked, count: int) -> Ranked:
    """Find the best partners among those of two blocks."""
    best = _rank(torch.cat([first.scores, second.scores], 1), count)
    places = torch.cat([first.places, second.places], 1)
    return Ranked(places.gather(1, best.places), best.scores)
