"""span_qa: what is summed, which answer is chosen, and that F1 and exact match are those of the whole set."""

import dataclasses
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from fairseq.logging import metrics

from fairseq_plugins.understanding.answers import SpanQAConfig, SpanQACriterion, SpanQATask
from tests import nlu_bins as builders
from tests.builders import collated
from tests.reference.question_loops import best_answer, plain_exact, plain_f1

NAME = "valid.en"
QUESTIONS = 14


@pytest.fixture(scope="module")
def task(path):
    """Random questions, about half with several windows; answers of up to four pieces."""
    builders.write_questions(path, NAME, *builders.random_questions(QUESTIONS, seed=5, low=3, high=25))
    cfg = SpanQAConfig(data=str(path), max_positions=20, max_question=4, window_stride=3, max_answer=4, seed=1)
    task = SpanQATask.setup_task(cfg)
    task.load_dataset(NAME)
    return task


@pytest.fixture
def model(task, device):
    """In float64 and evaluation mode; answers come out of other windows than the first as well."""
    result = builders.StandIn(len(task.dictionary))
    result.register_token_head(task.head, 2)
    return result.double().eval().to(device)


def criterion(task):
    return SpanQACriterion(task)


def slow_answers(task, model, device):
    dataset, answers = task.dataset(NAME), []
    for index in range(len(dataset)):
        item, rows = dataset[index], []
        for row in item["rows"]:
            tokens = row["tokens"][None].to(device)
            logits, _ = model(tokens, features_only=True, classification_head_name=task.head)
            rows.append((logits[0].tolist(), *row["window"]))
        _, first, last = best_answer(rows, longest=4)
        text = dataset.questions.passages[int(dataset.rows[index])].split()
        answers.append(" ".join(text[first : last + 1]))
    return answers


def test_loss_is_the_mean_of_start_and_end_over_windows(task, model, device):
    loss, size, logged = criterion(task)(model, collated(task.dataset(NAME), [0, 3, 8], device))
    expected, windows = 0.0, 0
    for index in (0, 3, 8):
        for row in task.dataset(NAME)[index]["rows"]:
            tokens = row["tokens"][None].to(device)
            logits = model(tokens, features_only=True, classification_head_name=task.head)[0][0]
            begin, length, _ = row["window"]
            kept = torch.tensor([0, *range(begin, begin + length)])
            target = [kept.tolist().index(place) for place in row["target"]]
            expected += F.cross_entropy(logits[kept].T, torch.tensor(target, device=device)).item()
            windows += 1
    assert size == logged["sample_size"] == windows > 3
    assert loss.item() == pytest.approx(expected, rel=1e-12)
    assert logged["loss"].item() == loss.item()
    assert logged["nsentences"] == 3 and "f1" in logged
    assert "f1" not in criterion(task)(model.train(), collated(task.dataset(NAME), [0], device))[2]


def test_answers_are_the_loops(task, model, device):
    expected = slow_answers(task, model, device)
    dataset = task.dataset(NAME)
    sample = collated(task.dataset(NAME), list(range(QUESTIONS)), device)
    logits = model(**sample["net_input"], features_only=True, classification_head_name=task.head)[0]
    found = criterion(task).answers(logits, sample)
    assert [text.strip() for text in found] == expected
    places = [dataset.questions.passages[int(dataset.rows[index])].find(expected[index]) for index in range(QUESTIONS)]
    assert max(places) > 20, "answers of later windows too"
    assert max(len(text.split()) for text in expected) > 1


@pytest.mark.parametrize("size", [1, 5])
def test_metrics_are_those_of_the_whole_set(task, model, size, device):
    expected = slow_answers(task, model, device)
    gold = [[answer.text for answer in entry.answers] for entry in task.dataset(NAME).questions.entries]
    f1 = 100 * sum(map(plain_f1, expected, gold)) / QUESTIONS
    exact = 100 * sum(map(plain_exact, expected, gold)) / QUESTIONS
    assert 0 < f1 < 100
    chunks = [list(range(start, min(start + size, QUESTIONS))) for start in range(0, QUESTIONS, size)]
    logs = [criterion(task)(model, collated(task.dataset(NAME), chunk, device))[2] for chunk in chunks]
    for parts in ([logs], [[log] for log in logs]):
        with metrics.aggregate() as found:
            for part in parts:
                SpanQACriterion.reduce_metrics(part)
        values = found.get_smoothed_values()
        assert values["f1"] == pytest.approx(f1, abs=0.006)
        assert values["em"] == pytest.approx(exact, abs=0.006)
        windows = sum(log["sample_size"] for log in logs)
        total = sum(log["loss"].item() for log in logs)
        assert values["loss"] == pytest.approx(total / windows / math.log(2), abs=6e-4)


def test_questions_without_answers_are_not_scored(task, model, device):
    whole, sample = (collated(task.dataset(NAME), [0, 1, 2], device) for _ in range(2))
    sample["questions"][1] = dataclasses.replace(sample["questions"][1], answers=())
    logs = [criterion(task)(model, batch)[2] for batch in (whole, sample, collated(task.dataset(NAME), [1], device))]
    assert [log["questions"] for log in logs] == [3, 2, 1]
    assert logs[1]["f1"] == pytest.approx(logs[0]["f1"] - logs[2]["f1"])
    rows = sample["group"] == 2
    sample["passage_length"][rows] = 0
    sample["questions"][2] = dataclasses.replace(sample["questions"][2], offsets=np.array([], dtype=np.int64))
    assert criterion(task)(model, sample)[2]["questions"] == 2
