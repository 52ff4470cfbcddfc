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
    """A line of ``qa/SPLIT.LANG.jsonl``.

    Attributes:
        name: the question's id.
        passage: row of the passage.
        answers: the first is trained on, the best one counts in the score; a question without any is not scored.
    """

    name: str
    passage: int
    answers: Tuple[Answer, ...]


def read_questions(path: str, passages: int) -> List[QuestionEntry]:
    """Read the questions of a subset.

    Args:
        path: of the file.
        passages: number of passages that there are.

    Raises:
        ValueError: no file, or a line (named) that is no question of the form above.
    """
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
    """Read the texts of the passages of a subset, a JSON string a line.

    Raises:
        ValueError: no file, or a line (named) that is no JSON string.
    """
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

    Args:
        entries: the questions.
        passages: texts.
        offsets: indexable; begin and end character of each piece of a passage, alternating, (2 x pieces,) int.

    Returns:
        (N, 2) int64, numbers of first and last piece in the passage, -1 where there is no answer or it has no place; and the
        ids of the questions whose answer has no place.
    """
    gold = np.full((len(entries), 2), -1, dtype=np.int64)
    lost = []
    for number, entry in enumerate(entries):
        if not entry.answers:
            continue
        span = place_answer(entry.answers[0], passages[entry.passage], np.asarray(offsets[entry.passage]))
        if span is None:
            lost.append(entry.name)
        else:
            gold[number] = span
    return gold, lost


def place_answer(answer: Answer, passage: str, offsets: np.ndarray) -> Optional[Tuple[int, int]]:
    """First and last piece that hold characters of the answer, spaces at its ends not counted.

    Args:
        answer: text and start.
        passage: the text.
        offsets: (2 x pieces,) begin and end character of each piece, alternating; an end is the character after the last.

    Returns:
        None where the answer is empty or not at its place in the passage, or where no pieces cover it.
    """
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
    """Number from 1 and value of each line."""
    if not os.path.isfile(path):
        raise ValueError(f"no file {path}: it belongs to a data-bin for question answering")
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                yield number, json.loads(line)
            except (ValueError, RecursionError) as error:
                raise ValueError(f"{path}:{number}: no JSON ({error})") from error
