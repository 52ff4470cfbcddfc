"""Several languages in one run: shares, what an epoch holds, items and batches."""

import logging

import numpy as np
import pytest
import torch

from fairseq_plugins.data.language_mixture import LanguageMixture
from fairseq_plugins.data.nlu_dataset import LabelledDataset
from fairseq_plugins.data.nlu_inputs import InputFormat
from tests.builders import BOS, EOS, PAD

SIZES = {"train.en": 64, "train.de": 16, "train.fr": 4}


def part(count, first):
    """Row n holds n pieces (at most 5), then one that no other row has; its class is n."""
    rows = [torch.tensor([9] * (number % 5) + [first + number, EOS]) for number in range(count)]
    sizes = np.array([len(row) for row in rows])
    return LabelledDataset([rows], [sizes], InputFormat("xlmr", BOS, EOS), 50, PAD, 1, labels=np.arange(count))


def mixture(temperature=1.0, seed=1, sizes=SIZES):
    """Parts whose pieces begin at 100, 200, 300."""
    parts = {name: part(count, 100 * (number + 1)) for number, (name, count) in enumerate(sizes.items())}
    return LanguageMixture(parts, temperature, seed)


def marks(data):
    """The piece that tells each item of an epoch apart, in the order of the items."""
    return [int(data[index]["tokens"][-2]) for index in range(len(data))]


def counts(data):
    """Items of each part."""
    return np.bincount([mark // 100 - 1 for mark in marks(data)], minlength=3).tolist()


def test_natural_proportions_hold_every_item_once():
    data = mixture()
    assert len(data) == 84
    assert sorted(marks(data)) == [*range(100, 164), *range(200, 216), *range(300, 304)]


def test_a_temperature_makes_shares_more_equal():
    """84 items by the square roots 8 : 4 : 2 of 14 are 48, 24, 12; equal shares are 28 each."""
    data = mixture(2.0)
    assert data.probabilities == pytest.approx([4 / 7, 2 / 7, 1 / 7])
    assert counts(data) == [48, 24, 12]
    found = marks(data)
    assert len(set(found)) == 48 + 16 + 4, "every item of a small part before any again"
    assert counts(mixture(float("inf"))) == [28, 28, 28]


def test_an_epoch_is_a_function_of_seed_and_epoch():
    def drawn(seed, epoch):
        data = mixture(2.0, seed)
        data.set_epoch(epoch)
        return marks(data)

    assert drawn(1, 2) == drawn(1, 2)
    assert drawn(1, 1) == marks(mixture(2.0))
    assert drawn(1, 1) != drawn(1, 2)
    assert drawn(1, 1) != drawn(2, 1)
    data = mixture(2.0)
    for epoch in (2, 3, 2):
        data.set_epoch(epoch)
    assert marks(data) == drawn(1, 2), "epochs in between leave no trace"


def test_items_are_those_of_the_parts_under_numbers_of_their_own():
    data = mixture()
    for index in (0, 50, 83):
        item, mark = data[index], marks(data)[index]
        assert item["id"] == index
        assert item["target"] == mark % 100
        assert len(item["tokens"]) == (mark % 100) % 5 + 3 == data.size(index) == data.num_tokens(index)
    batch = data.collater([data[83], data[0]])
    assert batch["id"].tolist() == [83, 0]
    assert batch["target"].tolist() == [marks(data)[83] % 100, marks(data)[0] % 100]
    assert data.num_tokens_vec(np.array([5, 3])).tolist() == [data.size(5), data.size(3)]


def test_sizes_follow_the_epoch():
    data = mixture(3.0)
    for epoch in (1, 2):
        data.set_epoch(epoch)
        assert data.sizes.tolist() == [len(data[index]["tokens"]) for index in range(len(data))]


def test_the_order_is_by_size_and_of_the_epoch():
    data = mixture()
    orders = []
    for epoch in (1, 2):
        data.set_epoch(epoch)
        order = data.ordered_indices()
        assert sorted(order.tolist()) == list(range(84))
        assert np.all(np.diff(data.sizes[order]) >= 0)
        orders.append([marks(data)[index] for index in order])
    assert orders[0] != orders[1]
    assert not data.can_reuse_epoch_itr_across_epochs


def test_the_epoch_reaches_the_parts():
    data = mixture()
    data.set_epoch(7)
    assert [found.epoch for found in data.parts] == [7, 7, 7]


def test_shares_are_logged(caplog):
    caplog.set_level(logging.INFO)
    mixture(2.0)
    assert "sampling temperature 2: train.en 0.5714, train.de 0.2857, train.fr 0.1429" in caplog.text


def test_an_empty_part_is_refused():
    parts = {"train.en": part(3, 100), "train.xx": part(0, 200)}
    with pytest.raises(ValueError, match="train.xx: no rows; leave it out of --train-subset"):
        LanguageMixture(parts, 1.0, 1)
