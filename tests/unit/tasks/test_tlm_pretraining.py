"""Task tlm_pretraining: which data it reads, that parts are masked independently, epochs, errors."""

import pytest

from fairseq_plugins.tasks.tlm_pretraining import TLMPretrainingConfig, TLMPretrainingTask
from tests import builders, data_bins

COUNT = 12


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """en-de and en-fr over the same sentences: only the masking can differ."""
    path = tmp_path_factory.mktemp("data-bin")
    data_bins.write_pair(path, "train", "en", "de")
    data_bins.write_pair(path, "train", "en", "fr")
    return path


def setup(folder, **options):
    cfg = TLMPretrainingConfig(**{"data": str(folder), "pairs": "en-de,en-fr", "seed": 1, **options})
    return TLMPretrainingTask.setup_task(cfg)


def _items(task):
    task.load_dataset("train")
    dataset = task.dataset("train")
    return [dataset[index] for index in range(len(dataset))]


def _whole(item):
    return [int(t if p == builders.PAD else p) for t, p in zip(item["tokens"], item["target"])]


def test_pairs_and_languages_are_concatenated(folder):
    items = _items(setup(folder, monolingual="de,fr"))
    assert len(items) == 4 * COUNT
    en, de = data_bins.sentences(COUNT, 1), data_bins.sentences(COUNT, 101)
    for index in range(COUNT):
        pair = [builders.BOS, *en[index], builders.EOS, builders.BOS, *de[index], builders.EOS]
        assert _whole(items[index]) == _whole(items[COUNT + index]) == pair
        single = [builders.BOS, *de[index], builders.EOS]
        assert _whole(items[2 * COUNT + index]) == _whole(items[3 * COUNT + index]) == single


def test_languages_of_other_pairs_and_by_themselves(folder):
    """French is a side of a pair that is not trained; Spanish has text of its own."""
    french = _items(setup(folder, pairs="en-de", monolingual="fr"))
    assert [_whole(item) for item in french[COUNT:]] == [
        _whole(item) for item in _items(setup(folder, pairs="en-fr", monolingual="fr"))[COUNT:]
    ]
    rows = data_bins.sentences(COUNT, 9)
    data_bins.write_side(folder, "train", "es-None", "es", rows)
    try:
        spanish = _items(setup(folder, pairs="en-de", monolingual="es"))[COUNT:]
    finally:
        for file in folder.glob("train.es-None.es.*"):
            file.unlink()
    assert [_whole(item) for item in spanish] == [[builders.BOS, *row, builders.EOS] for row in rows]


def test_another_dictionary_is_refused(folder):
    file = folder / "dict.fr.txt"
    text = file.read_text(encoding="utf-8")
    file.write_text("".join(reversed(text.splitlines(keepends=True))), encoding="utf-8")
    try:
        with pytest.raises(ValueError, match=r"dict\.fr\.txt differs from .*dict\.en\.txt"):
            setup(folder, pairs="en-de", monolingual="fr")
    finally:
        file.write_text(text, encoding="utf-8")


def test_languages_and_seeds_do_not_mask_alike(folder, tmp_path):
    """Lines of equal lengths in two languages: only the stream tells them apart."""
    data_bins.write_pair(tmp_path, "train", "en", "de")
    for name in ("a", "b"):
        data_bins.write_side(tmp_path, "train", f"{name}-None", name, data_bins.sentences(COUNT, 9))
    streams = _items(setup(tmp_path, pairs="en-de", monolingual="a,b"))[COUNT:]
    assert [_whole(item) for item in streams[:COUNT]] == [_whole(item) for item in streams[COUNT:]]
    masked = [item["target"].tolist() for item in streams]
    assert sum(first == second for first, second in zip(masked, masked[COUNT:])) < COUNT // 2
    first, again, other = ([item["target"].tolist() for item in _items(setup(folder, seed=seed))] for seed in (1, 1, 2))
    assert first == again and sum(one == two for one, two in zip(first, other)) < COUNT


def test_epochs_reach_every_part(folder):
    task = setup(folder, monolingual="en")
    first = [item["target"].tolist() for item in _items(task)]
    dataset = task.dataset("train")
    dataset.set_epoch(2)
    second = [dataset[index]["target"].tolist() for index in range(len(dataset))]
    for start in range(0, 3 * COUNT, COUNT):
        changed = sum(a != b for a, b in zip(first[start : start + COUNT], second[start : start + COUNT]))
        assert changed > COUNT // 2
    dataset.set_epoch(1)
    assert [dataset[index]["target"].tolist() for index in range(len(dataset))] == first


def test_batches_respect_max_tokens_and_leave_long_pairs_out(folder):
    task = setup(folder, tokens_per_sample=15)
    task.load_dataset("train")
    dataset = task.dataset("train")
    batches = task.get_batch_iterator(
        dataset, max_tokens=40, max_positions=task.max_positions(), ignore_invalid_inputs=True, seed=1
    ).next_epoch_itr(shuffle=False)
    seen = []
    for batch in batches:
        assert batch["net_input"]["src_tokens"].numel() <= 40
        seen += batch["id"].tolist()
    short = int((dataset.sizes <= 15).sum())
    assert 0 < short < len(dataset)
    assert len(seen) == short


def test_dictionary_ends_with_mask(folder):
    task = setup(folder)
    assert task.source_dictionary.symbols == task.target_dictionary.symbols == builders.dictionary().symbols


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"mask_prob": 0.0}, ["--mask-prob", "0.0"]),
        ({"mask_prob": 1.5}, ["--mask-prob", "1.5"]),
        ({"one_side_prob": -0.1}, ["--one-side-prob", "-0.1"]),
        ({"one_side_prob": 1.1}, ["--one-side-prob", "1.1"]),
        ({"pairs": ""}, ["--pairs"]),
        ({"pairs": "en"}, ["--pairs", "en"]),
        ({"pairs": "en-de-fr"}, ["--pairs", "en-de-fr"]),
        ({"monolingual": "en,es"}, ["--monolingual", "es"]),
        ({"pairs": "it-pt"}, ["dict.it.txt"]),
        ({"pairs": "en-de,en-de"}, ["--pairs", "once"]),
    ],
)
def test_wrong_options_are_named(folder, options, words):
    with pytest.raises(ValueError) as error:
        setup(folder, **options)
    for word in words:
        assert word in str(error.value)


def test_a_missing_split_is_named(folder):
    with pytest.raises(ValueError, match="valid.en-de.en"):
        setup(folder).load_dataset("valid")
