"""Questions with the overlapping windows of their passages, and where in a window the answer is."""

from dataclasses import dataclass
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import torch

from ..ops.answer_spans import NO_ANSWER
from .nlu_dataset import RowGroups
from .question_files import QuestionEntry


@dataclass(frozen=True)
class Question:
    """What is needed to write an answer down and to score it. No named tuple: fairseq turns those of a batch into plain ones."""

    name: str
    passage: str
    offsets: np.ndarray  # (2 x pieces,) int, begin and end character of each piece of the passage, alternating
    answers: Tuple[str, ...]  # gold texts
    language: Optional[str]  # whose articles are left out when answers are compared; None: as SQuAD, which is English

    def text(self, first: int, last: int) -> str:
        """The passage's characters from the begin of one piece to the end of another; none of a passage without pieces."""
        return self.passage[self.offsets[2 * first] : self.offsets[2 * last + 1]] if len(self.offsets) else ""


class QuestionSet(NamedTuple):
    """The N questions of a subset, with a text and a row of ``offsets`` per passage; see :class:`Question`."""

    entries: Sequence[QuestionEntry]
    passages: Sequence[str]
    offsets: Any
    gold: np.ndarray  # (N, 2) int64, first and last piece of the answer in the passage; -1 where it has no place
    language: Optional[str]


class QuestionDataset(RowGroups):
    """An item is a question with all windows of its passage; the windows are made when the item is read.

    A window is question and a piece of the passage in the task's input format. The first window starts at the passage's first
    piece, each next one ``stride`` pieces later (or as many as a window holds, if that is less), the last one reaches the
    passage's end: every piece is in one window at least.

    Args:
        texts: questions, and passages: indexable, (S,) int64 pieces with ``</s>``, which ``sizes`` count.
        max_question: pieces of a question, at most; ``cut_questions`` counts the longer ones.
        stride: pieces from the start of a window to the start of the next, as BERT's ``doc_stride``.
        layout: arguments of :class:`NLUDataset`; ``max_positions`` is the length of the windows. ``beyond`` counts the answers that
            no window holds whole.

    Source: Devlin et al. 2019, section 4.2, and BERT's run_squad as released (windows without the answer point at the first token).
    """

    def __init__(
        self,
        texts: Sequence[Any],
        sizes: Sequence[Any],
        questions: QuestionSet,
        max_question: int,
        stride: int,
        **layout: Any,
    ):
        super().__init__(texts[:1], sizes[:1], **layout)
        self.cut_rows = self.cut_tokens = 0  # windows are never cut
        self.questions, self.passages = questions, texts[1]
        self.rows = np.array([entry.passage for entry in questions.entries], dtype=np.int64)
        asked, pieces = (np.asarray(size, dtype=np.int64) - 1 for size in sizes)
        self._check(asked, pieces)
        added = self.input_format.added(2)
        if self.max_positions < added + max_question + 1:
            raise ValueError(
                f"--max-positions {self.max_positions} leaves no room for a passage beside --max-question {max_question} "
                f"pieces and {added} symbols; valid: at least {added + max_question + 1}"
            )
        self.cut_questions = int((asked > max_question).sum())
        self.asked = np.minimum(asked, max_question)
        self.room = self.max_positions - added - self.asked
        self.stride = np.minimum(stride, self.room)
        pieces = pieces[self.rows]
        self.windows = 1 + -(-(pieces - self.room).clip(min=0) // self.stride)
        self.set_rows(self.windows, added + self.asked + np.minimum(pieces, self.room))
        first, last = questions.gold.T
        begin = np.minimum(first // self.stride, self.windows - 1) * self.stride  # of the last window that may hold it
        self.beyond = int(((first >= 0) & (last - begin >= self.room)).sum())

    def _check(self, asked: np.ndarray, pieces: np.ndarray) -> None:
        found = self.questions
        if not len(asked) == len(found.entries) == len(found.gold):
            raise ValueError(f"qa has {len(found.entries)} questions, input0 {len(asked)} rows; valid: as many")
        if not len(pieces) == len(found.passages) == len(found.offsets):
            raise ValueError(
                f"passages has {len(found.passages)} texts, offsets {len(found.offsets)} rows, input1 {len(pieces)}; valid: as many"
            )
        wrong = np.flatnonzero(np.asarray(found.offsets.sizes) != 2 * pieces)
        if len(wrong):
            row = int(wrong[0])
            raise ValueError(
                f"row {row + 1} of offsets has {found.offsets.sizes[row]} numbers for {pieces[row]} pieces of input1; valid: two "
                "per piece"
            )

    def __getitem__(self, index: int) -> Dict[str, Any]:
        index = int(index)
        entry, row, room = self.questions.entries[index], int(self.rows[index]), int(self.room[index])
        asked = self.texts[0][index][: self.asked[index]]
        passage = self.passages[row][:-1]
        first, last = self.questions.gold[index].tolist()
        rows = []
        for number in range(self.windows[index]):
            start = number * int(self.stride[index])
            window = passage[start : start + room]
            made = self.input_format.assemble([asked, window], self.max_positions, self.language)
            whole = start <= first and last < start + len(window)
            shift = made.starts[1] - start
            rows.append(
                {
                    "id": index,
                    "tokens": made.tokens,
                    "target": [first + shift, last + shift] if whole else [NO_ANSWER, NO_ANSWER],
                    "passage": [made.starts[1], len(window), start],
                }
            )
        question = Question(
            entry.name,
            self.questions.passages[row],
            self.questions.offsets[row].numpy(),
            tuple(answer.text for answer in entry.answers),
            self.questions.language,
        )
        return {"id": index, "rows": rows, "question": question}

    def collater(self, samples: List[Dict[str, Any]]) -> Dict[str, Any]:
        """The batch of :class:`RowGroups` over all windows (R,), and what belongs to them.

        target (R, 2) int64: positions of the answer's first and last piece, or twice position 0. passage_start, passage_length
        (R,) int64: where the window's part of the passage is; first_piece (R,) int64: its first piece's number in the passage.
        questions: :class:`Question`, one per item.
        """
        batch = super().collater(samples)
        if batch:
            rows = [row for sample in samples for row in sample["rows"]]
            batch["target"] = torch.tensor([row["target"] for row in rows])
            places = torch.tensor([row["passage"] for row in rows])
            batch["passage_start"], batch["passage_length"], batch["first_piece"] = places.unbind(1)
            batch["questions"] = [sample["question"] for sample in samples]
        return batch
