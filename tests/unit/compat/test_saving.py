"""Writing checkpoints: whole or not at all, with a clear reason and no endless tries; each carries versions."""

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
from fairseq_plugins.checkpoints import metadata
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
    assert checkpoint_utils.PathManager.copy(str(target.with_name("source.pt")), str(target), overwrite=True) is True


def failing_writes(monkeypatch, code, failures, good_writes=1):
    """Let the first ``failures`` files fail after some good writes. Returns the number of writes for each file tried."""
    tried = []
    stock, real = files._WatchedFile.write, files._WatchedFile.__init__

    def write(self, data):
        tried[-1] += 1
        if len(tried) <= failures and tried[-1] > good_writes:
            self.error = OSError(code, os.strerror(code))
            raise self.error
        return stock(self, data)

    monkeypatch.setattr(files._WatchedFile, "__init__", lambda self, file: (real(self, file), tried.append(0))[0])
    monkeypatch.setattr(files._WatchedFile, "write", write)
    monkeypatch.setattr(saving, "PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(saving, "COPY_BYTES", 1000)
    return tried


@pytest.mark.parametrize("make", [save, copy])
@pytest.mark.parametrize(("code", "tries"), [(errno.ENOSPC, 1), (errno.EIO, saving.TRIES)])
def test_a_full_or_broken_disk_keeps_the_previous_checkpoint(last, monkeypatch, make, code, tries):
    tried = failing_writes(monkeypatch, code, failures=99)
    for target, kept in ((last, True), (last.with_name("new.pt"), False)):
        with pytest.raises(OSError, match=os.strerror(code)) as caught:
            make(target)
        assert caught.value.errno == code
        report = str(caught.value)
        assert all(part in report for part in (f"checkpoint {target} could not", "bytes free there", "Make room"))
        assert ("The previous checkpoint_last.pt is untouched" in report) is kept
    assert torch.load(last) == OLD
    assert sorted(os.listdir(last.parent)) == ["checkpoint_last.pt", "source.pt"]
    assert len(tried) == 2 * tries


@pytest.mark.parametrize("make", [save, copy])
def test_the_second_try_writes_the_whole_file(last, monkeypatch, make):
    tried = failing_writes(monkeypatch, errno.EIO, failures=1, good_writes=3)
    make(last)
    assert torch.equal(torch.load(last)["weights"], NEW["weights"])
    assert len(tried) == 2 and tried[1] > 4  # the first try ended in the middle


def test_kills_while_saving_leave_a_whole_checkpoint(tmp_path):
    """fairseq's own save_checkpoint, again and again; what is read after each kill is of one save."""
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
        weights = torch.full((400_000,), float(step))
        checkpoint_utils.torch_persistent_save({"model": {"weights": weights}, "step": step}, filename)

    trainer = SimpleNamespace(data_parallel_rank=0, checkpoint_suffix="", task=None, save_checkpoint=write)
    trainer.should_save_checkpoint_on_current_rank = True
    trainer.consolidate_optimizer, trainer.get_num_updates = lambda: None, lambda: step
    epoch = SimpleNamespace(epoch=1, end_of_epoch=lambda: True, state_dict=dict)
    while True:
        checkpoint_utils.save_checkpoint(cfg, trainer, epoch, 1.0)
        ready.set()
        step += 1


def state(**entries):
    history = [{"criterion_name": "C", "optimizer_name": "O", "lr_scheduler_state": {}, "num_updates": 1}]
    cfg = {"model": {"_name": "transformer", "dropout": 0.1}, "task": {"_name": "translation"}}
    extra = {"train_iterator": {"epoch": 1}}
    return {"model": {}, "args": None, "cfg": cfg, "optimizer_history": history, "extra_state": extra, **entries}


def test_what_is_saved_carries_the_versions_and_a_newer_format_is_refused(tmp_path):
    content, file = state(), str(tmp_path / "model.pt")
    checkpoint_utils.torch_persistent_save(content, file)
    assert metadata.VERSIONS not in content
    assert checkpoint_utils.load_checkpoint_to_cpu(file)[metadata.VERSIONS] == metadata.stamp()
    torch.save(state(fairseq_plugins={**metadata.stamp(), "format": 2, "version": "9.8.7"}), file)
    for read in (checkpoint_utils.load_checkpoint_to_cpu, checkpoint_utils.load_ema_from_checkpoint):
        with pytest.raises(ValueError, match=r"model\.pt: was written in format 2 by .* 9\.8\.7"):
            read(file)
