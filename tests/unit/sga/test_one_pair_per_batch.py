"""OnePairPerBatch: every sentence once, batches of one pair, ids, lengths."""

import pytest
import torch
from fairseq.data import LanguagePairDataset

from fairseq_plugins.sga.many_pairs import OnePairPerBatch
from tests import builders

COUNTS = {"de-en": 7, "fr-en": 3, "ru-en": 5}


def pairs(name):
    seed = 10 * (1 + list(COUNTS).index(name))
    sides = []
    for offset in (0, 5):
        rows = [
            torch.tensor([*row, builders.EOS])
            for row in builders.sentences(COUNTS[name], seed + offset)
        ]
        sides.append((rows, [len(row) for row in rows], builders.dictionary()))
    return LanguagePairDataset(*sides[0], *sides[1], left_pad_source=False)


@pytest.fixture
def data():
    return OnePairPerBatch({name: pairs(name) for name in COUNTS})


@pytest.mark.parametrize("max_sentences", [1, 2, 100])
def test_every_sentence_is_in_one_batch_and_every_batch_of_one_pair(data, max_sentences):
    found = data.batch_by_size(data.ordered_indices(), max_sentences=max_sentences)
    assert sorted(index for batch in found for index in batch) == list(range(15))
    names = [{data[index]["pair"] for index in batch} for batch in found]
    assert {len(name) for name in names} == {1}
    assert {name for each in names for name in each} == set(COUNTS)


def test_a_batch_names_its_pair_and_two_pairs_are_no_batch(data):
    batch = data.collater([data[8], data[7]])
    assert batch["pair"] == "fr-en"
    assert sorted(batch["id"].tolist()) == [7, 8]
    assert data.collater([]) == {}
    with pytest.raises(ValueError, match="too many values"):
        data.collater([data[0], data[7]])


def test_what_is_too_long_on_either_side_is_left_out(data):
    limit = (6, 7)
    kept = set(data.filter_indices_by_size(data.ordered_indices(), limit)[0])
    sizes = [(len(data[index]["source"]), len(data[index]["target"])) for index in range(len(data))]
    assert kept == {
        index
        for index, (source, target) in enumerate(sizes)
        if source <= limit[0] and target <= limit[1]
    }
    assert 0 < len(kept) < 15
