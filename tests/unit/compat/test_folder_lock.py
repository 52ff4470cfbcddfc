"""Test the lock on a run's folder: one process, freed by a kill, not inherited by children."""

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

FORK = multiprocessing.get_context("fork")


@pytest.fixture
def start():
    """Return a function that runs another in a child, which then waits until it is killed."""
    children = []

    def run(function):
        ready = FORK.Event()
        child = FORK.Process(target=lambda: (function(), ready.set(), time.sleep(60)))
        children.append(child)
        child.start()
        assert ready.wait(30)
        return child

    yield run
    for child in children:
        child.kill()
        child.join()


def test_another_process_is_refused_until_the_first_is_killed(tmp_path, start):
    folder = str(tmp_path)
    child = start(lambda: hold(folder))
    with pytest.raises(ValueError, match=rf"--save-dir {folder}: .*process {child.pid} on "):
        hold(folder)
    child.kill()
    child.join()
    assert os.listdir(folder) == [folder_lock.FILE]  # the user need not remove it
    assert hold(folder)
    release(folder)
    assert os.listdir(folder) == []


def test_children_inherit_no_lock(tmp_path, start):
    folder = str(tmp_path)
    assert hold(folder)
    assert hold(f"{tmp_path}/../{tmp_path.name}"), "a second run of this process"
    release(folder)

    def assert_refused():
        release(folder)  # has no effect in the child
        with pytest.raises(ValueError, match="another training run"):
            hold(folder)

    start(assert_refused)
    assert os.listdir(folder) == [folder_lock.FILE]
    release(folder)
    start(lambda: hold(folder))  # the first child is still alive


class Trainer:
    """The parts of fairseq's trainer that the lock needs."""

    def __init__(self, folder, rank=0, no_save=False):
        self.cfg = OmegaConf.structured(FairseqConfig)
        self.cfg.checkpoint.update(save_dir=str(folder), no_save=no_save)
        self.cfg.distributed_training.distributed_rank = rank


@pytest.fixture
def listings(monkeypatch):
    """Record the files of the folder whenever a run loads its checkpoint."""
    files = []

    def load(cfg, trainer):
        files.append(sorted(os.listdir(cfg.save_dir)))

    monkeypatch.setattr(checkpoint_utils, "verify_checkpoint_directory", lambda save_dir: None)
    monkeypatch.setattr(checkpoint_utils, "load_checkpoint", load)
    apply_again("folder_lock")
    return files


PARTS = "_last _best 12 _3_500 .best_bleu_1.20 1-shard0".split()
PARTIAL = [f".checkpoint{part}.pt.tmp-0123abcd" for part in PARTS]
UNRELATED = ["checkpoint_last.pt", "dummy", "checkpoint_last.pt.tmp"]
UNRELATED += [".average.pt.tmp-0123abcd", ".checkpoints.zip.tmp-0123abcd"]


@pytest.mark.cases("rank no_save locks", (0, False, True), (1, False, False), (0, True, False))
def test_the_process_that_saves_locks_and_cleans_first(tmp_path, listings, rank, no_save, locks):
    for name in (*PARTIAL, *UNRELATED):
        (tmp_path / name).touch()
    trainer = Trainer(tmp_path, rank, no_save)
    checkpoint_utils.load_checkpoint(trainer.cfg.checkpoint, trainer)
    additional = [folder_lock.FILE] if locks else PARTIAL
    assert listings == [sorted([*UNRELATED, *additional])]
    del trainer  # the run ends
    assert folder_lock.FILE not in os.listdir(tmp_path)


@pytest.mark.parametrize("is_locked", [False, True])
def test_every_process_of_a_job_is_refused(tmp_path, listings, is_locked):
    folder = tmp_path / "run"
    folder.mkdir()

    def run(rank):
        method = {"init_method": f"file://{tmp_path}/store", "timeout": timedelta(seconds=60)}
        torch.distributed.init_process_group("gloo", world_size=2, rank=rank, **method)
        trainer, refusal = Trainer(folder, rank), contextlib.nullcontext()
        if is_locked:
            refusal = pytest.raises(ValueError, match="another training run")
        with refusal:
            checkpoint_utils.load_checkpoint(trainer.cfg.checkpoint, trainer)
        assert len(listings) == (not is_locked)

    if is_locked:
        hold(str(folder))
    children = [FORK.Process(target=run, args=(rank,)) for rank in range(2)]
    for child in children:
        child.start()
    for child in children:
        child.join()
        assert child.exitcode == 0
    release(str(folder))
