"""Draw the noise: the words that are replaced, and the neighbours that replace them.

The paper (III-B a): spans, "whose length is determined by a Poisson distribution", are sampled
"until the total percentage of substituted words reaches 35%"; a word is replaced by one of its k
nearest neighbours, chosen at random (III-B). Here that is :func:`choose_words`, for a batch at
once, and :func:`choose_neighbours`.

Each random number is a function of (seed, epoch, index of the sentence, purpose, place). So the
noise does not depend on batches or the number of workers, and is the same after a resume.
"""

import math
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np


class Switching(NamedTuple):
    """Options of the noise; the defaults are the paper's."""

    ratio: float = 0.35  # share of a sentence's words, in (0, 1]
    mean_span: float = 3.5  # mean of the Poisson law of the spans, in words
    seed: int = 1


class Purpose(IntEnum):
    """Decisions that need random numbers; each purpose has numbers of its own."""

    BUDGET = 0  # whether the number of replaced words is rounded up or down
    LENGTHS = 1  # the length of each span
    PLACES = 2  # where the spans lie
    NEIGHBOUR = 3  # which neighbour replaces a word


# ---- Words. ----


def choose_words(
    words: np.ndarray,
    covered: np.ndarray,
    ratio: float,
    distribution: np.ndarray,
    stream: np.ndarray,
) -> np.ndarray:
    """Choose the words that are replaced.

    A sentence has n words, of which c have an entry in the lexicon. Words without an entry take no
    part: spans run over the c others, so that a word without an entry inside a span stays and does
    not count.

    1. The budget b is 0.35 n, rounded up or down at random with mean 0.35 n, and at most c.
    2. Span lengths are drawn until they reach b. The last span is cut, so that their sum is b.
    3. The c - b words that stay leave c - b + 1 gaps before, between and after them. The spans are
       placed in different gaps, in random order, all choices being equally likely. If there are
       fewer gaps than spans, the last span that finds a gap takes the rest of the budget.

    Args:
        words, covered: (B,) int, words of each sentence, and those that have an entry.
        ratio: share of the words replaced, in (0, 1].
        distribution: see :func:`span_distribution`.
        stream: (B,) uint64, see :func:`streams`.

    Returns:
        (B, C) bool, C the largest ``covered``. Column j is the sentence's j-th word with an entry;
        True = it is replaced.

    Source: CSR III-B a. It does not say how the last span ends, nor that spans lie apart. The
    authors' code inserts ``<mask>`` for spans of length zero.
    """
    budget = budgets(words, covered, ratio, uniforms(stream, Purpose.BUDGET, [0]))  # B
    most_words, most_replaced = int(covered.max(initial=0)), int(budget.max(initial=0))
    if most_replaced == 0:
        return np.zeros((len(words), most_words), dtype=bool)
    stream = stream[:, None]
    gaps = covered - budget + 1  # B
    gap_numbers = np.arange(int(gaps.max()))  # G

    chance = uniforms(stream, Purpose.LENGTHS, np.arange(most_replaced))
    lengths = draw_spans(distribution, chance, budget, gaps)  # B K
    chance = uniforms(stream, Purpose.PLACES, gap_numbers)  # B G
    chance[gap_numbers >= gaps[:, None]] = 2.0  # sorts after all gaps that exist
    gap = np.argsort(chance, axis=1)[:, : lengths.shape[1]]  # B K, of each span
    replaced = np.zeros(chance.shape, dtype=np.int64)  # B G, words replaced in each gap
    np.put_along_axis(replaced, gap, lengths, axis=1)

    is_replaced = np.arange(most_words) < covered[:, None]  # B C
    # After each gap but the last comes one word that stays.
    staying = gap_numbers + np.cumsum(replaced, axis=1)  # B G, the column of that word
    row, number = np.nonzero(gap_numbers < gaps[:, None] - 1)
    is_replaced[row, staying[row, number]] = False
    return is_replaced


def budgets(words: np.ndarray, covered: np.ndarray, ratio: float, chance: np.ndarray) -> np.ndarray:
    """Compute the number of words replaced in each sentence: ``ratio * words`` on average.

    It is rounded up or down by ``chance`` (B,), uniform in [0, 1), and at most ``covered``.
    (B,) -> (B,) int64.
    """
    # np.round: 0.35 * 20 shall be 7, not a little more or less.
    return np.minimum(np.floor(np.round(ratio * words, 9) + chance).astype(np.int64), covered)


