"""Questions, passages and answers of a question-answering data-bin, and the pieces that an answer covers."""

import json
import os
from typing import Any, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np


class Answer(NamedTuple):
    """A gold answer: its text, and where it starts in the passage, in characters; -1 = not said."""

    text: str
    start: int


class QuestionEntry(NamedTuple):
    """A line of ``qa/SPLIT.LANG.jsonl``: the question's id, the row of its passage, and its answers.

    The first answer is trained on, the best one counts in the score; a question without any is not scored.
    """

    name: str
    passage: int
    answers: Tuple[Answer, ...]


def read_questions(path: str, passages: int) -> List[QuestionEntry]:
    """Read the questions of a subset on so many passages; ValueError: no file, or a line (named) that is no such question."""
    found = []
    for number, value in _json_lines(path):
        try:
            answers = tuple(Answer(str(answer["text"]), int(answer["start"])) for answer in value["answers"])
            entry = QuestionEntry(str(value["id"]), int(value["passage"]), answers)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{path}:{number}: {error!r}; valid: id, passage and answers of text and start") from error
        if not 0 <= entry.passage < passages:
            raise ValueError(
                f"{path}:{number}: question {entry.name} has passage {entry.passage}; valid: 0 to {passages - 1}"
            )
        found.append(entry)
    return found


def read_passages(path: str) -> List[str]:
    """Read the passages of a subset; ValueError: no file, or a line (named) that is no JSON string."""
    found = []
    for number, value in _json_lines(path):
        if not isinstance(value, str):
            raise ValueError(f"{path}:{number}: found {type(value).__name__}; valid: one JSON string a line")
        found.append(value)
    return found


def place_answers(
    entries: Sequence[QuestionEntry], passages: Sequence[str], offsets: Any
) -> Tuple[np.ndarray, List[str]]:
    """The pieces that the first answer of each question covers.

    ``offsets``: a row (2 x pieces,) per passage, begin and end character of each piece, alternating; an end is exclusive. Returns
    (N, 2) int64, numbers of first and last piece in the passage, -1 where there is none; and the ids of the questions whose answer
    has no place: it is empty, not where it should be, or no piece covers it.
    """
    gold = np.full((len(entries), 2), -1, dtype=np.int64)
    lost = []
    for number, entry in enumerate(entries):
        if not entry.answers:
            continue
        span = _place_answer(entry.answers[0], passages[entry.passage], np.asarray(offsets[entry.passage]))
        if span is None:
            lost.append(entry.name)
        else:
            gold[number] = span
    return gold, lost


def _place_answer(answer: Answer, passage: str, offsets: np.ndarray) -> Optional[Tuple[int, int]]:
    """First and last piece that hold characters of the answer, spaces at its ends not counted."""
    text = answer.text.strip()
    start = answer.start + len(answer.text) - len(answer.text.lstrip())
    stop = start + len(text)
    if not text or answer.start < 0 or passage[start:stop] != text:
        return None
    begins, ends = offsets[::2], offsets[1::2]
    first = int(np.searchsorted(ends, start, side="right"))
    last = int(np.searchsorted(begins, stop, side="left")) - 1
    return (first, last) if first <= last else None


def _json_lines(path: str) -> Iterator[Tuple[int, Any]]:
    if not os.path.isfile(path):
        raise ValueError(f"no file {path}: it belongs to a data-bin for question answering")
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                yield number, json.loads(line)
            except (ValueError, RecursionError) as error:
                raise ValueError(f"{path}:{number}: no JSON ({error})") from error
