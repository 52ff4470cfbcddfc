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


def test_options_and_data_that_do_not_fit_are_named(folder, tmp_path):
    folder = shutil.copytree(folder, tmp_path / "data")
    builders.write_dictionary(folder, "it", builders.PIECES - 1)
    for options, message in (
        ({"pairs": ""}, "--pairs needs at least one pair"),
        ({"pairs": "en-de,en-de"}, "--pairs must name each once"),
        ({"monolingual": "en,es"}, "--monolingual es: .*es.bin is missing"),
        ({"pairs": "en-de", "monolingual": "it"}, r"dict\.it\.txt differs from .*dict\.en\.txt"),
    ):
        with pytest.raises(ValueError, match=message):
            _items(setup(folder, **options))
    assert setup(folder).source_dictionary.symbols == builders.dictionary().symbols
