"""Task ``span_qa``: answers that are spans of a passage, trained in some languages, tested in others."""

import logging
import os
from dataclasses import dataclass
from typing import Any, Dict, List, Optional

from fairseq.dataclass.constants import ChoiceEnum
from fairseq.tasks import register_task

from ..common.options import check_range, option
from ..data.question_dataset import QuestionDataset, QuestionSet
from ..data.question_files import place_answers, read_passages, read_questions
from .nlu import NLUConfig
from .nlu.group_task import GroupTask
from .nlu.languages import language_of
from .nlu.predictions import Row
from .nlu.understanding import COMMAND

logger = logging.getLogger(__name__)

NAMED = 5
NORMALISATIONS: Any = ChoiceEnum(["language", "squad"])


@dataclass
class SpanQAConfig(NLUConfig):
    """The shared options, and what a window and an answer are."""

    max_question: int = option(64, "pieces of a question, at most; longer ones are cut")
    window_stride: int = option(
        128,
        "pieces from the start of a window of the passage to the start of the next (not their overlap); at most what a window "
        "holds is used. A question counts towards --max-tokens as its windows x its longest window",
    )
    max_answer: int = option(30, "pieces of a predicted answer, at most")
    answer_normalisation: NORMALISATIONS = option(
        "language",
        "before answers are compared: language = Unicode punctuation and the articles of the subset's language, Chinese by "
        "character, as MLQA's evaluation; squad = SQuAD v1.1's (English articles) in every language, as XTREME scores XQuAD and "
        "TyDiQA",
    )


@register_task("span_qa", dataclass=SpanQAConfig)
class SpanQATask(GroupTask):
    """XQuAD, MLQA, TyDiQA: with the criterion ``span_qa`` and the architecture ``nlu_encoder``.

    Long passages are read in overlapping windows; an item of a batch is a question with all of them.

    Source: XTREME (Hu et al. 2020), section 3: extractive question answering as in Devlin et al. 2019, section 4.2.
    """

    criterions = ("span_qa",)
    cfg: SpanQAConfig
    prediction_ending = "json"
    has_labels = False
    head = "span_head"

    @classmethod
    def setup_task(cls, cfg: Any, **kwargs: Any) -> Any:
        """The base's checks; ValueError also for --max-question, --window-stride or --max-answer below 1."""
        check_range(cfg, "[1, inf)", "max_question", "window_stride", "max_answer")
        return super().setup_task(cfg, **kwargs)

    def load_language(self, name: str) -> QuestionDataset:
        """Questions and windows of one subset; logs how many there are and what was cut."""
        texts = [self.read("input0", name), self.read("input1", name)]
        passages = read_passages(os.path.join(self.cfg.data, "passages", name + ".jsonl"))
        entries = read_questions(os.path.join(self.cfg.data, "qa", name + ".jsonl"), len(passages))
        offsets = self.read("offsets", name, numbers=True)
        if len(offsets) != len(passages):
            raise ValueError(
                f"subset {name}: offsets has {len(offsets)} rows, passages {len(passages)}; valid: as many"
            )
        gold, lost = place_answers(entries, passages, offsets)
        self._report(
            name,
            lost,
            "is not at its place in the passage",
            "their loss is that of no answer, f1 and em compare with its text",
        )
        without = [entry.name for entry in entries if not entry.answers]
        self._report(name, without, "is missing", "they have no part in f1 and em")
        found = QuestionSet(entries, passages, offsets, gold, self._answer_language(name))
        sizes = [text.sizes for text in texts]
        dataset = QuestionDataset(
            texts, sizes, found, self.cfg.max_question, self.cfg.window_stride, **self.layout(name)
        )
        logger.info(
            f"{name}: {dataset.windows.sum()} windows of at most {dataset.longest} tokens, {dataset.cut_questions} questions "
            f"cut to {self.cfg.max_question} pieces, {dataset.beyond} answers in no window whole"
        )
        return dataset

    def _report(self, name: str, questions: List[str], wrong: str, done: str) -> None:
        """Refuse questions in training, otherwise say what is done with them."""
        if not questions:
            return
        some = ", ".join(questions[:NAMED]) + (", …" if len(questions) > NAMED else "")
        found = f"{name}: the first answer of {len(questions)} questions {wrong}: {some}"
        if self.for_training:
            raise ValueError(f"{found}; valid: training data without them, as {COMMAND} writes it")
        logger.warning(f"{found}; {done}")

    def _answer_language(self, name: str) -> Optional[str]:
        """The language in which answers are compared; None: as SQuAD."""
        if str(self.cfg.answer_normalisation) == "squad":
            return None
        language = language_of(name)
        if not language and not self.for_training:
            raise ValueError(
                f"subset {name} names no language for --answer-normalisation language; valid: a subset named as {name}.en, or "
                "--answer-normalisation squad"
            )
        return language.split("_")[0].lower()

    def predicted(self, sample: Dict[str, Any], logits: Any, criterion: Any) -> List[List[Row]]:
        """A question's id and the answer that is scored."""
        answers = criterion.answers(logits, sample)
        return [[(question.name, answer)] for question, answer in zip(sample["questions"], answers)]

    def add_head(self, model: Any) -> None:
        model.register_token_head(self.head, num_classes=2)
