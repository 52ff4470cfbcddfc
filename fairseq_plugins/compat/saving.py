"""Writing checkpoints: a kill or a full disk never leaves a truncated one under its final name, and each carries versions."""

import errno
import logging
import os
import shutil
import time
from typing import Any, Callable, Dict

import torch

from ..checkpoints.versions import check_versions, stamped
from ..checkpoints.writing import atomic_file, memory_of
from .patch import ModuleProxy, Patch, source_has

logger = logging.getLogger(__name__)

TRANSIENT = {errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.EAGAIN, errno.EINTR}  # worth another try (network disks)
TRIES = 3
PAUSE_SECONDS = 2.5
COPY_BYTES = 16 * 2**20

ATOMIC_COPIES = Patch(
    name="atomic_copies",
    reason="only the first file of a save is written under a temporary name; checkpoint_last.pt is often a plain copy, "
    "which a kill or a full disk truncates",
    upstream="facebookresearch/fairseq#2684",
)
TIED_TENSORS = Patch(
    name="tied_tensors",
    reason="a checkpoint of a model on a GPU, or in half precision, holds a tensor that has several names once for each",
)
CHECKPOINT_VERSIONS = Patch(
    name="checkpoint_versions",
    reason="a checkpoint says neither which versions wrote it nor that it needs a newer package, those of stock models included",
    always=True,
)


def write_whole(path: str, write: Callable[[Any], Any]) -> None:
    """Let ``write(file)`` produce the file ``path``: the name only ever holds the old or the whole new content.

    Raises OSError that names the file and the reason; the old content is still there then, and no temporary file.
    """
    for attempt in range(1, TRIES + 1):
        try:
            with atomic_file(path) as file:
                write(file)
            return
        except OSError as error:
            if error.errno not in TRANSIENT or attempt == TRIES:
                kept = f"The previous {os.path.basename(path)} is untouched. " if os.path.exists(path) else ""
                raise OSError(
                    error.errno,
                    f"checkpoint {path} could not be written: {error.strerror or error}. {kept}"
                    "Make room and start the same command again: training resumes from the last whole checkpoint",
                ) from error
            logger.warning(f"writing {path} failed ({error}), try {attempt} of {TRIES}")
            time.sleep(PAUSE_SECONDS)


@ATOMIC_COPIES.probe
def _copies_in_place() -> bool:
    from fairseq.file_io import PathManager

    return source_has(PathManager.copy, "shutil.copyfile(src_path, dst_path)")


@ATOMIC_COPIES.replace("fairseq.checkpoint_utils:torch_persistent_save")
def torch_persistent_save(stock: Any, obj: Any, filename: str, async_write: bool = False) -> None:
    """Save under a temporary name."""
    from fairseq.file_io import PathManager

    if async_write or not PathManager.supports_rename(filename):
        stock(obj, filename, async_write)
    else:
        write_whole(filename, lambda file: torch.save(obj, file))


@ATOMIC_COPIES.replace("fairseq.file_io:PathManager.copy")
def copy(stock: Any, src_path: str, dst_path: str, overwrite: bool = False) -> bool:
    """Copy under a temporary name."""
    from fairseq.file_io import PathManager

    if any(PathManager.path_requires_pathmanager(path) for path in (src_path, dst_path)):
        return bool(stock(src_path, dst_path, overwrite=overwrite))

    def write(target: Any) -> None:
        with open(src_path, "rb") as source:
            shutil.copyfileobj(source, target, COPY_BYTES)

    write_whole(dst_path, write)
    return True


@TIED_TENSORS.probe
def _copies_each_name() -> bool:
    from fairseq import utils

    tensor = torch.zeros(1, dtype=torch.float16)
    one, other = utils.move_to_cpu([tensor, tensor])
    return one is not other


@TIED_TENSORS.replace("fairseq.utils:move_to_cpu")
def move_to_cpu(stock: Any, sample: Any) -> Any:
    """Copy each tensor once."""
    from fairseq import utils

    copies: Dict[Any, Any] = {}

    def copied(tensor: torch.Tensor) -> torch.Tensor:
        memory = memory_of(tensor)
        if memory not in copies:
            (copies[memory],) = stock([tensor])
        return copies[memory]

    return utils.apply_to_sample(copied, sample)


@CHECKPOINT_VERSIONS.replace("fairseq.checkpoint_utils:torch_persistent_save")
def save_stamped(stock: Any, obj: Any, filename: Any, async_write: bool = False) -> None:
    """Add the versions of this process."""
    stock(stamped(obj), filename, async_write)


@CHECKPOINT_VERSIONS.step
def look_at_versions() -> None:
    """Let the module that reads checkpoints compare their format."""
    from fairseq import checkpoint_utils

    stock = checkpoint_utils.torch

    def load(file: Any, *args: Any, **kwargs: Any) -> Any:
        state = stock.load(file, *args, **kwargs)
        check_versions(state, f"checkpoint {getattr(file, 'name', file)}")
        return state

    checkpoint_utils.torch = ModuleProxy(stock, load=load)
