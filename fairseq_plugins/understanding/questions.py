"""Questions with the overlapping windows of their passages, and the place of the answer in each."""

import json
import os
from dataclasses import dataclass
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import torch
from torch import Tensor

from .groups import RowGroups
from .inputs import InputOptions, check_rows, count_pieces

NO_ANSWER = 0
"""Target of a window without the whole answer: its first token, as in BERT's SQuAD."""
NO_PLACE = -1
"""Piece of an answer that has no place in its passage."""


# ---- Files of a data-bin. ----


class Answer(NamedTuple):
    """A gold answer: its text, and its first character in the passage; -1 = not stated."""

    text: str
    start: int


class QuestionEntry(NamedTuple):
    """A line of ``qa/SPLIT.LANG.jsonl``: id of the question, row of its passage, answers.

    Training uses the first answer, the score the best one. A question without answers is not
    scored.
    """

    name: str
    passage: int
    answers: Tuple[Answer, ...]


def read_questions(path: str, passages: int) -> List[QuestionEntry]:
    """Read the questions of a subset on so many passages; raise ValueError naming a bad line."""
    entries = []
    for number, record in _json_lines(path):
        try:
            answers = [Answer(str(gold["text"]), int(gold["start"])) for gold in record["answers"]]
            entry = QuestionEntry(str(record["id"]), int(record["passage"]), tuple(answers))
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"{path}:{number}: {error!r}; valid: id, passage and answers of text and start"
            ) from error
        if not 0 <= entry.passage < passages:
            raise ValueError(
                f"{path}:{number}: question {entry.name} has passage {entry.passage}; valid: 0 to "
                f"{passages - 1}"
            )
        entries.append(entry)
    return entries


def read_passages(path: str) -> List[str]:
    """Read the passages of a subset, a JSON string per line; raise ValueError otherwise."""
    passages = []
    for number, text in _json_lines(path):
        if not isinstance(text, str):
            kind = type(text).__name__
            raise ValueError(f"{path}:{number}: found {kind}; valid: one JSON string per line")
        passages.append(text)
    return passages


def _json_lines(path: str) -> Iterator[Tuple[int, Any]]:
    if not os.path.isfile(path):
        raise ValueError(f"no file {path}: it belongs to a data-bin for question answering")
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                yield number, json.loads(line)
            except (ValueError, RecursionError) as error:
                raise ValueError(f"{path}:{number}: no JSON ({error})") from error


def place_answers(
    entries: Sequence[QuestionEntry], passages: Sequence[str], offsets: Any
) -> Tuple[np.ndarray, List[str]]:
    """Find the pieces that the first answer of each of N questions covers.

    Args:
        offsets: a row (2 x pieces,) per passage: begin and exclusive end character of each piece,
            alternating.

    Returns:
        (N, 2) int64, first and last piece in the passage or NO_PLACE; and the ids of the questions
        whose answer has no place: it is empty, not where it is stated to be, or covered by no
        piece.
    """
    gold = np.full((len(entries), 2), NO_PLACE, dtype=np.int64)
    unplaced = []
    for number, entry in enumerate(entries):
        if not entry.answers:
            continue
        passage, row = passages[entry.passage], np.asarray(offsets[entry.passage])
        span = _place_answer(entry.answers[0], passage, row)
        if span is None:
            unplaced.append(entry.name)
        else:
            gold[number] = span
    return gold, unplaced


def _place_answer(answer: Answer, passage: str, offsets: np.ndarray) -> Optional[Tuple[int, int]]:
    """Find the first and last piece with characters of the answer, spaces at its ends ignored."""
    text = answer.text.strip()
    start = answer.start + len(answer.text) - len(answer.text.lstrip())
    end = start + len(text)
    if not text or answer.start < 0 or passage[start:end] != text:
        return None
    begins, ends = offsets[::2], offsets[1::2]
    first = int(np.searchsorted(ends, start, side="right"))  # ends after the answer begins
    last = int(np.searchsorted(begins, end, side="left")) - 1  # begins before the answer ends
    return (first, last) if first <= last else None


# ---- Dataset. ----


@dataclass(frozen=True)
class Question:
    """A question as the metric needs it; fairseq turns named tuples of a batch into plain ones."""

    name: str
    passage: str
    offsets: np.ndarray  # (2 x pieces,) int, begin and end character of each piece, alternating
    answers: Tuple[str, ...]  # gold texts
    language: Optional[str]  # whose rules compare answers; None = SQuAD's rules

    def text(self, first: int, last: int) -> str:
        """Return the passage from piece ``first`` to piece ``last``; empty if it has no pieces."""
        if not len(self.offsets):
            return ""
        return self.passage[self.offsets[2 * first] : self.offsets[2 * last + 1]]


class QuestionSet(NamedTuple):
    """The N questions of a subset, and its passages."""

    entries: Sequence[QuestionEntry]
    passages: Sequence[str]
    offsets: Any  # per passage; see place_answers
    gold: np.ndarray  # (N, 2) int64; see place_answers
    language: Optional[str]  # see Question


class Window(NamedTuple):
    """Part of a passage in an input."""

    begin: int  # place of its first piece in the input
    length: int  # pieces
    first_piece: int  # number of its first piece in the passage


