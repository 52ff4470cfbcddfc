"""MixedBatchesDataset: the share of batches, one origin a batch, determinism, the translation set as without mixing."""

import numpy as np
import pytest
from fairseq.data import LanguagePairDataset, data_utils

from fairseq_plugins.deltalm.mixing import MixedBatchesDataset
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
    items = [data[PAIRS + 2], data[len(data) + 2]]
    assert [item["id"] for item in items] == [PAIRS + 2, len(data) + 2]
    wanted = [data.corrupted[2], data.corrupted.repeated(2, 1)]
    assert [plain(item) for item in items] == [plain(item) for item in wanted] and plain(items[0]) != plain(items[1])
    assert data.collater(items)["net_input"]["prev_output_tokens"][:, 0].tolist() == [EOS, EOS]


def test_the_choice_depends_on_seed_and_epoch_only():
    def chosen(epoch=1, **options):
        return [batch for batch in batches(mixed(0.25, **options), epoch) if batch[0] >= PAIRS]

    assert chosen() == chosen() != chosen(epoch=2) and chosen() != chosen(seed=8)
    data, seen = mixed(0.25), []
    data.translation.set_epoch = seen.append
    data.set_epoch(3)
    assert seen == [3] and data.corrupted.epoch == 3
    assert not data.can_reuse_epoch_itr_across_epochs


def test_each_set_has_its_limits():
    data = mixed(limits=(15, 21))
    sizes = [data.size(index)[0] for index in range(len(data))]
    for limit, least in (((10, 1000), 10), (None, 15)):
        kept, _ = data.filter_indices_by_size(np.arange(len(data)), limit)
        wanted = [n for n, size in enumerate(sizes) if size <= least or (limit is None and n < PAIRS)]
        assert sorted(kept) == wanted
    with pytest.raises(ValueError, match=r"--mix-monolingual: no text fits into 3 tokens"):
        batches(mixed(limits=(3, 4)), max_positions=(1024, 1024))
