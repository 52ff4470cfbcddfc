"""Map the vectors of two vocabularies into one space without, or with few, known translations: self-learning.

Memory, float32: the vectors of both sides three times (normalised and mapped too), a block of similarities and its transpose,
and before the learning at most ten matrices of the seed's ``words`` squared.

Shape letters of this file: M and N words of the two sides, C width, P pairs.
"""

import math
from dataclasses import dataclass
from typing import Callable, List, NamedTuple, Optional, Tuple

import torch
from torch import Tensor

from .csls import NEIGHBOURS, Csls
from .neighbours import BLOCK, Workspace, unit_rows
from .procrustes import Maps, orthogonal_maps, reweighted_maps

Pairs = Tuple[Tensor, Tensor]
"""(P,) int64 each: words of the source and of the target."""


@dataclass(frozen=True)
class SelfLearning:
    """How the dictionary and the maps are learned from each other."""

    words: int = 20000  # most frequent words of each side that take part, at least 2
    neighbours: int = NEIGHBOURS  # nearest words of CSLS
    keep: float = 0.1  # probability, in (0, 1], with which a similarity is seen in the first stage
    factor: float = 2.0  # each stage's probability over the one before; above 1
    patience: int = 10  # iterations, after which a stage ends if the objective has not improved by the threshold
    threshold: float = 5e-4
    iterations: int = 1000  # at most; 0: the maps come from the seed alone
    reweight: bool = True  # weight the directions in the last step; otherwise the map is orthogonal
    seed: int = 1
    block: int = BLOCK  # words of each side that are compared at a time

    def __post_init__(self) -> None:
        for option, value, valid, text in (
            ("--cutoff", self.words, self.words >= 2, "2 or more"),
            ("--neighbours", self.neighbours, self.neighbours >= 1, "1 or more"),
            ("--keep", self.keep, 0 < self.keep <= 1, "above 0, at most 1"),
            ("--keep-factor", self.factor, self.factor > 1, "above 1"),
            ("--patience", self.patience, self.patience >= 1, "1 or more"),
            ("--threshold", self.threshold, self.threshold >= 0, "0 or more"),
            ("--iterations", self.iterations, self.iterations >= 0, "0 or more"),
            ("--block", self.block, self.block >= 1, "1 or more"),
        ):
            if not valid:
                raise ValueError(f"{option} {value}: valid: {text}")


class Iteration(NamedTuple):
    """One iteration of self-learning."""

    number: int  # from 1
    objective: float  # mean cosine of a word with its nearest word, over both sides, before the dictionary is drawn anew
    keep: float  # probability with which a similarity was seen


class Learned(NamedTuple):
    """What self-learning found."""

    maps: Maps  # from the normalised vectors of each side into the common space
    pairs: Pairs  # the last dictionary
    history: List[Iteration]  # every iteration
    converged: bool  # False if the iterations ended first


def normalise(vectors: Tensor) -> Tensor:
    """(M, C) rows of length 1, then columns of mean 0, then rows of length 1 again.

    Source: Artetxe et al. 2018, section 3.1.
    """
    rows = unit_rows(vectors)
    return unit_rows(rows - rows.mean(0))


def similarity_seed(
    x: Tensor, y: Tensor, words: int = 4000, neighbours: int = NEIGHBOURS, block: int = BLOCK
) -> Pairs:
    """Pair words whose similarities to the words of their own language are distributed alike.

    Each row of the square root of a side's similarity matrix is sorted and normalised; the rows are then compared across the
    languages by CSLS, in both directions. Only the ``words`` most frequent words of each side, which come first, take part.

    Source: Artetxe et al. 2018, section 3.2.
    """
    count = min(words, len(x), len(y))
    first, second = (normalise(_root_similarities(side[:count]).sort(1).values) for side in (x, y))
    return both_directions(*Csls(first, second, neighbours, block).partners())


def _root_similarities(x: Tensor) -> Tensor:
    """The symmetric square root of x x^T: with the decomposition U S V^T of x, it is U S U^T."""
    left, values, _ = torch.linalg.svd(x, full_matrices=False)
    return left * values @ left.T


