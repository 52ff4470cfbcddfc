"""Writing checkpoints: whole or not at all, with a clear reason and no endless tries."""

import errno
import os
import random
import signal
import time
from types import SimpleNamespace

import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.dataclass.configs import FairseqConfig
from omegaconf import OmegaConf

from fairseq_plugins.checkpoints import writing
from fairseq_plugins.compat import saving


@pytest.fixture
def last(tmp_path):
    """A checkpoint that is there already."""
    path = tmp_path / "checkpoint_last.pt"
    torch.save({"step": 1}, path)
    return path


def failing_writes(monkeypatch, code, failures, good_writes=1):
    """Let the first ``failures`` files fail after some good writes. Returns one entry for each file tried."""
    tried = []
    stock = writing._Watched.write
    real = writing._Watched.__init__

    def start(self, file):
        real(self, file)
        tried.append(0)

    def write(self, data):
        tried[-1] += 1
        if len(tried) <= failures and tried[-1] > good_writes:
            self.error = OSError(code, os.strerror(code))
            raise self.error
        return stock(self, data)

    monkeypatch.setattr(writing._Watched, "__init__", start)
    monkeypatch.setattr(writing._Watched, "write", write)
    monkeypatch.setattr(saving, "PAUSE_SECONDS", 0.0)
    return tried


def test_a_full_disk_keeps_the_previous_checkpoint(last, monkeypatch):
    tried = failing_writes(monkeypatch, errno.ENOSPC, failures=99)
    with pytest.raises(OSError, match="No space left on device") as caught:
        checkpoint_utils.torch_persistent_save({"step": 2, "weights": torch.zeros(1000)}, str(last))
    assert caught.value.errno == errno.ENOSPC
    report = str(caught.value)
    assert f"checkpoint {last} could not be written" in report
    assert "bytes free there" in report
    assert "The previous checkpoint_last.pt is untouched" in report
    assert "Make room and start the same command again" in report
    assert torch.load(last) == {"step": 1}
    assert os.listdir(last.parent) == [last.name]
    assert len(tried) == 1


def test_a_first_checkpoint_on_a_full_disk(tmp_path, monkeypatch):
    failing_writes(monkeypatch, errno.ENOSPC, failures=99)
    with pytest.raises(OSError, match="could not be written") as caught:
        checkpoint_utils.torch_persistent_save({"weights": torch.zeros(1000)}, str(tmp_path / "new.pt"))
    assert "untouched" not in str(caught.value)
    assert os.listdir(tmp_path) == []


def test_a_copy_on_a_full_disk(last, monkeypatch):
    best = last.with_name("checkpoint_best.pt")
    torch.save({"step": 2}, best)
    failing_writes(monkeypatch, errno.ENOSPC, failures=99, good_writes=0)
    with pytest.raises(OSError, match="untouched"):
        checkpoint_utils.PathManager.copy(str(best), str(last), overwrite=True)
    assert torch.load(last) == {"step": 1}


def test_a_passing_fault_is_tried_again(last, monkeypatch):
    tried = failing_writes(monkeypatch, errno.EIO, failures=2)
    checkpoint_utils.torch_persistent_save({"step": 2, "weights": torch.zeros(1000)}, str(last))
    assert torch.load(last)["step"] == 2
    assert len(tried) == 3


@pytest.mark.parametrize("how", ["saved", "copied"])
def test_the_second_try_writes_the_whole_file(last, monkeypatch, how):
    """Not what was left after, or before, the place at which the first one ended."""
    monkeypatch.setattr(saving, "COPY_BYTES", 1000)
    wanted, source = {"weights": torch.arange(1000)}, last.with_name("source.pt")
    torch.save(wanted, source)
    tried = failing_writes(monkeypatch, errno.EIO, failures=1, good_writes=3)
    if how == "saved":
        checkpoint_utils.torch_persistent_save(dict(wanted), str(last))
        assert torch.equal(torch.load(last)["weights"], wanted["weights"])
    else:
        checkpoint_utils.PathManager.copy(str(source), str(last), overwrite=True)
        assert last.read_bytes() == source.read_bytes()
    assert len(tried) == 2
    assert tried[1] > 4  # the first try ended in the middle


def test_a_lasting_fault_ends(last, monkeypatch):
    tried = failing_writes(monkeypatch, errno.EIO, failures=99)
    with pytest.raises(OSError, match="Input/output error"):
        checkpoint_utils.torch_persistent_save({"weights": torch.zeros(1000)}, str(last))
    assert len(tried) == saving.TRIES


def test_what_cannot_be_pickled_is_not_tried_again(last, monkeypatch):
    tried = failing_writes(monkeypatch, errno.EIO, failures=0)
    with pytest.raises((AttributeError, TypeError), match="pickle|lambda"):
        checkpoint_utils.torch_persistent_save({"step": lambda: 1}, str(last))
    assert len(tried) == 1
    assert os.listdir(last.parent) == [last.name]
    assert torch.load(last) == {"step": 1}


def test_an_interrupt_leaves_no_temporary_file(last):
    def interrupted(file):
        file.write(b"half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        saving.write_whole(str(last), interrupted)
    assert os.listdir(last.parent) == [last.name]


def test_copy_and_link(last, tmp_path):
    """A copy is whole and independent; a name that is a link stays one."""
    target = tmp_path / "elsewhere"
    target.mkdir()
    link = tmp_path / "link.pt"
    link.symlink_to(target / "real.pt")
    assert checkpoint_utils.PathManager.copy(str(last), str(link), overwrite=True) is True
    assert link.is_symlink()
    assert torch.load(target / "real.pt") == {"step": 1}
    assert (target / "real.pt").stat().st_ino != last.stat().st_ino
    assert os.listdir(target) == ["real.pt"]


def test_kills_while_saving_leave_a_whole_checkpoint(tmp_path):
    """fairseq's own save_checkpoint, again and again; what is read after each kill is of one save."""
    draw = random.Random(1)
    for _ in range(10):
        ready, started = os.pipe()
        child = os.fork()
        if not child:
            try:
                save_forever(tmp_path, started)
            finally:
                os._exit(1)
        os.close(started)
        assert os.read(ready, 1) == b"+"
        os.close(ready)
        time.sleep(draw.uniform(0.0, 0.05))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        state = torch.load(tmp_path / "checkpoint_last.pt")
        assert bool((state["model"]["weights"] == state["step"]).all())


def save_forever(folder, started):
    step, cfg = 0, OmegaConf.structured(FairseqConfig).checkpoint
    cfg.save_dir = str(folder)

    def save(filename, extra_state):
        weights = torch.full((400_000,), float(step))
        checkpoint_utils.torch_persistent_save({"model": {"weights": weights}, "step": step}, filename)

    trainer = SimpleNamespace(data_parallel_rank=0, checkpoint_suffix="", task=None, save_checkpoint=save)
    trainer.should_save_checkpoint_on_current_rank = True
    trainer.consolidate_optimizer, trainer.get_num_updates = lambda: None, lambda: step
    epoch = SimpleNamespace(epoch=1, end_of_epoch=lambda: True, state_dict=dict)
    while True:
        checkpoint_utils.save_checkpoint(cfg, trainer, epoch, 1.0)
        os.write(started, b"+")
        step += 1
