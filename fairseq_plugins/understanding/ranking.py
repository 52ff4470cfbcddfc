"""Documents ranked for queries by graded relevance (WPR), with nDCG of each query."""

import logging
import os
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np
import torch
import torch.nn.functional as F
from fairseq.criterions import register_criterion
from fairseq.dataclass import FairseqDataclass
from fairseq.logging import metrics
from fairseq.tasks import register_task
from torch import Tensor

from ..common.options import check_range, option
from ..common.summed_criterion import SummedCriterion, log_loss, total
from .groups import GroupTask, RowGroups, log_mean
from .inputs import InputOptions, check_rows
from .predictions import Cells
from .sentences import LabelledDataset, read_classes
from .task import NLUConfig

logger = logging.getLogger(__name__)


class QueryDataset(RowGroups, LabelledDataset):
    """Queries with all their documents, each document an input with a class.

    Args:
        queries: (rows,) id of the query of each document; those of a query are adjacent.
    """

    def __init__(
        self,
        texts: Sequence[Any],
        options: InputOptions,
        labels: Optional[np.ndarray],
        queries: Sequence[str],
    ):
        super().__init__(texts, options, labels)
        check_rows({"group": len(queries), "input0": len(self.sizes)})
        self.starts = _query_starts(queries)
        self.ends: List[int] = [*self.starts[1:], len(queries)]
        counts = np.subtract(self.ends, self.starts)
        self.lengths = self.sizes  # tokens of the longest document of each query
        if len(queries):
            self.lengths = np.maximum.reduceat(self.sizes, self.starts)
        self.set_rows(counts, self.lengths)

    def __getitem__(self, index: int) -> Dict[str, Any]:
        rows = range(self.starts[int(index)], self.ends[int(index)])
        return {"id": int(index), "rows": [LabelledDataset.__getitem__(self, row) for row in rows]}

    def ordered_indices(self) -> np.ndarray:
        """Sort by the longest document, then by size, which leaves little padding. (N,)."""
        return np.lexsort((self.sizes, self.lengths))


def _query_starts(queries: Sequence[str]) -> List[int]:
    """List the first row of each query; raise ValueError if its rows are not adjacent."""
    starts: List[int] = []
    names = set()
    for row, query in enumerate(queries):
        if row and query == queries[row - 1]:
            continue
        if query in names:
            raise ValueError(
                f"line {row + 1} of group: query {query} again; valid: its rows are adjacent"
            )
        names.add(query)
        starts.append(row)
    return starts


