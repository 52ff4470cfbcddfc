"""How often each stream of texts is drawn in an epoch: temperature, share of the pairs, and the draw itself."""

from enum import IntEnum
from typing import List, Optional, Sequence

import numpy as np
from fairseq.data.multilingual.sampling_method import temperature_sampling


class Purpose(IntEnum):
    """What is drawn once per epoch; each has random numbers of its own."""

    TEXTS = 1
    ORDER = 2
    BATCHES = 3


def epoch_rng(seed: int, epoch: int, purpose: Purpose) -> np.random.Generator:
    """A generator that depends on nothing else, and shares nothing with those of the noise, which have four numbers."""
    return np.random.default_rng((seed, epoch, 0, 0, int(purpose)))


def sampling_probabilities(
    sizes: Sequence[int], temperature: float, is_pair: Sequence[bool] = (), pair_share: Optional[float] = None
) -> np.ndarray:
    """Share of each stream in an epoch: p ∝ n^(1/T).

    Args:
        sizes: texts of each stream (blocks, pairs); at least one.
        temperature: T, at least 1; 1 = natural proportions, infinity = equal shares.
        pair_share: share of the streams that ``is_pair`` marks, together, in [0, 1]; the temperature then acts among the pairs and
            among the languages. None = whatever follows from the sizes.

    Returns (K,) float64 that sum to 1.

    Source: DeltaLM names no sampling; temperature as in Arivazhagan et al. 2019, α = 1/T of XLM-R and mT5.
    """
    weights = np.asarray(temperature_sampling(list(sizes), temperature))
    if pair_share is not None:
        pairs = np.asarray(is_pair, dtype=bool)
        for group, share in ((pairs, pair_share), (~pairs, 1.0 - pair_share)):
            weights[group] *= share / max(weights[group].sum(), np.finfo(float).tiny)
    return weights / weights.sum()


def draw_texts(sizes: Sequence[int], probabilities: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Which texts an epoch holds: as many as there are in all, each stream by its share.

    The number of texts of a stream is its share of the epoch, up or down to a whole number such that its expectation is the share
    (systematic sampling). A stream that is drawn less than once gives a random part, one that is drawn more often gives every text
    before any text again. Natural proportions give every text once.

    Returns (N,) int64, numbers of texts counted through all streams.
    """
    total = int(sum(sizes))
    # Rounded, so that 11.999999999 texts of a stream with 12 are 12.
    ends = np.floor(np.round(np.cumsum(probabilities) * total, 6) + rng.random()).astype(np.int64)
    counts = np.diff(ends, prepend=0)
    drawn: List[np.ndarray] = []
    start = 0
    for size, count in zip(sizes, counts):
        times, rest = divmod(int(count), size)
        drawn += [start + np.arange(size)] * times
        drawn.append(start + rng.choice(size, rest, replace=False))
        start += size
    return np.concatenate(drawn)
