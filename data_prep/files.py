"""Write files and folders that appear whole, lock folders, and hash files.

Everything that this project writes for good is written here: under a temporary name beside the
target, flushed to disk, then renamed. A kill or a full disk leaves the previous content in place.
The module imports neither torch nor fairseq; data_prep, fairseq_plugins and examples share it.
"""

import contextlib
import errno
import glob
import hashlib
import json
import os
import secrets
import shlex
import shutil
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Dict, Iterator, List, Optional, Sequence, TextIO

from .io import InputError, PathLike
from .progress import say

TOKEN_BYTES = 4  # random part of a temporary name
CHUNK_BYTES = 1 << 20  # read at a time to hash a file
HOLDER_BYTES = 300  # of the text that says who holds a lock
DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)  # reported with the free space


# ---- Files. ----


@contextmanager
def atomic_path(path: PathLike) -> Iterator[Path]:
    """Yield a temporary path; the file written there takes the place of `path` at the end.

    The new file is on disk before it is renamed. After an error or a kill `path` is what it was.
    A symbolic link stays a link: the file that it leads to is replaced.

    Args:
        path: file name in an existing folder.

    Raises:
        InputError: `path` is a folder, a device or a pipe, or its folder is missing.
        OSError: the file cannot be written; names `path` and, on a full disk, the free space.
    """
    _check_file_name(Path(path), str(path))
    if not Path(path).parent.is_dir():
        raise InputError(f"{path}: no such folder; valid: a file name in an existing folder")
    target = Path(os.path.realpath(path))
    temporary = _temporary_path(target)
    try:
        with _errors_naming(path, temporary):
            yield temporary
            _flush_to_disk(temporary)
            os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # some file systems cannot flush a folder
        _flush_to_disk(target.parent)


@contextmanager
def atomic_file(path: PathLike) -> Iterator[Any]:
    """Yield a binary file to write to, also by `torch.save`; otherwise as :func:`atomic_path`."""
    with atomic_path(path) as temporary, open(temporary, "wb") as file:
        watched = _WatchedFile(file)
        try:
            yield watched
        except Exception as error:
            if watched.error is not None and watched.error is not error:
                raise watched.error from error
            raise


class _WatchedFile:
    """Binary file that remembers why a write failed; `torch.save` reports only that one did."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.error: Optional[OSError] = None

    def write(self, content: Any) -> int:
        try:
            return self._file.write(content)
        except OSError as error:
            self.error = error
            raise

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


@contextmanager
def atomic_texts(
    paths: Sequence[PathLike],
    option: str,
    inputs: Sequence[PathLike] = (),
    empty_ok: bool = False,
) -> Iterator[List[TextIO]]:
    """Open text files (UTF-8, LF) that take their places together, or not at all after an error.

    Args:
        paths: outputs; missing folders are made.
        option: option that named them, for messages.
        inputs: files that must not be overwritten.
        empty_ok: accept an output without text.

    Raises:
        InputError: an output is named twice, is an input or a folder, or got no text.
        OSError: as in :func:`atomic_path`.
    """
    targets = [Path(path) for path in paths]
    _check_outputs(targets, option, inputs)
    with contextlib.ExitStack() as stack:
        temporary, files = [], []
        for target in targets:
            target.parent.mkdir(parents=True, exist_ok=True)
            temporary.append(stack.enter_context(atomic_path(target)))
            files.append(open(temporary[-1], "w", encoding="utf-8", newline="\n"))
            stack.callback(_close, files[-1])
        with _errors_naming(targets[0] if len(targets) == 1 else targets[0].parent, *temporary):
            yield list(files)
        for target, file in zip(targets, files):
            with _errors_naming(target):
                file.flush()
                if not empty_ok and file.tell() == 0:
                    reason = "no line was left to write, so nothing was written"
                    raise InputError(f"{option} {target}: {reason}")
                os.fsync(file.fileno())


def write_bytes(path: PathLike, content: bytes) -> None:
    """Write a file as :func:`atomic_path` does; missing folders are made."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with atomic_path(path) as temporary:
        temporary.write_bytes(content)


def write_json(path: PathLike, content: Dict[str, Any]) -> None:
    """Write JSON with sorted keys, so that the same content gives the same bytes."""
    text = json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False)
    write_bytes(path, (text + "\n").encode("utf-8"))


