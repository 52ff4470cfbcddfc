"""Test task translation_mixing: shares, origins and limits of batches; stock tasks without it."""

import numpy as np
import pytest
from fairseq.data import LanguagePairDataset, data_utils
from fairseq.tasks.translation import TranslationConfig, TranslationTask

from fairseq_plugins.deltalm.mixing import MixedBatchesDataset
from tests import builders
from tests import deltalm_builders as corruption
from tests.deltalm_builders import EOS, plain
from tests.unit.common.making import load, maker

# ---- Dataset. ----

PAIRS = 60
LIMITS = (20, 21)


def translation():
    symbols = corruption.corruption_dictionary()
    sides = []
    for rows in corruption.pair_rows(PAIRS):
        sides += [corruption.tensors(rows), corruption.sizes(rows), symbols]
    return LanguagePairDataset(*sides)


def mixed(share=0.5, limits=LIMITS, seed=7):
    streams = [corruption.blocks(builders.sentences(40, 3, 2, 9))]
    texts = corruption.dataset(streams, np.array([1.0]), target_sentinels=False)
    return MixedBatchesDataset(translation(), texts, share, limits, seed)


def batches(data, epoch=1, max_sentences=4, max_positions=None):
    data.set_epoch(epoch)
    with data_utils.numpy_seed(1 + epoch):
        indices = data.ordered_indices()
    if max_positions is not None:
        indices, _ = data.filter_indices_by_size(indices, max_positions)
    rows = data.batch_by_size(indices, max_sentences=max_sentences)
    return [list(map(int, batch)) for batch in rows]


@pytest.mark.cases("share expected", (0.25, 5), (0.5, 15), (0.9, 135), (0.0, 0), (0.01, 0))
def test_the_share_counts_batches_and_no_batch_mixes_origins(share, expected):
    """60 pairs make batches of 4 as without mixing; no text is repeated before all were drawn."""
    data = mixed(share)
    rows = batches(data)
    assert {len({index < PAIRS for index in batch}) for batch in rows} == {1}
    assert [batch for batch in rows if batch[0] < PAIRS] == batches(translation())
    texts = [batch for batch in rows if batch[0] >= PAIRS]
    assert len(texts) == expected
    indices = [index for batch in texts for index in batch]
    assert len(set(indices)) == len(indices), "a repeated text has another index, so other noise"
    count = len(data.corrupted)
    times = np.bincount((np.array(indices, dtype=int) - PAIRS) % count, minlength=count)
    assert times.max() - times.min() <= 1


def test_items_and_collaters_are_those_of_the_origin():
    data, stock = mixed(), translation()
    pair, expected = data.collater([data[3], data[5]]), stock.collater([stock[3], stock[5]])
    sources = [batch["net_input"]["src_tokens"].tolist() for batch in (pair, expected)]
    assert sources[0] == sources[1]
    items = [data[PAIRS + 2], data[len(data) + 2]]
    assert [item["id"] for item in items] == [PAIRS + 2, len(data) + 2]
    texts = [plain(data.corrupted[2]), plain(data.corrupted.repeated(2, 1))]
    assert [plain(item) for item in items] == texts and texts[0] != texts[1]
    inputs = data.collater(items)["net_input"]["prev_output_tokens"]
    assert inputs[:, 0].tolist() == [EOS, EOS]


def test_the_choice_depends_on_seed_and_epoch_only():
    def texts(epoch=1, **options):
        return [batch for batch in batches(mixed(0.25, **options), epoch) if batch[0] >= PAIRS]

    assert texts() == texts()
    assert texts() != texts(epoch=2) and texts() != texts(seed=8)
    data, epochs = mixed(0.25), []
    data.translation.set_epoch = epochs.append
    data.set_epoch(3)
    assert epochs == [3] and data.corrupted.epoch == 3
    assert not data.can_reuse_epoch_itr_across_epochs


