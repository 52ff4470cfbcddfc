"""Cross-domain similarity local scaling (CSLS) of two vocabularies, in blocks: partners, ranked partners, how sure they are.

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
    scores: Tensor  # (M, K) CSLS


class Certainty(NamedTuple):
    """How sure the partners of two vocabularies are."""

    mutual: float  # share of the words of both sides, in [0, 1], whose partner's partner they are
    margin: float  # mean difference between the scores of the best and of the second partner
    objective: float  # mean cosine of a word with its nearest word, over both sides


class Csls:
    """CSLS of all pairs: twice the cosine, less the mean cosines of both words with their nearest words of the other side.

    The sides are (M, C) and (N, C), rows of length 1; the mean is taken over ``neighbours`` words, or the smaller side. For
    ``block`` and ``workspace`` see :class:`Similarities`.

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
        self.similarities = Similarities(x, y, block, workspace)
        near = nearest_similarities(self.similarities, min(neighbours, len(x), len(y)))
        self.near = [values.mean(1) for values in near]
        self.objective = float((near[0][:, 0].mean() + near[1][:, 0].mean()) / 2)

    def ranked(self, depth: int) -> Tuple[Ranked, Ranked]:
        """The ``depth`` best partners of each word, of both sides; fewer where the other side is smaller."""
        if depth < 1:
            raise ValueError(f"--top must be at least 1; got {depth}")
        sides = []
        for side, found in enumerate(self._best(lambda side, rows: depth)):
            places = torch.cat([part.places for part in found])
            scores = torch.cat([part.scores for part in found])
            sides.append(Ranked(places, 2 * scores - self.near[side][:, None]))
        return sides[0], sides[1]

    def partners(self, ranks: Optional[Tuple[Tensor, Tensor]] = None) -> Tuple[Tensor, Tensor]:
        """One partner of each word of both sides; (M,) and (N,) int64.

        ``ranks``, (M,) and (N,) int64, say which one, from 0; the last one where a side has not so many. Fast where neighbouring
        words have similar ranks. None: the best.
        """
        if ranks is None:
            forward, backward = self.ranked(1)
            return forward.places[:, 0], backward.places[:, 0]
        most = [len(self.similarities.y) - 1, len(self.similarities.x) - 1]
        wanted = [ranks[side].clamp(0, most[side]) for side in (0, 1)]
        found = self._best(lambda side, rows: int(wanted[side][rows].max()) + 1)
        chosen = []
        for side in (0, 1):
            sizes = [len(part.places) for part in found[side]]
            pairs = zip(found[side], wanted[side][:, None].split(sizes))
            chosen.append(torch.cat([part.places.gather(1, rank)[:, 0] for part, rank in pairs]))
        return chosen[0], chosen[1]

    def certainty(self) -> Certainty:
        """How sure the best partners are. With a side of one word there is no second one, and the margin is 0."""
        sides = self.ranked(2)
        partner = [found.places[:, 0] for found in sides]
        mutual = total = 0.0
        gaps: List[Tensor] = []
        for side, found in enumerate(sides):
            words = torch.arange(len(partner[side]), device=partner[side].device)
            mutual += float((partner[1 - side][partner[side]] == words).sum())
            total += len(words)
            gaps.append(found.scores[:, 0] - found.scores[:, -1])
        return Certainty(mutual / total, float(torch.cat(gaps).mean()), self.objective)

    def _best(self, depth: Callable[[int, slice], int]) -> Tuple[List[Ranked], List[Ranked]]:
        """The best partners of each chunk of words of both sides, ``depth`` of them; scores lack the word's own part."""
        found: Tuple[Dict[int, Ranked], Dict[int, Ranked]] = ({}, {})
        for side, rows, offset, scores in self._scored():
            wanted = depth(side, rows)
            new = _largest(scores, wanted)
            new = Ranked(new.places + offset, new.scores)
            old = found[side].get(rows.start)
            if old is not None:
                values = torch.cat([old.scores, new.scores], 1)
                best = _largest(values, wanted)
                new = Ranked(
                    torch.cat([old.places, new.places], 1).gather(1, best.places), best.scores
                )
            found[side][rows.start] = new
        first, second = ([parts[start] for start in sorted(parts)] for parts in found)
        return first, second

    def _scored(self) -> Iterator[Tuple[int, slice, int, Tensor]]:
        """Side, its words, the first word of the other side, and cosines less half of the other side's means."""
        for here, there, block, turned in self.similarities:
            for side, own, other, matrix in ((0, here, there, block), (1, there, here, turned)):
                crowded = self.near[1 - side][other] / 2
                for rows, part in row_chunks(matrix):
                    yield (
                        side,
                        slice(own.start + rows.start, own.start + rows.stop),
                        other.start,
                        part - crowded,
                    )


def _largest(scores: Tensor, count: int) -> Ranked:
    """The largest of each row, the largest first; of equal ones the first, where one is wanted."""
    if count == 1:
        values, places = scores.max(1, keepdim=True)
        return Ranked(places, values)
    values, places = scores.topk(min(count, scores.size(1)), 1)
    return Ranked(places, values)
