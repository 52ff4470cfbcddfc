"""One training run at a time in a ``--save-dir``: a lock that a kill releases."""

import fcntl
import logging
import os
import re
import shlex
import socket
import sys
import tempfile
import weakref
from collections import Counter
from typing import Any, Dict

from .patch import Patch, source_has

logger = logging.getLogger(__name__)

FILE = ".training.lock"
INFO_BYTES = 300
LEFT_OVER = re.compile(r"\.checkpoint(_best|_last|_?\d|\.best_).*\.pt\.[0-9a-f]{8}\.tmp")
"""What ``checkpoints.writing.atomic_path`` makes of the names that training writes."""

FOLDER_LOCK = Patch(
    name="folder_lock",
    reason="two runs with one --save-dir overwrite and resume from each other's checkpoints; the second one is now refused",
    last=True,  # the first look into the folder
)


_held: Dict[str, int] = {}  # descriptors by folder
_users: "Counter[str]" = Counter()  # runs of this process by folder


def _leave_to_the_parent() -> None:
    """A worker that loads data may outlive the run for a while: it must not keep the folder."""
    for descriptor in _held.values():
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
        if key not in _held:
            _held[key] = _lock(os.path.join(key, FILE))
            _users[key] = 0
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
    _users[key] += 1
    return True


def release(folder: str) -> None:
    """Give up what :func:`hold` locked."""
    key = os.path.realpath(folder)
    if key not in _held:  # in a child of the process that holds it
        return
    _users[key] -= 1
    if _users[key]:
        return
    try:
        os.unlink(os.path.join(key, FILE))
    except OSError as error:
        logger.debug(f"{FILE} stays in {folder}: {error}")
    os.close(_held.pop(key))


def _lock(path: str) -> int:
    """Descriptor of the locked file. Raises BlockingIOError whose text says who holds it, OSError where nobody can lock."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_still_there(path, descriptor):
                _introduce(descriptor)
                return descriptor
        except BlockingIOError as error:
            other = os.pread(descriptor, INFO_BYTES, 0).decode(errors="replace") or "another process"
            os.close(descriptor)
            raise BlockingIOError(error.errno, other) from None
        except OSError:
            os.close(descriptor)
            raise
        os.close(descriptor)  # its holder removed it in between


def _is_still_there(path: str, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _introduce(descriptor: int) -> None:
    """Write who this is, as far as there is room on the disk."""
    text = f"process {os.getpid()} on {socket.gethostname()}: {shlex.join(sys.argv)}"
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, text.encode()[:INFO_BYTES], 0)
    except OSError as error:
        logger.debug(f"the lock does not say whose it is: {error}")


def clean(folder: str) -> None:
    """Remove what killed runs left half-written. Only for who holds the lock."""
    for name in os.listdir(folder):
        if LEFT_OVER.fullmatch(name):
            logger.info(f"removing {os.path.join(folder, name)}, which a run that was killed did not finish")
            os.unlink(os.path.join(folder, name))


@FOLDER_LOCK.probe
def _nobody_locks() -> bool:
    from fairseq import checkpoint_utils

    return not source_has(checkpoint_utils.load_checkpoint, "flock")


@FOLDER_LOCK.replace("fairseq.checkpoint_utils:load_checkpoint")
def load_checkpoint(stock: Any, cfg: Any, trainer: Any, **passthrough_args: Any) -> Any:
    """Lock the folder until the trainer ends. One process of a job holds it for all of them."""
    from fairseq.distributed import utils
    from fairseq.file_io import PathManager

    local = not PathManager.path_requires_pathmanager(cfg.save_dir)
    if local and not cfg.no_save and utils.is_master(trainer.cfg.distributed_training):
        os.makedirs(cfg.save_dir, exist_ok=True)
        folder = os.path.realpath(cfg.save_dir)  # fairseq-hydra-train goes to another folder at its end
        if hold(folder):
            weakref.finalize(trainer, release, folder)  # also at the end of the process
            clean(folder)
    return stock(cfg, trainer, **passthrough_args)


@FOLDER_LOCK.replace("fairseq.checkpoint_utils:verify_checkpoint_directory")
def verify_checkpoint_directory(stock: Any, save_dir: str) -> None:
    """Stock makes and removes a file ``dummy``: that of a user, or of a run that starts at the same time."""
    os.makedirs(save_dir, exist_ok=True)
    with tempfile.TemporaryFile(dir=save_dir):
        pass
