"""Test task translation_multi_temperature: epochs, resuming, stored languages, bad input."""

import logging
from collections import Counter
from contextlib import nullcontext

import pytest
import torch
from fairseq import options, tasks

from fairseq_plugins.deltalm.temperature import TranslationMultiTemperatureTask as Task
from tests import builders

SIZES = {"en-de": 64, "en-fr": 4}
PAIRS = ("--lang-pairs", "en-de,en-fr", "--langs", "en,de,fr")
POSITIONS = ("--max-source-positions=90", "--max-target-positions=90")
SCHEDULE = ("--sampling-temperature-schedule", "1:5:4")


@pytest.fixture(scope="module")
def folder(path):
    """Write a large pair and a small one; valid has the large one only."""
    for number, (pair, count) in enumerate(SIZES.items()):
        builders.write_pair(path, "train", *pair.split("-"), count=count, seed=1 + number)
    builders.write_pair(path, "valid", "en", "de", count=5, seed=7)
    return path


def setup(folder, *more, task="translation_multi_temperature"):
    line = [str(folder), "--task", task, "--arch", "transformer", *PAIRS, *POSITIONS, *more]
    return tasks.setup_task(options.parse_args_and_arch(options.get_training_parser(), line))


def loaded(folder, *more, epoch=1):
    task = setup(folder, *more)
    task.load_dataset("train", epoch=epoch, combine=True)
    return task.dataset("train")


def content(dataset):
    items = (dataset[index] for index in range(len(dataset)))
    return [(pair, item["target"].tolist()) for pair, item in items]


def batches(task, epoch):
    """Sentences of every batch of an epoch, as the trainer asks for them."""
    options = {"max_sentences": 8, "seed": 3, "epoch": epoch}
    iterator = task.get_batch_iterator(task.dataset("train"), **options)
    return [batch["target"].tolist() for batch in iterator.next_epoch_itr(shuffle=True)]


def test_wrong_schedules_are_named(folder):
    texts = ("1:5", "1:5:4:3", "1:five:10", "1:5:2.5", "0.5:5:10", "1:0:10", "1:inf:10")
    for text in (*texts, "nan:5:10", "1:5:0"):
        with pytest.raises(ValueError, match=f"--sampling-temperature-schedule .* '{text}'"):
            setup(folder, "--sampling-temperature-schedule", text)
    for option, value in (
        ("--sampling-method", "uniform"),
        ("--sampling-temperature", "5.0"),
        ("--sampling-weights", "{'main:en-de':0.5}"),
    ):
        with pytest.raises(ValueError, match=f"--sampling-temperature-schedule 1:5:4 and {option}"):
            setup(folder, *SCHEDULE, option, value)


def test_each_epoch_is_drawn_at_its_own_temperature(folder, caplog):
    """Both the data and the log follow the schedule."""
    caplog.set_level(logging.INFO)
    task = setup(folder, *SCHEDULE, "--virtual-data-size", "1000")
    task.load_dataset("train", epoch=1, combine=True)
    for epoch, share in ((1, 4 / 68), (2, 2 / 10), (5, 0.365), (6, 0.365)):
        batches(task, epoch)
        counts = Counter(pair for pair, _ in content(task.dataset("train")))
        assert sum(counts.values()) == 1000 and abs(counts[1] - 1000 * share) <= 1.5
    assert "epoch 2: sampling temperature 2, 1000 sentences" in caplog.text
    assert "main:en-de 0.8000" in caplog.text


@pytest.mark.cases(
    "size", "", "--virtual-data-size 40", "--virtual-epoch-size 30 --virtual-data-size 60"
)
def test_a_run_that_starts_in_a_later_epoch_sees_the_same_batches(folder, size):
    """The stock task draws once for all virtual epochs, from the epoch in which it started."""
    task = setup(folder, *SCHEDULE, *size.split())
    task.load_dataset("train", epoch=1, combine=True)
    expected = {epoch: batches(task, epoch) for epoch in range(1, 5)}
    for epoch in (2, 3, 4):
        resumed = setup(folder, *SCHEDULE, *size.split())
        resumed.load_dataset("train", epoch=epoch, combine=True)
        assert batches(resumed, epoch) == expected[epoch]
    assert expected[2] != expected[3]
    assert batches(task, 2) == expected[2], "an epoch that comes again"


