"""Test writing checkpoints: complete or not at all, with a clear reason."""

import errno
import multiprocessing
import os
import random
import time
from types import SimpleNamespace

import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.dataclass.configs import FairseqConfig
from omegaconf import OmegaConf

from data_prep import files
from fairseq_plugins.compat import saving

OLD, NEW = {"step": 1}, {"step": 2, "weights": torch.arange(1000)}


@pytest.fixture
def last(tmp_path):
    torch.save(OLD, tmp_path / "checkpoint_last.pt")
    torch.save(NEW, tmp_path / "source.pt")
    return tmp_path / "checkpoint_last.pt"


def save(target):
    checkpoint_utils.torch_persistent_save(dict(NEW), str(target))


def copy(target):
    source = str(target.with_name("source.pt"))
    assert checkpoint_utils.PathManager.copy(source, str(target), overwrite=True) is True


def fail_writes(monkeypatch, code, failures, good_writes=1):
    """Let the first files fail after some good writes; return the number of writes per file."""
    counts = []
    stock_open, stock_write = files._WatchedFile.__init__, files._WatchedFile.write

    def open_file(self, file):
        stock_open(self, file)
        counts.append(0)

    def write(self, content):
        counts[-1] += 1
        if len(counts) <= failures and counts[-1] > good_writes:
            self.error = OSError(code, os.strerror(code))
            raise self.error
        return stock_write(self, content)

    monkeypatch.setattr(files._WatchedFile, "__init__", open_file)
    monkeypatch.setattr(files._WatchedFile, "write", write)
    monkeypatch.setattr(saving, "PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(saving, "COPY_BYTES", 1000)
    return counts


@pytest.mark.parametrize("make", [save, copy])
@pytest.mark.cases("code tries", (errno.ENOSPC, 1), (errno.EIO, saving.TRIES))
def test_a_full_or_broken_disk_keeps_the_previous_file(last, monkeypatch, make, code, tries):
    counts = fail_writes(monkeypatch, code, failures=99)
    for target in (last, last.with_name("new.pt")):
        with pytest.raises(OSError, match=os.strerror(code)) as error:
            make(target)
        message = str(error.value)
        assert error.value.errno == code
        assert f"checkpoint {target}" in message and "bytes free" in message
        assert ("previous checkpoint_last.pt is untouched" in message) == (target == last)
    assert torch.load(last) == OLD
    assert sorted(os.listdir(last.parent)) == ["checkpoint_last.pt", "source.pt"]
    assert len(counts) == 2 * tries


@pytest.mark.parametrize("make", [save, copy])
def test_the_second_try_writes_the_complete_file(last, monkeypatch, make):
    counts = fail_writes(monkeypatch, errno.EIO, failures=1, good_writes=3)
    make(last)
    assert torch.equal(torch.load(last)["weights"], NEW["weights"])
    assert len(counts) == 2 and counts[1] > 4


def test_kills_while_saving_leave_a_complete_checkpoint(tmp_path):
    """The file after each kill is of one call of fairseq's save_checkpoint."""
    draw, context = random.Random(1), multiprocessing.get_context("fork")
    for _ in range(10):
        ready = context.Event()
        child = context.Process(target=save_forever, args=(tmp_path, ready))
        child.start()
        assert ready.wait(30)
        time.sleep(draw.uniform(0.0, 0.05))
        child.kill()
        child.join()
        state = torch.load(tmp_path / "checkpoint_last.pt")
        assert bool((state["model"]["weights"] == state["step"]).all())


def save_forever(folder, ready):
    step, cfg = 0, OmegaConf.structured(FairseqConfig).checkpoint
    cfg.save_dir = str(folder)

    def write(filename, extra_state):
        model = {"weights": torch.full((400_000,), float(step))}
        checkpoint_utils.torch_persistent_save({"model": model, "step": step}, filename)

    trainer = SimpleNamespace(data_parallel_rank=0, checkpoint_suffix="", task=None)
    trainer.should_save_checkpoint_on_current_rank = True
    trainer.save_checkpoint, trainer.consolidate_optimizer = write, lambda: None
    trainer.get_num_updates = lambda: step
    epoch = SimpleNamespace(epoch=1, end_of_epoch=lambda: True, state_dict=dict)
    while True:
        checkpoint_utils.save_checkpoint(cfg, trainer, epoch, 1.0)
        ready.set()
        step += 1
