"""Questions on passages: pieces of both, the characters that the passage's pieces cover, the answers."""

import json
from pathlib import Path
from typing import Any, Dict, Iterator, List, Set, Tuple

from ..corpora.squad import Answer, Question, read_questions
from ..files import write_bytes
from ..io import LINE_BREAKERS, InputError
from ..progress import with_progress
from .counts import Counts
from .data_bin import DataBin
from .sentences import EMPTY, refuse_nothing
from .sources import OPTION, Source

QUESTIONS, PASSAGES = "qa", "passages"
NOWHERE_TOLD = -1  # the start of an answer that does not stand where its file says
SAME_ID = "ids that came before"
IMPOSSIBLE, NO_ANSWER = "impossible questions (SQuAD 2)", "no answer"
MISPLACED, ABSENT = "answers not at their offset", "answers nowhere in their passage"


class _Passages:
    """The distinct passages of a source, written when the first question about them is."""

    def __init__(self, data: DataBin, source: Source, counts: Counts):
        self.data, self.counts = data, counts
        self.pieces, self.offsets = data.texts(1, source), data.offsets(source)
        self.rows: Dict[str, int] = {}
        self.lengths: List[int] = []

    def row(self, text: str) -> int:
        """Number of a passage."""
        if text not in self.rows:
            found, spans = self.data.segmenter.spans(text)
            ids = self.data.ids(found)
            self.rows[text] = len(self.rows)
            self.lengths.append(len(ids))
            self.counts.text(len(text.split()), ids, self.data.dictionary.unk())
            self.pieces.add(self.data.row(ids))
            self.offsets.add([place for span in spans for place in span])
        return self.rows[text]

    def close(self) -> None:
        """Write the indices."""
        self.pieces.close()
        self.offsets.close()


def write_questions(data: DataBin, source: Source, labels: None, longest: int) -> Counts:
    """Write the questions of a source.

    Dropped from train: questions without an answer that stands where the file says. In the other splits they stay with the text of
    their answers, from which F1 and exact match are counted; such an answer's start is -1. Questions that the file calls
    impossible are dropped everywhere.

    Args:
        data: where they go.
        source: one split and language.
        labels: none.
        longest: ``--max-positions``: of a question with its passage.

    Returns:
        What was counted.

    An id that came before gets a number: TyDiQA's as XTREME writes them are not unique.

    Raises:
        InputError: as in :func:`squad.read_questions`; an id that is missing; no question is left, or none with an answer.
    """
    counts = Counts()
    questions, passages = data.texts(0, source), _Passages(data, source, counts)
    lines: List[str] = []
    for question, answers in _usable(source, counts):
        (ids,) = data.encode([question.question])
        if not ids and source.training:
            counts.dropped[EMPTY] += 1
            continue
        counts.kept += 1
        row = passages.row(question.passage)
        counts.notes[EMPTY] += not ids or not passages.lengths[row]
        counts.text(len(question.question.split()), ids, data.dictionary.unk())
        counts.length(len(ids) + passages.lengths[row] + 2, longest)
        questions.add(data.row(ids))
        given = [{"text": text, "start": start} for text, start in answers]
        lines.append(_line({"id": question.id, "passage": row, "answers": given}))
    if counts.kept and counts.notes[NO_ANSWER] == counts.kept:
        raise InputError(
            f"{OPTION} {source.name}: {source.path}: none of its {counts.kept} questions has an answer, nothing could be scored; "
            "valid: a file with answers (XTREME's scripts empty those of its test sets: take the original files)"
        )
    counts.notes["passages"] += len(passages.rows)
    counts.notes = +counts.notes
    refuse_nothing(source, counts)
    questions.close()
    passages.close()
    _write_lines(data.folder / QUESTIONS, source, lines)
    _write_lines(data.folder / PASSAGES, source, [_line(text) for text in passages.rows])
    return counts


def _usable(source: Source, counts: Counts) -> Iterator[Tuple[Question, List[Answer]]]:
    """Questions that stay, with their answers; others are counted."""
    seen: Set[str] = set()
    label = f"nlu {source.name}"
    for question in with_progress(read_questions(source.path, f"{OPTION} {source.name}:"), label):
        if source.limit and counts.read == source.limit:
            return
        counts.read += 1
        question = _check(question, seen, counts)
        if question.impossible:
            counts.dropped[IMPOSSIBLE] += 1
            continue
        answers = [_placed(answer, question.passage, counts) for answer in question.answers if answer.text.strip()]
        if source.training:
            told = bool(answers)
            answers = [answer for answer in answers if answer.start != NOWHERE_TOLD]
            if not answers:
                counts.dropped["answer not at its offset" if told else NO_ANSWER] += 1
                continue
        counts.notes[NO_ANSWER] += not answers
        yield question, answers


def _check(question: Question, seen: Set[str], counts: Counts) -> Question:
    """The question with an id of its own."""
    if question.id is None:
        raise InputError(f"{question.place}: no id; valid: an id for every question")
    name, number = question.id, 1
    while name in seen:
        number += 1
        name = f"{question.id}#{number}"
    counts.notes[SAME_ID] += number > 1
    seen.add(name)
    for text in (question.id, question.question, question.passage, *(answer.text for answer in question.answers)):
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise InputError(
                f"{question.place}: half a character, U+{ord(text[error.start]):04X}; valid: text that UTF-8 can hold"
            ) from None
    return question._replace(id=name)


def _placed(answer: Answer, passage: str, counts: Counts) -> Answer:
    """The answer with a start that can be relied on: ``NOWHERE_TOLD`` where the file's is wrong."""
    start = answer.start
    if start is not None and start >= 0 and passage.startswith(answer.text, start):
        return answer
    counts.notes[MISPLACED] += 1
    counts.notes[ABSENT] += answer.text not in passage
    return Answer(answer.text, NOWHERE_TOLD)


def _line(content: Any) -> str:
    """JSON on one line, whatever a reader takes for the end of a line."""
    text = json.dumps(content, ensure_ascii=False)
    return LINE_BREAKERS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _write_lines(folder: Path, source: Source, lines: List[str]) -> None:
    write_bytes(folder / f"{source.name}.jsonl", "".join(f"{line}\n" for line in lines).encode("utf-8"))
