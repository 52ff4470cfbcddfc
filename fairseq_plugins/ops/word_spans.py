"""Code-switching: which words of a sentence are replaced."""

import math
from typing import Callable, Tuple

import numpy as np

Draw = Callable[[int, np.ndarray], np.ndarray]
"""(purpose, places (K,) int) -> (B, K) float64, uniform in [0, 1)."""

BUDGET, LENGTHS, PLACES = range(3)
"""Purposes of random numbers."""

LONGEST_MEAN = 1000.0


def span_distribution(mean: float) -> np.ndarray:
    """P(length <= 1), P(length <= 2), ... of a Poisson law with this mean whose zero is drawn again.

    (K,) float64 that ends with 1; what lies behind K is below the resolution of a float.
    """
    last = math.ceil(mean + 12.0 * math.sqrt(mean) + 20.0)
    logs = [length * math.log(mean) - math.lgamma(length + 1) for length in range(1, last + 1)]
    weights = np.exp(np.array(logs) - max(logs))
    below = np.cumsum(weights)
    return below / below[-1]


def budgets(words: np.ndarray, covered: np.ndarray, ratio: float, chance: np.ndarray) -> np.ndarray:
    """How many of ``words`` (B,) are replaced: ``ratio * words``, up or down to a whole number such that its mean is that.

    No more than ``covered`` (B,), those that have an entry; ``chance`` (B,) is uniform in [0, 1).
    """
    # Rounded, so that 0.35 * 20 is 7 and not a little more or less.
    return np.minimum(np.floor(np.round(ratio * words, 9) + chance).astype(np.int64), covered)


def choose_words(
    words: np.ndarray, covered: np.ndarray, ratio: float, distribution: np.ndarray, draw: Draw
) -> np.ndarray:
    """Draw the words that are replaced, for a batch of sentences at once.

    The law, for one sentence of n words of which c have an entry. Words without an entry take no part: spans run over the row of
    the c words that have one, so that a word without an entry inside a span stays and does not count.

    1. The budget is b = 0.35 n rounded up or down at random, with mean 0.35 n, and at most c.
    2. Span lengths are independent draws of a Poisson law, zeros drawn again, until they reach b; the last one is cut to b. A zero
       would replace nothing.
    3. The spans, in random order, are placed uniformly among all places where none touches another: of the c - b + 1 gaps before,
       between and behind the words that stay, as many as there are spans get one each. Where there are fewer gaps than spans (high
       ratios, few entries), as many spans as there are gaps are used and the last of them takes what is left.

    Returns (B, C) bool, C the largest ``covered``: True = this one of the words with an entry is replaced. ``words``,
    ``covered`` and ``ratio`` are those of :func:`budgets`, ``distribution`` of :func:`span_distribution`; ``draw`` is the
    only source of chance.

    Source: CSR section 3.2; mBART's Poisson spans. The authors' code inserts ``<mask>`` where a length is zero; the paper says of
    neither how the last span ends nor that spans lie apart.
    """
    budget = budgets(words, covered, ratio, draw(BUDGET, np.zeros(1, dtype=np.int64))[:, 0])
    most, longest = int(budget.max(initial=0)), int(covered.max(initial=0))
    if most == 0:
        return np.zeros((len(words), longest), dtype=bool)
    gaps = covered - budget + 1
    lengths, spans = _cut_lengths(budget, gaps, distribution, draw(LENGTHS, np.arange(most)))
    # The gaps with the smallest random numbers get a span, in that order: span and place are independent.
    chance = draw(PLACES, np.arange(int(gaps.max())))
    chance[np.arange(chance.shape[1]) >= gaps[:, None]] = 2.0
    ranked = np.argsort(chance, axis=1)[:, : int(spans.max())]
    rows, ranks = np.nonzero(np.arange(ranked.shape[1]) < spans[:, None])
    at = np.zeros(chance.shape, dtype=np.int64)
    at[rows, ranked[rows, ranks]] = lengths[rows, ranks]
    return _marked(at, longest)


def _cut_lengths(
    budget: np.ndarray, gaps: np.ndarray, distribution: np.ndarray, chance: np.ndarray
) -> Tuple[np.ndarray, np.ndarray]:
    """Span lengths (B, K) and their numbers (B,): no more spans than gaps, and in sum the budget."""
    lengths = 1 + np.searchsorted(distribution, chance, side="right")
    before = np.cumsum(lengths, axis=1) - lengths
    spans = np.minimum((before < budget[:, None]).sum(axis=1), gaps)
    rows = np.flatnonzero(spans)
    last = spans[rows] - 1
    lengths[rows, last] = budget[rows] - before[rows, last]
    return lengths, spans


def _marked(at: np.ndarray, longest: int) -> np.ndarray:
    """(B, longest) bool from the length (B, G) of the span in each gap; one word that stays lies between two gaps."""
    rows, gap = np.nonzero(at)
    taken = at[rows, gap]
    start = gap + (np.cumsum(at, axis=1) - at)[rows, gap]
    edges = np.zeros((len(at), longest + 1), dtype=np.int8)
    edges[rows, start] = 1
    edges[rows, start + taken] = -1
    return np.cumsum(edges, axis=1, dtype=np.int8)[:, :longest].astype(bool)
