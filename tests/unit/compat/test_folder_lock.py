"""The lock on a run's folder: one process at a time, freed by a kill, not kept by its children, nothing left to remove."""

import contextlib
import multiprocessing
import os
import time
from datetime import timedelta

import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.dataclass.configs import FairseqConfig
from omegaconf import OmegaConf

from fairseq_plugins.compat import folder_lock
from fairseq_plugins.compat.folder_lock import hold, release
from tests.unit.compat.applying import apply_again


@pytest.fixture
def start():
    """Run a function in a child that stays until it is killed."""
    context, children = multiprocessing.get_context("fork"), []

    def run(function):
        ready = context.Event()
        child = context.Process(target=lambda: (function(), ready.set(), time.sleep(60)))
        children.append(child)
        child.start()
        assert ready.wait(30)
        return child

    yield run
    for child in children:
        child.kill()
        child.join()


def test_another_process_is_refused_until_the_first_is_killed(tmp_path, start):
    folder = str(tmp_path / "run")
    os.mkdir(folder)
    child = start(lambda: hold(folder))
    with pytest.raises(ValueError, match=rf"--save-dir {folder}: another training run .*process {child.pid} on .*: "):
        hold(folder)
    child.kill()
    child.join()
    assert os.listdir(folder) == [folder_lock.FILE]  # a kill leaves it; nobody has to remove it
    assert hold(folder)
    release(folder)
    assert os.listdir(folder) == []


def test_runs_of_one_process_follow_each_other_and_children_do_not_keep_it(tmp_path, start):
    """A process that loads data lives on for seconds when its run is killed."""
    assert hold(str(tmp_path))
    assert hold(f"{tmp_path}/../{tmp_path.name}")
    release(str(tmp_path))

    def refused():
        release(str(tmp_path))  # of no effect there
        hold(str(tmp_path))

    start(lambda: pytest.raises(ValueError, refused).match("another training run"))
    assert os.listdir(tmp_path) == [folder_lock.FILE]
    release(str(tmp_path))
    start(lambda: hold(str(tmp_path)))  # while the first child is alive


class Trainer:
    """What the lock needs of fairseq's."""

    def __init__(self, folder, rank=0, no_save=False):
        self.cfg = OmegaConf.structured(FairseqConfig)
        self.cfg.checkpoint.update(save_dir=str(folder), no_save=no_save)
        self.cfg.distributed_training.distributed_rank = rank


@pytest.fixture
def seen(monkeypatch):
    """The files that a run finds when it looks for its checkpoint, once for each run."""
    found = []
    monkeypatch.setattr(checkpoint_utils, "verify_checkpoint_directory", lambda save_dir: None)
    load = lambda cfg, trainer: found.append(sorted(os.listdir(cfg.save_dir)))  # noqa: E731
    monkeypatch.setattr(checkpoint_utils, "load_checkpoint", load)
    apply_again("folder_lock")
    return found


LEFT = [f".checkpoint{part}.pt.tmp-0123abcd" for part in "_last _best 12 _3_500 .best_bleu_1.20 1-shard0".split()]
KEPT = "checkpoint_last.pt dummy .average.pt.tmp-0123abcd checkpoint_last.pt.tmp .checkpoints.zip.tmp-0123abcd".split()


@pytest.mark.parametrize(("rank", "no_save", "locked"), [(0, False, True), (1, False, False), (0, True, False)])
def test_who_locks_and_cleans(tmp_path, seen, rank, no_save, locked):
    """Before anything is read: the first process of a job that saves; others' files stay."""
    for name in (*LEFT, *KEPT):
        (tmp_path / name).touch()
    trainer = Trainer(tmp_path, rank, no_save)
    checkpoint_utils.load_checkpoint(trainer.cfg.checkpoint, trainer)
    assert seen == [sorted([*KEPT, folder_lock.FILE] if locked else [*KEPT, *LEFT])]
    del trainer  # the run is over
    assert folder_lock.FILE not in os.listdir(tmp_path)


@pytest.mark.parametrize("refused", [False, True])
def test_every_process_of_a_job_is_refused(tmp_path, seen, refused):
    (tmp_path / "run").mkdir()

    def run(rank):
        store = f"file://{tmp_path}/store"
        torch.distributed.init_process_group("gloo", store, timedelta(seconds=60), world_size=2, rank=rank)
        trainer = Trainer(tmp_path / "run", rank)
        with pytest.raises(ValueError, match="another training run") if refused else contextlib.nullcontext():
            checkpoint_utils.load_checkpoint(trainer.cfg.checkpoint, trainer)
        assert len(seen) == (not refused)

    assert not refused or hold(str(tmp_path / "run"))
    children = [multiprocessing.get_context("fork").Process(target=run, args=(rank,)) for rank in range(2)]
    for child in children:
        child.start()
    for child in children:
        child.join()
        assert child.exitcode == 0
    release(str(tmp_path / "run"))
