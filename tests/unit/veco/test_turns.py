"""Test batches of several kinds in turn: repetition, shuffling, shards and restarts."""

import numpy as np
import pytest
from fairseq.data import FairseqDataset
from fairseq.data.iterators import EpochBatchIterator

from fairseq_plugins.veco.data import AlternatingIterator, take_turns

ITEMS = 100


class Numbers(FairseqDataset):
    """Items are their indices."""

    def __getitem__(self, index):
        return int(index)

    def __len__(self):
        return ITEMS

    def collater(self, samples):
        return samples


@pytest.mark.cases(
    "first second expected",
    ([[1, 2], [3]], [[50], [51, 52]], [[1, 2], [50], [3], [51, 52]]),
    (
        [[1], [2], [3], [4]],
        [[50], [51, 52]],
        [[1], [50], [2], [51, 52], [3], [150], [4], [151, 152]],
    ),
    ([[1]], [[50], [51], [52]], [[1], [50], [101], [51], [201], [52]]),
)
def test_the_smaller_kind_is_used_again_with_other_indices(first, second, expected):
    kinds = [[np.array(batch) for batch in batches] for batches in (first, second)]
    order = take_turns(kinds, ITEMS, np.random.default_rng(1))
    assert [batch.tolist() for batch in order] == expected


def make_iterator(shards=1, shard=0, count=6, kinds=2, **options):
    """An iterator over ``count`` batches a kind; those of kind k are [10 k + position]."""
    data = Numbers()
    batches = [np.array([10 * kind + index]) for index in range(count) for kind in range(kinds)]
    stock = EpochBatchIterator(
        data, data.collater, batches, seed=3, num_shards=shards, shard_id=shard, **options
    )
    return AlternatingIterator.wrap(stock, kinds)


def epoch_of(iterator, shuffle=True, stop=1000):
    """The next epoch's batches, at most ``stop``; an empty one is -1."""
    order = []
    for batch in iterator.next_epoch_itr(shuffle=shuffle):
        order.append(batch[0] if batch else -1)
        if len(order) == stop:
            break
    return order


@pytest.mark.parametrize("kinds", [1, 2, 3])
def test_kinds_take_turns_and_each_is_shuffled(kinds):
    iterator, repetition = make_iterator(kinds=kinds), make_iterator(kinds=kinds)
    first, second = epoch_of(iterator), epoch_of(iterator)
    for order in (first, second):
        assert [batch // 10 for batch in order] == list(range(kinds)) * 6
        orders = {tuple(batch % 10 for batch in order[kind::kinds]) for kind in range(kinds)}
        assert len(orders) == kinds and tuple(range(6)) not in orders
        assert all(sorted(batches) == list(range(6)) for batches in orders)
    assert first != second
    assert [epoch_of(repetition), epoch_of(repetition)] == [first, second]


@pytest.mark.parametrize("shards", [2, 3, 4])
def test_shards_get_batches_in_turn(shards):
    parts = [epoch_of(make_iterator(shards, shard)) for shard in range(shards)]
    assert [batch for update in zip(*parts) for batch in update] == epoch_of(make_iterator())


def test_batches_may_stay_in_order():
    expected = [10 * kind + index for index in range(6) for kind in range(2)]
    assert epoch_of(make_iterator(), shuffle=False) == expected
    assert epoch_of(make_iterator(disable_shuffling=True)) == expected


@pytest.mark.parametrize(("shards", "shard"), [(1, 0), (2, 1)])
def test_a_restart_in_the_middle_of_an_epoch_continues_it(shards, shard):
    uninterrupted, first_run = make_iterator(shards, shard), make_iterator(shards, shard)
    epoch_of(uninterrupted)
    epoch_of(first_run)
    start = epoch_of(first_run, stop=3)
    state = first_run.state_dict()
    assert (state["epoch"], state["iterations_in_epoch"]) == (2, 3)
    resumed = make_iterator(shards, shard, epoch=2)
    resumed.load_state_dict(state)
    assert start + epoch_of(resumed) == epoch_of(uninterrupted)


def test_grouped_shuffling_keeps_the_batches_of_an_update_together():
    def updates_of(shards):
        parts = [
            epoch_of(make_iterator(shards, shard, count=7, grouped_shuffling=True))
            for shard in range(shards)
        ]
        return [list(update) for update in zip(*parts)]

    updates, in_order = updates_of(2), [[index, 10 + index] for index in range(7)]
    assert sorted(updates) == in_order != updates
    batches = [batch for update in updates_of(3) for batch in update if batch >= 0]
    assert [batch // 10 for batch in batches] == [0, 1] * 7
