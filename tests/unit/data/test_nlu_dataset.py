"""Datasets of understanding tasks: sizes, what is cut and counted, padding, order, classes."""

import numpy as np
import pytest
import torch

from fairseq_plugins.data.nlu_dataset import LabelledDataset, NLUDataset
from fairseq_plugins.data.nlu_inputs import InputFormat
from tests.builders import BOS, EOS, PAD

FIRST = [[11, 12, 13], [14], [], [15, 16]]
SECOND = [[21], [22, 23], [24, 25, 26, 27, 28], [29]]


def rows(texts):
    return [torch.tensor([*text, EOS], dtype=torch.int32) for text in texts]


def dataset(*sides, name="xlmr", max_positions=50, seed=1, **more):
    """A dataset of one or two sides; with ``labels`` it has classes."""
    texts = [rows(side) for side in sides]
    kind = LabelledDataset if "labels" in more else NLUDataset
    sizes = [np.array([len(row) for row in text], dtype=np.int32) for text in texts]
    return kind(texts, sizes, InputFormat(name, BOS, EOS), max_positions, PAD, seed, **more)


def test_items_are_assembled_inputs_without_the_rows_own_eos():
    data = dataset(FIRST, SECOND)
    assert [data[index]["tokens"].tolist() for index in range(len(data))] == [
        [BOS, 11, 12, 13, EOS, EOS, 21, EOS],
        [BOS, 14, EOS, EOS, 22, 23, EOS],
        [BOS, EOS, EOS, 24, 25, 26, 27, 28, EOS],
        [BOS, 15, 16, EOS, EOS, 29, EOS],
    ]


@pytest.mark.parametrize("max_positions", [50, 8, 7, 6])
@pytest.mark.parametrize("sides", [(FIRST,), (FIRST, SECOND)])
def test_sizes_are_those_of_the_items(sides, max_positions):
    data = dataset(*sides, max_positions=max_positions)
    made = [len(data[index]["tokens"]) for index in range(len(data))]
    assert data.sizes.tolist() == made
    assert [data.size(index) for index in range(len(data))] == made
    assert [data.num_tokens(index) for index in range(len(data))] == made
    assert data.num_tokens_vec(np.array([3, 0])).tolist() == [made[3], made[0]]


def test_what_is_cut_is_counted():
    """Whole inputs have 8, 7, 9 and 7 tokens."""
    assert [dataset(FIRST, SECOND, max_positions=limit).cut_rows for limit in (9, 8, 7, 6)] == [0, 1, 2, 4]
    assert [dataset(FIRST, SECOND, max_positions=limit).cut_tokens for limit in (9, 8, 7, 6)] == [0, 1, 3, 7]
    tagged = dataset(FIRST, max_positions=4)
    assert (tagged.cut_rows, tagged.cut_tokens) == (1, 1)
    assert tagged[0]["tokens"].tolist() == [BOS, 11, 12, EOS]


def test_a_batch_is_padded_on_the_right():
    data = dataset(FIRST)
    batch = data.collater([data[0], data[1], data[2]])
    assert batch["net_input"]["src_tokens"].tolist() == [
        [BOS, 11, 12, 13, EOS],
        [BOS, 14, EOS, PAD, PAD],
        [BOS, EOS, PAD, PAD, PAD],
    ]
    assert batch["net_input"]["src_lengths"].tolist() == [5, 3, 2]
    assert batch["id"].tolist() == [0, 1, 2]
    assert (batch["nsentences"], batch["ntokens"]) == (3, 10)
    assert data.collater([]) == {}


def test_batches_are_of_similar_sizes_in_an_order_of_the_epoch():
    def order(seed, epoch):
        data = dataset([[11] * (number % 5) for number in range(40)], seed=seed)
        data.set_epoch(epoch)
        found = data.ordered_indices().tolist()
        assert sorted(found) == list(range(40)) and np.all(np.diff(data.sizes[found]) >= 0)
        return found

    assert order(1, 1) == order(1, 1) != order(1, 2) and order(1, 1) != order(2, 1)
    assert not dataset(FIRST).can_reuse_epoch_itr_across_epochs


def test_sides_and_labels_that_do_not_fit_are_refused():
    dataset(FIRST, SECOND, max_positions=6)
    for sides, more, message in (
        ((FIRST, SECOND), {"max_positions": 5}, "--max-positions leaves room for 1 pieces of 2 texts"),
        ((FIRST, SECOND[:3]), {}, r"input0 and input1 need equal numbers of rows; got \[4, 3\]"),
        ((FIRST, SECOND), {"labels": np.array([0, 1])}, "label has 2 rows, input0 4"),
    ):
        with pytest.raises(ValueError, match=message):
            dataset(*sides, **more)
