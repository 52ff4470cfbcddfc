"""token_classification: words and tags as they reach the model, the head, what is logged, every error."""

import logging

import pytest

from tests import nlu_bins
from tests.builders import BOS, EOS, PAD
from tests.unit.tasks.making import load, maker

SENTENCES = [[([11, 12], "B-PER"), ([13], "I-PER"), ([14], "O")], [([15], "O"), ([16, 17], "O"), ([18], "O")]]
SENTENCES.append([([19], "B-LOC")])
setup = maker("token_classification", classification_head_name="token_classification_head")


@pytest.fixture(scope="module")
def folder(path):
    """English, German and a French test set with a tag that training has not."""
    nlu_bins.write_tagged(path, "train.en", SENTENCES)
    nlu_bins.write_tagged(path, "train.de", SENTENCES[::-1])
    nlu_bins.write_tagged(path, "test.fr", [[([20, 21], None), ([22], "O")], [([23], None), ([24], None)]])
    return path


def test_words_and_tags_reach_the_batch(folder):
    task = setup(folder)
    data = load(task, "train.en")
    batch = data.collater([data[index] for index in range(3)])
    select = batch["net_input"]["select"]
    assert batch["net_input"]["src_tokens"][select].tolist() == [11, 13, 14, 15, 16, 18, 19]
    assert [task.labels[number] for number in batch["target"]] == ["B-PER", "I-PER", "O", "O", "O", "O", "B-LOC"]
    assert batch["words"].tolist() == [3, 3, 1]
    assert batch["net_input"]["src_tokens"][2].tolist() == [BOS, 19, EOS, *[PAD] * 3]


def test_unseen_tags_are_a_warning_and_refused_in_training(folder, caplog):
    caplog.set_level(logging.INFO)
    load(setup(folder), "train.en")
    assert "subset" not in caplog.text
    data = load(setup(folder), "test.fr")
    assert "test.fr: most frequent tag O, 25.0 % of all words" in caplog.messages, "words of unseen tags are words"
    (warning,) = (message for message in caplog.messages if "subset" in message)
    assert "subset test.fr: 3 of 4 words have a tag that label/dict.txt lacks" in warning
    assert data[0]["target"].tolist() == [-1, 0]
    with pytest.raises(ValueError, match=r"test\.fr: 3 of 4 .*valid in --train-subset: O, B-PER, I-PER, B-LOC, I-LOC"):
        setup(folder).load_dataset("test.fr", combine=True)
