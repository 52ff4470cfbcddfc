"""Task veco_pretraining: its data, sampling and order of batches, every error before the first batch."""

import numpy as np
import pytest
from fairseq.data.iterators import EpochBatchIterator

from fairseq_plugins.tasks import veco_pretraining
from tests import builders
from tests import veco_builders as veco
from tests.unit.tasks.making import load, maker
from tests.veco_builders import BOS, EOS, whole

PAIRS = 30
setup = maker(
    "veco_pretraining", pairs="en-de", monolingual="en", train_subset="train", tokens_per_sample=24, ddp_backend="c10d"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("data-bin")
    for split in ("train", "valid"):
        builders.write_pair(path, split, "en", "de", PAIRS)
        builders.write_pair(path, split, "en", "fr", 10)
        veco.write_documents(path, split, "en", veco.documents([5, 4] * 10, 3))
        veco.write_documents(path, split, "it", veco.documents([4] * 4, 5))
    return path


def test_validation_has_every_text_once(folder):
    data = load(setup(folder, pairs="en-de,en-fr", monolingual="it,en"), "valid")
    italian, english = (veco.segments(veco.documents(c, s), 12) for c, s in (([4] * 4, 5), ([5, 4] * 10, 3)))
    left, right = builders.sentences(PAIRS, 1), builders.sentences(PAIRS, 101)
    expected = [veco.rows_of(stream, index) for stream in (italian, english) for index in range(len(stream))]
    expected += [[[BOS, *x, EOS], [BOS, *y, EOS]] for x, y in zip(left, right)]
    found = [whole(item) for item in data]
    assert found[: len(expected)] == expected
    assert len(found) == len(expected) + 10
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
    with pytest.raises(ValueError, match="<mask> must stand behind the pieces"):
        setup(tmp_path, pairs="")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"pairs": "", "monolingual": ""}, "--pairs and --monolingual are both empty"),
        ({"pairs": "", "monolingual": "sv"}, "no dictionary .*dict.sv.txt"),
        ({"monolingual": "de"}, "--monolingual de: .*train.en-de.de.bin has no empty line.*behind each document"),
        ({"pairs": "en-de,en-fr", "monolingual": "fr"}, "--monolingual fr: .*train.en-fr.fr.bin has no empty line"),
        ({"tokens_per_sample": 6, "monolingual": ""}, "train en-de: no text of two segments; left out: "),
    ],
)
def test_options_and_data_that_do_not_fit_are_named(folder, given, message):
    with pytest.raises(ValueError, match=message):
        load(setup(folder, **given))


def test_documents_are_counted_and_one_for_all_is_said(tmp_path, monkeypatch, caplog):
    """A text of no documents, but for a stray empty line, is not told from one of documents: their sizes are in the log."""
    monkeypatch.setattr(veco_pretraining, "LONG_DOCUMENT", 5)
    veco.write_documents(tmp_path, "train", "en", veco.documents([3, 3, 4]))
    veco.write_documents(tmp_path, "valid", "en", veco.documents([9, 1]))
    task = setup(tmp_path, pairs="")
    with caplog.at_level("INFO"):
        load(task)
        assert "3 documents, the longest of 4 sentences" in caplog.text and "WARNING" not in caplog.text
        load(task, "valid")
    assert "--monolingual en: one document of" in caplog.text and "has 9 of its 10 sentences" in caplog.text


def iterator(task, split="train", epoch=1, **given):
    defaults = {"max_sentences": 4, "max_positions": task.max_positions(), "ignore_invalid_inputs": True, "seed": 1}
    return task.get_batch_iterator(task.dataset(split), epoch=epoch, **{**defaults, **given})


@pytest.mark.parametrize("shards", [1, 2])
def test_training_batches_take_turns_in_every_epoch(folder, shards):
    task, seen = setup(folder), []
    load(task)
    for epoch in (1, 2):
        sources = [iterator(task, epoch=epoch, num_shards=shards, shard_id=shard) for shard in range(shards)]
        updates = [*zip(*(source.next_epoch_itr(shuffle=True) for source in sources))]
        seen.append([batch for update in updates for batch in update])
        assert [veco.is_parallel(batch) for batch in seen[-1]] == [False, True] * 9, (
            "34 texts of the language, 4 a batch"
        )
    assert [batch["id"].tolist() for batch in seen[0]] != [batch["id"].tolist() for batch in seen[1]]


@pytest.mark.parametrize("given", [{"pairs": ""}, {"monolingual": ""}])
def test_one_kind_alone_is_batched_by_the_stock_iterator(folder, given):
    task = setup(folder, **given)
    load(task)
    source = iterator(task)
    assert type(source) is EpochBatchIterator
    assert {veco.is_parallel(batch) for batch in source.next_epoch_itr(shuffle=True)} == {given == {"monolingual": ""}}


@pytest.mark.parametrize("split", ["train", "valid"])
def test_long_pairs_are_left_out(folder, split):
    """In validation too, where fairseq would stop at the first."""
    sides = zip(builders.sentences(PAIRS, 1), builders.sentences(PAIRS, 101))
    data = load(setup(folder, tokens_per_sample=14), split)
    assert 0 < len(data.streams[1]) == sum(max(len(x), len(y)) + 2 <= 7 for x, y in sides) < PAIRS
    assert not (data.sizes > 14).any() and setup(folder, tokens_per_sample=14).max_positions() == 14
