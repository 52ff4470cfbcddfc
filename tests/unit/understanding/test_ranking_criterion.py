"""Test the criterion of relevance_ranking: its loss, and nDCG of a whole set."""

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
from tests import nlu_bins
from tests.builders import collated

NAME, QUERIES = "valid.en", 12
GRADES = ["3", "0", "1"]  # in the dictionary's order: classes are not grades


@pytest.fixture(scope="module")
def task(path):
    """Twelve queries, the first without a relevant document."""
    ranking = nlu_bins.random_ranking(QUERIES, 4, GRADES)
    nlu_bins.write_ranking(path, NAME, ranking, GRADES)
    cfg = NLUConfig(data=str(path), max_positions=20, seed=1)
    task = RelevanceRankingTask.setup_task(cfg)
    task.load_dataset(NAME)
    return task


@pytest.fixture
def model(task, device):
    encoder = nlu_bins.StandIn(len(task.dictionary))
    encoder.register_classification_head(task.head, 3)
    return encoder.double().eval().to(device)


def make_criterion(task, k=None):
    return RelevanceRankingCriterion(RelevanceRankingCriterionConfig(ndcg_k=k), task)


def test_loss_is_cross_entropy_over_documents(task, model, device):
    criterion, sample = make_criterion(task), collated(task.dataset(NAME), [1, 2, 5], device)
    loss, size, log = criterion(model, sample)
    logits, _ = model(**sample["net_input"], features_only=True, classification_head_name=task.head)
    expected = F.cross_entropy(logits, sample["target"], reduction="sum")
    assert loss.item() == log["loss"].item() == pytest.approx(expected.item(), rel=1e-12)
    assert size == log["sample_size"] == len(logits) and log["nsentences"] == 3
    assert log["ncorrect"] == (logits.argmax(1) == sample["target"]).sum()
    assert "ndcg" in log and "ndcg" not in criterion(model.train(), sample)[2]


@torch.no_grad()
@pytest.mark.parametrize("k", [None, 2])
def test_logged_scores_are_those_of_the_whole_set(task, model, k, device):
    dataset, ndcg, xglue, correct, left_out = task.dataset(NAME), [], [], [], 0
    grade_of_class = np.array([float(grade) for grade in GRADES])
    for index in range(QUERIES):
        scores, grades, labels = [], [], []
        for row in dataset[index]["rows"]:
            tokens = row["tokens"][None].to(device)
            logits = model(tokens, features_only=True, classification_head_name=task.head)[0][0]
            scores.append(logits.softmax(0).cpu().numpy() @ grade_of_class)
            labels.append(grade_of_class[int(logits.argmax())])
            grades.append(grade_of_class[row["target"]])
        correct += np.equal(labels, grades).tolist()
        if len(grades) > 1:
            xglue.append(ndcg_score([grades], [labels]))
        if not any(grades):
            left_out += 1
        elif len(grades) == 1:
            ndcg.append(1.0)
        else:
            ndcg.append(ndcg_score([2.0 ** np.array(grades) - 1], [scores], k=k))
    assert left_out >= 1 and min(ndcg) < 1
    expected = {
        "ndcg": 100 * np.mean(ndcg),
        "ndcg_xglue": 100 * np.mean(xglue),
        "accuracy": 100 * np.mean(correct),
        "queries_left_out": left_out,
    }
    criterion, chunks = make_criterion(task, k), [[0], [1, 2, 3], range(4, QUERIES)]
    logs = [criterion(model, collated(dataset, chunk, device))[2] for chunk in chunks]
    nats, size = (sum(float(log[name]) for log in logs) for name in ("loss", "sample_size"))
    for steps in ([logs], [[log] for log in logs]):  # in several processes; one after the other
        with metrics.aggregate() as meters:
            for step in steps:
                RelevanceRankingCriterion.reduce_metrics(step)
        logged = meters.get_smoothed_values()
        assert {name: logged[name] for name in expected} == pytest.approx(expected, abs=0.006)
        assert logged["loss"] == pytest.approx(nats / size / math.log(2), abs=6e-4)
