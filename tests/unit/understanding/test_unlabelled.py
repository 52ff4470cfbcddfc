"""Test predictions without labels: equal to those with labels, in rows and XTREME's files."""

import json
import shutil

import pytest
import torch
from fairseq import criterions
from fairseq.logging import metrics

from tests import nlu_bins
from tests.nlu_bins import TAGS, StandIn
from tests.unit.common.making import maker

NAME = "test.de"
GRADES = ["0", "1", "3"]
CLASSES = ["no", "yes"]
SENTENCES = nlu_bins.tagged_sentences(9, 4)
OPTIONS = {
    "cross_lingual_classification": {
        "classification_head_name": "head",
        "regression_target": False,
    },
    "token_classification": {"max_positions": 9, "classification_head_name": "head"},
    "relevance_ranking": {},
    "span_qa": {"max_positions": 20, "max_question": 4, "window_stride": 3},
}
CRITERIONS = {"cross_lingual_classification": "sentence_prediction"}
OUTPUTS = {"token_classification": len(TAGS), "relevance_ranking": 3}


@pytest.fixture(scope="module")
def labelled(path):
    """Data-bins with labels."""
    texts = [[piece for pieces, _ in words for piece in pieces] for words in SENTENCES]
    nlu_bins.write_texts(path / "cross_lingual_classification", "input0", NAME, texts)
    classes = [CLASSES[number % 2] for number in range(len(texts))]
    nlu_bins.write_classes(path / "cross_lingual_classification", NAME, classes, CLASSES)
    nlu_bins.write_tagged(path / "token_classification", NAME, SENTENCES)
    nlu_bins.write_questions(path / "span_qa", NAME, *nlu_bins.random_questions(8, 3))
    ranking = nlu_bins.random_ranking(6, 2, GRADES)
    nlu_bins.write_ranking(path / "relevance_ranking", NAME, ranking, GRADES)
    return path


@pytest.fixture
def bare(labelled, tmp_path):
    """Copy the data-bins as data_prep writes them for files without labels."""
    folder = tmp_path / "bare"
    shutil.copytree(labelled, folder)
    for name in ("cross_lingual_classification", "relevance_ranking"):
        for file in (folder / name / "label").glob(f"{NAME}.*"):
            file.unlink()
    without = [[(pieces, None) for pieces, _ in words] for words in SENTENCES]
    nlu_bins.write_tagged(folder / "token_classification", NAME, without)
    questions = folder / f"span_qa/qa/{NAME}.jsonl"
    rows = [json.loads(line) for line in questions.read_text().splitlines()]
    lines = [json.dumps({**row, "answers": []}) + "\n" for row in rows]
    questions.write_text("".join(lines))
    return folder


def make_task(folder, name, **options):
    return maker(name, **OPTIONS[name])(folder / name, **options)


def predict(folder, name, output, **options):
    """Write predictions as fairseq-validate does; return their lines and the logged numbers."""
    task = make_task(folder, name, predictions=str(output), **options)
    cfg = criterions.CRITERION_DATACLASS_REGISTRY[CRITERIONS.get(name, name)]()
    if hasattr(cfg, "classification_head_name"):
        cfg.classification_head_name = "head"
    criterion = criterions.CRITERION_REGISTRY[CRITERIONS.get(name, name)].build_criterion(cfg, task)
    torch.manual_seed(1)
    model = StandIn(len(task.dictionary)).train()
    head = getattr(task.cfg, "classification_head_name", task.head)
    is_token = name in ("token_classification", "span_qa")
    register = model.register_token_head if is_token else model.register_classification_head
    register(head, OUTPUTS.get(name, 2))
    model.classification_heads = {head}  # where the stock criterion looks
    task.load_dataset(NAME)
    batches = task.get_batch_iterator(task.dataset(NAME), max_sentences=3)
    with metrics.aggregate(new_root=True) as numbers:
        steps = batches.next_epoch_itr(shuffle=False)
        task.reduce_metrics(
            [task.valid_step(sample, model, criterion)[2] for sample in steps], criterion
        )
        logged = numbers.get_smoothed_values()
    (file,) = output.iterdir()
    return file, file.read_text(encoding="utf-8").splitlines(), logged


@pytest.mark.parametrize("name", OPTIONS)
def test_predictions_are_those_with_labels(labelled, bare, tmp_path, name):
    _, expected, logged = predict(labelled, name, tmp_path / "a")
    file, lines, nothing = predict(bare, name, tmp_path / "b")
    assert file.stem == NAME and "loss" in logged and not nothing, "no score without labels"
    if name in ("cross_lingual_classification", "relevance_ranking"):
        expected = [line.rpartition("\t")[0] for line in expected]
    elif name == "token_classification":
        expected = [line.rpartition("\t")[0] for line in expected]
        lines = [line.rpartition("\t")[0] for line in lines]
    assert lines == expected and len(lines) > 5


def test_files_of_xtreme(bare, labelled, tmp_path):
    """Every word has a tag, also those that were cut off; an empty line ends a sentence."""
    for folder in (bare, labelled):
        place = tmp_path / folder.name / "x"
        file, classes, _ = predict(
            folder, "cross_lingual_classification", place / "pawsx", predictions_format="xtreme"
        )
        assert file.name == "test-de.tsv" and len(classes) == len(SENTENCES)
        assert set(classes) == set(CLASSES)
        file, lines, _ = predict(
            folder, "token_classification", place / "panx", predictions_format="xtreme"
        )
        assert file.name == "test-de.tsv"
        sentences = "\n".join(lines).removesuffix("\n").split("\n\n")
        tags = [sentence.split("\n") for sentence in sentences]
        assert [len(row) for row in tags] == [len(words) for words in SENTENCES]
        assert {tag for row in tags for tag in row} <= set(TAGS)
        file, lines, _ = predict(folder, "span_qa", place / "xquad", predictions_format="xtreme")
        assert file.name == "test-de.json" and len(json.loads("\n".join(lines))) == 8
    _, rows, _ = predict(labelled, "token_classification", tmp_path / "rows")
    for row, sentence in zip(rows, tags):
        predicted = row.split("\t")[1].split()
        assert sentence[: len(predicted)] == predicted
        assert set(sentence[len(predicted) :]) <= {"O"}
    assert any(len(row.split("\t")[1].split()) < len(words) for row, words in zip(rows, SENTENCES))


@pytest.mark.parametrize("name", OPTIONS)
def test_without_predictions_they_are_refused(bare, name):
    is_missing = name in ("cross_lingual_classification", "relevance_ranking")
    message = (
        "label/test.de.bin is missing"
        if is_missing
        else "test.de: has no labels; valid: .* --predictions"
    )
    for combine in (False, True):
        with pytest.raises(ValueError, match=message):
            make_task(bare, name).load_dataset(NAME, combine=combine)


def test_formats_that_do_not_fit_are_refused(bare, tmp_path):
    with pytest.raises(ValueError, match="--predictions-format xtreme: valid: with --predictions"):
        make_task(bare, "span_qa", predictions_format="xtreme")
    options = {"predictions": str(tmp_path / "x"), "predictions_format": "xtreme"}
    with pytest.raises(ValueError, match="XTREME has no ranking"):
        make_task(bare, "relevance_ranking", **options)
    assert not (tmp_path / "x").exists()
