"""Test OnePairPerBatch: every sentence once, batches of one pair, ids, lengths."""

import pytest
import torch
from fairseq.data import LanguagePairDataset

from fairseq_plugins.sga.many_pairs import OnePairPerBatch
from tests import builders

COUNTS = {"de-en": 7, "fr-en": 3, "ru-en": 5}


def make_pair(count, seed):
    sides = []
    for side_seed in (seed, seed + 5):
        sentences = builders.sentences(count, side_seed)
        rows = [torch.tensor([*row, builders.EOS]) for row in sentences]
        sides += [rows, [len(row) for row in rows], builders.dictionary()]
    return LanguagePairDataset(*sides, left_pad_source=False)


@pytest.fixture
def data():
    pairs = enumerate(COUNTS.items(), start=1)
    return OnePairPerBatch({name: make_pair(count, 10 * seed) for seed, (name, count) in pairs})


@pytest.mark.parametrize("max_sentences", [1, 2, 100])
def test_every_sentence_is_in_one_batch_of_its_pair(data, max_sentences):
    batches = data.batch_by_size(data.ordered_indices(), max_sentences=max_sentences)
    assert sorted(index for batch in batches for index in batch) == list(range(15))
    pairs = set()
    for batch in batches:
        (pair,) = {data[index]["pair"] for index in batch}
        pairs.add(pair)
    assert pairs == set(COUNTS)


def test_a_batch_names_its_pair_and_has_one(data):
    batch = data.collater([data[8], data[7]])
    assert batch["pair"] == "fr-en"
    assert sorted(batch["id"].tolist()) == [7, 8]
    assert data.collater([]) == {}
    with pytest.raises(ValueError, match="too many values"):
        data.collater([data[0], data[7]])


def test_pairs_with_a_long_side_are_left_out(data):
    indices, _ = data.filter_indices_by_size(data.ordered_indices(), (6, 7))
    expected = set()
    for index in range(len(data)):
        if len(data[index]["source"]) <= 6 and len(data[index]["target"]) <= 7:
            expected.add(index)
    assert set(indices) == expected
    assert 0 < len(expected) < 15
