"""Task translation_mixing: stock translation but for the training set, which batches of corrupted text join."""

from contextlib import nullcontext

import pytest
from fairseq.tasks.translation import TranslationConfig, TranslationTask

from fairseq_plugins.data.mixed_batches import MixedBatchesDataset
from tests import builders
from tests.deltalm_builders import EOS, plain
from tests.unit.tasks.making import load, maker

COUNT = 24
STOCK = {
    "source_lang": "en",
    "target_lang": "de",
    "train_subset": "train",
    "dataset_impl": None,
    "required_seq_len_multiple": 1,
}
setup = maker("translation_mixing", **STOCK, mix_monolingual="de", tokens_per_sample=20, add_sentinels=10)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("data-bin")
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


def test_languages_and_their_folder(folder, tmp_path):
    other = builders.sentences(COUNT, 401)
    builders.write_side(tmp_path, "train", "de-None", "de", other)
    for options, rows in (
        ({"mix_monolingual": "de"}, builders.sentences(COUNT, 101)),
        ({"mix_monolingual": "fr"}, builders.sentences(COUNT, 301)),
        ({"mix_monolingual": "de", "mix_data": str(tmp_path)}, other),
    ):
        stream = load(setup(folder, sample_break_mode="eos", **options)).corrupted.streams[0]
        assert [stream.read(index, None)[0].tolist() for index in range(COUNT)] == [[*row, EOS] for row in rows]


def test_options_reach_the_texts(folder):
    options = {"mask_prob": 0.4, "mean_span": 2.0, "sample_break_mode": "eos", "sampling_temperature": 1e6}
    task = setup(folder, mix_monolingual="de,es", mix_share=0.25, seed=9, tokens_per_sample=18, **options)
    data = load(task)
    assert (data.share, data.seed, data.max_sizes) == (0.25, 9, (18, 19))
    assert data.corrupted.streams[0].ratio == 0.4 and data.corrupted.probabilities == pytest.approx(
        [0.5, 0.5], abs=1e-4
    )
    assert data.corrupted.corruption == (2.0, list(range(builders.MASK, builders.MASK + 10)), 9, False)
    assert task.src_dict == task.tgt_dict and task.src_dict.symbols[-1] == "<extra_id_9>"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mix_monolingual": "de,de"}, "--mix-monolingual must name each once"),
        ({"add_sentinels": 0}, "lacks <extra_id_0>.*--add-sentinels"),
        ({"add_sentinels": 1}, "has 1, .*--mask-prob"),
        ({"mix_monolingual": "it"}, r"--mix-monolingual it: .*train\.it-None\.it\.bin is missing; run fairseq-preproc"),
        ({"mix_data": "other"}, r"other/dict\.de\.txt differs from .*dict\.en\.txt"),
        ({"data": "other"}, r"other/dict\.de\.txt differs from .*other/dict\.en\.txt: run fairseq-preprocess"),
        ({"data": "other", "mix_monolingual": "", "add_sentinels": 0}, None),
    ],
)
def test_options_and_data_that_do_not_fit_are_named(folder, tmp_path, options, message):
    (tmp_path / "other").mkdir()
    builders.write_pair(tmp_path / "other", "train", "en", "de")
    builders.write_dictionary(tmp_path / "other", "de", pieces=builders.PIECES - 1)
    options = {name: value if value != "other" else str(tmp_path / "other") for name, value in options.items()}
    with pytest.raises(ValueError, match=message) if message else nullcontext():
        load(setup(folder, **options))