def span_distribution(mean: float) -> np.ndarray:
    """Tabulate P(length <= 1), P(length <= 2), ... of a Poisson law without its zero.

    A span of no words would replace nothing: zeros are drawn again.

    Returns:
        (K,) float64 that ends with 1; lengths above K are too rare for a float64.
    """
    last = math.ceil(mean + 12.0 * math.sqrt(mean) + 20.0)
    logs = [length * math.log(mean) - math.lgamma(length + 1) for length in range(1, last + 1)]
    weights = np.exp(np.array(logs) - max(logs))
    cumulative = np.cumsum(weights)
    return cumulative / cumulative[-1]


def draw_spans(
    distribution: np.ndarray, chance: np.ndarray, budget: np.ndarray, gaps: np.ndarray
) -> np.ndarray:
    """Draw spans until their lengths reach the budget, at most one per gap.

    Args:
        distribution: see :func:`span_distribution`.
        chance: (B, N) float64, uniform in [0, 1).
        budget, gaps: (B,) int64.

    Returns:
        (B, K) int64, lengths whose sum is the budget; 0 = no more spans.
    """
    lengths = 1 + np.searchsorted(distribution, chance, side="right")  # B N
    remaining = budget[:, None] - (np.cumsum(lengths, axis=1) - lengths)  # B N, before each span
    spans = np.minimum((remaining > 0).sum(axis=1), gaps)  # B
    number = np.arange(chance.shape[1])  # N
    is_last, is_unused = number == spans[:, None] - 1, number >= spans[:, None]  # B N
    lengths[is_last] = remaining[is_last]
    lengths[is_unused] = 0
    return lengths[:, : int(spans.max())]


# ---- Neighbours. ----


def choose_neighbours(counts: np.ndarray, stream: np.ndarray, word: np.ndarray) -> np.ndarray:
    """Choose one of the neighbours of each replaced word; all are equally likely.

    Args:
        counts: (K,) int, neighbours of each word, at most k per lexicon.
        stream: (K,) uint64, that of the word's sentence.
        word: (K,) int, number of the word among those of its sentence that have an entry.

    Returns:
        (K,) int64, in [0, counts).
    """
    return (uniforms(stream, Purpose.NEIGHBOUR, word) * counts).astype(np.int64)


# ---- Random numbers that are a function of their address. ----

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_FACTORS = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_SHIFTS = (np.uint64(30), np.uint64(27), np.uint64(31))
_UNUSED_BITS, _STEP = np.uint64(11), 2.0**-53


def mix(values: np.ndarray) -> np.ndarray:
    """Apply the output function of SplitMix64, a bijection of 64-bit numbers.

    Source: Steele, Lea and Flood 2014, figure 16 (constants of its variant 13).
    """
    values = (values ^ (values >> _SHIFTS[0])) * _FACTORS[0]
    values = (values ^ (values >> _SHIFTS[1])) * _FACTORS[1]
    return values ^ (values >> _SHIFTS[2])


def extend_keys(keys: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Hash rows of numbers, one number per call: equal rows get equal keys. (N,) uint64."""
    return mix(keys + (numbers.astype(np.uint64) + np.uint64(1)) * _GAMMA)


def epoch_address(seed: int, epoch: int) -> np.ndarray:
    """Hash the two whole numbers for :func:`streams`. (1,) uint64."""
    address = np.zeros(1, dtype=np.uint64)
    for part in (seed, epoch):
        address = mix(address + _GAMMA + np.uint64(part & 0xFFFFFFFFFFFFFFFF))
    return address


def streams(address: np.ndarray, indices: Any) -> np.ndarray:
    """Open a stream of random numbers for each item. (B,) int -> (B,) uint64.

    Args:
        address: of the epoch, see :func:`epoch_address`.
        indices: of the items.
    """
    return mix(address + np.asarray(indices).astype(np.uint64) * _GAMMA)


def uniforms(stream: np.ndarray, purpose: int, places: Any) -> np.ndarray:
    """Read random numbers from streams: float64, uniform in [0, 1).

    Args:
        stream: uint64, see :func:`streams`; broadcast with ``places``.
        purpose: one of :class:`Purpose`.
        places: int in [0, 2^32), places of the numbers in the stream.
    """
    address = np.asarray(places).astype(np.uint64) + np.uint64((purpose << 32) + 1)
    return (mix(stream + address * _GAMMA) >> _UNUSED_BITS) * _STEP