def sha256(path: PathLike) -> str:
    """Return the SHA-256 of a file, hexadecimal."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for chunk in iter(lambda: file.read(CHUNK_BYTES), b""):
            digest.update(chunk)
    return digest.hexdigest()


# ---- Folders. ----


@contextmanager
def atomic_folder(path: PathLike, replace: bool = False) -> Iterator[Path]:
    """Yield a new folder that takes the place of `path` at the end, or vanishes after an error.

    A kill while an older folder is replaced may leave neither under the name:
    :func:`restore_folder` puts the older one back.

    Args:
        path: missing or empty at the end, unless `replace`; its parents are made.
        replace: replace an older folder with everything in it.

    Raises:
        OSError: as in :func:`atomic_path`.
    """
    target = Path(os.path.realpath(path))
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = _temporary_path(target)
    new, old = temporary / "new", temporary / "old"
    try:
        with _errors_naming(path, temporary):
            new.mkdir(parents=True)
            yield new
            for file in new.rglob("*"):
                if file.is_file():
                    _flush_to_disk(file)
            if replace and target.exists():
                os.replace(target, old)
            os.replace(new, target)
    finally:
        _put_back(old, target)
        shutil.rmtree(temporary, ignore_errors=True)


def restore_folder(path: PathLike) -> None:
    """Remove what killed runs left of :func:`atomic_folder`, and put back a folder moved away.

    The caller must hold the lock that keeps other runs out.
    """
    target = Path(os.path.realpath(path))
    for temporary in leftovers(target.parent, target.name):
        _put_back(temporary / "old", target)
        shutil.rmtree(temporary, ignore_errors=True)


def _put_back(old: Path, target: Path) -> None:
    if old.is_dir() and not target.exists():
        os.replace(old, target)


def leftovers(folder: PathLike, name: Optional[str] = None) -> List[Path]:
    """Return the temporary files and folders that killed runs left in a folder.

    Args:
        folder: where to look; may be missing.
        name: name of the file or folder that was being written; None: any.
    """
    stem = "*" if name is None else glob.escape(name)
    return sorted(Path(folder).glob(f".{stem}.tmp-{'[0-9a-f]' * 2 * TOKEN_BYTES}"))


# ---- Locks. ----


class LockHeldError(Exception):
    """Raised when another run holds a lock; the text says which."""


class RunLock:
    """Lock that keeps other runs out of a folder; the end of its process releases it.

    The locked file names the holder and is removed on release. A kill leaves the file, but not
    the lock. A run that acquires the lock twice releases it twice. A forked child does not hold
    the lock of its parent.

    Args:
        path: file to lock, in an existing folder.
    """

    def __init__(self, path: PathLike) -> None:
        import filelock  # absent from Snakemake's environment, which only hashes and writes

        self._path = Path(os.path.abspath(path))
        self._lock = filelock.FileLock(
            self._path, thread_local=False, fallback_to_soft=False, on_acquired=_write_holder
        )

    @property
    def is_held(self) -> bool:
        """Return True if this process holds the lock."""
        return self._lock.is_locked

    def acquire(self) -> None:
        """Take the lock, without waiting.

        Raises:
            LockHeldError: another run holds it; the text says which.
            OSError: the file cannot be opened or, if the error names no file, the file system
                has no locks.
        """
        while True:
            try:
                self._lock.acquire(blocking=False)
                return
            except TimeoutError:
                if self._path.exists():  # else its holder has just released it
                    raise LockHeldError(_read_holder(self._path)) from None

    def release(self) -> None:
        """Give the lock up; without effect where this process does not hold it."""
        if self._lock.lock_counter == 1:
            with contextlib.suppress(OSError):
                self._path.unlink()
        self._lock.release()


@contextmanager
def locked(path: PathLike, output: str) -> Iterator[None]:
    """Keep other runs out of an output while the block runs.

    Where the file system has no locks, a warning says so. If the folder of the lock is made
    here, it is removed at the end unless something else is in it.

    Args:
        path: file to lock, see :class:`RunLock`.
        output: option and value of the output, for messages.

    Raises:
        InputError: another run is at work there; says which.
    """
    folder = Path(path).absolute().parent
    is_new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    lock = RunLock(path)
    try:
        lock.acquire()
    except LockHeldError as error:
        remedy = "valid: another folder, or wait for its end"
        raise InputError(f"{output}: another run is at work there ({error}); {remedy}") from None
    except OSError as error:
        if error.filename is not None:
            raise
        say(f"warning: {output}: {error.strerror}; nothing keeps another run out, start none")
        Path(path).unlink(missing_ok=True)
    try:
        yield
    finally:
        lock.release()
        if is_new:
            with contextlib.suppress(OSError):
                folder.rmdir()


def _write_holder(descriptor: int) -> None:
    """Write into a locked file which process holds it, and its command line."""
    text = f"process {os.getpid()} on {os.uname().nodename}: {shlex.join(sys.argv)}"
    with contextlib.suppress(OSError):  # on a full disk the lock holds without it
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, text.encode("utf-8", "surrogateescape")[:HOLDER_BYTES], 0)


def _read_holder(path: Path) -> str:
    content = b""
    with contextlib.suppress(OSError):
        content = path.read_bytes()[:HOLDER_BYTES]
    return content.decode("utf-8", errors="replace").strip() or "its process is not known"


# ---- Shared steps. ----


def _temporary_path(target: Path) -> Path:
    """Return a new name beside `target`, which no other process on any machine takes."""
    return target.with_name(f".{target.name}.tmp-{secrets.token_hex(TOKEN_BYTES)}")


@contextmanager
def _errors_naming(path: PathLike, *temporary: Path) -> Iterator[None]:
    """Name `path` in an error of the system that names no file, or a temporary one.

    On a full or broken disk the error also says how much space is free.
    """
    try:
        yield
    except OSError as error:
        is_input = error.filename is not None and not str(error.filename).startswith(
            tuple(str(file) for file in temporary)
        )
        if error.errno is None or is_input:
            raise
        reason = error.strerror or str(error)
        if error.errno in DISK_ERRORS:
            folder = os.path.dirname(os.path.realpath(path))
            reason += f" ({shutil.disk_usage(folder).free:,} bytes free there)"
        raise OSError(error.errno, reason, str(path)) from error


def _flush_to_disk(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _close(file: TextIO) -> None:
    with contextlib.suppress(OSError):  # a full disk, reported before
        file.close()


def _check_outputs(targets: Sequence[Path], option: str, inputs: Sequence[PathLike]) -> None:
    sources = {Path(path).resolve() for path in inputs}
    paths: List[Path] = []
    for target in targets:
        path = target.resolve()
        if path in paths:
            raise InputError(f"{option} {target}: named twice; valid: one output for each input")
        if path in sources:
            reason = "would overwrite an input; valid: another file name"
            raise InputError(f"{option} {target}: {reason}")
        _check_file_name(target, f"{option} {target}")
        paths.append(path)


def _check_file_name(target: Path, name: str) -> None:
    if target.exists() and not target.is_file():
        kind = "a folder" if target.is_dir() else "no file"
        raise InputError(f"{name}: {kind}; valid: a file name")
