"""Task ``relevance_ranking``: documents ranked for queries by graded relevance, trained in some languages, tested in others."""

import logging
import os
from dataclasses import dataclass
from typing import Any, Dict, List

import numpy as np
from fairseq.tasks import register_task

from ..data.nlu_dataset import LabelledDataset
from ..data.ranking_dataset import QueryDataset
from .nlu import NLUConfig
from .nlu.group_task import GroupTask
from .nlu.predictions import Row

logger = logging.getLogger(__name__)


@dataclass
class RelevanceRankingConfig(NLUConfig):
    """The shared options."""


@register_task("relevance_ranking", dataclass=RelevanceRankingConfig)
class RelevanceRankingTask(GroupTask):
    """WPR: with the criterion ``relevance_ranking`` and the architecture ``nlu_encoder``.

    Trained on single documents, which are independent under the cross-entropy, so that no query is too long; validated on queries
    with all their documents. There a query counts towards --max-tokens as its documents x its longest one, and towards
    --batch-size as one.

    Attributes:
        grades: grade of each class.

    Source: MT transfer section 2.2 (XGLUE's web page ranking, by nDCG).
    """

    criterions = ("relevance_ranking",)
    cfg: RelevanceRankingConfig
    head = "ranking_head"

    def __init__(self, *others: Any, **more: Any):
        super().__init__(*others, **more)
        wrong = [label for label in self.labels if not (label.isascii() and label.isdigit())]
        if wrong or len({int(label) for label in self.labels}) < max(len(self.labels), 2):
            raise ValueError(
                f"label/dict.txt: grades {', '.join(self.labels) or '(none)'}; valid: two or more different whole numbers, "
                "0 or more"
            )
        self.grades = [int(label) for label in self.labels]

    def load_language(self, name: str) -> Any:
        """Documents of one subset: each for itself in training, otherwise by query; logs how many of each there are."""
        texts, sizes = self.inputs(name)
        labels = self.classes(name)
        if self.for_training:
            return LabelledDataset(texts, sizes, labels=labels, **self.layout(name))
        if not (np.asarray(self.grades)[labels] > 0).any():
            raise ValueError(
                f"subset {name}: no document has a grade above 0; valid: at least one, or nDCG means nothing"
            )
        path = os.path.join(self.cfg.data, "group", name + ".txt")
        if not os.path.isfile(path):
            raise ValueError(f"subset {name}: no file {path} with the query of each row")
        with open(path, encoding="utf-8") as lines:
            queries = [line.rstrip("\n") for line in lines]
        dataset = QueryDataset(texts, sizes, labels=labels, queries=queries, **self.layout(name))
        logger.info(f"{name}: {len(queries)} documents; the largest query has {dataset.sizes.max()} tokens")
        return dataset

    def predicted(self, sample: Dict[str, Any], logits: Any, criterion: Any) -> List[List[Row]]:
        """Row, score, gold grade of each document of a query."""
        found: List[List[Row]] = [[] for _ in sample["id"]]
        columns = (sample["group"], sample["row"], criterion.scores(logits), sample["target"])
        for query, row, score, gold in zip(*(column.tolist() for column in columns)):
            found[query].append((row, f"{score:.6f}", self.grades[gold]))
        return found

    def add_head(self, model: Any) -> None:
        model.register_classification_head(self.head, num_classes=len(self.grades))
