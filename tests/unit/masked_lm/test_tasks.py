"""Test task tlm_pretraining: the data that it reads, epochs, errors."""

import shutil

import pytest

from tests import builders
from tests.unit.common.making import load, maker

COUNT = 12
setup = maker("tlm_pretraining", pairs="en-de,en-fr")


@pytest.fixture(scope="module")
def folder(path):
    """Write en-de and en-fr with the same sentences."""
    builders.write_pair(path, "train", "en", "de")
    builders.write_pair(path, "train", "en", "fr")
    return path


@pytest.fixture
def own_folder(folder, tmp_path):
    """Copy the data, for a test that adds to it."""
    return shutil.copytree(folder, tmp_path / "data")


def read_items(task):
    dataset = load(task)
    return [dataset[index] for index in range(len(dataset))]


def original_text(item):
    """Return the tokens of an item before they were masked."""
    pairs = zip(item["tokens"], item["target"])
    return [int(token if target == builders.PAD else target) for token, target in pairs]


def test_pairs_come_first_then_languages(folder):
    task = setup(folder, monolingual="de,fr")
    assert task.source_dictionary.symbols == builders.dictionary().symbols  # with <mask>
    texts = [original_text(item) for item in read_items(task)]
    en, de = builders.sentences(COUNT, 1), builders.sentences(COUNT, 101)
    singles = [[builders.BOS, *row, builders.EOS] for row in de]
    pairs = [[builders.BOS, *row, builders.EOS, *single] for row, single in zip(en, singles)]
    assert texts == [*pairs, *pairs, *singles, *singles]


def test_monolingual_text_is_preferred_to_the_sides_of_pairs(own_folder):
    rows = builders.sentences(COUNT, 300)
    builders.write_side(own_folder, "train", "de-None", "de", rows)
    items = read_items(setup(own_folder, monolingual="de,fr"))[2 * COUNT :]
    texts = [original_text(item)[1:-1] for item in items]
    assert texts == [*rows, *builders.sentences(COUNT, 101)]


def test_every_part_is_masked_anew_in_every_epoch(folder):
    dataset = load(setup(folder, monolingual="en"))
    targets = []
    for epoch in (1, 2, 1):
        dataset.set_epoch(epoch)
        items = [dataset[index] for index in range(3 * COUNT)]
        assert [item["id"] for item in items] == list(range(3 * COUNT))
        targets.append([item["target"].tolist() for item in items])
    first, second, repeated = targets
    assert first == repeated
    for start in range(0, 3 * COUNT, COUNT):
        part = slice(start, start + COUNT)
        assert sum(a != b for a, b in zip(first[part], second[part])) > COUNT // 2


def test_wrong_options_and_data_are_named(own_folder):
    builders.write_dictionary(own_folder, "it", builders.PIECES - 1)
    for options, message in (
        ({"pairs": ""}, "--pairs needs at least one pair"),
        ({"pairs": "en-de,en-de"}, "--pairs must name each once"),
        ({"monolingual": "en,es"}, "--monolingual es: .*es.bin is missing"),
        ({"pairs": "en-de", "monolingual": "it"}, r"dict\.it\.txt differs"),
    ):
        with pytest.raises(ValueError, match=message):
            read_items(setup(own_folder, **options))
