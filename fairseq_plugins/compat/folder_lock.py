"""One training run at a time in a ``--save-dir``: a lock that a kill releases."""

import contextlib
import fcntl
import logging
import os
import re
import shlex
import socket
import sys
import tempfile
import weakref
from typing import Any, Dict, List, Optional, Tuple

import torch.distributed as dist

from .patch import Harm, Patch

logger = logging.getLogger(__name__)

FILE = ".training.lock"
INFO_BYTES = 300
LEFT_OVER = re.compile(r"\.checkpoint(_best|_last|_?\d|\.best_).*\.pt\.[0-9a-f]{8}\.tmp")
"""What ``checkpoints.writing.atomic_path`` makes of the names that training writes."""

FOLDER_LOCK = Patch(
    name="folder_lock",
    harm=Harm.DATA_LOSS,
    defect="two runs with one --save-dir overwrite each other's checkpoints and resume from them; "
    "a user's file 'dummy' there is removed",
)

_held: Dict[str, Tuple[int, int]] = {}  # descriptor and number of runs of this process by folder


def _leave_to_the_parent() -> None:
    """A worker that loads data may outlive the run for a while: it must not keep the folder."""
    for descriptor, _ in _held.values():
        os.close(descriptor)  # the parent's stays locked
    _held.clear()


os.register_at_fork(after_in_child=_leave_to_the_parent)


def hold(folder: str) -> bool:
    """Lock a folder for this process, until :func:`release`, its end or a kill. False where the system cannot lock.

    Who holds it is written into ``FILE``, which is removed at the end; one that a kill leaves there stops nobody.

    Raises ValueError: another process holds it; says which.
    """
    key = os.path.realpath(folder)
    try:
        descriptor, runs = _held.get(key) or (_lock(os.path.join(key, FILE)), 0)
    except BlockingIOError as error:
        raise ValueError(
            f"--save-dir {folder}: another training run writes there ({error.strerror}); two would mix their checkpoints. "
            "Valid: another folder, or the same one when that run has ended"
        ) from None
    except OSError as error:
        logger.warning(
            f"--save-dir {folder} cannot be locked ({error}): nothing keeps a second run out, start none there"
        )
        return False
    _held[key] = descriptor, runs + 1
    return True


def release(folder: str) -> None:
    """Give up what :func:`hold` locked. Of no effect in a child of the process that holds it."""
    key = os.path.realpath(folder)
    descriptor, runs = _held.pop(key, (-1, 0))
    if runs > 1:
        _held[key] = descriptor, runs - 1
    elif runs:
        with contextlib.suppress(OSError):  # it may stay there
            os.unlink(os.path.join(key, FILE))
        os.close(descriptor)


def _lock(path: str) -> int:
    """Descriptor of the locked file. Raises BlockingIOError whose text says who holds it, OSError where nobody can lock."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with contextlib.suppress(FileNotFoundError):  # its holder removed it in between
                if os.path.samestat(os.stat(path), os.fstat(descriptor)):
                    with contextlib.suppress(OSError):  # a full disk
                        text = f"process {os.getpid()} on {socket.gethostname()}: {shlex.join(sys.argv)}"
                        os.ftruncate(descriptor, 0)
                        os.pwrite(descriptor, text.encode()[:INFO_BYTES], 0)
                    return descriptor
        except BlockingIOError as error:
            other = os.pread(descriptor, INFO_BYTES, 0).decode(errors="replace") or "another process"
            os.close(descriptor)
            raise BlockingIOError(error.errno, other) from None
        except OSError:
            os.close(descriptor)
            raise
        os.close(descriptor)


def clean(folder: str) -> None:
    """Remove what killed runs left half-written. Only for who holds the lock."""
    for name in os.listdir(folder):
        if LEFT_OVER.fullmatch(name):
            logger.info(f"removing {os.path.join(folder, name)}, which a run that was killed did not finish")
            os.unlink(os.path.join(folder, name))


@FOLDER_LOCK.replace("fairseq.checkpoint_utils:load_checkpoint")
def load_checkpoint(stock: Any, cfg: Any, trainer: Any, **passthrough_args: Any) -> Any:
    """Lock the folder until the trainer ends. The first process of a job holds it for all of them, and refuses for all."""
    from fairseq.distributed import utils
    from fairseq.file_io import PathManager

    if cfg.no_save or PathManager.path_requires_pathmanager(cfg.save_dir):
        return stock(cfg, trainer, **passthrough_args)
    refusal: List[Optional[Exception]] = [None]
    if utils.is_master(trainer.cfg.distributed_training):
        folder = os.path.realpath(cfg.save_dir)  # fairseq-hydra-train goes to another folder at its end
        try:
            os.makedirs(folder, exist_ok=True)
            if hold(cfg.save_dir):
                weakref.finalize(trainer, release, folder)  # also at the end of the process
                clean(folder)
        except (OSError, ValueError) as error:
            refusal = [error]
    if dist.is_available() and dist.is_initialized():  # or the others would wait for the first one
        dist.broadcast_object_list(refusal, src=0)
    if refusal[0] is not None:
        raise refusal[0]
    return stock(cfg, trainer, **passthrough_args)


@FOLDER_LOCK.replace("fairseq.checkpoint_utils:verify_checkpoint_directory")
def verify_checkpoint_directory(stock: Any, save_dir: str) -> None:
    """Stock makes and removes a file ``dummy``: that of a user, or of a run that starts at the same time."""
    os.makedirs(save_dir, exist_ok=True)
    with tempfile.TemporaryFile(dir=save_dir):
        pass
