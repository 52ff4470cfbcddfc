"""relevance_ranking: the loss, the expected grade, and nDCG of the whole set."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from fairseq.logging import metrics
from sklearn.metrics import ndcg_score

from fairseq_plugins.understanding.ranking import (
    RelevanceRankingCriterion,
    RelevanceRankingCriterionConfig,
    RelevanceRankingTask,
)
from fairseq_plugins.understanding.task import NLUConfig
from tests import nlu_bins as builders
from tests.builders import collated

NAME, QUERIES = "valid.en", 12
GRADES = ["3", "0", "1"]  # in the dictionary's order: classes are not grades


@pytest.fixture(scope="module")
def task(path):
    """Twelve queries, the first without a relevant document."""
    builders.write_ranking(path, NAME, builders.random_ranking(QUERIES, 4, GRADES), GRADES)
    task = RelevanceRankingTask.setup_task(NLUConfig(data=str(path), max_positions=20, seed=1))
    task.load_dataset(NAME)
    return task


@pytest.fixture
def model(task, device):
    result = builders.StandIn(len(task.dictionary))
    result.register_classification_head(task.head, 3)
    return result.double().eval().to(device)


def criterion(task, k=None):
    return RelevanceRankingCriterion(RelevanceRankingCriterionConfig(ndcg_k=k), task)


def test_loss_is_cross_entropy_of_documents(task, model, device):
    sample = collated(task.dataset(NAME), [1, 2, 5], device)
    loss, size, logged = criterion(task)(model, sample)
    logits = model(**sample["net_input"], features_only=True, classification_head_name=task.head)[0]
    assert loss.item() == pytest.approx(F.cross_entropy(logits, sample["target"]).item() * len(logits), rel=1e-12)
    assert size == logged["sample_size"] == len(logits)
    assert logged["ncorrect"] == (logits.argmax(1) == sample["target"]).sum()
    assert (logged["nsentences"], logged["loss"].item()) == (3, loss.item())
    assert "ndcg" in logged and "ndcg" not in criterion(task)(model.train(), sample)[2]


@pytest.mark.parametrize("k", [None, 2])
def test_ndcg_is_that_of_the_whole_set(task, model, k, device):
    dataset, expected, right, left_out, xglue = task.dataset(NAME), [], [], 0, []
    model.requires_grad_(False)
    for index in range(QUERIES):
        scores, grades, labels = [], [], []
        for row in dataset[index]["rows"]:
            logits = model(row["tokens"][None].to(device), features_only=True, classification_head_name=task.head)[0][0]
            scores.append(float(logits.softmax(0) @ torch.tensor([3.0, 0.0, 1.0], dtype=torch.float64, device=device)))
            grades.append(int(GRADES[row["target"]]))
            right.append(logits.argmax().item() == row["target"])
            labels.append(int(GRADES[int(logits.argmax())]))
        if len(grades) > 1:
            xglue.append(ndcg_score([grades], [labels]))
        if not any(grades):
            left_out += 1
        else:
            gains = [2.0**grade - 1 for grade in grades]
            expected.append(ndcg_score([gains], [scores], k=k) if len(grades) > 1 else 1.0)
    assert left_out >= 1 and min(expected) < 1
    chunks = [[0], [1, 2, 3], list(range(4, QUERIES))]
    logs = [criterion(task, k)(model, collated(task.dataset(NAME), chunk, device))[2] for chunk in chunks]
    for parts in ([logs], [[log] for log in logs]):
        with metrics.aggregate() as found:
            for part in parts:
                RelevanceRankingCriterion.reduce_metrics(part)
        values = found.get_smoothed_values()
        assert values["ndcg"] == pytest.approx(100 * np.mean(expected), abs=0.006)
        assert values["ndcg_xglue"] == pytest.approx(100 * np.mean(xglue), abs=0.006)
        assert values["accuracy"] == pytest.approx(100 * np.mean(right), abs=0.006)
        assert values["queries_left_out"] == left_out
        total, size = (sum(float(log[name]) for log in logs) for name in ("loss", "sample_size"))
        assert values["loss"] == pytest.approx(total / size / math.log(2), abs=6e-4)
