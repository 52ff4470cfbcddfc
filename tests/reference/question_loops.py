"""Slow loops: the windows of a passage, the best answer over them, and the metrics."""

import math
import string


def windows(pieces, room, stride):
    """Return (start, end) of each window: BERT's loop over ``doc_stride``."""
    spans, start = [], 0
    while True:
        end = min(start + room, pieces)
        spans.append((start, end))
        if end == pieces:
            return spans
        start += min(stride, room)


def best_answer(rows, longest):
    """Find the best span of a question; return its score, first and last piece.

    Args:
        rows: for each window, logits (S, 2) as nested lists, position and length of the passage in
            it, and the number of its first piece.
        longest: longest answer in pieces.
    """
    best = (-math.inf, -1, -1)
    for logits, begin, length, piece in rows:
        for first in range(length):
            for last in range(first, min(first + longest, length)):
                score = logits[begin + first][0] + logits[begin + last][1]
                if score > best[0]:
                    best = (score, piece + first, piece + last)
    return best


def plain_words(text):
    """Split an ASCII text into words by SQuAD's rules."""
    letters = [letter for letter in text.lower() if letter not in string.punctuation]
    return [word for word in "".join(letters).split() if word not in ("a", "an", "the")]


def plain_f1(prediction, answers):
    """Return the best F1 over the answers; every word of an answer matches once."""
    best = 0.0
    for answer in answers:
        words, gold = plain_words(prediction), plain_words(answer)
        total, common = len(words) + len(gold), 0
        for word in words:
            if word in gold:
                gold.remove(word)
                common += 1
        best = max(best, 2 * common / total if common else 0.0)
    return best


def plain_exact(prediction, answers):
    """Return 1 if all words are those of an answer."""
    return int(any(plain_words(prediction) == plain_words(answer) for answer in answers))
