"""Find answers in a passage: read it in windows, and take the span with the best logits."""

from typing import List, NamedTuple, Tuple

import numpy as np


class Answer(NamedTuple):
    """Answer to a question."""

    text: str  # of the passage
    score: float  # logit of the first piece plus logit of the last piece


def windows(pieces: int, room: int, stride: int) -> List[int]:
    """List the first piece of each window of ``room`` pieces; every piece is in a window.

    Args:
        pieces: of the passage.
        stride: pieces from the start of a window to the start of the next.
    """
    stride = min(stride, room)
    return [number * stride for number in range(1 + max(0, -(-(pieces - room) // stride)))]


def best_span(logits: np.ndarray, first: int, count: int, longest: int) -> Tuple[float, int, int]:
    """Find the best span inside ``count`` positions from ``first`` on.

    Args:
        logits: (S, 2) of begin and end.
        longest: positions of a span, at least 1.

    Returns:
        score, first and last position; the score is minus infinity if ``count`` is 0.
    """
    best = (float("-inf"), first, first)
    begins, ends = logits[first : first + count].T
    for place in range(count):
        reach = ends[place : place + longest]
        last = int(reach.argmax())
        score = float(begins[place] + reach[last])
        if score > best[0]:
            best = (score, first + place, first + place + last)
    return best
