"""Sentinels: the symbols that stand for corrupted spans, found in a dictionary or added to it, and whether there are enough."""

from typing import List, NamedTuple, Sequence

from fairseq.data import Dictionary

from ..ops.spans import most_spans


class Demand(NamedTuple):
    """The texts of one kind that sentinels must suffice for."""

    option: str  # that gives the ratio, for messages
    ratio: float  # share of tokens corrupted, in (0, 1)
    tokens: int  # ``--tokens-per-sample``, the longest text with every ``</s>`` in it
    separators: int  # ``</s>`` between its sentences, at most


def find_sentinels(dictionary: Dictionary, template: str, add: int = 0) -> List[int]:
    """Ids of the sentinels, counted from 0 until one is missing; ``template`` has ``{}`` for the number.

    ``add`` sentinels are put at the end of the dictionary; none where it comes with sentinels.
    """
    if template.format(0) == template.format(1):
        raise ValueError(f"--sentinels must have a {{}} for the number, as in <extra_id_{{}}>; got {template!r}")
    if add < 0:
        raise ValueError(f"--add-sentinels must be 0 or more; got {add}")
    if add and template.format(0) in dictionary:
        raise ValueError(
            f"--add-sentinels must be 0 where the dictionary already holds {template.format(0)}; got {add}"
        )
    for number in range(add):
        dictionary.add_symbol(template.format(number))
    found: List[int] = []
    while template.format(len(found)) in dictionary:
        found.append(dictionary.index(template.format(len(found))))
    return found


def check_sentinels(found: Sequence[int], template: str, mean_span: float, demands: Sequence[Demand]) -> None:
    """Refuse fewer sentinels than the worst text can need; says how many it needs, by which options, and what to do."""
    needs = [most_spans(one.tokens - 1, one.ratio, mean_span, one.separators) for one in demands]
    need = max(needs)
    if len(found) >= need:
        return
    worst = demands[needs.index(need)]
    first, last = template.format(0), template.format(need - 1)
    have = f"has {len(found)}" if found else f"lacks {first}"
    raise ValueError(
        f"--sentinels {template}: the dictionary {have}, but --tokens-per-sample {worst.tokens}, {worst.option} {worst.ratio} and "
        f"--mean-span {mean_span} need up to {need}. Where it has none, give --add-sentinels {need}; or add the lines "
        f'"{first} 0" to "{last} 0" to dict.txt before fairseq-preprocess'
    )
