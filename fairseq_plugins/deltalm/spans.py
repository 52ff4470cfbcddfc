"""Span corruption of token ids: which tokens are cut out, and the sentinels that replace them.

``count_spans`` says how many tokens and spans, ``draw_span_mask`` where they lie, ``corrupt_spans``
makes source and target, ``find_sentinels`` takes the sentinels from the dictionary.

Source: DeltaLM section 2.3, which follows mT5 and mT6; Raffel et al. 2020 (T5), section 3.1.4.
"""

from typing import Any, List, NamedTuple, Sequence, Tuple

import numpy as np
from fairseq.data import Dictionary

# ---- How many tokens, how many spans. ----


def count_spans(lengths: Any, ratio: float, mean_span: float) -> Tuple[np.ndarray, np.ndarray]:
    """Count the tokens and spans that are corrupted: functions of the length alone, as in T5.

    Tokens are round(ratio · length), at least 1 and at most length − 1. Spans are
    round(tokens / mean_span), at least 1, and at most as many as have a token each and an intact
    token between two of them. Halves are rounded to the even number. A longer text never has fewer
    of either.

    Args:
        lengths: () or (N,) int, at least 2.
        ratio: share of tokens, in (0, 1); the paper has 0.15, and 0.5 for pairs.
        mean_span: tokens of a span on average, at least 1; the paper has 3.

    Returns:
        Numbers of tokens and of spans, int64 of the shape of ``lengths``.
    """
    lengths = np.asarray(lengths, dtype=np.int64)
    noise = np.minimum(np.maximum(np.round(lengths * ratio).astype(np.int64), 1), lengths - 1)
    spans = np.maximum(np.round(noise / mean_span).astype(np.int64), 1)
    return noise, np.minimum(spans, np.minimum(noise, lengths - noise + 1))


def most_spans(length: int, ratio: float, mean_span: float, separators: int) -> int:
    """Compute the most spans that a text can have.

    A separator (a ``</s>`` between two sentences) is never corrupted, so it may cut a span in two.

    Args:
        length: tokens of the longest text with its separators, without the last ``</s>``.
        separators: the most separators that may be among them.
    """
    # Each separator allows one more cut, but leaves one token fewer to corrupt: try all numbers.
    cuts = np.arange(max(min(separators, length - 2), 0) + 1)
    noise, spans = count_spans(length - cuts, ratio, mean_span)
    return int(np.minimum(spans + cuts, noise).max())


# ---- Where they lie. ----


def draw_span_mask(length: int, ratio: float, mean_span: float, rng: Any) -> np.ndarray:
    """Draw a mask with the counts of :func:`count_spans`; all such masks are equally likely.

    A span has at least one token, and so has the gap between two spans; the gaps before the first
    and after the last may be empty. T5's code always keeps the first token and corrupts the last.

    Args:
        length: at least 2: a token to corrupt and one that stays.
        rng: numpy Generator or RandomState.

    Returns:
        (length,) bool, True = corrupted.
    """
    if length < 2:
        raise ValueError(f"span corruption needs at least 2 tokens; got {length}")
    noise, spans = (int(count) for count in count_spans(length, ratio, mean_span))
    runs = np.empty(2 * spans + 1, dtype=np.int64)  # gap, span, gap, ..., span, gap
    runs[1::2] = _draw_parts(noise, spans, rng)
    runs[0::2] = _draw_parts(length - noise + 2, spans + 1, rng)
    runs[[0, -1]] -= 1  # the outer gaps may be empty
    is_span = np.arange(len(runs)) % 2 == 1
    return np.repeat(is_span, runs)


def _draw_parts(total: int, parts: int, rng: Any) -> np.ndarray:
    """Draw (parts,) positive integers with this sum, uniformly among all such rows."""
    cuts = np.sort(rng.choice(total - 1, parts - 1, replace=False)) + 1
    return np.diff(np.concatenate([[0], cuts, [total]]))


# ---- What replaces them. ----


