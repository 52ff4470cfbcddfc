"""Task translation_mixing: stock translation but for the training set, which batches of corrupted text join."""

import shutil

import pytest
from fairseq.tasks.translation import TranslationConfig, TranslationTask

from fairseq_plugins.data.mixed_batches import MixedBatchesDataset
from fairseq_plugins.tasks.translation_mixing import TranslationMixingConfig, TranslationMixingTask
from tests import builders
from tests.deltalm_builders import EOS, plain

COUNT = 24
STOCK = {
    "source_lang": "en",
    "target_lang": "de",
    "train_subset": "train",
    "dataset_impl": None,
    "required_seq_len_multiple": 1,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("data-bin")
    for split in ("train", "valid"):
        builders.write_pair(path, split, "en", "de", count=COUNT)
    builders.write_side(path, "train", "fr-None", "fr", builders.sentences(COUNT, 301))
    return path


def setup(folder, **options):
    defaults = {"mix_monolingual": "de", "tokens_per_sample": 20, "add_sentinels": 10, "seed": 1}
    return TranslationMixingTask.setup_task(
        TranslationMixingConfig(**{**STOCK, "data": str(folder), **defaults, **options})
    )


def load(task, split="train", **options):
    task.load_dataset(split, **options)
    return task.dataset(split)


def batches(task, epoch=1):
    """Ids, sources and targets, as the trainer draws them."""
    options = {"max_sentences": 2, "max_positions": task.max_positions(), "seed": 1, "ignore_invalid_inputs": True}
    iterator = task.get_batch_iterator(task.dataset("train"), epoch=epoch, **options).next_epoch_itr()
    return [(b["id"].tolist(), b["net_input"]["src_tokens"].tolist(), b["target"].tolist()) for b in iterator]


def test_the_temperature_of_the_corrupted_text(folder, tmp_path):
    folder = shutil.copytree(folder, tmp_path / "data")
    builders.write_side(folder, "train", "es-None", "es", builders.sentences(4, 77))
    for temperature, share in ((1.0, COUNT / (COUNT + 4)), (1e6, 0.5)):
        options = {"sample_break_mode": "eos", "sampling_temperature": temperature}
        found = load(setup(folder, mix_monolingual="de,es", **options)).corrupted.probabilities
        assert found == pytest.approx([share, 1 - share], abs=1e-4)


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


def test_a_resumed_run_draws_what_an_uninterrupted_one_does(folder):
    first, again = (setup(folder, mix_monolingual="de,fr", sampling_temperature=5.0) for _ in range(2))
    load(first), load(again)
    epochs = [batches(first, epoch) for epoch in (1, 2)]
    assert epochs[0] != epochs[1] == batches(again, 2)


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
    task = setup(folder, mix_share=0.25, mask_prob=0.4, mean_span=2.0, seed=9, tokens_per_sample=18)
    data = load(task)
    assert (data.share, data.seed, data.max_sizes) == (0.25, 9, (18, 19))
    assert data.corrupted.streams[0].ratio == 0.4
    assert data.corrupted.corruption.mean_span == 2.0
    assert data.corrupted.corruption.seed == 9
    assert not data.corrupted.corruption.target_sentinels
    assert max(text[0] for text in data.corrupted.sizes) <= 18
    assert task.src_dict == task.tgt_dict
    assert task.src_dict.symbols[-1] == "<extra_id_9>"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"mix_share": 1.0}, ["--mix-share", "[0, 1)", "1.0"]),
        ({"mix_share": -0.5}, ["--mix-share", "[0, 1)", "-0.5"]),
        ({"mask_prob": 1.0}, ["--mask-prob", "1.0"]),
        ({"mean_span": 0.0}, ["--mean-span", "0.0"]),
        ({"tokens_per_sample": 2}, ["--tokens-per-sample", "2"]),
        ({"sampling_temperature": 0.0}, ["--sampling-temperature", "0.0"]),
        ({"mix_monolingual": "de,de"}, ["--mix-monolingual", "once"]),
        ({"add_sentinels": 0}, ["lacks <extra_id_0>", "--add-sentinels"]),
        ({"add_sentinels": 1}, ["has 1", "--mask-prob"]),
    ],
)
def test_wrong_options_are_named(folder, options, words):
    with pytest.raises(ValueError) as error:
        setup(folder, **options)
    for word in words:
        assert word in str(error.value)


def test_missing_text_is_named(folder):
    with pytest.raises(
        ValueError, match=r"--mix-monolingual es: .*train\.es-None\.es\.bin is missing; run fairseq-preprocess"
    ):
        load(setup(folder, mix_monolingual="es"))


def test_dictionaries_that_differ_are_named(folder, tmp_path):
    builders.write_pair(tmp_path, "train", "en", "de")
    builders.write_dictionary(tmp_path, "de", pieces=builders.PIECES - 1)
    with pytest.raises(ValueError, match=r"dict\.de\.txt differs from .*dict\.en\.txt: run fairseq-preprocess"):
        setup(tmp_path)
    setup(tmp_path, mix_monolingual="", add_sentinels=0)
    with pytest.raises(ValueError, match=rf"{tmp_path}.dict\.de\.txt differs from {folder}.dict\.en\.txt"):
        setup(folder, mix_data=str(tmp_path))