def both_directions(forward: Tensor, backward: Tensor) -> Pairs:
    """The dictionary of the partners (M,) and (N,) of both sides; a mutual pair stands in it twice."""
    sources, targets = (torch.arange(len(side), device=side.device) for side in (forward, backward))
    return torch.cat([sources, backward]), torch.cat([forward, targets])


def drawn_ranks(count: int, keep: float, generator: torch.Generator) -> Tensor:
    """(count,) int64: the rank of a word's best partner among those similarities that are seen.

    Each similarity is seen with probability ``keep``, independently. So the best r are unseen and the next one is seen with
    probability (1 - keep)^r keep; drawing r is the same as drawing the whole matrix, but for the time.
    """
    if keep >= 1:
        return torch.zeros(count, dtype=torch.int64)
    draws = 1 - torch.rand(count, generator=generator, dtype=torch.float64)  # in (0, 1]
    return (draws.log() / math.log1p(-keep)).floor().long()


def induced_pairs(
    x: Tensor,
    y: Tensor,
    keep: float,
    options: SelfLearning,
    generator: torch.Generator,
    workspace: Optional[Workspace] = None,
) -> Tuple[Pairs, float]:
    """The dictionary of mapped vectors (rows of length 1) and their objective; draws are on the CPU, so alike on every device."""
    ranks = [drawn_ranks(len(side), keep, generator) for side in (x, y)]
    orders = [
        each.argsort(stable=True) for each in ranks
    ]  # alike ranks side by side: Csls.partners is then fast
    sides = x[orders[0].to(x.device)], y[orders[1].to(y.device)]
    near = Csls(*sides, options.neighbours, options.block, workspace)
    sorted_ranks = [each[order].to(x.device) for each, order in zip(ranks, orders)]
    forward, backward = near.partners((sorted_ranks[0], sorted_ranks[1]))
    sources, targets = both_directions(forward, backward)
    return (orders[0].to(x.device)[sources], orders[1].to(y.device)[targets]), near.objective


def learn_maps(
    x: Tensor,
    y: Tensor,
    seed: Pairs,
    options: SelfLearning,
    report: Optional[Callable[[Iteration], None]] = None,
) -> Learned:
    """Learn the maps of two normalised vocabularies, (M, C) and (N, C) by falling frequency, beginning with a dictionary.

    In turn, the orthogonal map of the dictionary's pairs, and the dictionary of the mapped vectors, from both sides' best partners
    by CSLS among the similarities that are seen. When the objective has not improved for some iterations, more of them are seen;
    when all are seen and it does not improve, or the dictionary repeats, the learning ends.

    Raises ValueError: different widths, or fewer than 2 pairs.

    Source: Artetxe et al. 2018, section 3.3 and (re-weighting) 3.4. Differs: a stage ends after fewer iterations.
    """
    if x.size(1) != y.size(1):
        raise ValueError(f"--target: {y.size(1)} dimensions; valid: {x.size(1)}, as --source has")
    if len(seed[0]) < 2:
        raise ValueError(f"the seed has {len(seed[0])} pairs; valid: 2 or more")
    generator = torch.Generator().manual_seed(options.seed)
    first, second = x[: options.words], y[: options.words]
    pairs, workspace = seed, Workspace()
    history: List[Iteration] = []
    keep, best, since, converged = options.keep, -math.inf, 0, options.iterations == 0
    while not converged and len(history) < options.iterations:
        maps = orthogonal_maps(x[pairs[0]], y[pairs[1]])
        before = pairs
        pairs, objective = induced_pairs(
            first @ maps.source, second, keep, options, generator, workspace
        )
        history.append(Iteration(len(history) + 1, objective, keep))
        if report is not None:
            report(history[-1])
        improved = objective >= best + options.threshold
        best, since = (objective, 0) if improved else (best, since + 1)
        repeats = keep >= 1 and all(torch.equal(*sides) for sides in zip(before, pairs))
        if repeats or since >= options.patience:
            converged, keep, since = keep >= 1, min(1.0, keep * options.factor), 0
    make = reweighted_maps if options.reweight else orthogonal_maps
    return Learned(make(x[pairs[0]], y[pairs[1]]), pairs, history, converged)
