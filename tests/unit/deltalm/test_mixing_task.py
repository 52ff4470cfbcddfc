"""Task translation_mixing: stock translation but for the training set, which batches of corrupted text join."""

import pytest
from fairseq.tasks.translation import TranslationConfig, TranslationTask

from fairseq_plugins.deltalm.mixing import MixedBatchesDataset
from tests import builders
from tests.deltalm_builders import EOS, plain
from tests.unit.tasks.making import load, maker

COUNT = 24
STOCK = dict(source_lang="en", target_lang="de", train_subset="train", dataset_impl=None, required_seq_len_multiple=1)
setup = maker("translation_mixing", **STOCK, mix_monolingual="de", tokens_per_sample=20, add_sentinels=10)


@pytest.fixture(scope="module")
def folder(path):
    for split in ("train", "valid"):
        builders.write_pair(path, split, "en", "de", count=COUNT)
    builders.write_side(path, "train", "fr-None", "fr", builders.sentences(COUNT, 301))
    builders.write_side(path, "train", "es-None", "es", builders.sentences(4, 77))
    return path


def batches(task, epoch=1):
    """Ids, sources and targets, as the trainer draws them."""
    options = {"max_sentences": 2, "max_positions": task.max_positions(), "seed": 1, "ignore_invalid_inputs": True}
    iterator = task.get_batch_iterator(task.dataset("train"), epoch=epoch, **options).next_epoch_itr()
    return [(b["id"].tolist(), b["net_input"]["src_tokens"].tolist(), b["target"].tolist()) for b in iterator]


def test_half_of_the_batches_are_corrupted_text_of_the_language(folder):
    task = setup(folder)
    load(task)
    found = batches(task)
    texts = [batch for batch in found if min(batch[0]) >= COUNT]
    assert len(texts) * 2 == len(found) == COUNT
    de = {token for row in builders.sentences(COUNT, 101) for token in row}
    for _, sources, targets in texts:
        assert all(max(row) >= builders.MASK for row in sources)
        assert {token for row in targets for token in row} <= de | {EOS, builders.PAD}, "no sentinels in targets"


@pytest.mark.parametrize("options", [{"mix_monolingual": ""}, {"mix_share": 0.0}])
def test_without_mixing_it_is_the_stock_task(folder, options):
    stock = TranslationTask.setup_task(TranslationConfig(**{**STOCK, "data": str(folder)}))
    ours = setup(folder, **options)
    assert type(load(ours)) is type(load(stock))
    assert batches(ours) == batches(stock)


def test_validation_and_decoding_are_untouched(folder):
    task = setup(folder)
    stock = TranslationTask.setup_task(TranslationConfig(**{**STOCK, "data": str(folder)}))
    for options in ({"split": "valid"}, {"split": "train", "task_cfg": task.cfg}):
        ours, theirs = load(task, **options), load(stock, **options)
        assert not isinstance(ours, MixedBatchesDataset)
        assert [plain(item) for item in ours] == [plain(item) for item in theirs]


def test_options_and_data_that_do_not_fit_are_named(folder, tmp_path):
    builders.write_pair(tmp_path, "train", "en", "de")
    builders.write_dictionary(tmp_path, "de", pieces=builders.PIECES - 1)
    other = str(tmp_path)
    for options, message in (
        ({"mix_monolingual": "de,de"}, "--mix-monolingual must name each once"),
        ({"add_sentinels": 0}, "lacks <extra_id_0>.*--add-sentinels"),
        ({"add_sentinels": 1}, "has 1, .*--mask-prob"),
        ({"mix_monolingual": "it"}, r"--mix-monolingual it: .*train\.it-None\.it\.bin is missing"),
        ({"mix_data": other}, r"dict\.de\.txt differs from .*dict\.en\.txt"),
        ({"data": other}, r"dict\.de\.txt differs from .*dict\.en\.txt: run fairseq-preprocess"),
    ):
        with pytest.raises(ValueError, match=message):
            load(setup(folder, **options))
    load(setup(other, mix_monolingual="", add_sentinels=0))
