"""Where the pieces of a text stand in it."""

import re
from typing import Any, Iterator, List, Sequence, Tuple

SPACE = "\u2581"
"""What sentencepiece writes for a space."""

BYTE_PIECE = re.compile("<0x([0-9A-F]{2})>")
CONTINUATION_BYTES = range(0x80, 0xC0)
WORD = re.compile(r"\S+")

Span = Tuple[int, int]


def pieces_of(text: str, processor: Any) -> Tuple[List[str], List[Span]]:
    """The pieces of a text, and the characters that each covers; words where ``processor`` (of sentencepiece) is None.

    White space belongs to no piece: a piece of it alone has an empty span. Pieces that share one character each cover it.
    """
    if processor is None:
        words = list(WORD.finditer(text))
        return [word[0] for word in words], [word.span() for word in words]
    normal, origin = processor.normalize(text, with_offsets=True)
    pieces = processor.encode(text, out_type=str)
    return pieces, [_in_text(origin, *place, normal) for place in _in_normal(pieces, normal)]


def _in_normal(pieces: Sequence[str], normal: str) -> Iterator[Span]:
    """Where the pieces stand in the normalised text; all bytes of a character stand at the character."""
    at = 0
    for piece in pieces:
        byte = None if normal.startswith(piece, at) else BYTE_PIECE.fullmatch(piece)
        if byte is None:
            yield at, at + len(piece)
            at += len(piece)
            continue
        at += int(byte[1], 16) not in CONTINUATION_BYTES
        yield at - 1, at


def _in_text(origin: Sequence[int], begin: int, end: int, normal: str) -> Span:
    """Characters of the text behind normalised ones; ``origin``: of each of these, and of the end, its first in the text."""
    while begin < end and _is_space(origin, begin, normal):
        begin += 1
    while begin < end and _is_space(origin, end - 1, normal):
        end -= 1
    if begin == end:
        return origin[begin], origin[begin]
    after = end
    while after < len(origin) - 1 and origin[after] <= origin[end - 1]:
        after += 1
    return origin[begin], origin[after]


def _is_space(origin: Sequence[int], place: int, normal: str) -> bool:
    """White space between characters of the text; what one character became can hold some too."""
    return normal[place] == SPACE and (place == 0 or origin[place] != origin[place - 1])
