"""Test token_classification: words and tags of a batch, unseen tags, cut sentences."""

import logging

import numpy as np
import pytest

from fairseq_plugins.understanding.inputs import InputFormat, InputOptions
from fairseq_plugins.understanding.tags import UNSEEN, TaggingDataset, read_tags
from tests import nlu_bins
from tests.builders import BOS, EOS, PAD
from tests.nlu_bins import TAGS
from tests.unit.common.making import load, maker

SENTENCES = [
    [([11, 12], "B-PER"), ([13], "I-PER"), ([14], "O")],
    [([15], "O"), ([16, 17], "O"), ([18], "O")],
    [([19], "B-LOC")],
]
UNSEEN_TAGS = [[([20, 21], None), ([22], "O")], [([23], None), ([24], None)]]
make_task = maker("token_classification", classification_head_name="head")


@pytest.fixture(scope="module")
def folder(path):
    """An English training set, and a French test set with tags that training has not."""
    nlu_bins.write_tagged(path, "train.en", SENTENCES)
    nlu_bins.write_tagged(path, "test.fr", UNSEEN_TAGS)
    return path


def test_words_and_tags_of_a_batch(folder):
    task = make_task(folder)
    data = load(task, "train.en")
    batch = data.collater([data[index] for index in range(3)])
    tokens, select = (batch["net_input"][name] for name in ("src_tokens", "select"))
    assert tokens[select].tolist() == [11, 13, 14, 15, 16, 18, 19]
    tags = [task.labels[number] for number in batch["target"]]
    assert tags == ["B-PER", "I-PER", "O", "O", "O", "O", "B-LOC"]
    assert batch["words"].tolist() == [3, 3, 1]
    assert tokens[2].tolist() == [BOS, 19, EOS, *[PAD] * 3]


def test_unseen_tags_are_a_warning_and_refused_in_training(folder, caplog):
    caplog.set_level(logging.INFO)
    load(make_task(folder), "train.en")
    assert "subset" not in caplog.text
    data = load(make_task(folder), "test.fr")
    # Words with unseen tags count as words.
    assert "test.fr: most frequent tag O, 25.0 % of all words" in caplog.messages
    (warning,) = (message for message in caplog.messages if "subset" in message)
    assert "subset test.fr: 3 of 4 words" in warning
    assert data[0]["target"].tolist() == [UNSEEN, 0]
    with pytest.raises(ValueError, match=r"test\.fr: 3 of 4 .*O, B-PER, I-PER, B-LOC, I-LOC"):
        make_task(folder).load_dataset("test.fr", combine=True)


# ---- Dataset. ----


UNK, OUT, B_PER, I_PER, B_LOC = 3, 4, 5, 6, 7
LABELS = [[B_PER, PAD, I_PER, OUT, PAD, PAD], [OUT], [], [B_LOC, PAD, UNK]]
PIECES = [[11, 12, 13, 14, 15, 16], [17], [], [18, 19, 20]]


def read(labels):
    rows = [np.array(row, dtype=np.int64) for row in labels]
    counts = [len(row) for row in PIECES]
    return read_tags(rows, counts, nlu_bins.label_dictionary(TAGS), "test.de")


def dataset(max_positions=50, name="xlmr", language=None):
    text = nlu_bins.Rows([*row, EOS] for row in PIECES)
    options = InputOptions(InputFormat(name, BOS, EOS), max_positions, PAD, 1, language)
    return TaggingDataset(text, options, read(LABELS))


@pytest.mark.parametrize("name", ["mbart", "mbart50"])
def test_the_symbol_of_the_language_shifts_the_words(name):
    """It is the last token or the first one."""
    data = dataset(name=name, language=77)
    first_pieces = [
        item["tokens"][item["places"]].tolist() for item in map(data.__getitem__, range(4))
    ]
    assert first_pieces == [[11, 13, 14], [17], [], [18, 20]]


@pytest.mark.cases(
    "limit targets cut_words cut_rows unseen",
    (8, [[1, 2, 0], [0], [], [3, UNSEEN]], 0, 0, 1),
    (6, [[1, 2, 0], [0], [], [3, UNSEEN]], 0, 1, 1),  # a word that loses its end keeps its tag
    (5, [[1, 2], [0], [], [3, UNSEEN]], 1, 1, 1),
    (4, [[1], [0], [], [3]], 3, 2, 0),
)
def test_words_are_cut_with_their_first_piece(limit, targets, cut_words, cut_rows, unseen):
    data = dataset(limit)
    items = [data[index] for index in range(4)]
    assert [item["target"].tolist() for item in items] == targets
    assert [len(item["places"]) for item in items] == [len(target) for target in targets]
    assert max(len(item["tokens"]) for item in items) <= limit
    assert (data.cut_words, data.cut_rows, data.unseen) == (cut_words, cut_rows, unseen)
    assert data.words == 6 - cut_words


@pytest.mark.cases(
    "row labels message",
    (4, [[OUT, OUT]], "test.de: row 4 has 2 tags in label and 3 pieces"),
    (4, [[OUT, OUT, EOS]], "row 4 has 2 tags in label and 3 pieces"),
    (2, [[]], "row 2 has 0 tags in label and 1 pieces"),
    (4, [[OUT, EOS, OUT]], "test.de: row 4 of label has </s>"),
    (1, [[BOS, *LABELS[0][1:]]], "row 1 of label has <s>"),
    (4, [], "label/test.de has 3 rows, input0/test.de has 4 rows"),
)
def test_rows_that_do_not_fit_are_named(row, labels, message):
    with pytest.raises(ValueError, match=message):
        read([*LABELS[: row - 1], *labels, *LABELS[row:]])
