"""Batches of two kinds in turn: how often each is used, and that the order outlives shuffling, shards and restarts."""

import numpy as np
import pytest
from fairseq.data import FairseqDataset
from fairseq.data.iterators import EpochBatchIterator

from fairseq_plugins.veco.data import AlternatingIterator, take_turns

ITEMS = 100


class Numbers(FairseqDataset):
    def __getitem__(self, index):
        return int(index)

    def __len__(self):
        return ITEMS

    def collater(self, samples):
        return samples


def arrays(*batches):
    return [np.array(batch) for batch in batches]


def turns(*kinds, seed=1):
    return [batch.tolist() for batch in take_turns(kinds, ITEMS, np.random.default_rng(seed))]


@pytest.mark.cases(
    "first second expected",
    ([[1, 2], [3]], [[50], [51, 52]], [[1, 2], [50], [3], [51, 52]]),
    ([[1], [2], [3], [4]], [[50], [51, 52]], [[1], [50], [2], [51, 52], [3], [150], [4], [151, 152]]),
    ([[1]], [[50], [51], [52]], [[1], [50], [101], [51], [201], [52]]),
)
def test_the_smaller_kind_is_used_again_with_other_indices(first, second, expected):
    assert turns(arrays(*first), arrays(*second)) == expected


def iterator(shards=1, shard=0, count=6, kinds=2, **changes):
    """``count`` batches a kind; those of kind k are [10 k + place], in the order of their lengths, so to say."""
    data = Numbers()
    batches = [np.array([10 * kind + place]) for place in range(count) for kind in range(kinds)]
    stock = EpochBatchIterator(data, data.collater, batches, seed=3, num_shards=shards, shard_id=shard, **changes)
    return AlternatingIterator.wrap(stock, kinds)


def epoch_of(source, shuffle=True, stop=1000):
    order = []
    for batch in source.next_epoch_itr(shuffle=shuffle):
        order.append(batch[0] if batch else -1)
        if len(order) == stop:
            break
    return order


@pytest.mark.parametrize("kinds", [1, 2, 3])
def test_kinds_take_turns_and_each_is_shuffled(kinds):
    source = iterator(kinds=kinds)
    orders = [epoch_of(source) for _ in range(2)]
    for order in orders:
        assert [batch // 10 for batch in order] == list(range(kinds)) * 6
        of_kind = [tuple(batch % 10 for batch in order[kind::kinds]) for kind in range(kinds)]
        assert len({*of_kind, tuple(range(6))}) == kinds + 1 and all(
            sorted(batches) == [*range(6)] for batches in of_kind
        )
    assert orders[0] != orders[1]
    again = iterator(kinds=kinds)
    assert [epoch_of(again) for _ in range(2)] == orders


@pytest.mark.parametrize("shards", [2, 3, 4])
def test_shards_are_dealt_batches_in_turn(shards):
    parts = [epoch_of(iterator(shards, shard)) for shard in range(shards)]
    assert [batch for update in zip(*parts) for batch in update] == epoch_of(iterator())
    expected = [10 * kind + place for place in range(6) for kind in range(2)]
    assert epoch_of(iterator(), shuffle=False) == epoch_of(iterator(disable_shuffling=True)) == expected


@pytest.mark.parametrize(("shards", "shard"), [(1, 0), (2, 0), (2, 1)])
def test_a_restart_in_the_middle_of_an_epoch_goes_on(shards, shard):
    first, first_run, resumed = (iterator(shards, shard, epoch=epoch) for epoch in (1, 1, 2))
    second_epoch = [epoch_of(first) for _ in range(2)][1]
    epoch_of(first_run)
    began = epoch_of(first_run, stop=3)
    state = first_run.state_dict()
    assert (state["epoch"], state["iterations_in_epoch"]) == (2, 3)
    resumed.load_state_dict(state)
    assert began + epoch_of(resumed) == second_epoch


def test_grouped_shuffling_moves_whole_updates():
    parts = [epoch_of(iterator(2, shard, count=7, grouped_shuffling=True)) for shard in range(2)]
    updates = [list(update) for update in zip(*parts)]
    expected = [[place, 10 + place] for place in range(7)]
    assert sorted(updates) == expected != updates
    odd = [epoch_of(iterator(3, shard, count=7, grouped_shuffling=True)) for shard in range(3)]
    assert [batch // 10 for update in zip(*odd) for batch in update if batch >= 0] == [0, 1] * 7
