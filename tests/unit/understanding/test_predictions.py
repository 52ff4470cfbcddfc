"""--predictions: a file a subset in the order of the data, whatever the batches; never in training or in several processes."""

import json

import pytest
import torch
from fairseq import criterions
from fairseq.logging import metrics

from tests import builders, nlu_bins
from tests.nlu_bins import TAGS, TinyTagger
from tests.unit.common.making import maker

LABELS = ["no", "yes", "maybe"]
GRADES = ["3", "0", "1"]
GOLD = [LABELS[number * 7 % 3] for number in range(11)]
TAGGED = nlu_bins.tagged_sentences(9, 4)
UNKNOWN = [[(pieces, None if tag == "B-LOC" else tag) for pieces, tag in words] for words in TAGGED]


@pytest.fixture(scope="module")
def folder(path):
    nlu_bins.write_texts(path / "classes", "input0", "test.de", builders.sentences(11, 1))
    nlu_bins.write_classes(path / "classes", "test.de", GOLD, LABELS)
    nlu_bins.write_tagged(path / "tags", "test.de", UNKNOWN)
    nlu_bins.write_questions(path / "qa", "test.de", *nlu_bins.random_questions(8, 3))
    nlu_bins.write_ranking(path / "wpr", "test.de", nlu_bins.random_ranking(6, 2, GRADES), GRADES)
    return path


SUBSETS = {
    "cross_lingual_classification": ("classes", {"classification_head_name": "head", "regression_target": False}),
    "token_classification": ("tags", {"max_positions": 9}),
    "relevance_ranking": ("wpr", {}),
    "span_qa": ("qa", {"max_positions": 20, "max_question": 4, "window_stride": 3}),  # some have several windows
}
CRITERIONS = {"cross_lingual_classification": "sentence_prediction"}


def made(folder, name, **options):
    subset, given = SUBSETS[name]
    task, kind = maker(name, **given)(folder / subset, **options), CRITERIONS.get(name, name)
    head = "head" if kind != name else getattr(task.cfg, "classification_head_name", None)
    own = criterions.CRITERION_DATACLASS_REGISTRY[kind](**({"classification_head_name": head} if head else {}))
    return task, criterions.CRITERION_REGISTRY[kind].build_criterion(own, task)


def validate(task, criterion, model, name="test.de", **more):
    task.load_dataset(name, combine=False)
    iterator = task.get_batch_iterator(task.dataset(name), max_sentences=3, **more)
    with torch.no_grad(), metrics.aggregate(new_root=True):
        logged = [task.valid_step(sample, model, criterion)[2] for sample in iterator.next_epoch_itr(shuffle=False)]
        task.reduce_metrics(logged, criterion)


def logits_of(model, net_input, head):
    with torch.no_grad():
        return model(**net_input, features_only=True, classification_head_name=head)[0]


def lines(path):
    return [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]


def test_tags_of_words(folder, tmp_path):
    task, criterion = made(folder, "token_classification", predictions=str(tmp_path))
    model = TinyTagger(len(task.dictionary)).eval()
    model.register_token_head("token_classification_head", len(TAGS))
    validate(task, criterion, model)
    data, expected = task.dataset("test.de"), []
    for row, words in enumerate(UNKNOWN):
        found = logits_of(model, data.collater([data[row]])["net_input"], "token_classification_head").argmax(-1)
        gold = [tag or "<unk>" for _, tag in words][: len(found)]
        expected.append([str(row), " ".join(TAGS[number] for number in found), " ".join(gold)])
    assert lines(tmp_path / "test.de.tsv") == expected
    assert any("<unk>" in gold for _, _, gold in expected)
    assert sum(len(gold.split()) for _, _, gold in expected) < sum(map(len, TAGGED))


def test_scores_of_documents(folder, tmp_path):
    task, criterion = made(folder, "relevance_ranking", predictions=str(tmp_path))
    model = nlu_bins.StandIn(len(task.dictionary)).eval()
    model.register_classification_head(task.head, 3)
    validate(task, criterion, model)
    data, expected = task.dataset("test.de"), []
    for query in range(len(data)):
        for document in data[query]["rows"]:
            chances = logits_of(model, {"src_tokens": document["tokens"][None]}, task.head)[0].softmax(0).tolist()
            score = sum(chance * int(grade) for chance, grade in zip(chances, GRADES))
            expected.append([len(expected), pytest.approx(score, abs=2e-6), int(GRADES[document["target"]])])
    found = [[int(row), float(score), int(grade)] for row, score, grade in lines(tmp_path / "test.de.tsv")]
    assert found == expected and len({row[2] for row in found}) == 3


def test_answers_to_questions(folder, tmp_path):
    task, criterion = made(folder, "span_qa", predictions=str(tmp_path))
    model = nlu_bins.StandIn(len(task.dictionary)).eval()
    model.register_token_head(task.head, 2)
    validate(task, criterion, model)
    data, expected = task.dataset("test.de"), {}
    for index in range(len(data)):
        sample = data.collater([data[index]])
        logits = logits_of(model, sample["net_input"], task.head)
        expected[f"q3-{index}"] = criterion.answers(logits, sample)[0]
    found = json.loads((tmp_path / "test.de.json").read_text(encoding="utf-8"))
    assert found == expected and list(found) == list(expected) and len(set(found.values())) > 1


@pytest.mark.parametrize("name", SUBSETS)
def test_training_and_several_processes_are_refused(folder, tmp_path, name):
    task, _ = made(folder, name, predictions=str(tmp_path / "made"))
    with pytest.raises(ValueError, match=r"--predictions .*made: valid with fairseq-validate, not in training"):
        task.load_dataset("test.de", combine=True)
    task.load_dataset("test.de")
    with pytest.raises(ValueError, match=r"--predictions .*made: valid in one process; got 2"):
        task.get_batch_iterator(task.dataset("test.de"), max_sentences=3, num_shards=2)
    (tmp_path / "file").write_text("x")
    with pytest.raises(ValueError, match=r"--predictions .*file: is a file; valid: a folder"):
        made(folder, name, predictions=str(tmp_path / "file"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file"]
    assert made(folder, name)[0].prediction_files is None
