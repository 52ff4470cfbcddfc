"""Task translation_multi_temperature: temperatures and shares by hand, epochs, resume, tags, languages in checkpoints, errors."""

import logging
from collections import Counter
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from fairseq import options, tasks

from fairseq_plugins.data.temperature_dataset import TemperatureSchedule
from fairseq_plugins.tasks.translation_multi_temperature import TranslationMultiTemperatureTask as Task
from tests import builders

SIZES = {"en-de": 64, "en-fr": 4}
PAIRS = ("--lang-pairs", "en-de,en-fr", "--langs", "en,de,fr", "--max-source-positions=90", "--max-target-positions=90")
SCHEDULE = ("--sampling-temperature-schedule", "1:5:4")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A large pair and a small one; valid has the large one only, and de-en by its reverse."""
    path = tmp_path_factory.mktemp("data-bin")
    for number, (pair, count) in enumerate(SIZES.items()):
        builders.write_pair(path, "train", *pair.split("-"), count=count, seed=1 + number)
    builders.write_pair(path, "valid", "en", "de", count=5, seed=7)
    return path


def setup(folder, *more, task="translation_multi_temperature"):
    line = [str(folder), "--task", task, "--arch", "transformer", *PAIRS, *more]
    return tasks.setup_task(options.parse_args_and_arch(options.get_training_parser(), line))


def loaded(folder, *more, epoch=1):
    task = setup(folder, *more)
    task.load_dataset("train", epoch=epoch, combine=True)
    return task.dataset("train")


def content(dataset):
    return [(pair, item["target"].tolist()) for pair, item in (dataset[index] for index in range(len(dataset)))]


def batches(task, epoch):
    """Sentences of every batch of an epoch, as the trainer asks for them."""
    iterator = task.get_batch_iterator(task.dataset("train"), max_sentences=8, seed=3, epoch=epoch)
    return [batch["target"].tolist() for batch in iterator.next_epoch_itr(shuffle=True)]


def test_the_temperature_is_linear_and_then_constant():
    schedule = TemperatureSchedule.parse("1:5:4")
    assert [schedule.at(epoch) for epoch in range(1, 8)] == [1, 2, 3, 4, 5, 5, 5]
    assert [TemperatureSchedule.parse("5:1.5:7").at(epoch) for epoch in (1, 3, 8, 20)] == [5, 4, 1.5, 1.5]


@pytest.mark.parametrize(
    "text", ["1:5", "1:5:4:3", "1:five:10", "1:5:2.5", "0.5:5:10", "1:0:10", "1:inf:10", "nan:5:10", "1:5:0"]
)
def test_wrong_schedules_are_named(folder, text):
    with pytest.raises(ValueError, match=f"--sampling-temperature-schedule must be START:END:EPOCHS.* got '{text}'"):
        setup(folder, "--sampling-temperature-schedule", text)


def test_each_epoch_is_drawn_at_its_own_temperature(folder, caplog):
    """The epochs as the trainer asks for them: the ratios follow, in the data and in the log."""
    caplog.set_level(logging.INFO)
    task = setup(folder, *SCHEDULE, "--virtual-data-size", "1000")
    task.load_dataset("train", epoch=1, combine=True)
    for epoch, share in ((1, 4 / 68), (2, 2 / 10), (5, 0.365), (6, 0.365)):
        batches(task, epoch)
        counts = Counter(pair for pair, _ in content(task.dataset("train")))
        assert sum(counts.values()) == 1000 and abs(counts[1] - 1000 * share) <= 1.5
    lines = [record.getMessage() for record in caplog.records if "sampling temperature" in record.getMessage()]
    assert len(lines) == 4
    assert "epoch 2: sampling temperature 2, 1000 sentences, probabilities: main:en-de 0.8000, main:en" in lines[1]


def test_the_first_epoch_at_temperature_one_holds_every_sentence_once(folder):
    rows = content(loaded(folder, *SCHEDULE))
    assert Counter(pair for pair, _ in rows) == {0: 64, 1: 4}
    everything = builders.sentences(64, 101) + builders.sentences(4, 102)
    assert sorted(target[:-1] for _, target in rows) == sorted(everything)


@pytest.mark.parametrize(
    ("size", "given"),
    [(14, ("--virtual-epoch-size", "14", "--virtual-data-size", "60")), (16, ("--virtual-data-size", "16"))],
)
def test_an_epoch_is_the_virtual_epoch_where_one_is_given(folder, size, given):
    assert abs(len(loaded(folder, *SCHEDULE, *given)) - size) <= 2


@pytest.mark.parametrize("size", [0, 7, 10, 24])
def test_what_is_drawn_of_a_direction_is_drawn_without_replacement(folder, size):
    """Ten sentences: the seven are different ones, the ten are all of them, of 24 each is there two or three times."""
    data, some = loaded(folder, *SCHEDULE), set()
    for seed in range(20):
        drawn = data.random_choice_in_dataset(np.random.RandomState(seed), range(10), size)
        times = np.bincount(drawn, minlength=10)
        assert len(drawn) == size and times.max() - times.min() <= 1 and len(times) == 10
        some.add(tuple(times))
    assert len(some) > 1 or size % 10 == 0


@pytest.mark.parametrize(
    "size", [(), ("--virtual-data-size", "40"), ("--virtual-epoch-size", "30", "--virtual-data-size", "60")]
)
def test_a_run_that_starts_in_a_later_epoch_sees_the_same_batches(folder, size):
    """Stock draws once for all the epochs that --virtual-epoch-size cuts the data into, from the epoch the process started in."""
    whole = setup(folder, *SCHEDULE, *size)
    whole.load_dataset("train", epoch=1, combine=True)
    seen = {epoch: batches(whole, epoch) for epoch in range(1, 5)}
    for epoch in (2, 3, 4):
        resumed = setup(folder, *SCHEDULE, *size)
        resumed.load_dataset("train", epoch=epoch, combine=True)
        assert batches(resumed, epoch) == seen[epoch]
    assert seen[2] != seen[3]
    assert batches(whole, 2) == seen[2], "an epoch that comes again"


def test_data_in_several_folders_are_counted_before_they_are_read(folder, tmp_path):
    """Epoch 2 reads the second folder; the shares are those of both folders in every epoch, in a resumed run too."""
    builders.write_pair(tmp_path, "train", "en", "de", count=36, seed=5)
    both = f"{folder}:{tmp_path}"
    task = setup(both, *SCHEDULE, "--virtual-epoch-size", "200")
    for epoch in (1, 2, 3):
        task.load_dataset("train", epoch=epoch, combine=True)
        dataset = task.dataset("train")
        assert dataset.pair_sizes == [100, 4]
        assert [len(part) for part in dataset.datasets] == [64 if epoch != 2 else 36, 4]
        assert content(dataset) == content(loaded(both, *SCHEDULE, "--virtual-epoch-size", "200", epoch=epoch))
    assert task.has_sharded_data("train")


@pytest.mark.parametrize(
    "more", ["", "--sampling-method temperature --sampling-temperature 2", "--sampling-method uniform"]
)
def test_without_a_schedule_the_task_is_the_stock_one(folder, more):
    both = [
        setup(folder, *more.split(), task=name)
        for name in ("translation_multi_temperature", "translation_multi_simple_epoch")
    ]
    for task in both:
        task.load_dataset("train", epoch=2, combine=True)
    ours, stock = both
    assert type(ours.dataset("train")) is type(stock.dataset("train"))
    assert content(ours.dataset("train")) == content(stock.dataset("train"))
    assert batches(ours, 2) == batches(stock, 2)
    for name in ("sampling_method", "sampling_temperature"):
        assert getattr(ours.args, name) == getattr(stock.args, name)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--langs", "de,en,fr"), ["--langs", "en,de,fr there", "de,en,fr here"]),
        (("--lang-tok-style", "mbart"), ["--lang-tok-style", "[en],[de],[fr],<mask> here"]),
        (("--encoder-langtok", "src"), ["--encoder-langtok", "None,None there", "src,None here"]),
        (("--decoder-langtok",), ["--decoder-langtok", "None,tgt here"]),
        (("--lang-tok-replacing-bos-eos",), ["--lang-tok-replacing-bos-eos", "False there", "True here"]),
        (SCHEDULE, []),
    ],
)
def test_other_languages_are_refused(folder, tmp_path, caplog, more, words):
    """When decoding, when resuming, and when another checkpoint is the start; the same ones pass."""
    trained, file = setup(folder), tmp_path / "checkpoint_last.pt"
    task, state = setup(folder, *more), trained.state_dict()
    torch.save({"model": {}, "task_state": state}, file)
    assert torch.load(file, weights_only=True)["task_state"] == state, "plain values"
    for door in (
        lambda: task.load_state_dict(state),
        lambda: task.set_checkpoint_dict(trained.get_checkpoint_dict()[Task.__name__]),
        lambda: setup(folder, *more, "--finetune-from-model", str(file)),
        lambda: setup(folder, *more, "--restore-file", str(file), "--reset-dataloader"),
    ):
        with pytest.raises(ValueError, match="other language tags") if words else nullcontext() as error:
            door()
        assert all(word in str(error.value) for word in words)
    assert "does not tell its languages" not in caplog.text
    task.load_state_dict({})  # a checkpoint of the stock task
    assert "does not tell its languages" in caplog.text


def test_padding_of_a_checkpoints_options_is_kept(folder):
    """Set up again from the options that a checkpoint holds: stock then takes True for False."""
    args = setup(folder).args
    assert args.left_pad_source is True
    assert tasks.setup_task(args, from_checkpoint=True).args.left_pad_source is True


@pytest.mark.parametrize(
    "more",
    [
        "--sampling-method uniform",
        "--sampling-method temperature --sampling-temperature 5",
        "--sampling-weights {'main:en-de':0.5}",
    ],
)
def test_a_schedule_beside_another_way_of_sampling_is_refused(folder, more):
    with pytest.raises(ValueError, match="--sampling-temperature-schedule 1:5:4 and .* exclude each other") as error:
        setup(folder, *SCHEDULE, *more.split())
    assert more.split(" {")[0].split("temperature ")[-1] in str(error.value)


@pytest.mark.parametrize(
    ("data", "split", "more", "message"),
    [
        ("{0}", "train", "--lang-pairs en-de,de-fr", r"de-fr has no data .*'train': .*train\.de-fr\.de\.idx .*prep"),
        ("{0}", "valid", "", r"en-fr has no data for the split 'valid': .*valid\.en-fr\.en\.idx"),
        ("{0}", "train", "--langs en,de,es --lang-pairs en-de,en-es", r"no dictionary: .*dict\.es\.txt is miss"),
        ("{1}", "train", " ".join(SCHEDULE), r"en-fr has no data .*train\.en-fr\.en\.bin is missing or empty"),
        ("{0}", "train", "--lang-pairs en-de,en-", "--lang-pairs must be pairs .* got 'en-'"),
    ],
)
def test_a_pair_without_data_is_named(folder, tmp_path, data, split, more, message):
    builders.write_pair(tmp_path, "train", "en", "de")
    builders.write_pair(tmp_path, "train", "en", "fr", count=0)
    with pytest.raises(ValueError, match=message):
        setup(data.format(folder, tmp_path), *more.split()).load_dataset(split)


def test_validation_is_not_sampled_and_the_reverse_direction_has_the_same_files(folder):
    task = setup(folder, *SCHEDULE, "--lang-pairs", "en-de,de-en")
    task.load_dataset("valid", epoch=1)
    assert len(task.dataset("valid")) == 10