def test_each_set_has_its_limits():
    data = mixed(limits=(15, 21))
    sizes = [data.size(index)[0] for index in range(len(data))]
    for limit, least in (((10, 1000), 10), (None, 15)):
        indices, _ = data.filter_indices_by_size(np.arange(len(data)), limit)
        expected = [n for n, s in enumerate(sizes) if s <= least or (limit is None and n < PAIRS)]
        assert sorted(indices) == expected
    with pytest.raises(ValueError, match=r"--mix-monolingual: no text fits into 3 tokens"):
        batches(mixed(limits=(3, 4)), max_positions=(1024, 1024))


# ---- Task. ----

COUNT = 24
STOCK = dict(source_lang="en", target_lang="de", train_subset="train")
STOCK.update(dataset_impl=None, required_seq_len_multiple=1)
MIXING = dict(mix_monolingual="de", tokens_per_sample=20, add_sentinels=10)
setup = maker("translation_mixing", **STOCK, **MIXING)


def stock_task(folder):
    return TranslationTask.setup_task(TranslationConfig(**{**STOCK, "data": str(folder)}))


@pytest.fixture(scope="module")
def folder(path):
    for split in ("train", "valid"):
        builders.write_pair(path, split, "en", "de", count=COUNT)
    builders.write_side(path, "train", "fr-None", "fr", builders.sentences(COUNT, 301))
    builders.write_side(path, "train", "es-None", "es", builders.sentences(4, 77))
    return path


def trained_batches(task):
    """Ids, sources and targets, as the trainer draws them."""
    limits = {"max_sentences": 2, "max_positions": task.max_positions()}
    options = {**limits, "seed": 1, "ignore_invalid_inputs": True}
    iterator = task.get_batch_iterator(task.dataset("train"), epoch=1, **options)
    return [
        (batch["id"].tolist(), batch["net_input"]["src_tokens"].tolist(), batch["target"].tolist())
        for batch in iterator.next_epoch_itr()
    ]


def test_half_of_the_batches_are_corrupted_text_of_the_language(folder):
    task = setup(folder)
    load(task)
    rows = trained_batches(task)
    texts = [batch for batch in rows if min(batch[0]) >= COUNT]
    assert len(texts) * 2 == len(rows) == COUNT
    de = {token for row in builders.sentences(COUNT, 101) for token in row}
    for _, sources, targets in texts:
        assert all(max(row) >= builders.MASK for row in sources)
        tokens = {token for row in targets for token in row}
        assert tokens <= de | {EOS, builders.PAD}, "no sentinels in targets"


@pytest.mark.parametrize("options", [{"mix_monolingual": ""}, {"mix_share": 0.0}])
def test_without_mixing_it_is_the_stock_task(folder, options):
    stock, ours = stock_task(folder), setup(folder, **options)
    assert type(load(ours)) is type(load(stock))
    assert trained_batches(ours) == trained_batches(stock)


def test_validation_and_decoding_are_untouched(folder):
    task, stock = setup(folder), stock_task(folder)
    for options in ({"split": "valid"}, {"split": "train", "task_cfg": task.cfg}):
        ours, theirs = load(task, **options), load(stock, **options)
        assert not isinstance(ours, MixedBatchesDataset)
        assert [plain(item) for item in ours] == [plain(item) for item in theirs]


def test_options_and_data_that_do_not_fit_are_named(folder, tmp_path):
    builders.write_pair(tmp_path, "train", "en", "de")
    builders.write_dictionary(tmp_path, "de", pieces=builders.PIECES - 1)
    two_dictionaries = str(tmp_path)
    for options, message in (
        ({"mix_monolingual": "de,de"}, "--mix-monolingual"),
        ({"add_sentinels": 0}, "<extra_id_0>.*--add-sentinels"),
        ({"add_sentinels": 1}, "has 1, .*--mask-prob"),
        ({"mix_monolingual": "it"}, r"--mix-monolingual it: .*train\.it-None\.it\.bin"),
        ({"mix_data": two_dictionaries}, r"dict\.de\.txt differs from .*dict\.en\.txt"),
        ({"data": two_dictionaries}, r"dict\.de\.txt differs"),
    ):
        with pytest.raises(ValueError, match=message):
            load(setup(folder, **options))
    load(setup(two_dictionaries, mix_monolingual="", add_sentinels=0))
