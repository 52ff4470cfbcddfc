"""Map the vectors of two vocabularies into one space, with few or no known translations.

Memory, float32: the vectors of both sides three times (as they are, normalised and mapped), a block
of similarities and its transpose, and before the learning at most ten matrices of the seed's
``words`` squared.

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
    """Settings of self-learning, in which dictionary and maps are learned from each other."""

    words: int = 20000  # most frequent words of each side that take part, at least 2
    neighbours: int = NEIGHBOURS  # nearest words of CSLS
    keep: float = 0.1  # probability, in (0, 1], with which a similarity is seen in the first stage
    factor: float = 2.0  # each stage's probability over the one before; above 1
    patience: int = 10  # iterations without improvement that end a stage
    threshold: float = 5e-4  # least improvement of the objective
    iterations: int = 1000  # at most; 0: the maps come from the seed alone
    reweight: bool = True  # weight the directions in the last step; otherwise the map is orthogonal
    seed: int = 1
    block: int = BLOCK  # words of each side that are compared at a time

    def __post_init__(self) -> None:
        for option, setting, is_valid, valid in (
            ("--cutoff", self.words, self.words >= 2, "2 or more"),
            ("--neighbours", self.neighbours, self.neighbours >= 1, "1 or more"),
            ("--keep", self.keep, 0 < self.keep <= 1, "above 0, at most 1"),
            ("--keep-factor", self.factor, self.factor > 1, "above 1"),
            ("--patience", self.patience, self.patience >= 1, "1 or more"),
            ("--threshold", self.threshold, self.threshold >= 0, "0 or more"),
            ("--iterations", self.iterations, self.iterations >= 0, "0 or more"),
            ("--block", self.block, self.block >= 1, "1 or more"),
        ):
            if not is_valid:
                raise ValueError(f"{option} {setting}: valid: {valid}")


class Iteration(NamedTuple):
    """An iteration of self-learning."""

    number: int  # from 1
    objective: float  # mean cosine of a word with its nearest word, over both sides, before it
    keep: float  # probability with which a similarity was seen


class Learned(NamedTuple):
    """Outcome of self-learning."""

    maps: Maps  # from the normalised vectors of each side into the common space
    pairs: Pairs  # the last dictionary
    history: List[Iteration]  # every iteration
    converged: bool  # False if the iterations ended first


def normalise(vectors: Tensor) -> Tensor:
    """Scale rows (M, C) to length 1, centre the columns, and scale the rows again.

    Source: Artetxe et al. 2018, section 3.1.
    """
    rows = unit_rows(vectors)
    return unit_rows(rows - rows.mean(0))


def similarity_seed(
    x: Tensor, y: Tensor, words: int = 4000, neighbours: int = NEIGHBOURS, block: int = BLOCK
) -> Pairs:
    """Pair words whose similarities to the words of their own language are distributed alike.

    Each row of the square root of a side's similarity matrix is sorted and normalised. The rows are
    then compared across the languages by CSLS, in both directions. Only the ``words`` most frequent
    words of each side, which come first, take part.

    Source: Artetxe et al. 2018, section 3.2.
    """
    count = min(words, len(x), len(y))
    first, second = (normalise(_root_similarities(side[:count]).sort(1).values) for side in (x, y))
    return both_directions(*Csls(first, second, neighbours, block).partners())


def _root_similarities(x: Tensor) -> Tensor:
    """Compute the symmetric root of x x^T: with the decomposition U S V^T of x, it is U S U^T."""
    u, singular_values, _ = torch.linalg.svd(x, full_matrices=False)
    return u * singular_values @ u.T


def both_directions(forward: Tensor, backward: Tensor) -> Pairs:
    """Join the partners (M,) and (N,) of both sides to a dictionary, mutual pairs twice."""
    sources = torch.arange(len(forward), device=forward.device)
    targets = torch.arange(len(backward), device=backward.device)
    return torch.cat([sources, backward]), torch.cat([forward, targets])


def drawn_ranks(count: int, keep: float, generator: torch.Generator) -> Tensor:
    """Draw the rank of each word's best partner among the similarities that are seen.

    Each similarity is seen with probability ``keep``, independently. So the best r are unseen and
    the next one is seen with probability (1 - keep)^r keep. To draw r is the same as to draw the
    whole matrix, and faster. Returns (count,) int64.
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
    """Induce a dictionary from mapped vectors, rows of length 1; return it and the objective.

    Ranks are drawn on the CPU, so that they are the same on every device.
    """
    ranks_x = drawn_ranks(len(x), keep, generator)
    ranks_y = drawn_ranks(len(y), keep, generator)
    # Csls.partners is fast if words of similar ranks stand side by side.
    order_x, order_y = ranks_x.argsort(stable=True), ranks_y.argsort(stable=True)
    ranks = ranks_x[order_x].to(x.device), ranks_y[order_y].to(x.device)
    order_x, order_y = order_x.to(x.device), order_y.to(y.device)
    csls = Csls(x[order_x], y[order_y], options.neighbours, options.block, workspace)
    sources, targets = both_directions(*csls.partners(ranks))
    return (order_x[sources], order_y[targets]), csls.objective


def learn_maps(
    x: Tensor,
    y: Tensor,
    seed: Pairs,
    options: SelfLearning,
    report: Optional[Callable[[Iteration], None]] = None,
) -> Learned:
    """Learn the maps of two vocabularies, beginning with a dictionary.

    Two steps alternate: the orthogonal map of the dictionary's pairs, and the dictionary of the
    mapped vectors (both sides' best partners by CSLS among the similarities that are seen). When
    the objective has not improved for some iterations, the next stage sees more similarities. When
    all are seen and it does not improve, or the dictionary repeats, the learning ends.

    Args:
        x, y: normalised vectors, (M, C) and (N, C), the most frequent words first.
        seed: dictionary of the first iteration.
        report: is called after every iteration.

    Raises:
        ValueError: different widths, or fewer than 2 pairs.

    Source: Artetxe et al. 2018, section 3.3 and (re-weighting) 3.4. Differs: a stage ends after
    fewer iterations.
    """
    if x.size(1) != y.size(1):
        raise ValueError(f"--target: {y.size(1)} dimensions; valid: {x.size(1)}, as --source has")
    if len(seed[0]) < 2:
        raise ValueError(f"the seed has {len(seed[0])} pairs; valid: 2 or more")
    generator = torch.Generator().manual_seed(options.seed)
    first, second = x[: options.words], y[: options.words]
    pairs, workspace = seed, Workspace()
    history: List[Iteration] = []
    keep, best, without_gain = options.keep, -math.inf, 0
    converged = options.iterations == 0
    while not converged and len(history) < options.iterations:
        maps = orthogonal_maps(x[pairs[0]], y[pairs[1]])
        before = pairs
        pairs, objective = induced_pairs(
            first @ maps.source, second, keep, options, generator, workspace
        )
        history.append(Iteration(len(history) + 1, objective, keep))
        if report is not None:
            report(history[-1])
        if objective >= best + options.threshold:
            best, without_gain = objective, 0
        else:
            without_gain += 1
        repeats = all(torch.equal(*sides) for sides in zip(before, pairs))
        if (repeats and keep >= 1) or without_gain >= options.patience:
            converged = keep >= 1
            keep, without_gain = min(1.0, keep * options.factor), 0
    if options.reweight:
        maps = reweighted_maps(x[pairs[0]], y[pairs[1]])
    else:
        maps = orthogonal_maps(x[pairs[0]], y[pairs[1]])
    return Learned(maps, pairs, history, converged)