class QuestionDataset(RowGroups):
    """Questions, each with all windows of its passage.

    A row is the question and a window of the passage in the task's input format. The first window
    starts at the first piece of the passage, and the last one reaches its end. Windows start
    ``stride`` pieces apart, but never further than a window is long, so they cover every piece.

    Args:
        texts: indexed datasets of questions, and of passages; (S,) int64 pieces with ``</s>``.
        options: options for making an input of a question and a window.
        questions: the other files of the subset.
        max_question: longest question in pieces; longer ones are cut.
        stride: pieces from the start of a window to the start of the next, BERT's ``doc_stride``.

    Attributes:
        windows: (N,) int64, number of windows of each question.
        uncovered: number of answers that no window holds whole.
        cut_questions: number of questions that are cut.

    Source: Devlin et al. 2019, section 4.2, and BERT's run_squad as released.
    """

    def __init__(
        self,
        texts: Sequence[Any],
        options: InputOptions,
        questions: QuestionSet,
        max_question: int,
        stride: int,
    ):
        super().__init__(texts[:1], options)
        self.cut_rows = self.cut_tokens = 0  # windows are never cut
        self.questions, self.passages = questions, texts[1]
        self.rows = np.array([entry.passage for entry in questions.entries], dtype=np.int64)
        question_pieces, passage_pieces = (count_pieces(text) for text in texts)
        self._check(question_pieces, passage_pieces)
        limit, symbols = options.max_positions, options.input_format.added(2)
        minimum = symbols + max_question + 1
        if limit < minimum:
            raise ValueError(
                f"--max-positions {limit} leaves no room for a passage beside "
                f"--max-question {max_question} pieces and {symbols} symbols; valid: at least "
                f"{minimum}"
            )
        self.cut_questions = int((question_pieces > max_question).sum())
        self.question_lengths = np.minimum(question_pieces, max_question)
        self.room = limit - symbols - self.question_lengths  # pieces of a window
        self.stride = np.minimum(stride, self.room)
        pieces = passage_pieces[self.rows]
        self.windows = 1 + -(-(pieces - self.room).clip(min=0) // self.stride)  # rounded up
        longest_window = np.minimum(pieces, self.room)
        self.set_rows(self.windows, symbols + self.question_lengths + longest_window)
        first, last = questions.gold.T
        # Of the windows that start before the answer, the last one reaches farthest.
        reach = np.minimum(first // self.stride, self.windows - 1) * self.stride + self.room
        self.uncovered = int(((first >= 0) & (last >= reach)).sum())

    def _check(self, question_pieces: np.ndarray, passage_pieces: np.ndarray) -> None:
        """Raise ValueError if the files of the subset do not belong together."""
        files = self.questions
        assert len(files.entries) == len(files.gold)
        check_rows({"qa": len(files.entries), "input0": len(question_pieces)})
        check_rows({"passages": len(files.passages), "input1": len(passage_pieces)})
        check_rows({"offsets": len(files.offsets), "input1": len(passage_pieces)})
        numbers = np.asarray(files.offsets.sizes)
        wrong = np.flatnonzero(numbers != 2 * passage_pieces)
        if len(wrong):
            row = int(wrong[0])
            raise ValueError(
                f"row {row + 1} of offsets has {numbers[row]} numbers for {passage_pieces[row]} "
                "pieces of input1; valid: two per piece"
            )

    def __getitem__(self, index: int) -> Dict[str, Any]:
        index = int(index)
        entry, passage = self.questions.entries[index], int(self.rows[index])
        question = Question(
            entry.name,
            self.questions.passages[passage],
            self.questions.offsets[passage].numpy(),
            tuple(answer.text for answer in entry.answers),
            self.questions.language,
        )
        texts = [
            self.texts[0][index][: self.question_lengths[index]],
            self.passages[passage][:-1],
        ]
        rows = [self._row(index, number, texts) for number in range(self.windows[index])]
        return {"id": index, "rows": rows, "question": question}

    def _row(self, index: int, number: int, texts: Sequence[Tensor]) -> Dict[str, Any]:
        """Make the row of window ``number`` from question and passage, (S,) pieces each.

        Its target is the place of the answer's first and last piece in the input.
        """
        question, passage = texts
        first_piece = number * int(self.stride[index])
        pieces = passage[first_piece : first_piece + int(self.room[index])]
        assembled = self.options.assemble([question, pieces])
        window = Window(assembled.starts[1], len(pieces), first_piece)
        target = [NO_ANSWER, NO_ANSWER]
        first, last = self.questions.gold[index].tolist()
        if first_piece <= first and last < first_piece + len(pieces):
            shift = window.begin - first_piece
            target = [first + shift, last + shift]
        return {"id": index, "tokens": assembled.tokens, "target": target, "window": window}

    def collater(self, samples: List[Dict[str, Any]]) -> Dict[str, Any]:
        """Collate all R windows of the questions.

        Adds ``target`` (R, 2) int64, places of the answer's first and last piece, or NO_ANSWER
        twice; ``passage_start``, ``passage_length`` and ``first_piece`` (R,) int64, see
        :class:`Window`; ``questions``, a :class:`Question` per item.
        """
        batch = super().collater(samples)
        if batch:
            rows = [row for sample in samples for row in sample["rows"]]
            batch["target"] = torch.tensor([row["target"] for row in rows])
            begins, lengths, first_pieces = torch.tensor([row["window"] for row in rows]).unbind(1)
            batch.update(passage_start=begins, passage_length=lengths, first_piece=first_pieces)
            batch["questions"] = [sample["question"] for sample in samples]
        return batch
