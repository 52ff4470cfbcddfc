"""Entity spans of tag sequences, by the rules of the CoNLL evaluation script, all words at once."""

from typing import List, NamedTuple, Optional, Sequence, Tuple

import torch
from torch import Tensor

from ..ops.masks import move

OUTSIDE, BEGIN, INSIDE, END, SINGLE = range(5)
PREFIXES = {"O": OUTSIDE, "B": BEGIN, "I": INSIDE, "E": END, "S": SINGLE}
NO_SPAN = -1
"""Value of :func:`span_ends` at a word that begins no span."""


class TagScheme(NamedTuple):
    """Prefix and type of each of K classes, by class; the last entry is that of -1, an unseen tag.

    Class -1 counts as INSIDE, so adjacent ones form one span.
    """

    prefixes: Tensor  # (K + 1,) int64, OUTSIDE to SINGLE
    types: Tensor  # (K + 1,) int64, place in ``names``; 0 for ``O``, ``len(names)`` for -1
    names: Tuple[str, ...]  # types in the order of the labels; empty text for tags without a type


class SpanCounts(NamedTuple):
    """Numbers of spans, () int64 each."""

    correct: Tensor  # predicted spans with first word, last word and type of a gold one
    predicted: Tensor
    gold: Tensor


def split_tag(tag: str) -> Optional[Tuple[int, str]]:
    """Split ``B-LOC`` into BEGIN and ``LOC``, ``I`` into INSIDE and no type; None otherwise."""
    prefix, hyphen, name = tag.partition("-")
    if prefix not in PREFIXES or (PREFIXES[prefix] == OUTSIDE and hyphen):
        return None
    return PREFIXES[prefix], name


def tags_of_spans(labels: Sequence[str]) -> List[str]:
    """List the labels that are span tags: B, I, E or S, alone or before a hyphen and a type."""
    tags = {label: split_tag(label) for label in labels}
    return [label for label, tag in tags.items() if tag is not None and tag[0] != OUTSIDE]


def tag_scheme(labels: Sequence[str]) -> Optional[TagScheme]:
    """Return the tag scheme of a label set.

    None if all labels are ``O``, or one is neither ``O`` nor a span tag (as in POS tagging).
    """
    tags = [tag for tag in map(split_tag, labels) if tag is not None]
    if len(tags) < len(labels) or not tags_of_spans(labels):
        return None
    names = list(dict.fromkeys(name for prefix, name in tags if prefix != OUTSIDE))
    types = [0 if prefix == OUTSIDE else names.index(name) for prefix, name in tags]
    prefixes = [prefix for prefix, _ in tags]
    return TagScheme(
        torch.tensor([*prefixes, INSIDE]), torch.tensor([*types, len(names)]), tuple(names)
    )


def sequence_starts(words: Tensor, total: int) -> Tensor:
    """Mark the first word of each sequence, (N,) bool.

    Args:
        words: (B,) int64, number of words of each sequence.
        total: N, the sum of ``words``, which is not read from the device.
    """
    numbers = torch.arange(len(words), device=words.device)
    rows = torch.repeat_interleave(numbers, words, output_size=total)
    first = rows != rows.roll(1)
    first[:1] = True
    return first


def span_ends(prefixes: Tensor, types: Tensor, first: Tensor) -> Tensor:
    """Find the spans of tagged words.

    A word begins a span if it has ``B`` or ``S``. A word with ``I`` or ``E`` also begins one at the
    start of a sequence, after ``O``, ``E`` or ``S``, and after a word of another type. So a span
    may begin with ``I``: IOB1, IOB2 and IOE are all read. A span ends before the next ``O``, the
    next beginning or the end of the sequence. Beyond the script, as BIOES tags mean it: ``S`` is a
    span of its own, and ``B`` begins a span also after ``E``.

    Args:
        prefixes, types: (N,) int64, of each word; see :class:`TagScheme`.
        first: (N,) bool, True at the first word of each sequence.

    Returns:
        (N,) int64: at the first word of a span the place of its last word, else NO_SPAN.

    Source: conlleval of the CoNLL-2000 and CoNLL-2003 shared tasks.
    """
    if not len(prefixes):
        return prefixes.clone()
    is_tagged = prefixes != OUTSIDE
    before = prefixes.roll(1).masked_fill(first, OUTSIDE)
    begins = (prefixes == BEGIN) | (prefixes == SINGLE)
    after_end = (before == OUTSIDE) | (before == END) | (before == SINGLE)
    is_start = is_tagged & (begins | after_end | (types != types.roll(1)))
    # The last word of all is followed by the first one, which is a start or outside.
    is_last = is_tagged & (is_start | ~is_tagged).roll(-1)
    places = torch.arange(len(prefixes), device=prefixes.device)
    # At each word: the place of the nearest last word of a span, here or further on.
    ends = places.masked_fill(~is_last, len(prefixes)).flip(0).cummin(0).values.flip(0)
    return ends.masked_fill(~is_start, NO_SPAN)


def span_counts(scheme: TagScheme, predicted: Tensor, gold: Tensor, first: Tensor) -> SpanCounts:
    """Count the spans of predicted and of gold classes, (N,) int64 each.

    Gold class -1 forms spans of a type that no prediction has, so they are never correct.
    ``first`` (N,) bool marks the first word of each sequence.
    """
    prefixes, types = move(scheme.prefixes, gold.device), move(scheme.types, gold.device)
    predicted_types, gold_types = types[predicted], types[gold]
    predicted_ends = span_ends(prefixes[predicted], predicted_types, first)
    gold_ends = span_ends(prefixes[gold], gold_types, first)
    is_gold = gold_ends != NO_SPAN
    is_correct = is_gold & (predicted_ends == gold_ends) & (predicted_types == gold_types)
    return SpanCounts(is_correct.sum(), (predicted_ends != NO_SPAN).sum(), is_gold.sum())
