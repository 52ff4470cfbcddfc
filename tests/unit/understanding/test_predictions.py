"""Test --predictions: a file per subset in the order of the data; only in validation.

Predictions of classes are tested in tests/learning/test_nlu_learns.py.
"""

import json

import pytest
import torch
from fairseq import criterions
from fairseq.logging import metrics

from tests import nlu_bins
from tests.nlu_bins import TAGS, StandIn
from tests.unit.common.making import maker

NAME = "test.de"
GRADES = ["3", "0", "1"]
TAGGED = nlu_bins.without_tag(nlu_bins.tagged_sentences(9, 4), "B-LOC")


@pytest.fixture(scope="module")
def folder(path):
    nlu_bins.write_tagged(path / "token_classification", NAME, TAGGED)
    nlu_bins.write_questions(path / "span_qa", NAME, *nlu_bins.random_questions(8, 3))
    ranking = nlu_bins.random_ranking(6, 2, GRADES)
    nlu_bins.write_ranking(path / "relevance_ranking", NAME, ranking, GRADES)
    return path


OPTIONS = {
    "token_classification": {"max_positions": 9, "classification_head_name": "head"},
    "relevance_ranking": {},
    "span_qa": {"max_positions": 20, "max_question": 4, "window_stride": 3},
}


def make_task(folder, name, **options):
    return maker(name, **OPTIONS[name])(folder / name, **options)


def make_criterion(name, task):
    head = getattr(task.cfg, "classification_head_name", None)
    options = {"classification_head_name": head} if head else {}
    cfg = criterions.CRITERION_DATACLASS_REGISTRY[name](**options)
    return criterions.CRITERION_REGISTRY[name].build_criterion(cfg, task)


def validate(task, criterion, model):
    """Validate on the subset as fairseq-validate does."""
    task.load_dataset(NAME)
    iterator = task.get_batch_iterator(task.dataset(NAME), max_sentences=3)
    with torch.no_grad(), metrics.aggregate(new_root=True):
        batches = iterator.next_epoch_itr(shuffle=False)
        logs = [task.valid_step(sample, model, criterion)[2] for sample in batches]
        task.reduce_metrics(logs, criterion)
    return task.dataset(NAME)


def logits_of(model, net_input, head):
    with torch.no_grad():
        return model(**net_input, features_only=True, classification_head_name=head)[0]


def read_rows(folder):
    text = (folder / f"{NAME}.tsv").read_text(encoding="utf-8")
    return [line.split("\t") for line in text.splitlines()]


def test_tags_of_words(folder, tmp_path):
    task = make_task(folder, "token_classification", predictions=str(tmp_path))
    model = StandIn(len(task.dictionary)).eval()
    model.register_token_head("head", len(TAGS))
    data, expected = validate(task, make_criterion("token_classification", task), model), []
    for row, words in enumerate(TAGGED):
        best = logits_of(model, data.collater([data[row]])["net_input"], "head").argmax(-1)
        gold = [tag or "<unk>" for _, tag in words][: len(best)]
        expected.append([str(row), " ".join(TAGS[number] for number in best), " ".join(gold)])
    assert read_rows(tmp_path) == expected
    assert any("<unk>" in gold for _, _, gold in expected)
    assert sum(len(gold.split()) for _, _, gold in expected) < sum(map(len, TAGGED))


def test_scores_of_documents(folder, tmp_path):
    task = make_task(folder, "relevance_ranking", predictions=str(tmp_path))
    model = StandIn(len(task.dictionary)).eval()
    model.register_classification_head(task.head, 3)
    data, expected = validate(task, make_criterion("relevance_ranking", task), model), []
    for query in range(len(data)):
        for document in data[query]["rows"]:
            logits = logits_of(model, {"src_tokens": document["tokens"][None]}, task.head)
            score = logits[0].softmax(0) @ torch.tensor([float(grade) for grade in GRADES])
            grade = int(GRADES[document["target"]])
            expected.append([len(expected), pytest.approx(score.item(), abs=2e-6), grade])
    rows = [[int(row), float(score), int(grade)] for row, score, grade in read_rows(tmp_path)]
    assert rows == expected and len({grade for *_, grade in rows}) == 3


def test_answers_to_questions(folder, tmp_path):
    task = make_task(folder, "span_qa", predictions=str(tmp_path))
    criterion = make_criterion("span_qa", task)
    model = StandIn(len(task.dictionary)).eval()
    model.register_token_head(task.head, 2)
    data, expected = validate(task, criterion, model), {}
    for index in range(len(data)):
        sample = data.collater([data[index]])
        logits = logits_of(model, sample["net_input"], task.head)
        expected[f"q3-{index}"] = criterion.answers(logits, sample)[0]
    answers = json.loads((tmp_path / f"{NAME}.json").read_text(encoding="utf-8"))
    assert answers == expected and list(answers) == list(expected)
    assert len(set(answers.values())) > 1


def test_training_several_processes_and_a_file_are_refused(folder, tmp_path):
    output, file = tmp_path / "output", tmp_path / "file"
    task = make_task(folder, "span_qa", predictions=str(output))
    with pytest.raises(ValueError, match="--predictions .*output: .* not in training"):
        task.load_dataset(NAME, combine=True)
    task.load_dataset(NAME)
    with pytest.raises(ValueError, match="--predictions .*output: .* got 2"):
        task.get_batch_iterator(task.dataset(NAME), max_sentences=3, num_shards=2)
    file.write_text("x")
    with pytest.raises(ValueError, match="--predictions .*file: is a file"):
        make_task(folder, "span_qa", predictions=str(file))
    assert list(tmp_path.iterdir()) == [file]
    assert make_task(folder, "span_qa").prediction_files is None
