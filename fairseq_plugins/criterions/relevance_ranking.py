"""Criterion ``relevance_ranking``: classes of relevance, and nDCG of each query in validation."""

import math
from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional, Tuple

import torch
import torch.nn.functional as F
from fairseq.criterions import FairseqCriterion, register_criterion
from fairseq.dataclass import FairseqDataclass
from fairseq.logging import metrics
from torch import Tensor

from ..scoring.ndcg import ndcg, xglue_ndcg


@dataclass
class RelevanceRankingCriterionConfig(FairseqDataclass):
    """Options of the criterion."""

    ndcg_k: Optional[int] = field(
        default=None, metadata={"help": "places of a query's ranking that count in nDCG, at least 1 (default: all)"}
    )


@register_criterion("relevance_ranking", dataclass=RelevanceRankingCriterionConfig)
class RelevanceRankingCriterion(FairseqCriterion):
    """Cross-entropy of the document's grade, a sum over documents in nats; a document's score is its expected grade.

    In validation also nDCG, averaged over queries; those without a document above grade 0 are left out and counted. And
    ``ndcg_xglue``, by XGLUE's rules (see :func:`..scoring.ndcg.xglue_ndcg`), for comparisons with published numbers.

    Raises:
        ValueError: --ndcg-k below 1, or another task than ``relevance_ranking``.

    Source: MT transfer section 2.2 (WPR by nDCG); the loss is ours, since the paper says nothing of it.
    """

    tasks = ("relevance_ranking",)

    def __init__(self, cfg: RelevanceRankingCriterionConfig, task: Any):
        super().__init__(task)
        if not hasattr(task, "grades"):
            raise ValueError(f"--criterion relevance_ranking needs --task relevance_ranking; got {type(task).__name__}")
        if cfg.ndcg_k is not None and cfg.ndcg_k < 1:
            raise ValueError(f"--ndcg-k must be at least 1; got {cfg.ndcg_k}")
        self.k = cfg.ndcg_k
        self.grades, self.head = list(task.grades), task.head

    def forward(self, model: Any, sample: Dict[str, Any], reduce: bool = True) -> Tuple[Tensor, int, Dict[str, Any]]:
        """Loss of a batch in nats, the number of documents, and what is logged."""
        logits, _ = model(**sample["net_input"], features_only=True, classification_head_name=self.head)
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        target = sample["target"]
        loss = F.cross_entropy(logits, target, reduction="sum" if reduce else "none")
        documents = len(target)
        logged = {
            "loss": loss.detach(),
            "ntokens": sample["ntokens"],
            "nsentences": sample["nsentences"],
            "sample_size": documents,
            "ncorrect": (logits.argmax(dim=-1) == target).sum(),
        }
        if not model.training and "group" in sample:
            logged.update(self._ranking(logits, sample))
        return loss, documents, logged

    def scores(self, logits: Tensor) -> Tensor:
        """Expected grades: (R, grades) logits -> (R,)."""
        return logits.softmax(dim=-1) @ torch.tensor(self.grades, dtype=logits.dtype, device=logits.device)

    def _ranking(self, logits: Tensor, sample: Dict[str, Any]) -> Dict[str, Any]:
        scores, group = self.scores(logits.detach()).cpu(), sample["group"].cpu()
        grades = torch.tensor(self.grades)[sample["target"].cpu()]
        counts = torch.bincount(group).tolist()
        found = [
            ndcg(score.numpy(), grade.numpy(), self.k)
            for score, grade in zip(scores.split(counts), grades.split(counts))
        ]
        kept = [value for value in found if value is not None]
        labels = torch.tensor(self.grades)[logits.detach().argmax(dim=-1).cpu()]
        pairs = zip(labels.split(counts), grades.split(counts))
        xglue = [value for value in (xglue_ndcg(*pair) for pair in pairs) if value is not None]
        return {
            "queries": len(kept),
            "ndcg": sum(kept),
            "queries_left_out": len(found) - len(kept),
            "xglue_queries": len(xglue),
            "ndcg_xglue": sum(xglue),
        }

    @staticmethod
    def reduce_metrics(logging_outputs: List[Dict[str, Any]]) -> None:
        """Log the loss in bits per document and accuracy; both nDCGs in percent and the queries left out, where there are some."""

        def total(name: str) -> float:
            return sum(float(log.get(name, 0)) for log in logging_outputs)

        documents, queries = total("sample_size"), total("queries")
        metrics.log_scalar("loss", total("loss") / max(documents, 1) / math.log(2), documents, round=3)
        metrics.log_scalar("accuracy", 100 * total("ncorrect") / max(documents, 1), documents, round=2)
        if queries:
            metrics.log_scalar("ndcg", 100 * total("ndcg") / queries, queries, round=2)
        if total("xglue_queries"):
            metrics.log_scalar(
                "ndcg_xglue", 100 * total("ndcg_xglue") / total("xglue_queries"), total("xglue_queries"), round=2
            )
        if any("queries" in log for log in logging_outputs):
            metrics.log_scalar_sum("queries_left_out", int(total("queries_left_out")))

    @staticmethod
    def logging_outputs_can_be_summed() -> bool:
        """Every logged value is a sum."""
        return True
