"""Test the span_qa criterion: its loss, the answers it chooses, F1 and exact match of a set."""

import dataclasses

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from fairseq.logging import metrics

from fairseq_plugins.understanding.answers import SpanQAConfig, SpanQACriterion, SpanQATask
from tests import nlu_bins
from tests.builders import collated
from tests.reference.question_loops import best_answer, plain_exact, plain_f1

NAME = "valid.en"
QUESTIONS = 14


@pytest.fixture(scope="module")
def task(path):
    """Random questions, about half with several windows; answers of up to four pieces."""
    questions = nlu_bins.random_questions(QUESTIONS, seed=5, low=3, high=25)
    nlu_bins.write_questions(path, NAME, *questions)
    limits = {"max_positions": 20, "max_question": 4, "window_stride": 3, "max_answer": 4}
    task = SpanQATask.setup_task(SpanQAConfig(data=str(path), seed=1, **limits))
    task.load_dataset(NAME)
    return task


@pytest.fixture
def model(task, device):
    """A tiny encoder in float64 and evaluation mode."""
    encoder = nlu_bins.StandIn(len(task.dictionary))
    encoder.register_token_head(task.head, 2)
    return encoder.double().eval().to(device)


@pytest.fixture
def criterion(task):
    return SpanQACriterion(task)


def logits_of(model, task, row, device):
    """Logits (S, 2) of one window alone."""
    tokens = row["tokens"][None].to(device)
    return model(tokens, features_only=True, classification_head_name=task.head)[0][0]


def test_loss_is_the_mean_of_start_and_end_over_windows(task, model, criterion, device):
    loss, size, log = criterion(model, collated(task.dataset(NAME), [0, 3, 8], device))
    expected, windows = 0.0, 0
    for index in (0, 3, 8):
        for row in task.dataset(NAME)[index]["rows"]:
            begin, length, _ = row["window"]
            positions = [0, *range(begin, begin + length)]
            target = torch.tensor([positions.index(end) for end in row["target"]], device=device)
            logits = logits_of(model, task, row, device)[positions]
            expected += F.cross_entropy(logits.T, target).item()
            windows += 1
    assert size == log["sample_size"] == windows > 3
    assert loss.item() == log["loss"].item() == pytest.approx(expected, rel=1e-12)
    assert log["nsentences"] == 3 and "f1" in log
    training_log = criterion(model.train(), collated(task.dataset(NAME), [0], device))[2]
    assert "f1" not in training_log


def test_answers_and_scores_equal_slow_loops(task, model, criterion, device):
    dataset, expected, starts = task.dataset(NAME), [], []
    for index in range(QUESTIONS):
        windows = [
            (logits_of(model, task, row, device).tolist(), *row["window"])
            for row in dataset[index]["rows"]
        ]
        _, first, last = best_answer(windows, longest=4)
        words = dataset.questions.passages[int(dataset.rows[index])].split()
        expected.append(" ".join(words[first : last + 1]))
        starts.append(first)
    assert max(starts) > 14, "answers in later windows too"
    assert max(len(text.split()) for text in expected) > 1
    sample = collated(dataset, range(QUESTIONS), device)
    logits, _ = model(**sample["net_input"], features_only=True, classification_head_name=task.head)
    assert [text.strip() for text in criterion.answers(logits, sample)] == expected

    gold = [[answer.text for answer in entry.answers] for entry in dataset.questions.entries]
    f1, exact = (sum(map(score, expected, gold)) for score in (plain_f1, plain_exact))
    assert 0 < f1 < QUESTIONS
    chunks = [range(1), range(1, 6), range(6, QUESTIONS)]
    logs = [criterion(model, collated(dataset, chunk, device))[2] for chunk in chunks]
    with metrics.aggregate(new_root=True) as meters:
        SpanQACriterion.reduce_metrics(logs[:1])
        SpanQACriterion.reduce_metrics(logs[1:])  # of two processes
    logged = meters.get_smoothed_values()
    assert logged["f1"] == pytest.approx(100 * f1 / QUESTIONS, abs=0.006)
    assert logged["em"] == pytest.approx(100 * exact / QUESTIONS, abs=0.006)


def test_questions_without_answers_or_passage_are_not_scored(task, model, criterion, device):
    full, sample = (collated(task.dataset(NAME), [0, 1, 2], device) for _ in range(2))
    sample["questions"][1] = dataclasses.replace(sample["questions"][1], answers=())
    single = collated(task.dataset(NAME), [1], device)
    logs = [criterion(model, batch)[2] for batch in (full, sample, single)]
    assert [log["questions"] for log in logs] == [3, 2, 1]
    assert logs[1]["f1"] == pytest.approx(logs[0]["f1"] - logs[2]["f1"])
    sample["passage_length"][sample["group"] == 2] = 0
    no_offsets = np.array([], dtype=np.int64)
    sample["questions"][2] = dataclasses.replace(sample["questions"][2], offsets=no_offsets)
    assert criterion(model, sample)[2]["questions"] == 2
