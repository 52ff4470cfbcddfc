"""Task span_corruption: which data it reads and how, sentinels, sampling, batches, every error before the first batch."""

import logging

import pytest
import torch

from fairseq_plugins.tasks.span_corruption import SpanCorruptionConfig, SpanCorruptionTask
from tests import builders, data_bins
from tests import corruption_builders as corruption
from tests.corruption_builders import EOS, plain

COUNT = 12


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("data-bin")
    for split in ("train", "valid"):
        data_bins.write_pair(path, split, "en", "de")
        data_bins.write_pair(path, split, "en", "fr")
    data_bins.write_side(path, "train", "it-None", "it", data_bins.sentences(COUNT, 201))
    data_bins.write_dictionary(path, "it")
    return path


def setup(folder, **options):
    defaults = {"data": str(folder), "pairs": "en-de,en-fr", "seed": 1, "train_subset": "train", "add_sentinels": 40}
    cfg = SpanCorruptionConfig(**{"tokens_per_sample": 40, **defaults, **options})
    return SpanCorruptionTask.setup_task(cfg)


def load(task, split="train", **options):
    task.load_dataset(split, **options)
    return task.dataset(split)


def texts(data):
    """What items were made of. The sentinels of the task's dictionary follow its pieces; there is no <mask>."""
    found = []
    for index in range(len(data)):
        rows = [[token + (token >= builders.MASK) for token in row] for row in plain(data[index])]
        found.append(corruption.restored(*rows))
    return found


def test_pairs_and_languages_are_streams(folder):
    data = load(setup(folder, monolingual="it,de", sample_break_mode="eos"))
    en, de = data_bins.sentences(COUNT, 1), data_bins.sentences(COUNT, 101)
    found = texts(data)
    assert len(found) == 4 * COUNT
    for index in range(COUNT):
        pair = ([*en[index], EOS, *de[index], EOS], [*de[index], EOS, *en[index], EOS])
        assert found[index] in pair and found[COUNT + index] in pair  # the French side is the German one
    assert found[2 * COUNT : 3 * COUNT] == [[*row, EOS] for row in data_bins.sentences(COUNT, 201)]
    assert found[3 * COUNT :] == [[*row, EOS] for row in de]


def test_the_log_names_every_stream(folder, caplog):
    caplog.set_level(logging.INFO)
    load(setup(folder, monolingual="it", sample_break_mode="eos", pair_share=0.5))
    lines = [record.getMessage() for record in caplog.records if "of an epoch" in record.getMessage()]
    assert [line.split(":")[0] for line in lines] == ["train en-de", "train en-fr", "train it"]
    assert "12 inputs (0 more are too short)" in lines[2] and "0.5000 of the inputs" in lines[2]


def test_training_samples_and_everything_else_does_not(folder):
    task = setup(folder, pair_share=0.75, monolingual="de", sample_break_mode="eos", sampling_temperature=2.0)
    data = load(task)
    assert data.probabilities == pytest.approx([0.375, 0.375, 0.25])
    assert load(task, "valid").probabilities is None
    assert load(task, "train", task_cfg=task.cfg).probabilities is None, "decoding the training set"


def batches(task, epoch, max_positions=None):
    iterator = task.get_batch_iterator(
        task.dataset("train"),
        max_tokens=60,
        max_positions=max_positions or task.max_positions(),
        ignore_invalid_inputs=True,
        seed=1,
        epoch=epoch,
    )
    return list(iterator.next_epoch_itr())


def flat(found):
    return [(b["id"].tolist(), b["net_input"]["src_tokens"].tolist(), b["target"].tolist()) for b in found]


def test_a_resumed_run_draws_what_an_uninterrupted_one_does(folder):
    def task():
        found = setup(folder, monolingual="de,it", sampling_temperature=3.0, pair_share=0.4)
        load(found)
        return found

    first = task()
    epochs = [flat(batches(first, epoch)) for epoch in (1, 2)]
    assert epochs[0] != epochs[1]
    assert flat(batches(task(), 2)) == epochs[1]


def test_inference_reads_sentinels(folder):
    task = setup(folder)
    zero = task.source_dictionary.index("<extra_id_0>")
    data = task.build_dataset_for_inference([torch.tensor([5, zero, 6, EOS])], [4])
    batch = data.collater([data[0]])
    assert batch["net_input"]["src_tokens"].tolist() == [[5, zero, 6, EOS]]
    short = task.build_dataset_for_inference([torch.tensor([5, 6, EOS]), torch.tensor([7, EOS])], [3, 2])
    padded = short.collater([short[0], short[1]])["net_input"]["src_tokens"]
    assert padded.tolist() == [[5, 6, EOS], [7, EOS, builders.PAD]]


