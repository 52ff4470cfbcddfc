"""Criterion ``relevance_ranking``: classes of relevance, and nDCG of each query in validation."""

from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Tuple

import torch
import torch.nn.functional as F
from fairseq.criterions import register_criterion
from fairseq.dataclass import FairseqDataclass
from fairseq.logging import metrics
from torch import Tensor

from ..common.options import check_range, option
from ..common.summed_criterion import SummedCriterion, log_loss, total
from ..scoring.ndcg import ndcg, xglue_ndcg


@dataclass
class RelevanceRankingCriterionConfig(FairseqDataclass):
    ndcg_k: Optional[int] = option(None, "places of a query's ranking that count in nDCG, at least 1 (default: all)")


@register_criterion("relevance_ranking", dataclass=RelevanceRankingCriterionConfig)
class RelevanceRankingCriterion(SummedCriterion):
    """Cross-entropy of the document's grade, a sum over documents in nats; a document's score is its expected grade.

    In validation also nDCG, averaged over queries; those without a document above grade 0 are left out and counted. And
    ``ndcg_xglue``, by XGLUE's rules (see ``scoring.ndcg.xglue_ndcg``), for comparisons with published numbers.

    Source: MT transfer section 2.2 (WPR by nDCG); the loss is ours, since the paper says nothing of it.
    """

    tasks = ("relevance_ranking",)

    def __init__(self, cfg: RelevanceRankingCriterionConfig, task: Any):
        super().__init__(task)
        check_range(cfg, "[1, inf)", "ndcg_k")
        self.k = cfg.ndcg_k
        self.grades, self.head = list(task.grades), task.head

    def forward(self, model: Any, sample: Dict[str, Any], reduce: bool = True) -> Tuple[Tensor, int, Dict[str, Any]]:
        logits, _ = model(**sample["net_input"], features_only=True, classification_head_name=self.head)
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        target = sample["target"]
        loss = F.cross_entropy(logits, target, reduction="sum" if reduce else "none")
        ranked = not model.training and "group" in sample
        sums = self._ranking(logits.detach(), sample) if ranked else {}
        right = (logits.argmax(dim=-1) == target).sum()
        return self.result(loss, len(target), sample, ncorrect=right, **sums)

    def scores(self, logits: Tensor) -> Tensor:
        """Expected grades: (R, grades) logits -> (R,)."""
        return logits.softmax(dim=-1) @ torch.tensor(self.grades, dtype=logits.dtype, device=logits.device)

    def _ranking(self, logits: Tensor, sample: Dict[str, Any]) -> Dict[str, Any]:
        counts = torch.bincount(sample["group"].cpu()).tolist()
        known = torch.tensor(self.grades)
        scores = self.scores(logits).cpu().split(counts)
        labels = known[logits.argmax(dim=-1).cpu()].split(counts)
        grades = known[sample["target"].cpu()].split(counts)
        found = [ndcg(score.numpy(), grade.numpy(), self.k) for score, grade in zip(scores, grades)]
        kept = [value for value in found if value is not None]
        xglue = [value for value in map(xglue_ndcg, labels, grades) if value is not None]
        return {
            "queries": len(kept),
            "ndcg": sum(kept),
            "queries_left_out": len(found) - len(kept),
            "xglue_queries": len(xglue),
            "ndcg_xglue": sum(xglue),
        }

    @classmethod
    def log_sums(cls, logging_outputs: List[Dict[str, Any]]) -> None:
        """Log the loss in bits per document and accuracy; both nDCGs in percent and the queries left out, where there are some."""
        log_loss(logging_outputs)
        parts = [("accuracy", "ncorrect", "sample_size"), ("ndcg", "ndcg", "queries")]
        for name, part, whole in [*parts, ("ndcg_xglue", "ndcg_xglue", "xglue_queries")]:
            size = total(logging_outputs, whole)
            if size or name == "accuracy":
                metrics.log_scalar(name, 100 * total(logging_outputs, part) / max(size, 1), size, round=2)
        if any("queries" in log for log in logging_outputs):
            metrics.log_scalar_sum("queries_left_out", int(total(logging_outputs, "queries_left_out")))
