"""Answers that are spans of a passage: windows of it, and the best span of their logits."""

from typing import List, NamedTuple, Tuple

import numpy as np


class Answer(NamedTuple):
    """What comes of a question: characters of the passage, and the sum of the logits of their begin and end."""

    text: str
    score: float


def windows(pieces: int, room: int, stride: int) -> List[int]:
    """First pieces of overlapping windows of ``room`` pieces; every piece is in one of them at least."""
    stride = min(stride, room)
    return [number * stride for number in range(1 + max(0, -(-(pieces - room) // stride)))]


def best_span(logits: np.ndarray, first: int, count: int, longest: int) -> Tuple[float, int, int]:
    """Score, first and last position of the best span of ``logits`` (S, 2) inside ``count`` positions from ``first`` on.

    The score is minus infinity where there is no position. ``longest``: positions of a span, at least 1.
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
