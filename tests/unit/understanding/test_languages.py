"""Several languages in one run: shares, what an epoch holds, items and batches."""

import numpy as np
import pytest

from fairseq_plugins.understanding.inputs import InputFormat, InputOptions
from fairseq_plugins.understanding.languages import LanguageMixture
from fairseq_plugins.understanding.sentences import LabelledDataset
from tests.builders import BOS, EOS, PAD
from tests.nlu_bins import Rows

SIZES = {"train.en": 64, "train.de": 16, "train.fr": 4}


def part(count, first):
    """Row n holds n pieces (at most 5), then one that no other row has; its class is n."""
    rows = Rows([9] * (number % 5) + [first + number, EOS] for number in range(count))
    options = InputOptions(InputFormat("xlmr", BOS, EOS), 50, PAD, seed=1)
    return LabelledDataset([rows], options, np.arange(count))


def mixture(temperature=1.0, seed=1):
    parts = {name: part(count, 100 * (number + 1)) for number, (name, count) in enumerate(SIZES.items())}
    return LanguageMixture(parts, temperature, seed)


def marks(data):
    """The piece that tells each item of an epoch apart, in the order of the items."""
    return [int(data[index]["tokens"][-2]) for index in range(len(data))]


def test_a_temperature_makes_shares_more_equal():
    """84 items by the square roots 8 : 4 : 2 of 14 are 48, 24, 12; equal shares are 28 each."""
    for temperature, shares in ((2.0, [48, 24, 12]), (float("inf"), [28, 28, 28])):
        data = mixture(temperature)
        assert data.probabilities == pytest.approx(np.array(shares) / 84)
        assert np.bincount([mark // 100 - 1 for mark in marks(data)]).tolist() == shares
    assert len(set(marks(mixture(2.0)))) == 48 + 16 + 4, "every item of a small part before any again"


def test_items_are_those_of_the_parts_under_numbers_of_their_own():
    data, orders = mixture(3.0), []
    for epoch in (1, 2, 1):
        data.set_epoch(epoch)
        orders.append([marks(data), data.ordered_indices().tolist()])
        assert [part.epoch for part in data.streams] == [epoch] * 3
        for index, mark in enumerate(orders[-1][0]):
            item = data[index]
            assert (item["id"], item["target"]) == (index, mark % 100)
            assert len(item["tokens"]) == (mark % 100) % 5 + 3 == data.size(index) == data.num_tokens(index)
    other = mixture(3.0, seed=2)
    assert orders[0] == orders[2] != orders[1] and orders[0] != [marks(other), other.ordered_indices().tolist()]
    batch = data.collater([data[83], data[0]])
    assert batch["id"].tolist() == [83, 0]
    assert batch["target"].tolist() == [marks(data)[83] % 100, marks(data)[0] % 100]
