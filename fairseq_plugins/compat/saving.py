"""Write checkpoints that no kill and no full disk can truncate, and record their versions."""

import errno
import logging
import os
import shutil
import time
from typing import Any, BinaryIO, Callable

import torch

from data_prep.files import atomic_file

from ..checkpoints.metadata import check_versions, stamped
from .patch import Harm, ModuleProxy, Patch, source_has

logger = logging.getLogger(__name__)

TRANSIENT = {errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.EAGAIN, errno.EINTR}
"""Errors of network disks, after which another try may succeed."""
TRIES = 3
PAUSE_SECONDS = 2.5
COPY_BYTES = 16 * 2**20

ATOMIC_COPIES = Patch(
    name="atomic_copies",
    harm=Harm.DATA_LOSS,
    defect="only the first file of a save is written under a temporary name; checkpoint_last.pt is "
    "often a plain copy, which a kill or a full disk truncates",
    upstream="facebookresearch/fairseq#2684",
)
CHECKPOINT_VERSIONS = Patch(
    name="checkpoint_versions",
    harm=Harm.WRONG_RESULT,
    defect="checkpoints do not name their format, so a newer format is read as the present one",
)


def write_whole(path: str, write: Callable[[Any], Any]) -> None:
    """Write a file that holds its old or its complete new content at any time.

    Args:
        path: name of the file.
        write: writes the content into an open binary file; called again after a transient error.

    Raises:
        OSError: the write failed; names the file and the reason. The old content is still there.
    """
    for attempt in range(1, TRIES + 1):
        try:
            with atomic_file(path) as file:
                write(file)
            return
        except OSError as error:
            if error.errno not in TRANSIENT or attempt == TRIES:
                raise _failed_write(path, error) from error
            logger.warning(f"writing {path} failed ({error}), try {attempt} of {TRIES}")
            time.sleep(PAUSE_SECONDS)


def _failed_write(path: str, error: OSError) -> OSError:
    """Build the error of a checkpoint that could not be written."""
    name = os.path.basename(path)
    previous = f"The previous {name} is untouched. " if os.path.exists(path) else ""
    return OSError(
        error.errno,
        f"checkpoint {path} could not be written: {error.strerror or error}. {previous}Make room "
        "and start the same command again: training resumes from the last whole checkpoint",
    )


@ATOMIC_COPIES.probe
def _copies_in_place() -> bool:
    """Return True if fairseq copies a checkpoint onto its final name."""
    from fairseq.file_io import PathManager

    return source_has(PathManager.copy, "shutil.copyfile(src_path, dst_path)")


@ATOMIC_COPIES.replace("fairseq.checkpoint_utils:torch_persistent_save")
def torch_persistent_save(stock: Any, obj: Any, filename: str, async_write: bool = False) -> None:
    """Save a checkpoint under a temporary name, then rename it."""
    from fairseq.file_io import PathManager

    if async_write or not PathManager.supports_rename(filename):
        stock(obj, filename, async_write)
    else:
        write_whole(filename, lambda file: torch.save(obj, file))


@ATOMIC_COPIES.replace("fairseq.file_io:PathManager.copy")
def copy(stock: Any, src_path: str, dst_path: str, overwrite: bool = False) -> bool:
    """Copy a file under a temporary name, then rename it. Returns True, as stock does."""
    from fairseq.file_io import PathManager

    if any(PathManager.path_requires_pathmanager(path) for path in (src_path, dst_path)):
        return bool(stock(src_path, dst_path, overwrite=overwrite))

    def copy_content(target: BinaryIO) -> None:
        """Copy the source in blocks."""
        with open(src_path, "rb") as source:
            shutil.copyfileobj(source, target, COPY_BYTES)

    write_whole(dst_path, copy_content)
    return True


@CHECKPOINT_VERSIONS.replace("fairseq.checkpoint_utils:torch_persistent_save")
def save_stamped(stock: Any, obj: Any, filename: Any, async_write: bool = False) -> None:
    """Save a checkpoint with its format and the versions of this process."""
    stock(stamped(obj), filename, async_write)


@CHECKPOINT_VERSIONS.step
def check_formats() -> None:
    """Let fairseq's checkpoint module refuse newer formats.

    The module sees a torch whose ``load`` calls the module's present one, then checks the format.
    """
    from fairseq import checkpoint_utils

    stock = checkpoint_utils.torch

    def load_checked(file: Any, *args: Any, **kwargs: Any) -> Any:
        """Load a checkpoint; raise ValueError for a newer format."""
        state = stock.load(file, *args, **kwargs)
        check_versions(state, f"checkpoint {getattr(file, 'name', file)}")
        return state

    checkpoint_utils.torch = ModuleProxy(stock, load=load_checked)