@register_task("relevance_ranking", dataclass=NLUConfig)
class RelevanceRankingTask(GroupTask):
    """Ranking with the criterion ``relevance_ranking``.

    Training reads single documents, which are independent under the cross-entropy, so that no query
    is too long. Validation reads queries with all their documents: a query counts towards
    --max-tokens as its documents times its longest one, and towards --batch-size as one.

    Attributes:
        grades: grade of each class.

    Source: MT transfer section 2.2 (XGLUE's web page ranking, by nDCG).
    """

    criterions = ("relevance_ranking",)
    head = "ranking_head"
    has_submission = False

    def __init__(self, *args: Any, **options: Any):
        super().__init__(*args, **options)
        malformed = [label for label in self.labels if not (label.isascii() and label.isdigit())]
        if malformed or len({int(label) for label in self.labels}) < max(len(self.labels), 2):
            raise ValueError(
                f"label/dict.txt: grades {', '.join(self.labels) or '(none)'}; valid: two or more "
                "different whole numbers, 0 or more"
            )
        self.grades = [int(label) for label in self.labels]

    def load_language(self, name: str) -> Any:
        """Load the documents of a subset: singly in training, by query otherwise."""
        texts, options = self.inputs(name), self.input_options(name)
        labels = read_classes(self, name)
        if self.for_training:
            return LabelledDataset(texts, options, labels)
        if labels is not None and not (np.asarray(self.grades)[labels] > 0).any():
            raise ValueError(
                f"subset {name}: no document has a grade above 0; valid: at least one, or nDCG "
                "means nothing"
            )
        path = os.path.join(self.cfg.data, "group", name + ".txt")
        if not os.path.isfile(path):
            raise ValueError(f"subset {name}: no file {path} with the query of each row")
        with open(path, encoding="utf-8") as lines:
            queries = [line.rstrip("\n") for line in lines]
        dataset = QueryDataset(texts, options, labels, queries)
        largest = dataset.sizes.max()
        logger.info(f"{name}: {len(queries)} documents; the largest query has {largest} tokens")
        return dataset

    def add_head(self, model: Any) -> None:
        """Register a sentence head with a class per grade."""
        model.register_classification_head(self.head, num_classes=len(self.grades))

    def predicted(self, sample: Dict[str, Any], logits: Any, criterion: Any) -> List[List[Cells]]:
        """Return for each query a row per document: its number, score and, if known, its grade."""
        rows: List[List[Cells]] = [[] for _ in sample["id"]]
        grades: List[Cells] = [()] * len(sample["row"])
        if "target" in sample:
            grades = [(self.grades[gold],) for gold in sample["target"].tolist()]
        columns = (sample["group"], sample["row"], criterion.scores(logits))
        for query, row, score, grade in zip(*(column.tolist() for column in columns), grades):
            rows[query].append((row, f"{score:.6f}", *grade))
        return rows


@dataclass
class RelevanceRankingCriterionConfig(FairseqDataclass):
    """Options of ``relevance_ranking``."""

    ndcg_k: Optional[int] = option(
        None,
        "places of a query's ranking that count in ndcg, at least 1 (default: all). Logged are "
        "ndcg (score: expected grade; gain: 2^grade - 1; queries without a positive grade are left "
        "out) and ndcg_xglue, as XGLUE evaluates WPR (score: predicted grade; gain: grade; such "
        "queries count 0; all places)",
    )


@register_criterion("relevance_ranking", dataclass=RelevanceRankingCriterionConfig)
class RelevanceRankingCriterion(SummedCriterion):
    """Cross-entropy of a document's grade; its score is the expected grade.

    The loss is a sum over documents in nats. Validation also logs nDCG averaged over queries;
    queries without a document above grade 0 are left out and counted. ``ndcg_xglue`` follows
    XGLUE's rules, for comparisons with published numbers; see :func:`xglue_ndcg`.

    Source: MT transfer section 2.2 (WPR by nDCG); the loss is ours, the paper states none.
    """

    tasks = ("relevance_ranking",)

    def __init__(self, cfg: RelevanceRankingCriterionConfig, task: Any):
        super().__init__(task)
        check_range(cfg, "[1, inf)", "ndcg_k")
        self.k = cfg.ndcg_k
        self.grades, self.head = torch.tensor(task.grades), task.head

    def forward(
        self, model: Any, sample: Dict[str, Any], reduce: bool = True
    ) -> Tuple[Tensor, int, Dict[str, Any]]:
        """Compute the loss of a batch of documents, and nDCG of whole queries in validation."""
        logits, _ = model(
            **sample["net_input"], features_only=True, classification_head_name=self.head
        )
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))  # R grades
        target = sample["target"]
        loss = F.cross_entropy(logits, target, reduction="sum" if reduce else "none")
        sums: Dict[str, Any] = {"ncorrect": (logits.argmax(dim=-1) == target).sum()}
        if not model.training and "group" in sample:
            sums.update(self._rank(logits.detach(), sample))
        return self.result(loss, len(target), sample, **sums)

    def scores(self, logits: Tensor) -> Tensor:
        """Compute expected grades. (R, grades) logits -> (R,)."""
        return logits.softmax(dim=-1) @ self.grades.to(logits)

    def _rank(self, logits: Tensor, sample: Dict[str, Any]) -> Dict[str, Any]:
        """Sum nDCG over the queries of a batch, whose rows are sorted by query."""
        counts = torch.bincount(sample["group"].cpu()).tolist()
        scores = self.scores(logits).cpu().split(counts)
        labels = self.grades[logits.argmax(dim=-1).cpu()].split(counts)
        grades = self.grades[sample["target"].cpu()].split(counts)
        by_score = [ndcg(score, gold, self.k) for score, gold in zip(scores, grades)]
        by_label = [xglue_ndcg(label, gold) for label, gold in zip(labels, grades)]
        ndcgs = [number for number in by_score if number is not None]
        xglue_ndcgs = [number for number in by_label if number is not None]
        return {
            "queries": len(ndcgs),
            "ndcg": sum(ndcgs),
            "queries_left_out": len(by_score) - len(ndcgs),
            "xglue_queries": len(xglue_ndcgs),
            "ndcg_xglue": sum(xglue_ndcgs),
        }

    @classmethod
    def log_sums(cls, logging_outputs: List[Dict[str, Any]]) -> None:
        """Log the loss in bits per document, accuracy and nDCG in percent, queries left out."""
        log_loss(logging_outputs)
        log_mean(logging_outputs, "accuracy", "ncorrect", "sample_size")
        for name, queries in (("ndcg", "queries"), ("ndcg_xglue", "xglue_queries")):
            if total(logging_outputs, queries):
                log_mean(logging_outputs, name, name, queries)
        if any("queries" in log for log in logging_outputs):
            left_out = total(logging_outputs, "queries_left_out")
            metrics.log_scalar_sum("queries_left_out", int(left_out))


