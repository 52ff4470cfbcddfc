"""Task span_corruption: which data it reads and how, sentinels, sampling, batches, every error before the first batch."""

import shutil
from contextlib import nullcontext

import numpy as np
import pytest

from tests import builders
from tests import deltalm_builders as corruption
from tests.deltalm_builders import EOS, plain
from tests.unit.tasks.making import load, maker

COUNT = 12
TEXT = {"pairs": "", "monolingual": "it", "sample_break_mode": "eos"}
setup = maker("span_corruption", pairs="en-de,en-fr", train_subset="train", add_sentinels=40, tokens_per_sample=40)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("data-bin")
    for split in ("train", "valid"):
        builders.write_pair(path, split, "en", "de")
        builders.write_pair(path, split, "en", "fr")
    builders.write_side(path, "train", "it-None", "it", builders.sentences(COUNT, 201))
    builders.write_side(path, "short", "it-None", "it", [[5], [], [6]])
    builders.write_dictionary(path, "it")
    return path


def texts(data):
    """What items were made of. The sentinels of the task's dictionary follow its pieces; there is no <mask>."""
    found = []
    for index in range(len(data)):
        rows = [[token + (token >= builders.MASK) for token in row] for row in plain(data[index])]
        found.append(corruption.restored(*rows))
    return found


def test_pairs_and_languages_are_streams(folder):
    data = load(setup(folder, monolingual="it,de", sample_break_mode="eos"))
    en, de = builders.sentences(COUNT, 1), builders.sentences(COUNT, 101)
    found = texts(data)
    assert len(found) == 4 * COUNT
    for index in range(COUNT):
        pair = ([*en[index], EOS, *de[index], EOS], [*de[index], EOS, *en[index], EOS])
        assert found[index] in pair and found[COUNT + index] in pair  # the French side is the German one
    assert found[2 * COUNT : 3 * COUNT] == [[*row, EOS] for row in builders.sentences(COUNT, 201)]
    assert found[3 * COUNT :] == [[*row, EOS] for row in de]


def test_training_samples_and_everything_else_does_not(folder):
    task = setup(folder, pair_share=0.75, monolingual="de", sample_break_mode="eos", sampling_temperature=2.0)
    assert load(task).probabilities == pytest.approx([0.375, 0.375, 0.25])
    assert load(task, "valid").probabilities is None
    assert load(task, "train", task_cfg=task.cfg).probabilities is None, "decoding the training set"
    data = load(setup(folder, pairs="en-de", monolingual="de", sampling_temperature=2.0, tokens_per_sample=30))
    sizes = np.array([len(stream) for stream in data.streams])
    assert sizes[0] == COUNT and 1 < sizes[1] < COUNT, "sentences are packed"
    assert data.probabilities == pytest.approx(sizes**0.5 / (sizes**0.5).sum())


def test_options_reach_the_dataset(folder):
    task = setup(folder, monolingual="de", mean_span=2.0, no_target_sentinels=True, seed=9, mask_prob=0.2)
    data = load(task)
    assert data.corruption == (2.0, list(range(builders.MASK, builders.MASK + 40)), 9, False)
    assert [stream.ratio for stream in data.streams] == [0.5, 0.5, 0.2]


def test_batches_leave_out_what_is_too_long(folder):
    task = setup(folder, monolingual="de,it", sampling_temperature=3.0, pair_share=0.4, tokens_per_sample=12)
    data = load(task)
    options = {"max_tokens": 60, "max_positions": task.max_positions(), "ignore_invalid_inputs": True, "seed": 1}
    found = list(task.get_batch_iterator(data, **options).next_epoch_itr())
    for batch in found:
        assert batch["net_input"]["src_tokens"].numel() <= 60 and batch["target"].numel() <= 60
    kept = [index for index in range(len(data)) if data.size(index)[0] <= 12]
    assert task.max_positions() == (12, 13)
    assert sorted(index for batch in found for index in batch["id"].tolist()) == kept and 0 < len(kept) < len(data)


def test_sentinels_of_the_dictionary_are_used(folder, tmp_path):
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    for language in ("en", "de", "fr"):
        with open(tmp_path / f"dict.{language}.txt", "a") as file:
            file.writelines(f"<extra_id_{number}> 0\n" for number in range(30))
    task = setup(tmp_path, add_sentinels=0)
    assert task.sentinels == list(range(builders.MASK, builders.MASK + 30))
    assert len(task.source_dictionary) == builders.MASK + 30


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pair_share": 0.5}, "--pair-share must be 1 where --monolingual is empty; got 0.5"),
        ({"pairs": ""}, "--pairs and --monolingual are both empty"),
        ({"pairs": "en"}, "--pairs .*'en'"),
        ({"pairs": "es-pt"}, "dict.es.txt"),
        ({"add_sentinels": 0}, "lacks <extra_id_0>.*--add-sentinels"),
        ({"add_sentinels": 6}, "has 6, .*--tokens-per-sample 40, --pair-mask-prob 0.5"),
        # 40 tokens: 38 in a pair give 19 of noise in 6 spans, one cut; text of one sentence: 6 of noise in 2 spans.
        ({"add_sentinels": 7}, None),
        ({**TEXT, "add_sentinels": 2}, None),
        ({**TEXT, "add_sentinels": 2, "sample_break_mode": "complete"}, "--mask-prob 0.15"),
        ({**TEXT, "add_sentinels": 2, "pairs": "en-de"}, "up to 7"),
        ({"split": "test"}, r"--pairs en-de: .*test\.en-de\.en\.bin is missing"),
        ({**TEXT, "split": "valid"}, r"--monolingual it: .*valid\.it-None\.it\.bin is missing; run fairseq-preprocess"),
        ({**TEXT, "split": "short"}, "short it: none of 3 inputs has 2 tokens"),
    ],
)
def test_options_and_data_that_do_not_fit_are_named(folder, options, message):
    split = options.pop("split", "train")
    with pytest.raises(ValueError, match=message) if message else nullcontext():
        load(setup(folder, **options), split)
