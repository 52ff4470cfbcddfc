"""Criterion ``span_qa``: start and end of the answer, and SQuAD's F1 and exact match in validation."""

from dataclasses import dataclass
from typing import Any, Dict, List, Tuple

from fairseq.criterions import register_criterion
from fairseq.dataclass import FairseqDataclass
from fairseq.logging import metrics
from torch import Tensor

from ..common.summed_criterion import SummedCriterion, log_loss, total
from ..ops.answer_spans import best_rows, best_spans, outside_passage, span_losses
from ..scoring.squad import answer_f1, exact_match


@dataclass
class SpanQACriterionConfig(FairseqDataclass):
    """No options: the length of an answer is the task's --max-answer."""


@register_criterion("span_qa", dataclass=SpanQACriterionConfig)
class SpanQACriterion(SummedCriterion):
    """Mean cross-entropy of start and end, a sum over windows in nats.

    In validation also the answer to each question: the span of at most ``max_answer`` pieces, inside the passage's part of one
    window, with the best sum of logits over all windows. Questions without a gold answer are not scored.

    Source: Devlin et al. 2019, section 4.2; MT transfer has no extractive question answering.
    """

    tasks = ("span_qa",)

    def __init__(self, cfg: SpanQACriterionConfig, task: Any):
        super().__init__(task)
        self.max_answer, self.head = task.cfg.max_answer, task.head

    def forward(self, model: Any, sample: Dict[str, Any], reduce: bool = True) -> Tuple[Tensor, int, Dict[str, Any]]:
        logits, _ = model(**sample["net_input"], features_only=True, classification_head_name=self.head)
        outside = outside_passage(logits.size(1), sample["passage_start"], sample["passage_length"])
        losses = span_losses(logits, outside, sample["target"])
        scores = {} if model.training else self._scores(sample, self.answers(logits, sample))
        return self.result(losses.sum() if reduce else losses, len(losses), sample, **scores)

    def answers(self, logits: Tensor, sample: Dict[str, Any]) -> List[str]:
        """The answer to each question of a batch of :class:`QuestionDataset`; logits: (R, S, 2) of start and end."""
        questions = sample["questions"]
        outside = outside_passage(logits.size(1), sample["passage_start"], sample["passage_length"])
        scores, first, last = best_spans(logits, outside, self.max_answer)
        rows = best_rows(scores, sample["group"], len(questions))
        shift = sample["first_piece"][rows] - sample["passage_start"][rows]
        pieces = zip((first[rows] + shift).tolist(), (last[rows] + shift).tolist())
        return [question.text(*span) for question, span in zip(questions, pieces)]

    @staticmethod
    def _scores(sample: Dict[str, Any], answers: List[str]) -> Dict[str, Any]:
        pairs = [(question, answer) for question, answer in zip(sample["questions"], answers) if question.answers]
        return {
            "questions": len(pairs),
            "f1": sum(answer_f1(answer, question.answers, question.language) for question, answer in pairs),
            "em": sum(exact_match(answer, question.answers, question.language) for question, answer in pairs),
        }

    @classmethod
    def log_sums(cls, logging_outputs: List[Dict[str, Any]]) -> None:
        """Log the loss in bits per window; f1 and em in percent of the questions, where they were computed."""
        log_loss(logging_outputs)
        questions = total(logging_outputs, "questions")
        for name in ("f1", "em") if questions else ():
            metrics.log_scalar(name, 100 * total(logging_outputs, name) / questions, questions, round=2)
