"""Probes of several processes and of interrupted saves. Used by ``probes.py``."""

import os
import random
import resource
import signal
import socket
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import List, Optional

import fairseq
import fairseq_cli.train
import torch
from fairseq import checkpoint_utils
from fairseq.distributed import utils as distributed_utils
from omegaconf import OmegaConf
from probe_base import at, attempt, is_off, load_user_dir, read, start, train
from probe_training import hydra_train


def cpu_processes() -> dict:
    """Updates of one epoch of 5 batches by two processes started as torchrun starts them: 3 together, 5 alone."""
    alone = is_off("cpu_processes")  # then two models, which would also overwrite each other's files
    old = fairseq.__version__ == "0.12.2"  # looks at the environment, then waits for NCCL
    updates = {}
    for backend in ([] if old else ["pytorch_ddp"]) if alone else ["pytorch_ddp", "legacy_ddp"]:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        folders = [at(f"{backend}{rank if alone else ''}") for rank in range(2)]
        ranks = [start(partial(_train_rank, rank, port, folders[rank], backend)) for rank in range(2)]
        states = [read(path / "checkpoint_last.pt") for path in folders] if _all_succeed(ranks) else []
        updates[backend] = [state["optimizer_history"][-1]["num_updates"] for state in states]
    before = dict(os.environ)
    _torchrun_environment(rank=1, port=1)
    os.environ["HYDRA_FULL_ERROR"] = "1"
    # Imports the user dir after fairseq has looked at the environment.
    hydra = None if old else attempt(lambda: len(hydra_train()))
    os.environ.clear()
    os.environ.update(before)
    load_user_dir()
    training = {"distributed_init_method": "tcp://127.0.0.1:1", "distributed_no_spawn": False, "distributed_rank": 0}
    training["distributed_world_size"] = 2
    common = {"cpu": True, "tpu": False, "fp16": False}
    cfg = OmegaConf.create({"common": common, "common_eval": {"path": None}, "distributed_training": training})
    tcp = attempt(lambda: distributed_utils.call_main(cfg, print))
    return {"updates": updates, "hydra": hydra, "tcp": tcp}


def _all_succeed(children: List[int], seconds: float = 300.0) -> bool:
    """Wait for the children; once one fails or the time is over, end the others, which may wait for it."""
    running, deadline = set(children), time.time() + seconds
    while running:
        child, status = os.waitpid(-1, os.WNOHANG)
        running.discard(child)
        if status or time.time() > deadline:
            for other in running:
                os.kill(other, signal.SIGKILL)
                os.waitpid(other, 0)
            return False
        time.sleep(0.01)
    return True


def _torchrun_environment(rank: int, port: int) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), WORLD_SIZE="2", RANK=str(rank))
    os.environ["LOCAL_RANK"] = str(rank)


def _train_rank(rank: int, port: int, save_dir: Path, backend: str) -> None:
    _torchrun_environment(rank, port)
    unused = ["--find-unused-parameters"]  # 0.12.2 has some in every encoder layer
    train(save_dir, "--max-epoch", 1, "--ddp-backend", backend, *unused)


def atomic_copies() -> dict:
    """What is left of checkpoint_last.pt when the disk is full, and when the process is killed at random moments."""
    load_user_dir()
    full = at("full")
    full.mkdir()
    for name in ("new.pt", "checkpoint_last.pt"):
        torch.save({"step": name, "weights": torch.zeros(100_000)}, full / name)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a write past the limit then fails as on a full disk
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, limits[1]))
    last = full / "checkpoint_last.pt"
    began = time.time()
    result = {"copied": str(attempt(lambda: checkpoint_utils.PathManager.copy(full / "new.pt", last)))}
    if not is_off("atomic_copies"):  # stock fairseq pauses for 5 seconds between its tries
        result["saved"] = str(attempt(lambda: checkpoint_utils.torch_persistent_save(torch.zeros(100_000), str(last))))
    result["seconds"] = time.time() - began
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    result["left"] = attempt(lambda: read(last)["step"])
    result["files"] = sorted(path.name for path in full.iterdir())
    result["kills"] = [] if is_off("atomic_copies") else _kill_while_saving(at("killed"))
    return result


def _kill_while_saving(save_dir: Path, kills: int = 10) -> List[Optional[str]]:
    """For each kill, None if checkpoint_last.pt could be read afterwards, else the error."""
    save_dir.mkdir()
    rng = random.Random(1)
    results: List[Optional[str]] = []
    for _ in range(kills):
        marker = save_dir / "started"
        marker.unlink(missing_ok=True)
        child = start(partial(_save_forever, save_dir, marker))
        while not marker.exists():
            time.sleep(0.001)
        time.sleep(rng.uniform(0.0, 0.05))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        outcome = attempt(lambda: _check_whole(save_dir / "checkpoint_last.pt"))
        results.append(outcome if isinstance(outcome, str) else None)
    return results


def _check_whole(path: Path) -> None:
    state = read(path)
    assert bool((state["model"]["weights"] == state["step"]).all()), "mixed content"


def _save_forever(save_dir: Path, marker: Path) -> None:
    """Save as the trainer does, again and again, with fairseq's own save_checkpoint."""
    step = 0
    cfg = OmegaConf.structured(fairseq_cli.train.FairseqConfig).checkpoint
    cfg.save_dir = str(save_dir)

    def save(filename: str, extra_state: dict) -> None:
        weights = torch.full((400_000,), float(step))
        checkpoint_utils.torch_persistent_save({"model": {"weights": weights}, "step": step}, filename)

    trainer = SimpleNamespace(
        data_parallel_rank=0, checkpoint_suffix="", should_save_checkpoint_on_current_rank=True, task=None
    )
    trainer.save_checkpoint, trainer.consolidate_optimizer = save, lambda: None
    trainer.get_num_updates = lambda: step
    epoch = SimpleNamespace(epoch=1, end_of_epoch=lambda: True, state_dict=dict)
    while True:
        checkpoint_utils.save_checkpoint(cfg, trainer, epoch, 1.0)
        marker.touch()
        step += 1