def test_shares_count_the_data_of_all_folders(folder, tmp_path):
    """Epoch 2 reads the second folder; the shares are those of both folders in every epoch."""
    builders.write_pair(tmp_path, "train", "en", "de", count=36, seed=5)
    folders = f"{folder}:{tmp_path}"
    options = (*SCHEDULE, "--virtual-epoch-size", "200")
    task = setup(folders, *options)
    for epoch in (1, 2, 3):
        task.load_dataset("train", epoch=epoch, combine=True)
        dataset = task.dataset("train")
        assert dataset.pair_sizes == [100, 4]
        assert [len(part) for part in dataset.datasets] == [64 if epoch != 2 else 36, 4]
        assert content(dataset) == content(loaded(folders, *options, epoch=epoch))
    assert task.has_sharded_data("train")


@pytest.mark.parametrize("more", ["", "--sampling-method temperature --sampling-temperature 2"])
def test_without_a_schedule_the_task_is_the_stock_one(folder, more):
    ours = setup(folder, *more.split())
    stock = setup(folder, *more.split(), task="translation_multi_simple_epoch")
    for task in (ours, stock):
        task.load_dataset("train", epoch=2, combine=True)
    assert type(ours.dataset("train")) is type(stock.dataset("train"))
    assert content(ours.dataset("train")) == content(stock.dataset("train"))
    assert batches(ours, 2) == batches(stock, 2)


def test_other_languages_are_refused(folder, tmp_path, caplog):
    trained, file = setup(folder), str(tmp_path / "checkpoint_last.pt")
    state, resumed = trained.state_dict(), trained.get_checkpoint_dict()[Task.__name__]
    torch.save({"model": {}, "task_state": state}, file)
    assert torch.load(file, weights_only=True)["task_state"] == state, "plain values"
    for more, message in (
        (("--langs", "de,en,fr"), "--langs.* en,de,fr there.* de,en,fr here"),
        (("--lang-tok-style", "mbart"), r"--lang-tok-style.*\[en\],\[de\],\[fr\],<mask> here"),
        (("--encoder-langtok", "src"), "--encoder-langtok.* None,None there.* src,None here"),
        (("--decoder-langtok",), "--decoder-langtok.* None,tgt here"),
        (("--lang-tok-replacing-bos-eos",), "--lang-tok-replacing-bos-eos.* False there.* True"),
        (SCHEDULE, None),
    ):
        task = setup(folder, *more)
        for read_state in (
            lambda task=task: task.load_state_dict(state),
            lambda task=task: task.set_checkpoint_dict(resumed),
            lambda more=more: setup(folder, *more, "--finetune-from-model", file),
            lambda more=more: setup(folder, *more, "--restore-file", file, "--reset-dataloader"),
        ):
            with pytest.raises(ValueError, match=message) if message else nullcontext():
                read_state()
    warning = "does not tell its languages"
    assert warning not in caplog.text
    trained.load_state_dict({})  # a checkpoint of the stock task
    assert warning in caplog.text


def test_left_padding_stays_when_a_checkpoints_options_are_read(folder):
    """Set up again from the options of a checkpoint: the stock task takes True for False."""
    args = setup(folder).args
    assert args.left_pad_source is True
    assert tasks.setup_task(args, from_checkpoint=True).args.left_pad_source is True


def test_a_pair_without_data_is_named(folder, tmp_path):
    builders.write_pair(tmp_path, "train", "en", "de")
    builders.write_pair(tmp_path, "train", "en", "fr", count=0)
    for data, split, more, message in (
        (folder, "train", ["--lang-pairs", "en-de,de-fr"], r"de-fr .*train\.de-fr\.de\.idx"),
        (folder, "valid", [], r"en-fr .*valid\.en-fr\.en\.idx"),
        (tmp_path, "train", SCHEDULE, r"en-fr .*train\.en-fr\.en\.bin"),
        (folder, "train", ["--lang-pairs", "en-de,en-"], "--lang-pairs .* 'en-'"),
    ):
        with pytest.raises(ValueError, match=message):
            setup(data, *more).load_dataset(split)
