"""Entity spans of tag sequences, by the rules of the CoNLL evaluation script, all words at once."""

from typing import List, NamedTuple, Optional, Sequence, Tuple

import torch
from torch import Tensor

from ..ops.masks import move

OUTSIDE, BEGIN, INSIDE, END, SINGLE = range(5)
PREFIXES = {"O": OUTSIDE, "B": BEGIN, "I": INSIDE, "E": END, "S": SINGLE}
NO_SPAN = -1
"""Place of the last word if no span begins."""


class TagScheme(NamedTuple):
    """Meaning of K classes for spans; the last row is that of class -1, an unseen tag."""

    prefixes: Tensor  # (K + 1,) int64, OUTSIDE to SINGLE; INSIDE for -1, so that neighbours join
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
    """List the labels that mark spans: B, I, E or S, alone or before a hyphen and a type."""
    return [label for label in labels if (split_tag(label) or (OUTSIDE, ""))[0] != OUTSIDE]


def tag_scheme(labels: Sequence[str]) -> Optional[TagScheme]:
    """Read labels as marks of spans; None if none is such a mark, or one is another tag (POS)."""
    tags = [split_tag(label) for label in labels]
    if None in tags or not tags_of_spans(labels):
        return None
    marks = [tag for tag in tags if tag is not None]
    names = list(dict.fromkeys(name for prefix, name in marks if prefix != OUTSIDE))
    types = [0 if prefix == OUTSIDE else names.index(name) for prefix, name in marks]
    prefixes = [prefix for prefix, _ in marks]
    return TagScheme(
        torch.tensor([*prefixes, INSIDE]), torch.tensor([*types, len(names)]), tuple(names)
    )


def sequence_starts(words: Tensor, total: int) -> Tensor:
    """Mark the first word of sequences of ``words`` (B,) int64, ``total`` = N words. (N,) bool."""
    numbers = torch.arange(len(words), device=words.device)
    rows = torch.repeat_interleave(numbers, words, output_size=total)
    first = rows != rows.roll(1)
    first[:1] = True
    return first


def span_ends(prefixes: Tensor, types: Tensor, first: Tensor) -> Tensor:
    """Find the spans of tagged words.

    A word that is not outside begins a span after ``O``, at the start of a sequence, after another
    type, with ``B``, and after ``E`` or ``S``. So ``I`` needs no ``B`` (IOB1, IOB2, IOE alike), and
    the next word closes a span that nothing else closes. Beyond the script: ``S`` is a span of its
    own, and ``B`` after ``E`` begins a span, as BIOES tags mean it.

    Args:
        prefixes, types: (N,) int64, of each word; see :class:`TagScheme`.
        first: (N,) bool, True at the first word of each sequence.

    Returns:
        (N,) int64: at the first word of a span the place of its last word, else NO_SPAN.

    Source: conlleval of the CoNLL-2000 and CoNLL-2003 shared tasks.
    """
    if not len(prefixes):
        return prefixes.clone()
    inside = prefixes != OUTSIDE
    before = prefixes.roll(1).masked_fill(first, OUTSIDE)
    begins = (prefixes == BEGIN) | (prefixes == SINGLE)
    after_end = (before == OUTSIDE) | (before == END) | (before == SINGLE)
    starts = inside & (begins | after_end | (types != types.roll(1)))
    # After the last word of all comes the first one, which is a start or outside.
    last = inside & (starts | ~inside).roll(-1)
    places = torch.arange(len(prefixes), device=prefixes.device)
    ends = places.masked_fill(~last, len(prefixes)).flip(0).cummin(0).values.flip(0)
    return ends.masked_fill(~starts, NO_SPAN)


def span_counts(scheme: TagScheme, predicted: Tensor, gold: Tensor, first: Tensor) -> SpanCounts:
    """Count spans of classes (N,) int64; gold -1 makes spans of a type that no prediction has."""
    prefixes, types = move(scheme.prefixes, gold.device), move(scheme.types, gold.device)
    predicted_types, gold_types = types[predicted], types[gold]
    predicted_ends = span_ends(prefixes[predicted], predicted_types, first)
    gold_ends = span_ends(prefixes[gold], gold_types, first)
    is_gold = gold_ends != NO_SPAN
    is_correct = is_gold & (predicted_ends == gold_ends) & (predicted_types == gold_types)
    return SpanCounts(is_correct.sum(), (predicted_ends != NO_SPAN).sum(), is_gold.sum())
