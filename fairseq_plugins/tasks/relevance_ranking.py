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
from .nlu.base import class_numbers, labels_of
from .nlu.groups import GroupTask
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

    Source: MT transfer section 2.2 (XGLUE's web page ranking, by nDCG).
    """

    criterions = ("relevance_ranking",)
    cfg: RelevanceRankingConfig
    head = "ranking_head"
    """Sentence head with an output a grade."""

    def __init__(self, *others: Any, **more: Any):
        super().__init__(*others, **more)
        self.grades = self._read_grades()
        """Grade of each class."""

    def _read_grades(self) -> List[int]:
        assert self.label_dictionary is not None
        symbols = labels_of(self.label_dictionary)
        wrong = [symbol for symbol in symbols if not (symbol.isascii() and symbol.isdigit())]
        if wrong or len({int(symbol) for symbol in symbols}) < max(len(symbols), 2):
            raise ValueError(
                f"label/dict.txt: grades {', '.join(symbols) or '(none)'}; valid: two or more different whole numbers, 0 or more"
            )
        return [int(symbol) for symbol in symbols]

    def load_language(self, name: str) -> Any:
        """Documents of one subset: each for itself in training, otherwise by query; logs how many of each there are.

        Raises:
            ValueError: files that are missing or do not fit each other; outside training also no query with a grade above 0.
        """
        texts, sizes = self.inputs(name)
        assert self.label_dictionary is not None
        labels = class_numbers(self.read("label", name, self.label_dictionary), self.label_dictionary, name)
        if self.for_training:
            return LabelledDataset(texts, sizes, labels=labels, **self.layout(name))
        if not (np.asarray(self.grades)[labels] > 0).any():
            raise ValueError(
                f"subset {name}: no document has a grade above 0; valid: at least one, or nDCG means nothing"
            )
        queries = self._read_queries(name)
        dataset = QueryDataset(texts, sizes, labels=labels, queries=queries, **self.layout(name))
        logger.info(f"{name}: {len(queries)} documents; the largest query has {dataset.sizes.max()} tokens")
        return dataset

    def _read_queries(self, name: str) -> List[str]:
        path = os.path.join(self.cfg.data, "group", name + ".txt")
        if not os.path.isfile(path):
            raise ValueError(f"subset {name}: no file {path} with the query of each row")
        with open(path, encoding="utf-8") as lines:
            return [line.rstrip("\n") for line in lines]

    def predicted(self, sample: Dict[str, Any], logits: Any, criterion: Any) -> List[List[Row]]:
        """Row, score, gold grade of each document of a query."""
        scores, grades = (
            criterion.scores(logits).tolist(),
            [self.grades[number] for number in sample["target"].tolist()],
        )
        documents = zip(sample["group"].tolist(), sample["row"].tolist(), scores, grades)
        found: List[List[Row]] = [[] for _ in sample["id"]]
        for query, row, score, grade in documents:
            found[query].append((row, f"{score:.6f}", grade))
        return found

    def build_model(self, cfg: Any, from_checkpoint: bool = False) -> Any:
        """The architecture, with a head of as many outputs as there are grades."""
        model = super().build_model(cfg, from_checkpoint)
        model.register_classification_head(self.head, num_classes=len(self.grades))
        return model
