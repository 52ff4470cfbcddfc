"""Keep a second training run out of a ``--save-dir``, by a lock that a kill releases."""

import logging
import os
import re
import tempfile
import weakref
from typing import Any, Dict, List, Optional

import torch.distributed as dist

from data_prep.files import LockHeldError, RunLock, leftovers

from .patch import Harm, Patch

logger = logging.getLogger(__name__)

FILE = ".training.lock"
CHECKPOINT = re.compile(r"\.checkpoint(_best|_last|_?\d|\.best_).*\.pt\.")
"""Beginning of the temporary names of the checkpoints that training writes."""

FOLDER_LOCK = Patch(
    name="folder_lock",
    harm=Harm.DATA_LOSS,
    defect="two runs with one --save-dir overwrite each other's checkpoints and resume from them; "
    "a user's file 'dummy' there is removed",
)

_locks: Dict[str, RunLock] = {}
"""Locks that this process holds, by folder."""


def hold(folder: str) -> bool:
    """Lock a folder for this process until :func:`release`, the end of the process or a kill.

    A second call by the same process succeeds, and needs a second :func:`release`. A data-loading
    worker is a child of the process. It may outlive the run but holds no lock.

    Returns:
        False, after a warning, if the lock's file cannot be opened or the file system has no locks.

    Raises:
        ValueError: another process holds the folder; names it.
    """
    key = os.path.realpath(folder)
    lock = _locks.get(key)
    if lock is None or not lock.is_held:  # a child process inherits the entry but not the lock
        lock = RunLock(os.path.join(key, FILE))
    try:
        lock.acquire()
    except LockHeldError as error:
        raise ValueError(
            f"--save-dir {folder}: another training run writes there ({error}); two would mix "
            "their checkpoints. Valid: another folder, or the same one when that run has ended"
        ) from None
    except OSError as error:
        risk = "do not start a second run there, nothing would stop it"
        logger.warning(f"--save-dir {folder} cannot be locked ({error}): {risk}")
        return False
    _locks[key] = lock
    return True


def release(folder: str) -> None:
    """Release the lock of :func:`hold`. Does nothing in a child of the process that holds it."""
    key = os.path.realpath(folder)
    lock = _locks.get(key)
    if lock is not None:
        lock.release()
        if not lock.is_held:
            del _locks[key]


def clean(folder: str) -> None:
    """Remove partial checkpoints left by killed runs. The caller must hold the lock."""
    for path in leftovers(folder):
        if CHECKPOINT.match(path.name):
            logger.info(f"removing {path}, which a run that was killed did not finish")
            path.unlink()


@FOLDER_LOCK.replace("fairseq.checkpoint_utils:load_checkpoint")
def load_checkpoint(stock: Any, cfg: Any, trainer: Any, **passthrough_args: Any) -> Any:
    """Lock ``--save-dir`` until the trainer is deleted, then load the checkpoint.

    The first process of a job takes the lock for all. If it fails, all processes raise its error.

    Raises:
        ValueError: another run writes into the folder.
    """
    from fairseq.distributed import utils
    from fairseq.file_io import PathManager

    if cfg.no_save or PathManager.path_requires_pathmanager(cfg.save_dir):
        return stock(cfg, trainer, **passthrough_args)
    refusal: List[Optional[Exception]] = [None]
    if utils.is_master(trainer.cfg.distributed_training):
        folder = os.path.realpath(cfg.save_dir)  # hydra changes the working directory at its end
        try:
            os.makedirs(folder, exist_ok=True)
            if hold(cfg.save_dir):
                weakref.finalize(trainer, release, folder)
                clean(folder)
        except (OSError, ValueError) as error:
            refusal = [error]
    if dist.is_available() and dist.is_initialized():
        dist.broadcast_object_list(refusal, src=0)
    if refusal[0] is not None:
        raise refusal[0]
    return stock(cfg, trainer, **passthrough_args)


@FOLDER_LOCK.replace("fairseq.checkpoint_utils:verify_checkpoint_directory")
def verify_checkpoint_directory(stock: Any, save_dir: str) -> None:
    """Check that the folder can be written, by a temporary file with a unique name.

    Stock creates and removes a file ``dummy``, which may belong to the user or to a run that starts
    at the same time.
    """
    os.makedirs(save_dir, exist_ok=True)
    with tempfile.TemporaryFile(dir=save_dir):
        pass
