"""Criterion ``token_classification``: cross-entropy of words; accuracy, and F1 of entities, over the whole set."""

import logging
from dataclasses import dataclass
from typing import Any, Dict, List, Tuple

import torch.nn.functional as F
from fairseq.criterions import register_criterion
from fairseq.dataclass import FairseqDataclass
from fairseq.logging import metrics
from omegaconf import II
from torch import Tensor

from ..common.summed_criterion import SummedCriterion, log_loss, total
from ..ops.entity_spans import sequence_starts, span_counts, tag_scheme, tags_of_spans

logger = logging.getLogger(__name__)

UNSEEN = -1
SPANS = ("spans_right", "spans_predicted", "spans_gold")


@dataclass
class TokenClassificationCriterionConfig(FairseqDataclass):
    """No options of its own: the head's name is the task's."""

    classification_head_name: str = II("task.classification_head_name")


@register_criterion("token_classification", dataclass=TokenClassificationCriterionConfig)
class TokenClassificationCriterion(SummedCriterion):
    """Sum over words in nats; ``sample_size`` is the number of words whose tag is known.

    Logged, in percent and from counts over the whole set: accuracy of words; where every label is ``O`` or has a prefix B-, I-, E-
    or S-, also precision, recall and f1 of entities (all types together), see ``ops.entity_spans.span_ends``. A word whose
    tag is not in label/dict.txt (target -1) has no loss and is wrong: no prediction equals it, and as gold it makes an entity of a
    type of its own that is never found. Words cut off with their pieces are not counted.

    Source: XGLUE and XTREME, accuracy for POS and span F1 for NER.
    """

    tasks = ("token_classification",)

    def __init__(self, cfg: TokenClassificationCriterionConfig, task: Any):
        super().__init__(task)
        self.head = cfg.classification_head_name
        self.scheme = tag_scheme(task.labels)
        marks = tags_of_spans(task.labels)
        if marks and self.scheme is None:
            others = ", ".join(label for label in task.labels if label not in marks and label != "O")
            logger.warning(f"no F1 of entities: labels like {marks[0]} beside {others}, which have no prefix")

    def forward(self, model: Any, sample: Dict[str, Any], reduce: bool = True) -> Tuple[Tensor, Tensor, Dict[str, Any]]:
        logits, _ = model(**sample["net_input"], features_only=True, classification_head_name=self.head)
        target, best = sample["target"], logits.argmax(dim=-1)
        loss = F.cross_entropy(logits.float(), target, ignore_index=UNSEEN, reduction="sum")
        sums = {"words": target.numel(), "words_right": (best == target).sum()}
        if self.scheme is not None:
            counts = span_counts(self.scheme, best, target, sequence_starts(sample["words"], len(target)))
            sums.update(zip(SPANS, (count.sum() for count in counts)))
        return self.result(loss, (target != UNSEEN).sum(), sample, **sums)

    @classmethod
    def log_sums(cls, logging_outputs: List[Dict[str, Any]]) -> None:
        """Log the loss in bits per word, and ratios of counts that are summed over the epoch or the subset."""
        log_loss(logging_outputs)
        _log_sums(logging_outputs, ("words", "words_right"))
        _log_ratio("accuracy", "words_right", "words")
        if any(SPANS[0] in log for log in logging_outputs):
            right, predicted, gold = SPANS
            _log_sums(logging_outputs, SPANS)
            _log_ratio("precision", right, predicted)
            _log_ratio("recall", right, gold)
            _log_ratio("f1", right, predicted, gold)


def _log_sums(logging_outputs: List[Dict[str, Any]], keys: Tuple[str, ...]) -> None:
    """Counts; fairseq shows no name that begins with an underscore."""
    for key in keys:
        metrics.log_scalar_sum(f"_{key}", int(total(logging_outputs, key)))


def _log_ratio(name: str, part: str, *wholes: str) -> None:
    """``part`` over the mean of ``wholes`` in percent, 0 where they are 0; taken when it is shown, from the sums so far."""

    def ratio(meters: Any) -> float:
        whole = sum(meters[f"_{key}"].sum for key in wholes) / len(wholes)
        return round(100.0 * meters[f"_{part}"].sum / whole, 2) if whole else 0.0

    metrics.log_derived(name, ratio)
