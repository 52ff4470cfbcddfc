"""What all datasets with noise share: items and orders are functions of (seed, epoch, index), in every process."""

import numpy as np
import pytest
import torch
from fairseq.data.iterators import EpochBatchIterator

from fairseq_plugins.masked_lm.dataset import MaskingConfig, TLMDataset
from tests import builders
from tests import csr_builders as csr
from tests import deltalm_builders as corruption
from tests import veco_builders as veco


def span(seed, probabilities=None):
    streams = [corruption.pairs(*corruption.pair_rows(30)), corruption.blocks(builders.sentences(40, 3, 2, 9))]
    return corruption.dataset(streams, probabilities, seed=seed)


def tlm(seed, one_side_prob=0.5):
    rows = [builders.sentences(40, number, 2, 12) for number in (1, 2)]
    sides, sizes = zip(*((corruption.tensors(side), corruption.sizes(side)) for side in rows))
    return TLMDataset(sides, sizes, builders.dictionary(), MaskingConfig(0.15, one_side_prob, seed))


DATA = {
    "csr": lambda seed: csr.corpus(30, seed=seed),
    "span": span,
    "span, sampled": lambda seed: span(seed, np.array([0.4, 0.6])),
    "tlm": tlm,
    "veco": lambda seed: veco.dataset(veco.streams(), seed=seed),
    "veco, sampled": lambda seed: veco.dataset(veco.streams(), [1.0, 1.0], seed=seed),
}


def plain(value):
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    return value.tolist() if hasattr(value, "tolist") else value


def items(data, epoch=1):
    data.set_epoch(epoch)
    return [plain(data[index]) for index in range(len(data))]


@pytest.mark.parametrize("name", DATA)
def test_an_item_depends_on_seed_epoch_and_index_only(name):
    data, again = DATA[name](7), DATA[name](7)
    first = items(data)
    np.random.seed(99)
    torch.manual_seed(99)
    assert [plain(again[index]) for index in reversed(range(len(again)))][::-1] == first
    for other in (items(DATA[name](8)), items(data, 2)):
        assert len(other) == len(first) and sum(one != two for one, two in zip(first, other)) > len(first) // 2
    assert items(data) == first, "an epoch that comes again"


@pytest.mark.parametrize("name", DATA)
def test_workers_and_resumed_processes_draw_the_same_noise(name):
    found = []
    for workers in (0, 2):
        data = DATA[name](7)
        data.set_epoch(3)
        batches = data.batch_by_size(data.ordered_indices(), max_sentences=7)
        iterator = EpochBatchIterator(data, list, batches, num_workers=workers, epoch=3)
        found.append({item["id"]: plain(item) for batch in iterator.next_epoch_itr() for item in batch})
    assert found[0] == found[1]
    whole, resumed = DATA[name](7), DATA[name](7)
    for epoch in (1, 2):
        whole.set_epoch(epoch)
    assert items(whole, 3) == items(resumed, 3)
    assert whole.ordered_indices().tolist() == resumed.ordered_indices().tolist()


@pytest.mark.parametrize("name", DATA)
def test_the_order_is_by_tokens_and_of_the_epoch(name):
    data, orders = DATA[name](7), []
    for epoch in (1, 2, 1):
        data.set_epoch(epoch)
        orders.append(data.ordered_indices().tolist())
        assert sorted(orders[-1]) == list(range(len(data)))
        lengths = data.lengths if name == "csr" else data.num_tokens_vec(np.arange(len(data)))
        assert (np.diff(lengths[orders[-1]]) >= 0).all()
        assert data.num_tokens_vec(np.arange(len(data))).tolist() == [data.num_tokens(n) for n in range(len(data))]
        sizes = [list(size) if isinstance(size, tuple) else size for size in map(data.size, range(len(data)))]
        assert name == "csr" or sizes == data.sizes.tolist()
    assert orders[0] == orders[2] != orders[1]
    assert data.can_reuse_epoch_itr_across_epochs == (name in ("span", "tlm", "veco"))


@pytest.mark.parametrize("name", DATA)
@pytest.mark.parametrize("limits", [14, (14, 1000), (1000, 14)])
def test_what_is_too_long_is_left_out(name, limits):
    data = DATA[name](7)
    sizes = [size if isinstance(size, tuple) else (size,) for size in map(data.size, range(len(data)))]
    most = limits if isinstance(limits, tuple) else (limits, limits)
    most = most if len(sizes[0]) == 2 else (min(most),)
    if name == "tlm":
        limits = min(most)  # fairseq's own
    kept, ignored = data.filter_indices_by_size(np.arange(len(data)), limits)
    wanted = [index for index, size in enumerate(sizes) if all(one <= two for one, two in zip(size, most))]
    assert list(kept) == wanted and 0 < len(wanted) < len(data)
    assert sorted([*kept, *ignored]) == list(range(len(data)))
