"""Test that items and orders are functions of (seed, epoch, index), in every process."""

import numpy as np
import pytest
import torch
from fairseq.data.iterators import EpochBatchIterator

from fairseq_plugins.masked_lm.dataset import MaskingConfig, TLMDataset
from tests import builders
from tests import csr_builders as csr
from tests import deltalm_builders as corruption
from tests import veco_builders as veco


def span_dataset(seed, probabilities=None):
    pairs = corruption.pairs(*corruption.pair_rows(30))
    blocks = corruption.blocks(builders.sentences(40, 3, 2, 9))
    return corruption.dataset([pairs, blocks], probabilities, seed=seed)


def tlm_dataset(seed):
    rows = [builders.sentences(40, number, 2, 12) for number in (1, 2)]
    sides = [corruption.tensors(side) for side in rows]
    sizes = [corruption.sizes(side) for side in rows]
    return TLMDataset(sides, sizes, builders.dictionary(), MaskingConfig(0.15, 0.5, seed))


DATASETS = {
    "csr": lambda seed: csr.corpus(30, seed=seed),
    "span": span_dataset,
    "span, sampled": lambda seed: span_dataset(seed, np.array([0.4, 0.6])),
    "tlm": tlm_dataset,
    "veco": lambda seed: veco.dataset(veco.streams(), seed=seed),
    "veco, sampled": lambda seed: veco.dataset(veco.streams(), [1.0, 1.0], seed=seed),
}
for_each_dataset = pytest.mark.parametrize("name", DATASETS)


def as_lists(item):
    if isinstance(item, dict):
        return {key: as_lists(part) for key, part in item.items()}
    return item.tolist() if hasattr(item, "tolist") else item


def read_items(data, epoch=1):
    data.set_epoch(epoch)
    return [as_lists(data[index]) for index in range(len(data))]


@for_each_dataset
def test_an_item_depends_on_seed_epoch_and_index_only(name):
    data, twin = DATASETS[name](7), DATASETS[name](7)
    items = read_items(data)
    np.random.seed(99)
    torch.manual_seed(99)
    backwards = [as_lists(twin[index]) for index in reversed(range(len(twin)))]
    assert backwards[::-1] == items
    for changed in (read_items(DATASETS[name](8)), read_items(data, 2)):
        assert len(changed) == len(items)
        assert sum(new != old for new, old in zip(changed, items)) > len(items) // 2
    assert read_items(data) == items, "an epoch that is repeated"


@for_each_dataset
def test_workers_and_resumed_processes_draw_the_same_noise(name):
    items_of_workers = []
    for workers in (0, 2):
        data = DATASETS[name](7)
        data.set_epoch(3)
        batches = data.batch_by_size(data.ordered_indices(), max_sentences=7)
        iterator = EpochBatchIterator(data, list, batches, num_workers=workers, epoch=3)
        items = [item for batch in iterator.next_epoch_itr() for item in batch]
        items_of_workers.append({item["id"]: as_lists(item) for item in items})
    assert items_of_workers[0] == items_of_workers[1]
    uninterrupted, resumed = DATASETS[name](7), DATASETS[name](7)
    for epoch in (1, 2):
        uninterrupted.set_epoch(epoch)
    assert read_items(uninterrupted, 3) == read_items(resumed, 3)
    assert uninterrupted.ordered_indices().tolist() == resumed.ordered_indices().tolist()


@for_each_dataset
def test_items_are_ordered_by_tokens_anew_in_every_epoch(name):
    data, orders = DATASETS[name](7), []
    numbers = np.arange(len(data))
    for epoch in (1, 2, 1):
        data.set_epoch(epoch)
        orders.append(data.ordered_indices().tolist())
        assert sorted(orders[-1]) == numbers.tolist()
        tokens = data.num_tokens_vec(numbers)
        assert tokens.tolist() == [data.num_tokens(index) for index in numbers]
        lengths = data.lengths if name == "csr" else tokens
        assert (np.diff(lengths[orders[-1]]) >= 0).all()
        if name != "csr":
            sizes = [data.size(index) for index in numbers]
            assert np.array_equal(sizes, data.sizes)
    assert orders[0] == orders[2] != orders[1]
    assert data.can_reuse_epoch_itr_across_epochs == (name in ("span", "tlm", "veco"))


@for_each_dataset
@pytest.mark.parametrize("limits", [14, (14, 1000), (1000, 14)])
def test_items_beyond_the_limits_are_left_out(name, limits):
    data = DATASETS[name](7)
    sizes = [np.atleast_1d(data.size(index)) for index in range(len(data))]
    longest = limits if isinstance(limits, tuple) else (limits, limits)
    if len(sizes[0]) == 1:
        longest = (min(longest),)
    if name == "tlm":
        limits = min(longest)  # fairseq's own method compares one number
    indices, ignored = data.filter_indices_by_size(np.arange(len(data)), limits)
    expected = [index for index, size in enumerate(sizes) if (size <= longest).all()]
    assert list(indices) == expected and 0 < len(expected) < len(data)
    assert sorted([*indices, *ignored]) == list(range(len(data)))
