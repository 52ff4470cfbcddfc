"""sga_translation and sga_translation_multi refuse empty sentences where they are read, with either alignment."""

import pytest

from fairseq_plugins.tasks.sga_translation import SGATranslationConfig, SGATranslationTask
from fairseq_plugins.tasks.sga_translation_multi import SGATranslationMultiConfig, SGATranslationMultiTask
from tests import data_bins

EMPTY = []
ROWS = [[5], [6, 7], [8, 9, 10], [11]]
HOLE = [*ROWS[:2], EMPTY, *ROWS[3:]]


def write(folder, split, source, target, language="de"):
    for name, rows in ((language, source), ("en", target)):
        data_bins.write_side(folder, split, f"{language}-en", name, rows)
        data_bins.write_dictionary(folder, name)


def single(folder, **options):
    shared = {"dataset_impl": "mmap", "required_seq_len_multiple": 1, "train_subset": "train"}
    names = {"data": str(folder), "source_lang": "de", "target_lang": "en"}
    return SGATranslationTask.setup_task(SGATranslationConfig(**{**shared, **names, **options}))


def many(folder, **options):
    shared = {"dataset_impl": "mmap", "required_seq_len_multiple": 1, "train_subset": "train", "seed": 3}
    cfg = SGATranslationMultiConfig(**{**shared, "data": str(folder), "lang_pairs": "de-en,fr-en", **options})
    return SGATranslationMultiTask.setup_task(cfg)


@pytest.mark.parametrize("split", ["train", "valid", "test"])
def test_an_empty_source_is_refused_in_every_split(tmp_path, split):
    write(tmp_path, split, HOLE, ROWS)
    with pytest.raises(ValueError, match=rf"{tmp_path}/{split}\.de-en\.de: line 3 is without a token \(1 empty"):
        single(tmp_path).load_dataset(split)


def test_an_empty_target_is_refused_in_training_alone(tmp_path):
    """Its length and its masked tokens would cost nothing; a reference may be empty."""
    for split in ("train", "valid", "test"):
        write(tmp_path, split, ROWS, HOLE)
    task = single(tmp_path)
    for split in ("valid", "test"):
        task.load_dataset(split)
        assert len(task.dataset(split)) == 4
    with pytest.raises(ValueError, match=rf"{tmp_path}/train\.de-en\.en: line 3 is"):
        task.load_dataset("train")
    task.from_checkpoint = True  # fairseq-generate --gen-subset train
    task.load_dataset("train")
    assert len(task.dataset("train")) == 4


def test_the_data_folder_of_the_epoch_is_named(tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    for folder, rows in ((first, ROWS), (second, HOLE)):
        folder.mkdir()
        for split in ("train", "valid"):
            write(folder, split, rows, ROWS)
    task = single(f"{first}:{second}")
    task.load_dataset("train", epoch=1)
    task.load_dataset("valid", epoch=2)
    with pytest.raises(ValueError, match=rf"{second}/train\.de-en\.de: line 3 is"):
        task.load_dataset("train", epoch=2)
    with pytest.raises(ValueError, match=rf"{second}/valid\.de-en\.de: line 3 is"):
        single(f"{second}:{first}").load_dataset("valid", epoch=2)


def test_the_pair_of_several_is_named(tmp_path):
    for split in ("train", "valid"):
        write(tmp_path, split, ROWS, ROWS)
        write(tmp_path, split, HOLE if split == "valid" else ROWS, HOLE, language="fr")
    with pytest.raises(ValueError, match=r"valid\.fr-en\.fr: line 3 is"):
        many(tmp_path).load_dataset("valid")
    with pytest.raises(ValueError, match=r"train\.fr-en\.en: line 3 is"):
        many(tmp_path).load_dataset("train")
    with pytest.raises(ValueError, match=r"valid\.fr-en\.fr: line 3 is"):
        many(tmp_path, lang_pairs=None, source_lang="fr", target_lang="en").load_dataset("valid")


def test_sources_that_are_cut_or_without_references(tmp_path):
    """Decoding; a source cut to one token is not empty."""
    for split, rows in (("valid", HOLE), ("test", ROWS)):
        write(tmp_path, split, rows, ROWS)
    for file in tmp_path.glob("test.de-en.en.*"):
        file.unlink()
    task = single(tmp_path, truncate_source=True, max_source_positions=3)
    task.from_checkpoint = True
    with pytest.raises(ValueError, match=r"valid\.de-en\.de: line 3 is"):
        task.load_dataset("valid")
    task.load_dataset("test")
    assert [len(task.dataset("test")[index]["source"]) for index in range(4)] == [3, 3, 3, 3]
    assert task.dataset("test").tgt is None
