"""Writing files so that a kill or a full disk leaves the previous one intact."""

import contextlib
import errno
import os
import re
import secrets
import shutil
from pathlib import Path
from typing import Any, BinaryIO, Iterator, Mapping, Optional

import safetensors.torch
import torch
from torch import Tensor

from .reading import FINGERPRINT, CheckpointError, PathLike, fingerprint


@contextlib.contextmanager
def atomic_path(path: PathLike) -> Iterator[Path]:
    """Yield a temporary file's path beside ``path``; on success it is flushed to disk and takes the place of ``path``.

    When the block raises, the temporary file is removed and ``path`` is what it was. A link stays a link.

    Raises CheckpointError: a folder, a device, a pipe, or in no folder that exists; OSError: it cannot be written (a full disk),
    with the free space.
    """
    target = Path(path)
    if not target.parent.is_dir() or (target.exists() and not target.is_file()):
        raise CheckpointError(f"output {target}: expected a file name in an existing folder")
    place = Path(os.path.realpath(target))
    temporary = place.with_name(
        f".{place.name}.{secrets.token_hex(4)}.tmp"
    )  # taken by no other process, on any machine
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
    with contextlib.suppress(OSError):  # so that the new name survives a power cut, where the system can do that
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
    """As :func:`atomic_path`, but yields the binary file to write to, which may be handed to ``torch.save``."""
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


def save_tensors(tensors: Mapping[str, Tensor], path: PathLike) -> None:
    """Write a safetensors file, which is replaced at once and may be read by whoever may read other new files.

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
