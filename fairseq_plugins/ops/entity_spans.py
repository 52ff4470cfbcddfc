"""Entity spans of tag sequences, found and compared by the rules of the CoNLL evaluation script, all words at once."""

from typing import List, NamedTuple, Optional, Sequence, Tuple

import torch
from torch import Tensor

from .masks import move

OUTSIDE, BEGIN, INSIDE, END, SINGLE = range(5)
PREFIXES = {"O": OUTSIDE, "B": BEGIN, "I": INSIDE, "E": END, "S": SINGLE}
NO_SPAN = -1
"""Where no span begins."""


class TagScheme(NamedTuple):
    """What the K classes of a label set mean for spans; the last row is that of class -1, a tag that is not in the label set."""

    # (K + 1,) int64, of each class one of OUTSIDE, BEGIN, INSIDE, END, SINGLE; -1 is INSIDE: neighbours are one span
    prefixes: Tensor
    # (K + 1,) int64, place of the type in ``names``, 0 for ``O``; that of -1 is ``len(names)``, a type of its own
    types: Tensor
    names: Tuple[str, ...]  # of the types, in the order of the label set; empty text for tags without a type


class SpanCounts(NamedTuple):
    """Spans of each type, (types + 1,) int64 each; the last number is that of class -1."""

    correct: Tensor  # with the first word, last word and type of a gold span
    predicted: Tensor  # in the prediction
    gold: Tensor  # in the reference


def split_tag(tag: str) -> Optional[Tuple[int, str]]:
    """Prefix and type: ``B-LOC`` is BEGIN of LOC, all behind the first hyphen, ``I`` INSIDE of no type; None for other tags."""
    prefix, hyphen, name = tag.partition("-")
    if prefix not in PREFIXES or (PREFIXES[prefix] == OUTSIDE and hyphen):
        return None
    return PREFIXES[prefix], name


def tags_of_spans(labels: Sequence[str]) -> List[str]:
    """The labels that mark spans: B, I, E or S, alone or before a hyphen and a type."""
    return [label for label in labels if (split_tag(label) or (OUTSIDE, ""))[0] != OUTSIDE]


def tag_scheme(labels: Sequence[str]) -> Optional[TagScheme]:
    """The spans that the classes' symbols write; None if they are nothing but ``O``, or one is no tag of spans: parts of speech."""
    tags = [split_tag(label) for label in labels]
    if None in tags or not tags_of_spans(labels):
        return None
    found = [tag for tag in tags if tag is not None]
    names = list(dict.fromkeys(name for prefix, name in found if prefix != OUTSIDE))
    types = [0 if prefix == OUTSIDE else names.index(name) for prefix, name in found]
    prefixes = [prefix for prefix, _ in found]
    return TagScheme(torch.tensor([*prefixes, INSIDE]), torch.tensor([*types, len(names)]), tuple(names))


def sequence_starts(words: Tensor, total: int) -> Tensor:
    """(N,) bool, True at the first word of each sequence; ``words`` (B,) int64 has their lengths, which may be 0; N = ``total``."""
    rows = torch.repeat_interleave(torch.arange(len(words), device=words.device), words, output_size=total)
    first = rows != rows.roll(1)
    first[:1] = True
    return first


def span_ends(prefixes: Tensor, types: Tensor, first: Tensor) -> Tensor:
    """(N,) int64: at the first word of a span the place of its last word, else NO_SPAN.

    ``prefixes`` and ``types`` (N,) int64 are those of each word, as in :class:`TagScheme`; ``first`` (N,) bool is True at the
    first word of each sequence.

    Source: conlleval of the CoNLL-2000 and CoNLL-2003 shared tasks. A word that is not outside begins a span after ``O``, at the
    beginning of a sequence, after another type, with ``B``, and after ``E`` unless it is ``B``, which begins one anyway. So ``I``
    needs no ``B`` (IOB1, IOB2, IOE alike), and a span that nothing closes is closed by what follows. Beyond the script: ``S`` is a
    span of its own, and ``B`` after ``E`` begins a span, as BIOES tags mean it.
    """
    if not len(prefixes):
        return prefixes.clone()
    inside = prefixes != OUTSIDE
    before = prefixes.roll(1).masked_fill(first, OUTSIDE)
    begins = (prefixes == BEGIN) | (prefixes == SINGLE)
    closed = (before == OUTSIDE) | (before == END) | (before == SINGLE)
    starts = inside & (begins | closed | (types != types.roll(1)))
    # What follows the last word of all is the first one, which is a start or outside.
    last = inside & (starts | ~inside).roll(-1)
    places = torch.arange(len(prefixes), device=prefixes.device)
    ends = places.masked_fill(~last, len(prefixes)).flip(0).cummin(0).values.flip(0)
    return ends.masked_fill(~starts, NO_SPAN)


def span_counts(scheme: TagScheme, predicted: Tensor, gold: Tensor, first: Tensor) -> SpanCounts:
    """Count spans and those that agree, of classes (N,) int64; ``first`` (N,) is True at the first word of each sequence.

    Class -1 is a tag that is not in the label set: as gold it makes spans of a type of its own, which no prediction has.
    """
    prefixes, types = (move(table, gold.device) for table in scheme[:2])
    ends, own_types = span_ends(prefixes[predicted], types[predicted], first), types[predicted]
    gold_ends, gold_types = span_ends(prefixes[gold], types[gold], first), types[gold]
    correct = (gold_ends != NO_SPAN) & (ends == gold_ends) & (own_types == gold_types)

    def by_type(spans: Tensor, kinds: Tensor) -> Tensor:
        return kinds.new_zeros(len(scheme.names) + 1).index_add(0, kinds, spans.long())

    return SpanCounts(
        by_type(correct, gold_types), by_type(ends != NO_SPAN, own_types), by_type(gold_ends != NO_SPAN, gold_types)
    )