def corrupt_spans(
    tokens: np.ndarray, mask: np.ndarray, sentinels: Sequence[int], target_sentinels: bool = True
) -> Tuple[np.ndarray, np.ndarray]:
    """Replace span i by sentinel i; the target lists each sentinel with the tokens of its span.

    ``a b c d e f`` with ``b c`` and ``e`` corrupted gives the source ``a <0> d <1> f`` and the
    target ``<0> b c <1> e``. No sentinel follows the last span: the T5 paper closes the target with
    one more, its code does not, nor does DeltaLM's Figure 3. The ``</s>`` that the dataset appends
    marks the end.

    Args:
        tokens: (S,) int64.
        mask: (S,) bool, True = corrupted; adjacent corrupted tokens are one span.
        sentinels: ids in order of use, at least as many as spans.
        target_sentinels: False leaves them out of the target (DeltaLM section 3.3).

    Returns:
        Source and target, int64.
    """
    is_first = mask.copy()
    is_first[1:] &= ~mask[:-1]
    spans = int(is_first.sum())
    if spans > len(sentinels):
        raise ValueError(f"{spans} spans need as many sentinels; there are {len(sentinels)}")
    used = np.asarray(sentinels[:spans], dtype=tokens.dtype)
    source = tokens.copy()
    source[is_first] = used
    source = source[is_first | ~mask]
    target = tokens[mask]
    if target_sentinels:
        target = np.insert(target, np.flatnonzero(is_first[mask]), used)
    return source, target


# ---- Sentinels of a dictionary. ----


def find_sentinels(dictionary: Dictionary, template: str, add: int = 0) -> List[int]:
    """Return the ids of all sentinels, numbered from 0 until a number is missing.

    Args:
        dictionary: changed if ``add`` is not 0.
        template: spelling of a sentinel, with ``{}`` for its number.
        add: sentinels that are first added at the end of a dictionary without any.

    Raises:
        ValueError: a template without ``{}``, a negative ``add``, or sentinels to add to a
            dictionary that has some.
    """
    if template.format(0) == template.format(1):
        raise ValueError(
            f"--sentinels must have a {{}} for the number, as in <extra_id_{{}}>; got {template!r}"
        )
    if add < 0:
        raise ValueError(f"--add-sentinels must be 0 or more; got {add}")
    if add and template.format(0) in dictionary:
        raise ValueError(
            f"--add-sentinels must be 0 where the dictionary already holds {template.format(0)}; "
            f"got {add}"
        )
    for number in range(add):
        dictionary.add_symbol(template.format(number))
    sentinels: List[int] = []
    while template.format(len(sentinels)) in dictionary:
        sentinels.append(dictionary.index(template.format(len(sentinels))))
    return sentinels


class Demand(NamedTuple):
    """Describe texts of one kind, for which the sentinels must suffice."""

    option: str  # option that gives the ratio, for messages
    ratio: float  # share of tokens corrupted, in (0, 1)
    tokens: int  # ``--tokens-per-sample``, the longest text with every ``</s>`` in it
    separators: int  # the most ``</s>`` between its sentences

    def spans(self, mean_span: float) -> int:
        """Compute the most spans, and so sentinels, that such a text can have."""
        return most_spans(self.tokens - 1, self.ratio, mean_span, self.separators)


def check_sentinels(
    sentinels: Sequence[int], template: str, mean_span: float, demands: Sequence[Demand]
) -> None:
    """Raise ValueError if a text may need more sentinels than there are.

    The message names the options that the need depends on, and the remedy.
    """
    worst = max(demands, key=lambda demand: demand.spans(mean_span))
    need = worst.spans(mean_span)
    if len(sentinels) >= need:
        return
    first, last = template.format(0), template.format(need - 1)
    stock = f"has {len(sentinels)}" if sentinels else f"lacks {first}"
    raise ValueError(
        f"--sentinels {template}: the dictionary {stock}, but --tokens-per-sample {worst.tokens}, "
        f"{worst.option} {worst.ratio} and --mean-span {mean_span} need up to {need}. Where it has "
        f'none, give --add-sentinels {need}; or add the lines "{first} 0" to "{last} 0" to '
        "dict.txt before fairseq-preprocess"
    )
