"""Questions on passages: pieces of both, the characters of the passage's pieces, the answers."""

from __future__ import annotations  # data_bin imports fairseq, and is needed for types alone

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, NamedTuple, Set

from ..corpora.squad import Answer, Question, read_questions
from ..files import write_bytes
from ..io import LINE_BREAKERS, InputError
from ..progress import with_progress
from .counts import Counts
from .sentences import EMPTY, check_some_row
from .sources import OPTION, TEST, Source

if TYPE_CHECKING:
    from .data_bin import DataBin

QUESTIONS, PASSAGES = "qa", "passages"
NO_START = -1  # start of an answer that does not stand where its file says
SAME_ID = "ids that came before"
IMPOSSIBLE, NO_ANSWER = "impossible questions (SQuAD 2)", "no answer"
MISPLACED, ABSENT = "answers not at their offset", "answers nowhere in their passage"


class _Passages:
    """The distinct passages of a source, written with the first question about them."""

    def __init__(self, data: DataBin, source: Source, counts: Counts):
        self.data, self.counts = data, counts
        self.pieces, self.offsets = data.texts(1, source), data.offsets(source)
        self.rows: Dict[str, int] = {}
        self.lengths: List[int] = []

    def row(self, text: str) -> int:
        """Return the number of a passage."""
        if text not in self.rows:
            pieces, spans = self.data.segmenter.locate(text)
            ids = self.data.ids(pieces)
            self.rows[text] = len(self.rows)
            self.lengths.append(len(ids))
            self.counts.add_text(len(text.split()), ids, self.data.dictionary.unk())
            self.pieces.add(self.data.row(ids))
            self.offsets.add([place for span in spans for place in span])
        return self.rows[text]

    def close(self) -> None:
        """Write the indices."""
        self.pieces.close()
        self.offsets.close()


class _UsableQuestion(NamedTuple):
    question: Question
    answers: List[Answer]


def write_questions(data: DataBin, source: Source, labels: None, max_positions: int) -> Counts:
    """Write the questions of a source.

    Train loses questions without an answer that stands where the file says. In other splits they
    stay with the text of their answers, from which F1 and exact match are counted; such an answer
    has start -1. A file of test may have no answers at all. Questions that the file
    calls impossible are dropped everywhere. An id that occurred before gets a number: TyDiQA's as
    XTREME writes them are not unique.

    Args:
        data: the data-bin.
        source: one split and language.
        labels: None.
        max_positions: tokens of a question with its passage above which it is counted as too long.

    Raises:
        InputError: as in :func:`read_questions`; a missing id; no question is left, or none with
            an answer outside test.
    """
    counts = Counts()
    questions, passages = data.texts(0, source), _Passages(data, source, counts)
    lines: List[str] = []
    for question, answers in _usable_questions(source, counts):
        (ids,) = data.encode([question.question])
        if not ids and source.is_training:
            counts.dropped[EMPTY] += 1
            continue
        counts.kept += 1
        row = passages.row(question.passage)
        counts.notes[EMPTY] += not ids or not passages.lengths[row]
        counts.add_text(len(question.question.split()), ids, data.dictionary.unk())
        counts.add_length(len(ids) + passages.lengths[row] + 2, max_positions)
        questions.add(data.row(ids))
        listed = [{"text": answer.text, "start": answer.start} for answer in answers]
        lines.append(_format_line({"id": question.id, "passage": row, "answers": listed}))
    if counts.kept and counts.notes[NO_ANSWER] == counts.kept and source.split != TEST:
        problem = f"none of its {counts.kept} questions has an answer, nothing could be scored"
        hint = "XTREME's scripts empty those of TyDiQA's dev: take the original files"
        raise InputError(
            f"{OPTION} {source.name}: {source.path}: {problem}; valid: a file with answers ({hint})"
        )
    counts.notes["passages"] += len(passages.rows)
    counts.notes = +counts.notes  # without zeros
    check_some_row(source, counts)
    questions.close()
    passages.close()
    _write_lines(data.folder / QUESTIONS, source, lines)
    _write_lines(data.folder / PASSAGES, source, [_format_line(text) for text in passages.rows])
    return counts


def _usable_questions(source: Source, counts: Counts) -> Iterator[_UsableQuestion]:
    """Yield questions that stay; others are counted."""
    ids: Set[str] = set()
    questions = read_questions(source.path, f"{OPTION} {source.name}:")
    for question in with_progress(questions, f"nlu {source.name}"):
        if source.limit and counts.read == source.limit:
            return
        counts.read += 1
        question = _with_unique_id(question, ids, counts)
        if question.impossible:
            counts.dropped[IMPOSSIBLE] += 1
            continue
        answers = [
            _check_start(answer, question.passage, counts)
            for answer in question.answers
            if answer.text.strip()
        ]
        if source.is_training:
            trusted = [answer for answer in answers if answer.start != NO_START]
            if not trusted:
                reason = "answer not at its offset" if answers else NO_ANSWER
                counts.dropped[reason] += 1
                continue
            answers = trusted
        counts.notes[NO_ANSWER] += not answers
        yield _UsableQuestion(question, answers)


def _with_unique_id(question: Question, ids: Set[str], counts: Counts) -> Question:
    if question.id is None:
        raise InputError(f"{question.place}: no id; valid: an id for every question")
    name, number = question.id, 1
    while name in ids:
        number += 1
        name = f"{question.id}#{number}"
    counts.notes[SAME_ID] += number > 1
    ids.add(name)
    answers = [answer.text for answer in question.answers]
    for text in (question.id, question.question, question.passage, *answers):
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            problem = f"half a character, U+{ord(text[error.start]):04X}"
            valid = "text that UTF-8 can hold"
            raise InputError(f"{question.place}: {problem}; valid: {valid}") from None
    return question._replace(id=name)


def _check_start(answer: Answer, passage: str, counts: Counts) -> Answer:
    """Return an answer whose start can be relied on: ``NO_START`` if the file's is wrong."""
    start = answer.start
    if start is not None and start >= 0 and passage.startswith(answer.text, start):
        return answer
    counts.notes[MISPLACED] += 1
    counts.notes[ABSENT] += answer.text not in passage
    return Answer(answer.text, NO_START)


def _format_line(content: Any) -> str:
    """Return JSON on one line, whatever a reader takes for the end of a line."""
    text = json.dumps(content, ensure_ascii=False)
    return LINE_BREAKERS.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _write_lines(folder: Path, source: Source, lines: List[str]) -> None:
    text = "".join(f"{line}\n" for line in lines)
    write_bytes(folder / f"{source.name}.jsonl", text.encode("utf-8"))
