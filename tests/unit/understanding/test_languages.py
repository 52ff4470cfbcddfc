"""Test several languages in one run: shares, epochs, items and batches."""

import numpy as np
import pytest

from fairseq_plugins.understanding.inputs import InputFormat, InputOptions
from fairseq_plugins.understanding.languages import LanguageMixture
from fairseq_plugins.understanding.sentences import LabelledDataset
from tests.builders import BOS, EOS, PAD
from tests.nlu_bins import Rows

SIZES = {"train.en": 64, "train.de": 16, "train.fr": 4}


def dataset(count, first):
    """Row n ends with the piece ``first + n``, which no other row has; its class is n."""
    rows = Rows([9] * (number % 5) + [first + number, EOS] for number in range(count))
    options = InputOptions(InputFormat("xlmr", BOS, EOS), 50, PAD, seed=1)
    return LabelledDataset([rows], options, np.arange(count))


def mixture(temperature=1.0, seed=1):
    parts = {
        name: dataset(count, 100 * number)
        for number, (name, count) in enumerate(SIZES.items(), start=1)
    }
    return LanguageMixture(parts, temperature, seed)


def last_pieces(data):
    """The piece that tells each item of an epoch apart, in the order of the items."""
    return [int(data[index]["tokens"][-2]) for index in range(len(data))]


def test_a_temperature_makes_shares_more_equal():
    """84 items by the square roots 8 : 4 : 2 of 14 are 48, 24, 12; equal shares are 28 each."""
    for temperature, shares in ((2.0, [48, 24, 12]), (float("inf"), [28, 28, 28])):
        data = mixture(temperature)
        assert data.probabilities == pytest.approx(np.array(shares) / 84)
        languages = [piece // 100 - 1 for piece in last_pieces(data)]
        assert np.bincount(languages).tolist() == shares
    # Every item of a small part is used before any is used again.
    assert len(set(last_pieces(mixture(2.0)))) == 48 + 16 + 4


def test_items_are_those_of_the_languages_and_new_in_every_epoch():
    data, epochs = mixture(3.0), []
    for epoch in (1, 2, 1):
        data.set_epoch(epoch)
        pieces = last_pieces(data)
        epochs.append((pieces, data.ordered_indices().tolist()))
        assert [stream.epoch for stream in data.streams] == [epoch] * 3
        for index, piece in enumerate(pieces):
            item, row = data[index], piece % 100
            assert (item["id"], item["target"]) == (index, row)
            assert len(item["tokens"]) == row % 5 + 3 == data.size(index) == data.num_tokens(index)
    assert epochs[0] == epochs[2] != epochs[1]
    reseeded = mixture(3.0, seed=2)
    assert epochs[0] != (last_pieces(reseeded), reseeded.ordered_indices().tolist())
    batch = data.collater([data[83], data[0]])
    assert batch["id"].tolist() == [83, 0]
    pieces = last_pieces(data)
    assert batch["target"].tolist() == [pieces[83] % 100, pieces[0] % 100]
