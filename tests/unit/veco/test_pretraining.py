"""Task veco_pretraining: its data, sampling and order of batches, every error before the first batch."""

import numpy as np
import pytest

from tests import builders
from tests import veco_builders as veco
from tests.unit.common.making import load, maker
from tests.veco_builders import BOS, EOS, whole

PAIRS = 30
OPTIONS = dict(pairs="en-de", monolingual="en", train_subset="train", tokens_per_sample=24, ddp_backend="c10d")
setup = maker("veco_pretraining", **OPTIONS)


@pytest.fixture(scope="module")
def folder(path):
    for split in ("train", "valid"):
        builders.write_pair(path, split, "en", "de", PAIRS)
        builders.write_pair(path, split, "en", "fr", 10)
        veco.write_documents(path, split, "en", veco.documents([5, 4] * 10, 3))
        veco.write_documents(path, split, "it", veco.documents([4] * 4, 5))
    return path


def test_validation_has_every_text_once(folder):
    data = load(setup(folder, pairs="en-de,en-fr", monolingual="it,en"), "valid")
    italian, english = (veco.segments(veco.documents(c, s), 12) for c, s in (([4] * 4, 5), ([5, 4] * 10, 3)))
    sources, targets = builders.sentences(PAIRS, 1), builders.sentences(PAIRS, 101)
    expected = [veco.rows_of(stream, index) for stream in (italian, english) for index in range(len(stream))]
    expected += [[[BOS, *x, EOS], [BOS, *y, EOS]] for x, y in zip(sources, targets)]
    texts = [whole(item) for item in data]
    assert texts[: len(expected)] == expected
    assert len(texts) == len(expected) + 10
    assert data.probabilities is None
    for index in range(data.first_pair):
        assert data.size(index) <= 24


def test_training_is_sampled_within_each_kind(folder):
    task = setup(folder, pairs="en-de,en-fr", monolingual="en,it")
    data = load(task)
    counts = [len(stream) for stream in data.streams]
    roots = np.sqrt(counts)
    expected = [*(roots[:2] / roots[:2].sum()), *(roots[2:] / roots[2:].sum())]
    assert data.probabilities == pytest.approx(expected)
    natural = load(setup(folder, pairs="en-de,en-fr", monolingual="en,it", sampling_alpha=1.0)).probabilities
    assert natural == pytest.approx([counts[0] / sum(counts[:2]), counts[1] / sum(counts[:2]), 0.75, 0.25])
    assert load(task, "train", task_cfg=task.cfg).probabilities is None, "validating on the training set"
    assert load(setup(folder, monolingual="")).probabilities == pytest.approx([1.0])


def test_mask_stands_behind_the_pieces(folder, tmp_path):
    task = setup(folder)
    assert task.source_dictionary.symbols == task.target_dictionary.symbols == builders.dictionary().symbols
    text = (folder / "dict.en.txt").read_text(encoding="utf-8")
    (tmp_path / "dict.en.txt").write_text(text + "<mask> 1\n", encoding="utf-8")
    assert setup(tmp_path, pairs="").source_dictionary.symbols == builders.dictionary().symbols
    (tmp_path / "dict.en.txt").write_text(text + "<mask> 1\n[en] 1\n", encoding="utf-8")
    assert setup(tmp_path, pairs="").source_dictionary.symbols == [*builders.dictionary().symbols, "[en]"]
    (tmp_path / "dict.en.txt").write_text("<mask> 1\n" + text, encoding="utf-8")
    with pytest.raises(ValueError, match="<mask> must stand after the pieces"):
        setup(tmp_path, pairs="")


def test_options_and_data_that_do_not_fit_are_named(folder):
    for given, message in (
        ({"pairs": "", "monolingual": ""}, "--pairs and --monolingual are both empty"),
        ({"pairs": "", "monolingual": "sv"}, "no dictionary .*dict.sv.txt"),
        ({"monolingual": "de"}, "--monolingual de: .*train.en-de.de.bin has no empty line.*behind each document"),
        ({"tokens_per_sample": 6, "monolingual": ""}, "train en-de: no text of two segments; left out: "),
    ):
        with pytest.raises(ValueError, match=message):
            load(setup(folder, **given))
