"""Find the characters of a text that each of its pieces covers."""

import re
from typing import Any, Iterator, List, Sequence, Tuple

SPACE = "\u2581"
"""Character that sentencepiece writes for a space."""

BYTE_PIECE = re.compile("<0x([0-9A-F]{2})>")
CONTINUATION_BYTES = range(0x80, 0xC0)
WORD = re.compile(r"\S+")

Span = Tuple[int, int]


def pieces_of(text: str, processor: Any) -> Tuple[List[str], List[Span]]:
    """Split a text into pieces, and find the characters of each.

    Spans leave out white space: a piece of white space alone has an empty span. If a character is
    split, as into its bytes, each of its pieces covers it.

    Args:
        processor: of sentencepiece; None = the pieces are the words.

    Returns:
        the pieces, and the characters that each covers.
    """
    if processor is None:
        words = list(WORD.finditer(text))
        return [word[0] for word in words], [word.span() for word in words]
    normal, origin = processor.normalize(text, with_offsets=True)
    pieces = processor.encode(text, out_type=str)
    return pieces, [_in_text(origin, *place, normal) for place in _in_normal(pieces, normal)]


def _in_normal(pieces: Sequence[str], normal: str) -> Iterator[Span]:
    """Yield the span of each piece in the normalised text; of a byte, the span of its character."""
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
    """Convert a span (begin, end) of the normalised text to one of the text, without white space.

    Args:
        origin: for each normalised character, and for the end, the position in the text of the
            first character that it was made of.
    """
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
    """Return True for a space of the text, not one that normalising a character has added."""
    return normal[place] == SPACE and (place == 0 or origin[place] != origin[place - 1])