def test_one_dictionary_with_sentinels_at_its_end(folder):
    task = setup(folder)
    assert task.source_dictionary is task.target_dictionary
    assert task.source_dictionary.symbols[builders.MASK :] == [f"<extra_id_{number}>" for number in range(40)]
    other = setup(folder, sentinels="[{}]")
    assert other.source_dictionary.symbols[-1] == "[39]"


def test_sentinels_of_the_dictionary_are_used(folder, tmp_path):
    for file in folder.iterdir():
        (tmp_path / file.name).symlink_to(file)
    for language in ("en", "de", "fr"):
        path = tmp_path / f"dict.{language}.txt"
        lines = path.read_text() + "".join(f"<extra_id_{number}> 0\n" for number in range(30))
        path.unlink()
        path.write_text(lines)
    task = setup(tmp_path, add_sentinels=0)
    assert task.sentinels == list(range(builders.MASK, builders.MASK + 30))
    assert len(task.source_dictionary) == builders.MASK + 30


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"mask_prob": 0.0}, ["--mask-prob", "(0, 1)", "0.0"]),
        ({"mask_prob": 1.0}, ["--mask-prob", "(0, 1)", "1.0"]),
        ({"pair_mask_prob": 1.5}, ["--pair-mask-prob", "(0, 1)", "1.5"]),
        ({"mean_span": 0.5}, ["--mean-span", "at least 1", "0.5"]),
        ({"tokens_per_sample": 3}, ["--tokens-per-sample", "at least 4", "3"]),
        ({"sampling_temperature": 0.5}, ["--sampling-temperature", "at least 1", "0.5"]),
        ({"sampling_temperature": float("inf")}, ["--sampling-temperature", "inf"]),
        ({"pair_share": -0.1}, ["--pair-share", "[0, 1]", "-0.1"]),
        ({"pair_share": 1.1}, ["--pair-share", "[0, 1]", "1.1"]),
        ({"pair_share": 0.5}, ["--pair-share must be 1", "--monolingual is empty", "0.5"]),
        ({"pair_share": 0.5, "pairs": "", "monolingual": "it"}, ["--pair-share must be 0", "--pairs is empty", "0.5"]),
        ({"pairs": ""}, ["--pairs", "--monolingual"]),
        ({"pairs": "en"}, ["--pairs", "'en'"]),
        ({"pairs": "en-de-fr"}, ["--pairs", "'en-de-fr'"]),
        ({"pairs": "en-"}, ["--pairs", "'en-'"]),
        ({"pairs": "en-de,en-de"}, ["--pairs", "once"]),
        ({"monolingual": "de,de"}, ["--monolingual", "once"]),
        ({"pairs": "es-pt"}, ["dict.es.txt"]),
        ({"add_sentinels": 0}, ["lacks <extra_id_0>", "--add-sentinels", "dict.txt"]),
        ({"add_sentinels": 6}, ["has 6", "--pair-mask-prob 0.5", "--tokens-per-sample 40"]),
        ({"add_sentinels": -1}, ["--add-sentinels", "-1"]),
        ({"sentinels": "<extra>"}, ["--sentinels", "'<extra>'"]),
    ],
)
def test_wrong_options_are_named(folder, options, words):
    with pytest.raises(ValueError) as error:
        setup(folder, **options)
    for word in words:
        assert word in str(error.value)


def test_sentinels_must_suffice_for_text_and_pairs_that_are_there(folder):
    """40 tokens: 38 in a pair give 19 of noise in 6 spans, one cut; text of one sentence: 6 of noise in 2 spans."""
    setup(folder, add_sentinels=7)
    setup(folder, add_sentinels=2, pairs="", monolingual="it", sample_break_mode="eos")
    with pytest.raises(ValueError, match="--mask-prob 0.15"):
        setup(folder, add_sentinels=2, pairs="", monolingual="it")
    with pytest.raises(ValueError, match="up to 7"):
        setup(folder, add_sentinels=2, monolingual="it", sample_break_mode="eos")


def test_missing_data_are_named(folder):
    with pytest.raises(
        ValueError, match=r"--monolingual it: .*valid\.it-None\.it\.bin is missing; run fairseq-preprocess"
    ):
        load(setup(folder, monolingual="it"), "valid")
    with pytest.raises(ValueError, match=r"--pairs en-de: .*test\.en-de\.en\.bin is missing"):
        load(setup(folder), "test")


def test_text_without_anything_to_corrupt_is_named(folder, tmp_path):
    data_bins.write_side(tmp_path, "train", "it-None", "it", [[5], [], [6]])
    data_bins.write_dictionary(tmp_path, "it")
    with pytest.raises(ValueError, match="train it: none of 3 inputs has 2 tokens"):
        load(setup(tmp_path, pairs="", monolingual="it", sample_break_mode="eos"))
