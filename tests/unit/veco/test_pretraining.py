"""Test the task veco_pretraining: its data, shares, dictionary, and refused options."""

import numpy as np
import pytest

from tests import builders, veco_builders
from tests.unit.common.making import load, maker
from tests.veco_builders import BOS, EOS, stream_rows, unmasked

PAIRS = 30
make_task = maker(
    "veco_pretraining",
    pairs="en-de",
    monolingual="en",
    train_subset="train",
    tokens_per_sample=24,
    ddp_backend="c10d",
)


@pytest.fixture(scope="module")
def folder(path):
    for split in ("train", "valid"):
        builders.write_pair(path, split, "en", "de", PAIRS)
        builders.write_pair(path, split, "en", "fr", 10)
        english, italian = (
            veco_builders.documents(counts, seed)
            for counts, seed in (([5, 4] * 10, 3), ([4] * 4, 5))
        )
        veco_builders.write_documents(path, split, "en", english)
        veco_builders.write_documents(path, split, "it", italian)
    return path


def test_validation_has_every_text_once(folder):
    data = load(make_task(folder, pairs="en-de,en-fr", monolingual="it,en"), "valid")
    italian = veco_builders.segments(veco_builders.documents([4] * 4, 5), 12)
    english = veco_builders.segments(veco_builders.documents([5, 4] * 10, 3), 12)
    expected = []
    for stream in (italian, english):
        expected += [stream_rows(stream, index) for index in range(len(stream))]
    for source, target in zip(builders.sentences(PAIRS, 1), builders.sentences(PAIRS, 101)):
        expected.append([[BOS, *source, EOS], [BOS, *target, EOS]])
    texts = [*map(unmasked, data)]
    assert texts[: len(expected)] == expected and len(texts) == len(expected) + 10
    assert data.probabilities is None
    assert max(data.size(index) for index in range(data.first_pair)) <= 24


def test_training_is_sampled_within_each_kind(folder):
    options = {"pairs": "en-de,en-fr", "monolingual": "en,it"}
    task = make_task(folder, **options)
    data = load(task)
    sizes = np.array([len(stream) for stream in data.streams])
    roots = np.sqrt(sizes)
    expected = [*(roots[:2] / roots[:2].sum()), *(roots[2:] / roots[2:].sum())]
    assert data.probabilities == pytest.approx(expected)
    natural = load(make_task(folder, **options, sampling_alpha=1.0)).probabilities
    assert natural == pytest.approx([*(sizes[:2] / sizes[:2].sum()), 0.75, 0.25])
    # fairseq passes task_cfg when it validates, here on the training set.
    assert load(task, "train", task_cfg=task.cfg).probabilities is None
    assert load(make_task(folder, monolingual="")).probabilities == pytest.approx([1.0])


def test_mask_stands_after_the_pieces(folder, tmp_path):
    symbols = builders.dictionary().symbols
    task = make_task(folder)
    assert task.source_dictionary.symbols == task.target_dictionary.symbols == symbols
    for entries, expected in (
        ([*builders.piece_names(), "<mask>"], symbols),
        ([*builders.piece_names(), "<mask>", "[en]"], [*symbols, "[en]"]),
    ):
        builders.write_symbols(tmp_path / "dict.en.txt", entries)
        assert make_task(tmp_path, pairs="").source_dictionary.symbols == expected
    builders.write_symbols(tmp_path / "dict.en.txt", ["<mask>", *builders.piece_names()])
    with pytest.raises(ValueError, match="<mask> must stand after the pieces"):
        make_task(tmp_path, pairs="")


@pytest.mark.cases(
    "options message",
    ({"pairs": "", "monolingual": ""}, "--pairs and --monolingual"),
    ({"pairs": "", "monolingual": "sv"}, "no dictionary .*dict.sv.txt"),
    ({"monolingual": "de"}, "--monolingual de: .*train.en-de.de.bin has no empty line"),
    ({"tokens_per_sample": 6, "monolingual": ""}, "train en-de: no text of two segments"),
)
def test_options_and_data_that_do_not_fit_are_named(folder, options, message):
    with pytest.raises(ValueError, match=message):
        load(make_task(folder, **options))
