"""Which layers of a pretrained stack make up an encoder or a decoder."""

import re
from typing import List, NamedTuple, Optional, Tuple

_LIST = re.compile(r"\d+(?:,\d+)*")
_RULE = re.compile(r"(last|every):(\d+)")


class LayerChoice(NamedTuple):
    """Numbers (from 0) of the layers that encoder and decoder take from a pretrained stack of ``stack`` layers, in order.

    ``decoder`` is None where nothing says so and it takes as many as it has from the last on.
    """

    stack: int
    encoder: Tuple[int, ...]
    decoder: Optional[Tuple[int, ...]]


def parse_layers(text: str, stack: int, option: str) -> List[int]:
    """Numbers of layers, from 0 and in increasing order, of a choice among those of a pretrained stack.

    ``text``: a list such as ``18,19,20``; ``last:6``; or ``every:4``, each 4th layer of which the last one is the stack's last.

    Raises ValueError: another form, a number out of range or repeated, or not in increasing order.

    Source: VECO section 5.2 and table 4, the last n layers against every k-th.
    """
    rule = _RULE.fullmatch(text)
    if rule:
        number = int(rule.group(2))
        if not 1 <= number <= stack:
            raise ValueError(f"{option} {text}: valid: a number from 1 to the {stack} layers of --encoder-layers")
        if rule.group(1) == "last":
            return list(range(stack - number, stack))
        return list(range((stack - 1) % number, stack, number))
    if not _LIST.fullmatch(text):
        raise ValueError(f"{option} {text!r}: valid: a list such as 0,1,2, or last:N, or every:K")
    layers = [int(number) for number in text.split(",")]
    outside = [layer for layer in layers if layer >= stack]
    if outside:
        raise ValueError(
            f"{option} {text}: layer {outside[0]} is out of range; valid: 0 to {stack - 1}, as --encoder-layers is {stack}"
        )
    if layers != sorted(set(layers)):
        raise ValueError(f"{option} {text}: valid: each layer once, in increasing order")
    return layers
