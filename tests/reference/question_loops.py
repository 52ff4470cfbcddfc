"""Slow loops: the windows of a passage, the best answer over them, and the metrics, from their definitions."""

import math
import string


def windows(pieces, room, stride):
    """(start, end) of each window: BERT's loop over ``doc_stride``."""
    found, start = [], 0
    while True:
        end = min(start + room, pieces)
        found.append((start, end))
        if end == pieces:
            return found
        start += min(stride, room)


def best_answer(rows, longest):
    """Score, first and last piece of the best span of a question.

    Args:
        rows: of each window: logits (S, 2) as nested lists, the passage's position and length in it, its first piece's number.
        longest: pieces of an answer.
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
    """SQuAD's words of an ASCII text, letter by letter."""
    kept = "".join(letter for letter in text.lower() if letter not in string.punctuation)
    return [word for word in kept.split() if word not in ("a", "an", "the")]


def plain_f1(prediction, answers):
    """Best F1 over the answers; every word of an answer can be used up once."""
    best = 0.0
    for answer in answers:
        left, right = plain_words(prediction), plain_words(answer)
        total, common = len(left) + len(right), 0
        for word in left:
            if word in right:
                right.remove(word)
                common += 1
        best = max(best, 2 * common / total if common else 0.0)
    return best


def plain_exact(prediction, answers):
    """Whether all words are equal."""
    return int(any(plain_words(prediction) == plain_words(answer) for answer in answers))
