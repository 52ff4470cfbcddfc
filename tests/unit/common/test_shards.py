"""Test ``--data bin:bin2`` under every task: the folder of an epoch, resumed runs, refusals."""

import shutil

import pytest
import torch

from fairseq_plugins.common import shards
from fairseq_plugins.deltalm.mixing import MixedBatchesDataset
from fairseq_plugins.veco.translation import (
    TranslationFromPretrainedVECOTask,
    VECOTranslationConfig,
)
from tests import builders, csr_builders
from tests import veco_builders as veco
from tests.unit.common.making import load, maker

LOW = list(range(builders.FIRST_PIECE, builders.FIRST_PIECE + 10))
HIGH = list(range(builders.FIRST_PIECE + 12, builders.FIRST_PIECE + 22))
CORRUPTION = dict(
    train_subset="train", add_sentinels=20, tokens_per_sample=24, mask_prob=0.3, mean_span=2.0
)
STOCK = dict(
    source_lang="en",
    target_lang="de",
    train_subset="train",
    dataset_impl="mmap",
    required_seq_len_multiple=1,
)
START = dict(
    restore_file="checkpoint_last.pt",
    finetune_from_model=None,
    continue_once=None,
    save_dir="nowhere",
)
MAKERS = {
    "span_corruption": maker(
        "span_corruption", pairs="en-de", monolingual="fr", pair_mask_prob=0.5, **CORRUPTION
    ),
    "tlm_pretraining": maker(
        "tlm_pretraining", pairs="en-de", monolingual="fr", train_subset="train"
    ),
    "veco_pretraining": maker(
        "veco_pretraining",
        pairs="en-de",
        monolingual="it",
        train_subset="train",
        tokens_per_sample=24,
        ddp_backend="c10d",
    ),
    "translation_mixing": maker(
        "translation_mixing", mix_monolingual="fr", **{**STOCK, **CORRUPTION}
    ),
    "sga_translation": builders.read_task,
    "sga_translation_multi": lambda folder, **options: builders.read_task(
        folder, "en-de,de-en", **options
    ),
    "translation_from_pretrained_veco": lambda folder: TranslationFromPretrainedVECOTask.setup_task(
        VECOTranslationConfig(data=str(folder), missing_language_tag="unk", **STOCK, **START)
    ),
}


def write_rows(folder, split, pieces):
    """The pair en-de, text of fr, documents of it: sentences of these pieces alone."""
    rows = [
        [pieces[(place + 3 * number) % len(pieces)] for place in range(4)] for number in range(12)
    ]
    for language in ("en", "de"):
        builders.write_side(folder, split, "en-de", language, rows)
        builders.write_dictionary(folder, language)
    builders.write_side(folder, split, "fr-None", "fr", rows)
    builders.write_dictionary(folder, "fr")
    veco.write_documents(folder, split, "it", [*rows[:6], [], *rows[6:], []])


@pytest.fixture(scope="module")
def folders(path):
    """Write two folders, of low and of high pieces; each has a validation set."""
    names = []
    for name, pieces in (("bin", LOW), ("bin2", HIGH)):
        names.append(str(path / name))
        for split in ("train", "valid"):
            write_rows(path / name, split, pieces)
    return ":".join(names)


def batches(task, epoch, split="train"):
    """Batches of an epoch as fairseq-train makes them."""
    task.load_dataset(split, epoch=epoch, combine=split == "train")
    iterator = task.get_batch_iterator(
        task.dataset(split),
        max_sentences=4,
        seed=3,
        epoch=epoch,
        disable_iterator_cache=task.has_sharded_data("train"),
    )
    return list(iterator.next_epoch_itr(shuffle=True))


def tokens_of(value):
    """All numbers in the tensors of a batch."""
    if torch.is_tensor(value):
        return value.flatten().tolist()
    parts = (
        value.values()
        if isinstance(value, dict)
        else value
        if isinstance(value, (list, tuple))
        else ()
    )
    return [number for part in parts for number in tokens_of(part)]


def folder_of(read):
    """The folder that most pieces come from; noise may draw others."""
    numbers = [int(number) for number in tokens_of(read)]
    low, high = (sum(number in pieces for number in numbers) for pieces in (LOW[4:], HIGH))
    return "bin" if low > 2 * high else "bin2" if high > 2 * low else "both"


