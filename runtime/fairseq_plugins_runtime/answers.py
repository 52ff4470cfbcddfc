"""Find answers in a passage: read it in windows, and take the span with the best logits."""

from typing import List, NamedTuple

import numpy as np


class Answer(NamedTuple):
    """Answer to a question."""

    text: str  # of the passage
    score: float  # logit of the first piece plus logit of the last piece


class BestSpan(NamedTuple):
    """The span of a window with the best score."""

    score: float
    first: int  # position of its first piece
    last: int  # position of its last piece


def windows(pieces: int, room: int, stride: int) -> List[int]:
    """List the first piece of each window over a passage; every piece is in a window.

    Args:
        pieces: pieces of the passage.
        room: pieces of a window; the last window may have fewer.
        stride: pieces from the start of a window to the start of the next.
    """
    stride = min(stride, room)
    return [number * stride for number in range(1 + max(0, -(-(pieces - room) // stride)))]


def best_span(logits: np.ndarray, first: int, count: int, longest: int) -> BestSpan:
    """Find the best span inside ``count`` positions from ``first`` on.

    Args:
        logits: (S, 2), of being the first and the last piece.
        longest: most positions of a span, at least 1.

    Returns:
        The span; its score is minus infinity if ``count`` is 0.
    """
    best = BestSpan(float("-inf"), first, first)
    begins, ends = logits[first : first + count].T
    for place in range(count):
        reach = ends[place : place + longest]
        last = int(reach.argmax())
        score = float(begins[place] + reach[last])
        if score > best.score:
            best = BestSpan(score, first + place, first + place + last)
    return best
