"""MixedBatchesDataset: the share of batches, one origin a batch, determinism, the translation set as without mixing."""

import numpy as np
import pytest
from fairseq.data import LanguagePairDataset, data_utils

from fairseq_plugins.data.mixed_batches import MixedBatchesDataset
from tests import builders
from tests import deltalm_builders as corruption
from tests.deltalm_builders import EOS, plain

PAIRS = 60
LIMITS = (20, 21)


def translation():
    left, right = corruption.pair_rows(PAIRS)
    symbols = corruption.corruption_dictionary()
    sides = [(corruption.tensors(side), corruption.sizes(side), symbols) for side in (left, right)]
    return LanguagePairDataset(*sides[0], *sides[1])


def mixed(share=0.5, texts=40, limits=LIMITS, seed=7):
    rows = builders.sentences(texts, 3, 2, 9)
    corrupted = corruption.dataset([corruption.blocks(rows)], np.array([1.0]), target_sentinels=False)
    return MixedBatchesDataset(translation(), corrupted, share, limits, seed)


def batches(data, epoch=1, max_sentences=4, max_positions=None):
    data.set_epoch(epoch)
    with data_utils.numpy_seed(1 + epoch):
        indices = data.ordered_indices()
    if max_positions is not None:
        indices, _ = data.filter_indices_by_size(indices, max_positions)
    return [list(map(int, batch)) for batch in data.batch_by_size(indices, max_sentences=max_sentences)]


@pytest.mark.parametrize(("share", "expected"), [(0.5, 15), (0.25, 5), (0.75, 45), (0.9, 135), (0.0, 0), (0.01, 0)])
def test_the_share_is_one_of_batches_and_every_batch_has_one_origin(share, expected):
    """Pairs are batched as without mixing, 60 of them 4 a batch; no text is repeated before all were drawn."""
    data = mixed(share)
    found = batches(data)
    assert {len({index < PAIRS for index in batch}) for batch in found} == {1}
    texts = [batch for batch in found if batch[0] >= PAIRS]
    assert [batch for batch in found if batch[0] < PAIRS] == batches(translation()) and len(texts) == expected
    drawn = [index for batch in texts for index in batch]
    assert len(set(drawn)) == len(drawn), "noise of its own for whatever is repeated"
    times = np.bincount((np.array(drawn, dtype=int) - PAIRS) % len(data.corrupted), minlength=len(data.corrupted))
    assert times.max() - times.min() <= 1


def test_items_and_collaters_are_those_of_the_origin():
    data, stock = mixed(), translation()
    pair, expected = data.collater([data[3], data[5]]), stock.collater([stock[3], stock[5]])
    assert pair["net_input"]["src_tokens"].tolist() == expected["net_input"]["src_tokens"].tolist()
    items = [data[PAIRS + 2], data[PAIRS + 1]]
    assert [item["id"] for item in items] == [PAIRS + 2, PAIRS + 1]
    assert [plain(item) for item in items] == [plain(data.corrupted[index]) for index in (2, 1)]
    assert len(list(data)) == len(data) == PAIRS + len(data.corrupted)
    again = data[len(data) + 2]
    assert again["id"] == len(data) + 2
    assert plain(again) == plain(data.corrupted.repeated(2, 1)) != plain(items[0])
    text = data.collater(items)
    assert text["net_input"]["prev_output_tokens"][:, 0].tolist() == [EOS, EOS]
    with pytest.raises(AssertionError, match="one origin"):
        data.collater([data[PAIRS], data[0]])


def test_the_choice_depends_on_seed_and_epoch_only():
    def chosen(epoch=1, **options):
        return [batch for batch in batches(mixed(0.25, **options), epoch) if batch[0] >= PAIRS]

    assert chosen() == chosen() != chosen(epoch=2) and chosen() != chosen(seed=8)
    data, seen = mixed(0.25), []
    data.translation.set_epoch = seen.append
    data.set_epoch(3)
    assert seen == [3] and data.corrupted.epoch == 3
    order, same = data.ordered_indices(), []
    for data.epoch in (1, 2):
        same.append([batch.tolist() for batch in data.batch_by_size(order, max_sentences=4)[15:]])
    assert same[0] != same[1], "of the same batches"
    assert not data.can_reuse_epoch_itr_across_epochs


def test_each_set_has_its_limits():
    data = mixed(limits=(15, 21))
    everything = range(len(data))
    sizes = [data.size(index)[0] for index in everything]
    kept, ignored = data.filter_indices_by_size(np.arange(len(data)), (10, 1000))
    assert sorted([*kept, *ignored]) == list(everything)
    assert sorted(kept) == [index for index in everything if sizes[index] <= 10]
    kept, _ = data.filter_indices_by_size(np.arange(len(data)), None)
    assert sorted(kept) == [index for index in everything if index < PAIRS or sizes[index] <= 15]
    tokens = [data.translation.num_tokens(index) for index in range(PAIRS)]
    tokens += [data.corrupted.num_tokens(index) for index in range(len(data.corrupted))]
    assert [data.num_tokens(index) for index in everything] == tokens


def test_texts_that_are_all_too_long_are_named():
    with pytest.raises(ValueError, match=r"--mix-monolingual: no text fits into 3 tokens"):
        batches(mixed(limits=(3, 4)), max_positions=(1024, 1024))
    assert len(batches(mixed(share=0.0, limits=(3, 4)), max_positions=(1024, 1024))) == 15