def ndcg(scores: Any, grades: Any, k: Optional[int] = None) -> Optional[float]:
    """Compute nDCG of a query: the gain in the order of the scores over that of the best order.

    A document of grade g at place i (from 1) gains (2^g - 1) / log2(i + 1). Documents of equal
    score share the mean gain of their places, so that their order in the data does not matter.

    Args:
        scores, grades: (documents,); grades are 0 or more.
        k: places that count; None = all.

    Returns:
        A number in [0, 1]; None if all grades are 0, since all orders are equal.

    Source: Järvelin and Kekäläinen 2002; Burges et al. 2005 (the gain); McSherry and Najork 2008
    (ties).
    """
    return _normalised_gain(scores, np.exp2(np.asarray(grades, dtype=np.float64)) - 1.0, k)


def xglue_ndcg(labels: Any, grades: Any) -> Optional[float]:
    """Compute nDCG as XGLUE's evaluation of WPR does.

    Differs from :func:`ndcg`: a document's score is its predicted grade (``labels``), the gain is
    the grade itself, a query whose documents all have grade 0 counts as 0, and a query of a single
    document is left out (None).

    Source: Liang et al. 2020 (XGLUE), WPR, and its released evaluation.
    """
    if len(grades) < 2:
        return None
    gain = _normalised_gain(labels, np.asarray(grades, dtype=np.float64), None)
    return 0.0 if gain is None else gain


def _normalised_gain(scores: Any, gains: Any, k: Optional[int]) -> Optional[float]:
    """Compute the discounted gain of the order by score over that of the best order.

    Documents of equal score (a tie) share the mean discount of their places. None without gains.
    """
    discounts = 1.0 / np.log2(np.arange(len(gains)) + 2.0)
    if k is not None:
        discounts[k:] = 0.0
    best = float(np.sort(gains)[::-1] @ discounts)
    descending = -np.asarray(scores, dtype=np.float64)
    _, tie, sizes = np.unique(descending, return_inverse=True, return_counts=True)
    ends = np.cumsum(sizes)
    summed_discounts = np.concatenate(([0.0], np.cumsum(discounts)))
    mean_discounts = (summed_discounts[ends] - summed_discounts[ends - sizes]) / sizes  # per tie
    return None if best <= 0.0 else float(np.bincount(tie, weights=gains) @ mean_discounts) / best
