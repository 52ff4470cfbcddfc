"""Task span_corruption: which data it reads and how, sentinels, sampling, batches, every error before the first batch."""

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
def folder(path):
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


def test_options_and_data_that_do_not_fit_are_named(folder):
    for options, message in (
        ({"pair_share": 0.5}, "--pair-share must be 1 where --monolingual is empty; got 0.5"),
        ({"pairs": ""}, "--pairs and --monolingual are both empty"),
        ({"pairs": "es-pt"}, "dict.es.txt"),
        ({"add_sentinels": 0}, "lacks <extra_id_0>.*--add-sentinels"),
        ({"add_sentinels": 6}, "has 6, .*--tokens-per-sample 40, --pair-mask-prob 0.5"),
        # 40 tokens: 38 in a pair give 19 of noise in 6 spans, one cut; text of one sentence: 6 of noise in 2 spans.
        ({"add_sentinels": 7}, None),
        ({**TEXT, "add_sentinels": 2}, None),
        ({**TEXT, "add_sentinels": 2, "sample_break_mode": "complete"}, "--mask-prob 0.15"),
        ({"split": "test"}, r"--pairs en-de: .*test\.en-de\.en\.bin is missing"),
        ({**TEXT, "split": "short"}, "short it: none of 3 inputs has 2 tokens"),
    ):
        split = options.pop("split", "train")
        with pytest.raises(ValueError, match=message) if message else nullcontext():
            load(setup(folder, **options), split)
