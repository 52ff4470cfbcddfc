"""token_classification: words and tags as they reach the model, the head, what is logged, every error."""

import logging
from pathlib import Path
from typing import Any, List

import pytest
from fairseq.tasks import FairseqTask
from omegaconf import OmegaConf

from fairseq_plugins.data.language_mixture import LanguageMixture
from fairseq_plugins.tasks.token_classification import TokenClassificationConfig, TokenClassificationTask
from tests import nlu_bins
from tests.builders import BOS, EOS, MASK, PAD
from tests.nlu_bins import TAGS, Word

HEAD = "token_classification_head"
SENTENCES: List[List[Word]] = [
    [([11, 12], "B-PER"), ([13], "I-PER"), ([14], "O")],
    [([15], "O"), ([16, 17], "O"), ([18], "O")],
    [([19], "B-LOC")],
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """English, German and a French test set with a tag that training has not."""
    path = tmp_path_factory.mktemp("tagged")
    nlu_bins.write_tagged(path, "train.en", SENTENCES)
    nlu_bins.write_tagged(path, "train.de", SENTENCES[::-1])
    nlu_bins.write_tagged(path, "test.fr", [[([20, 21], None), ([22], "O")], [([23], None), ([24], None)]])
    return path


def setup(folder: Path, **options: Any) -> TokenClassificationTask:
    """As the trainer does."""
    defaults = {"data": str(folder), "seed": 1, "classification_head_name": HEAD, "train_subset": "train.en,train.de"}
    task = TokenClassificationTask.setup_task(TokenClassificationConfig(**{**defaults, **options}))
    assert isinstance(task, TokenClassificationTask)
    return task


def load(task: TokenClassificationTask, split: str = "train.en") -> Any:
    """The split's dataset."""
    task.load_dataset(split)
    return task.dataset(split)


def test_words_and_tags_reach_the_batch(folder: Path) -> None:
    task = setup(folder)
    data = load(task)
    batch = data.collater([data[index] for index in range(3)])
    select = batch["net_input"]["select"]
    assert batch["net_input"]["src_tokens"][select].tolist() == [11, 13, 14, 15, 16, 18, 19]
    assert [task.labels[number] for number in batch["target"]] == ["B-PER", "I-PER", "O", "O", "O", "O", "B-LOC"]
    assert batch["words"].tolist() == [3, 3, 1]
    assert batch["net_input"]["src_tokens"][2].tolist() == [BOS, 19, EOS, *[PAD] * 3]


def test_options_reach_the_dataset(folder: Path) -> None:
    task = setup(folder, input_format="mbart50", langs="en_XX,de_DE", max_positions=4, seed=9)
    data = load(task, "train.de")
    assert data[1]["tokens"].tolist() == [MASK + 1, 15, 16, EOS]
    assert data[1]["target"].tolist() == [0, 0]
    assert (data.seed, data.cut_words) == (9, 3)


def test_only_the_first_text_is_read(folder: Path, tmp_path: Path) -> None:
    nlu_bins.write_tagged(tmp_path, "train.en", SENTENCES)
    nlu_bins.write_texts(tmp_path, "input1", "train.en", [[5], [6], [7]])
    assert load(setup(tmp_path))[2]["tokens"].tolist() == [BOS, 19, EOS]


def test_several_languages_are_mixed(folder: Path) -> None:
    data = load(setup(folder), "train.en,train.de")
    assert isinstance(data, LanguageMixture)
    batch = data.collater([data[index] for index in range(6)])
    source = batch["net_input"]["src_tokens"]
    found = sorted(zip(source[batch["net_input"]["select"]].tolist(), batch["target"].tolist()))
    once = [(11, 1), (13, 2), (14, 0), (15, 0), (16, 0), (18, 0), (19, 3)]
    assert found == sorted([*once, *once])
    assert sorted(batch["words"].tolist()) == [1, 1, 3, 3, 3, 3]


def test_the_model_gets_a_token_head_of_the_name_given(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: List[Any] = []

    def build(self: Any, *arguments: Any) -> Any:
        asked.append(arguments)
        return nlu_bins.TinyTagger()

    monkeypatch.setattr(FairseqTask, "build_model", build)
    model = setup(folder, classification_head_name="ner").build_model("cfg", True)
    assert {name: head.out_features for name, head in model.token_heads.items()} == {"ner": len(TAGS)}
    assert asked == [("cfg", True)]


def test_words_and_the_most_frequent_tag_are_logged(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    load(setup(folder))
    assert "train.en: 7 words" in caplog.messages
    assert "train.en: most frequent tag O, 57.1 % of all words" in caplog.messages
    caplog.clear()
    load(setup(folder, max_positions=4))
    assert "train.en: 4 words; 3 more are cut off with their pieces" in caplog.messages
    assert "train.en: 3 rows, 2 cut to 4 tokens (4 pieces lost)" in caplog.messages


def test_unseen_tags_are_counted_in_a_warning(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    data = load(setup(folder), "test.fr")
    assert "test.fr: most frequent tag O, 25.0 % of all words" in caplog.messages, "words of unseen tags are words"
    warnings = [record.getMessage() for record in caplog.records if "subset" in record.getMessage()]
    assert len(warnings) == 1
    assert "subset test.fr: 3 of 4 words have a tag that label/dict.txt lacks" in warnings[0]
    assert data[0]["target"].tolist() == [-1, 0]
    caplog.clear()
    load(setup(folder))
    assert not [record for record in caplog.records if record.levelno == logging.WARNING]


def test_unseen_tags_in_training_are_refused(folder: Path) -> None:
    with pytest.raises(ValueError, match=r"test\.fr: 3 of 4 .*valid in --train-subset: O, B-PER, I-PER, B-LOC, I-LOC"):
        load(setup(folder, train_subset="train.en,test.fr"), "test.fr")


def test_a_label_dictionary_without_tags_is_refused(folder: Path, tmp_path: Path) -> None:
    nlu_bins.write_tagged(tmp_path, "train.en", [[]], labels=())
    with pytest.raises(ValueError, match=r"label/dict\.txt: is empty"):
        setup(tmp_path).build_model("cfg")


def test_rows_that_do_not_fit_are_named(folder: Path, tmp_path: Path) -> None:
    nlu_bins.write_tagged(tmp_path, "test.de", SENTENCES)
    nlu_bins.write_rows(tmp_path / "label", "test.de", [[5, PAD, 6, 4], [4, 4, PAD], [7]])
    with pytest.raises(ValueError, match=r"subset test\.de: row 2 has 3 tags in label and 4 pieces in input0"):
        load(setup(tmp_path), "test.de")


def test_a_hydra_configuration_is_read_as_well(folder: Path) -> None:
    given = {"data": str(folder), "seed": 1, "classification_head_name": HEAD, "train_subset": "train.en"}
    cfg = OmegaConf.merge(OmegaConf.structured(TokenClassificationConfig), OmegaConf.create(given))
    task = TokenClassificationTask.setup_task(cfg)
    assert load(task)[0]["target"].tolist() == [1, 2, 0]
