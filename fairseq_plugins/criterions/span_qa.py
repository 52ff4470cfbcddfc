"""Criterion ``span_qa``: start and end of the answer, and SQuAD's F1 and exact match in validation."""

import math
from dataclasses import dataclass
from typing import Any, Dict, List, Tuple

from fairseq.criterions import FairseqCriterion, register_criterion
from fairseq.dataclass import FairseqDataclass
from fairseq.logging import metrics
from torch import Tensor

from ..ops.answer_spans import best_rows, best_spans, outside_passage, span_losses
from ..scoring.squad import answer_f1, exact_match


@dataclass
class SpanQACriterionConfig(FairseqDataclass):
    """No options: the length of an answer is the task's --max-answer."""


@register_criterion("span_qa", dataclass=SpanQACriterionConfig)
class SpanQACriterion(FairseqCriterion):
    """Mean cross-entropy of start and end, a sum over windows in nats.

    In validation also the answer to each question: the span of at most ``max_answer`` pieces, inside the passage's part of one
    window, with the best sum of logits over all windows. Each question has an answer, as in SQuAD 1.1: a file's questions
    without one are not scored.

    Args:
        cfg: nothing.
        task: ``span_qa``.

    Raises:
        ValueError: another task.

    Source: Devlin et al. 2019, section 4.2; MT transfer has no extractive question answering.
    """

    tasks = ("span_qa",)

    def __init__(self, cfg: SpanQACriterionConfig, task: Any):
        super().__init__(task)
        if not hasattr(task.cfg, "max_answer"):
            raise ValueError(f"--criterion span_qa needs --task span_qa; got {type(task).__name__}")
        self.max_answer, self.head = task.cfg.max_answer, task.head

    def forward(self, model: Any, sample: Dict[str, Any], reduce: bool = True) -> Tuple[Tensor, int, Dict[str, Any]]:
        """Loss of a batch in nats, the number of windows, and what is logged."""
        logits, _ = model(**sample["net_input"], features_only=True, classification_head_name=self.head)
        outside = self.outside(logits, sample)
        losses = span_losses(logits, outside, sample["target"])
        loss = losses.sum() if reduce else losses
        windows = len(losses)
        logged = {
            "loss": loss.detach(),
            "ntokens": sample["ntokens"],
            "nsentences": sample["nsentences"],
            "sample_size": windows,
        }
        if not model.training:
            logged.update(self._scores(sample, self.answers(logits, outside, sample)))
        return loss, windows, logged

    @staticmethod
    def outside(logits: Tensor, sample: Dict[str, Any]) -> Tensor:
        """(R, S) bool, True = not the passage's part of the window."""
        return outside_passage(logits.size(1), sample["passage_start"], sample["passage_length"])

    def answers(self, logits: Tensor, outside: Tensor, sample: Dict[str, Any]) -> List[str]:
        """The answer to each question of a batch.

        Args:
            logits: (R, S, 2) of start and end.
            outside: (R, S) bool, True = not the passage.
            sample: of :class:`QuestionDataset`.
        """
        questions = sample["questions"]
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

    @staticmethod
    def reduce_metrics(logging_outputs: List[Dict[str, Any]]) -> None:
        """Log the loss in bits per window; f1 and em in percent of the questions, where they were computed."""
        windows = sum(log.get("sample_size", 0) for log in logging_outputs)
        total = sum(float(log.get("loss", 0)) for log in logging_outputs)
        metrics.log_scalar("loss", total / max(windows, 1) / math.log(2), windows, round=3)
        questions = sum(log.get("questions", 0) for log in logging_outputs)
        for name in ("f1", "em") if questions else ():
            total = sum(float(log.get(name, 0)) for log in logging_outputs)
            metrics.log_scalar(name, 100 * total / questions, questions, round=2)

    @staticmethod
    def logging_outputs_can_be_summed() -> bool:
        """Every logged value is a sum."""
        return True