@pytest.mark.parametrize("name", MAKERS)
def test_training_goes_through_the_folders_in_turn(folders, name):
    task = MAKERS[name](folders)
    assert task.has_sharded_data("train"), "else fairseq-train would not load again"
    read = {epoch: batches(task, epoch) for epoch in (1, 2, 3, 4)}
    assert [folder_of(read[epoch]) for epoch in (1, 2, 3, 4)] == ["bin", "bin2", "bin", "bin2"]
    resumed = MAKERS[name](folders)
    assert [tokens_of(batch) for batch in batches(resumed, 2)] == [
        tokens_of(batch) for batch in read[2]
    ]


@pytest.mark.parametrize("name", MAKERS)
def test_validation_reads_the_first_folder_in_every_epoch(folders, name):
    task = MAKERS[name](folders)
    assert {folder_of(batches(task, epoch, "valid")) for epoch in (1, 2, 3)} == {"bin"}


def test_mixed_text_may_lie_in_folders_of_its_own(folders):
    first, second = folders.split(":")
    task = MAKERS["translation_mixing"](second, mix_data=folders)
    assert task.has_sharded_data("train")
    for epoch, expected in ((1, "bin"), (2, "bin2"), (3, "bin")):
        data = load(task, epoch=epoch)
        assert isinstance(data, MixedBatchesDataset)
        assert (
            folder_of(list(data.corrupted)) == expected
            and folder_of(list(data.translation)) == "bin2"
        )


@pytest.mark.parametrize("stages", [None, 1000])
def test_restored_sentences_come_from_the_folders_in_turn(tmp_path, stages):
    """The second folder has fewer sentences; both stages of one run take turns."""
    corpus = csr_builders.write(tmp_path)
    smaller = csr_builders.write(tmp_path / "second", counts=(20, 3, 3))
    task = csr_builders.setup(corpus, data=f"{corpus.data}:{smaller.data}", restore_updates=stages)
    for epoch, pairs in ((1, 48), (2, 20), (3, 48)):
        data = load(task, epoch=epoch, combine=False)
        assert len(data) == (pairs if stages else 2 * pairs)
        valid = load(task, "valid", epoch=epoch, combine=False)
        assert len(valid) == (8 if stages else 16)


# ---- What a folder lacks is said when epoch 1 is loaded. ----


@pytest.fixture
def second(folders, tmp_path):
    """A copy of the second folder, to be damaged; returns it and the value of ``--data``."""
    first, other = folders.split(":")
    copy = shutil.copytree(other, tmp_path / "second")
    return copy, f"{first}:{copy}"


@pytest.mark.parametrize("name", MAKERS)
def test_a_folder_without_the_data_is_refused_before_the_first_batch(second, name):
    folder, data = second
    (folder / "train.en-de.de.bin").unlink()
    with pytest.raises(
        ValueError, match=r"second.train\.(en-de|de-en)\.(de|en)\.(bin|idx) is missing"
    ):
        load(MAKERS[name](data), epoch=1)


@pytest.mark.parametrize("name", MAKERS)
def test_a_folder_with_another_dictionary_is_refused(second, name):
    folder, data = second
    builders.write_dictionary(folder, "de", pieces=builders.PIECES - 1)
    with pytest.raises(
        ValueError, match=r"second.dict\.de\.txt differs from .*bin.dict\.(en|de)\.txt"
    ):
        load(MAKERS[name](data), epoch=1)


def test_a_folder_after_the_first_needs_no_dictionary(second):
    folder, data = second
    for language in ("en", "de", "fr", "it"):
        (folder / f"dict.{language}.txt").unlink()
    for name, make in MAKERS.items():
        assert folder_of(batches(make(data), 2)) == "bin2", name


def test_understanding_tasks_read_one_folder():
    for name in (
        "token_classification",
        "relevance_ranking",
        "span_qa",
        "cross_lingual_classification",
    ):
        options = {"regression_target": False} if name.startswith("cross") else {}
        with pytest.raises(
            ValueError, match="--data bin:bin2: this task reads one folder, not 2; .*--train-subset"
        ):
            maker(name, **options)("bin:bin2")


def test_names_of_folders():
    assert shards.split_folders("bin") == ["bin"] and shards.split_folders("a:b:c") == [
        "a",
        "b",
        "c",
    ]
    assert [shards.take_turn("abc", epoch) for epoch in (1, 2, 3, 4)] == list("abca")
    for data in ("", "bin:", ":bin", "a::b"):
        with pytest.raises(ValueError, match="--data .*: a folder's name is empty"):
            shards.split_folders(data)
