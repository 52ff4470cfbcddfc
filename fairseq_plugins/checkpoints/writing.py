"""Writing files so that a kill or a full disk leaves the previous one intact."""

import contextlib
import errno
import os
import re
import secrets
import shutil
from pathlib import Path
from typing import Any, BinaryIO, Dict, Iterator, Mapping, Optional, Tuple

import safetensors.torch
import torch
from torch import Tensor

from .inspection import CheckpointError
from .reading import FINGERPRINT, PathLike, fingerprint
from .versions import stamped


@contextlib.contextmanager
def atomic_path(path: PathLike) -> Iterator[Path]:
    """Yield a temporary file's path beside ``path``; on success it is flushed to disk and takes the place of ``path``.

    When the block raises, the temporary file is removed and ``path`` is what it was. A link stays a link.

    Raises CheckpointError: no file name in an existing folder; OSError: it cannot be written, with the free space.
    """
    target = Path(path)
    if not target.parent.is_dir() or (target.exists() and not target.is_file()):
        raise CheckpointError(f"output {target}: expected a file name in an existing folder")
    place = Path(os.path.realpath(target))
    # Taken by no other process, on any machine.
    temporary = place.with_name(f".{place.name}.{secrets.token_hex(4)}.tmp")
    try:
        yield temporary
        with temporary.open("rb+") as stream:
            os.fsync(stream.fileno())
        os.replace(temporary, place)
    except BaseException as error:
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()
        if isinstance(error, OSError) and error.filename in (None, str(temporary)):
            reason = f"{error.strerror or error} ({shutil.disk_usage(target.parent).free:,} bytes free there)"
            raise OSError(error.errno or errno.EIO, reason, str(target)) from error
        raise
    with contextlib.suppress(
        OSError
    ):  # so that the new name survives a power cut, where the system can do that
        descriptor = os.open(place.parent, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


class _Watched:
    """A file that remembers why a write failed (torch.save reports only that it did)."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.error: Optional[OSError] = None

    def write(self, data: Any) -> int:
        try:
            return self._file.write(data)
        except OSError as error:
            self.error = error
            raise

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


@contextlib.contextmanager
def atomic_file(path: PathLike) -> Iterator[Any]:
    """Like :func:`atomic_path`, but yields the binary file to write to, which may be handed to ``torch.save``."""
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        watched = _Watched(file)
        try:
            yield watched
        except Exception as error:
            if watched.error is not None and watched.error is not error:
                raise watched.error from error
            raise


def save_checkpoint(state: Any, path: PathLike) -> None:
    """``torch.save`` to a file that is replaced at once, when everything is on disk. Errors as of :func:`atomic_path`."""
    with atomic_file(path) as file:
        torch.save(state, file)


def start_state(
    model: Mapping[str, Tensor], updates: int = 0, epoch: int = 1, **entries: Any
) -> Dict[str, Any]:
    """Return a fairseq checkpoint that training can start from, with this process's versions.

    Args:
        entries: further entries of the checkpoint.
    """
    state: Dict[str, Any] = {
        "args": None,
        "cfg": None,
        "model": model,
        "criterion": None,
        "task_state": {},
        **entries,
    }
    state["optimizer_history"] = [{"num_updates": updates, "lr_scheduler_state": {}}]
    state["extra_state"] = {
        "train_iterator": {"epoch": epoch, "iterations_in_epoch": 0, "version": 2}
    }
    return dict(stamped(state))


def save_tensors(tensors: Mapping[str, Tensor], path: PathLike) -> None:
    """Write a safetensors file atomically, with the permissions of any other new file.

    Its header has the fingerprint of the tensors. Errors as of :func:`atomic_path`.
    """
    metadata = {"format": "pt", FINGERPRINT: fingerprint(tensors)}
    with atomic_path(path) as temporary:
        try:
            safetensors.torch.save_file(dict(tensors), str(temporary), metadata=metadata)
        except safetensors.SafetensorError as error:
            code = re.search(r"os error (\d+)", str(error))
            if not code:
                raise
            raise OSError(int(code[1]), os.strerror(int(code[1]))) from error
        mask = os.umask(0)
        os.umask(mask)
        temporary.chmod(0o666 & ~mask)  # safetensors lets only their owner read them


def memory_of(tensor: Tensor) -> Tuple[Any, ...]:
    """Return what two names of one tensor share: device, memory, shape, strides and dtype."""
    return tensor.device, tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype


def tied_names(model: Mapping[str, Tensor]) -> Dict[str, str]:
    """Map each name of a tied tensor to its first name. Tensors without elements are not tied."""
    first: Dict[Any, str] = {}
    tied = {}
    for name, tensor in model.items():
        owner = first.setdefault(memory_of(tensor), name) if tensor.numel() else name
        if owner != name:
            tied[name] = owner
    return tied
