"""Task tlm_pretraining: which data it reads, that parts are masked independently, epochs, errors."""

import shutil

import pytest

from tests import builders
from tests.unit.tasks.making import load, maker

COUNT = 12
setup = maker("tlm_pretraining", pairs="en-de,en-fr")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """en-de and en-fr over the same sentences: only the masking can differ."""
    path = tmp_path_factory.mktemp("data-bin")
    builders.write_pair(path, "train", "en", "de")
    builders.write_pair(path, "train", "en", "fr")
    return path


def _items(task):
    dataset = load(task)
    return [dataset[index] for index in range(len(dataset))]


def _whole(item):
    return [int(t if p == builders.PAD else p) for t, p in zip(item["tokens"], item["target"])]


def test_pairs_and_languages_are_concatenated(folder):
    items = _items(setup(folder, monolingual="de,fr"))
    assert len(items) == 4 * COUNT
    en, de = builders.sentences(COUNT, 1), builders.sentences(COUNT, 101)
    for index in range(COUNT):
        pair = [builders.BOS, *en[index], builders.EOS, builders.BOS, *de[index], builders.EOS]
        assert _whole(items[index]) == _whole(items[COUNT + index]) == pair
        single = [builders.BOS, *de[index], builders.EOS]
        assert _whole(items[2 * COUNT + index]) == _whole(items[3 * COUNT + index]) == single


def test_languages_of_other_pairs_and_by_themselves(folder, tmp_path):
    """French is a side of a pair that is not trained; Spanish has text of its own."""
    folder = shutil.copytree(folder, tmp_path / "data")
    rows = {"fr": builders.sentences(COUNT, 101), "es": builders.sentences(COUNT, 9)}
    builders.write_side(folder, "train", "es-None", "es", rows["es"])
    for language, own in rows.items():
        found = _items(setup(folder, pairs="en-de", monolingual=language))[COUNT:]
        assert [_whole(item) for item in found] == [[builders.BOS, *row, builders.EOS] for row in own]


def test_languages_do_not_mask_alike(folder, tmp_path):
    """Lines of equal lengths in two languages: only the stream tells them apart."""
    builders.write_pair(tmp_path, "train", "en", "de")
    for name in ("a", "b"):
        builders.write_side(tmp_path, "train", f"{name}-None", name, builders.sentences(COUNT, 9))
    streams = _items(setup(tmp_path, pairs="en-de", monolingual="a,b"))[COUNT:]
    assert [_whole(item) for item in streams[:COUNT]] == [_whole(item) for item in streams[COUNT:]]
    masked = [item["target"].tolist() for item in streams]
    assert sum(first == second for first, second in zip(masked, masked[COUNT:])) < COUNT // 2


def test_epochs_reach_every_part(folder):
    task = setup(folder, monolingual="en")
    first = [item["target"].tolist() for item in _items(task)]
    dataset = task.dataset("train")
    assert [dataset[index]["id"] for index in range(3 * COUNT)] == list(range(3 * COUNT))
    dataset.set_epoch(2)
    second = [dataset[index]["target"].tolist() for index in range(len(dataset))]
    for start in range(0, 3 * COUNT, COUNT):
        changed = sum(a != b for a, b in zip(first[start : start + COUNT], second[start : start + COUNT]))
        assert changed > COUNT // 2
    dataset.set_epoch(1)
    assert [dataset[index]["target"].tolist() for index in range(len(dataset))] == first


def test_batches_respect_max_tokens_and_leave_long_pairs_out(folder):
    task = setup(folder, tokens_per_sample=15, monolingual="de")
    lengths, data = [len(item["tokens"]) for item in _items(task)], task.dataset("train")
    options = {"max_tokens": 40, "max_positions": task.max_positions(), "ignore_invalid_inputs": True, "seed": 1}
    found = list(task.get_batch_iterator(data, **options).next_epoch_itr(shuffle=False))
    assert all(batch["net_input"]["src_tokens"].numel() <= 40 for batch in found)
    seen = [length for batch in found for length in batch["net_input"]["src_lengths"].tolist()]
    assert sorted(seen) == sorted(length for length in lengths if length <= 15) and 0 < len(seen) < len(data)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pairs": ""}, "--pairs needs at least one pair"),
        ({"pairs": "en-de,en-de"}, "--pairs must name each once"),
        ({"monolingual": "en,es"}, "--monolingual es: .*es.bin is missing"),
        ({"pairs": "it-pt"}, "dict.it.txt"),
        ({"pairs": "en-de", "monolingual": "it"}, r"dict\.it\.txt differs from .*dict\.en\.txt"),
    ],
)
def test_options_and_data_that_do_not_fit_are_named(folder, tmp_path, options, message):
    folder = shutil.copytree(folder, tmp_path / "data")
    if options.get("monolingual") == "it":
        builders.write_dictionary(folder, "it", builders.PIECES - 1)
    with pytest.raises(ValueError, match=message):
        _items(setup(folder, **options))
    assert setup(folder).source_dictionary.symbols == builders.dictionary().symbols
