"""Task tlm_pretraining: which data it reads, that parts are masked independently, epochs, errors."""

import shutil

import pytest

from tests import builders
from tests.unit.common.making import load, maker

COUNT = 12
setup = maker("tlm_pretraining", pairs="en-de,en-fr")


@pytest.fixture(scope="module")
def folder(path):
    """en-de and en-fr over the same sentences: only the masking can differ."""
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


def test_text_of_a_language_by_itself_comes_before_the_sides_of_pairs(folder, tmp_path):
    folder = shutil.copytree(folder, tmp_path / "data")
    own = builders.sentences(COUNT, 300)
    builders.write_side(folder, "train", "de-None", "de", own)
    items = _items(setup(folder, monolingual="de,fr"))[2 * COUNT :]
    assert [_whole(item)[1:-1] for item in items] == [*own, *builders.sentences(COUNT, 101)]


def test_epochs_reach_every_part(folder):
    task, found = setup(folder, monolingual="en"), []
    dataset = load(task)
    for epoch in (1, 2, 1):
        dataset.set_epoch(epoch)
        items = [dataset[index] for index in range(3 * COUNT)]
        assert [item["id"] for item in items] == list(range(3 * COUNT))
        found.append([item["target"].tolist() for item in items])
    for start in range(0, 3 * COUNT, COUNT):
        part = slice(start, start + COUNT)
        assert sum(a != b for a, b in zip(found[0][part], found[1][part])) > COUNT // 2
    assert found[0] == found[2]


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
