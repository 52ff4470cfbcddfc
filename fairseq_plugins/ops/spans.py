"""Span corruption (T5): which tokens are cut out of a text, and the source and target made of it."""

from typing import Any, Sequence, Tuple

import numpy as np


def count_spans(lengths: Any, ratio: float, mean_span: float) -> Tuple[np.ndarray, np.ndarray]:
    """How many tokens and spans of texts (lengths () or (N,) int, at least 2) are corrupted: a function of the length, as in T5.

    Noise tokens, round(ratio · length) and at least 1 and at most length − 1; and spans, round(noise / mean_span), at least 1
    and at most as many as have a token each and one kept token between two of them. Halves are rounded to the even number.
    Neither ever falls as the length grows.

    Source: Raffel et al. 2020, section 3.1.4; DeltaLM section 2.3 (ratio 0.15 and 0.5, mean 3).
    """
    lengths = np.asarray(lengths, dtype=np.int64)
    noise = np.minimum(np.maximum(np.round(lengths * ratio).astype(np.int64), 1), lengths - 1)
    spans = np.maximum(np.round(noise / mean_span).astype(np.int64), 1)
    return noise, np.minimum(spans, np.minimum(noise, lengths - noise + 1))


def most_spans(length: int, ratio: float, mean_span: float, separators: int) -> int:
    """Sentinels that the worst text needs, separators cutting spans in two.

    ``length`` counts the tokens of the longest text, separators included, its last ``</s>`` not; ``separators`` of them, at most,
    may be separators, which are never corrupted.
    """
    cuts = np.arange(max(min(separators, length - 2), 0) + 1)
    noise, spans = count_spans(length - cuts, ratio, mean_span)
    return int(np.minimum(spans + cuts, noise).max())


def draw_span_mask(length: int, ratio: float, mean_span: float, rng: Any) -> np.ndarray:
    """(S,) bool, True = corrupted: uniform among all masks with the numbers of tokens and spans of :func:`count_spans`.

    Spans have at least one token, gaps between two spans as well; the gaps before the first and after the last one may be empty.
    ``length`` is at least 2, one token to corrupt and one that stays; ``rng`` a numpy Generator or RandomState.

    Differs from T5's code, which always keeps the first token and corrupts the last.
    """
    if length < 2:
        raise ValueError(f"span corruption needs at least 2 tokens; got {length}")
    noise, spans = (int(count) for count in count_spans(length, ratio, mean_span))
    runs = np.empty(2 * spans + 1, dtype=np.int64)  # gap, span, gap, ..., span, gap
    runs[1::2] = _draw_parts(noise, spans, rng)
    runs[0::2] = _draw_parts(length - noise + 2, spans + 1, rng)
    runs[[0, -1]] -= 1  # the outer gaps may be empty
    return np.repeat(np.arange(len(runs)) % 2 == 1, runs)


def _draw_parts(total: int, parts: int, rng: Any) -> np.ndarray:
    """(parts,) positive integers with the given sum, uniformly among all such rows."""
    cuts = np.sort(rng.choice(total - 1, parts - 1, replace=False)) + 1
    return np.diff(np.concatenate([[0], cuts, [total]]))


def corrupt_spans(
    tokens: np.ndarray, mask: np.ndarray, sentinels: Sequence[int], target_sentinels: bool = True
) -> Tuple[np.ndarray, np.ndarray]:
    """Replace each span by a sentinel; the target tells what was there.

    ``a b c d e f`` with ``b c`` and ``e`` corrupted gives the source ``a <0> d <1> f`` and the target ``<0> b c <1> e``. No
    sentinel follows the last span: the T5 paper closes the target with one more, its code does not, and DeltaLM's Figure 3 leaves
    it open; ``</s>``, which the dataset appends, says the same. Without ``target_sentinels`` the target is the corrupted tokens
    alone (DeltaLM's mixing against accidental translation, section 3.3).

    ``tokens`` and ``mask`` (S,) are int64 and bool, True = corrupted; neighbouring tokens are one span. ``sentinels`` are ids
    in order of use, at least as many as spans.
    """
    first = mask.copy()
    first[1:] &= ~mask[:-1]
    spans = int(first.sum())
    if spans > len(sentinels):
        raise ValueError(f"{spans} spans need as many sentinels; there are {len(sentinels)}")
    used = np.asarray(sentinels[:spans], dtype=tokens.dtype)
    source = tokens.copy()
    source[first] = used
    source = source[first | ~mask]
    target = tokens[mask]
    if target_sentinels:
        target = np.insert(target, np.flatnonzero(first[mask]), used)
    return source, target
