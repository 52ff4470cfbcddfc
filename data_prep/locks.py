"""One run at a time in a folder: a lock that a kill releases, and that says whose it is."""

import contextlib
import fcntl
import os
import socket
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator

from . import cli
from .io import InputError, PathLike

INFO_BYTES = 300


@contextmanager
def alone(lock: PathLike, output: str) -> Iterator[None]:
    """Keep other runs out of an output. Where the file system has no locks, a warning says so.

    Args:
        lock: file to lock; it is removed at the end, and so is its folder if it was made for it and holds nothing. One that a kill
            leaves stops nobody.
        output: option and value of the output, for messages.

    Raises:
        InputError: another run is at work there; says which.
    """
    path = Path(lock)
    made = not path.parent.exists()
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = _locked(path, output)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(descriptor)
        if made:
            with contextlib.suppress(OSError):
                path.parent.rmdir()


def _locked(path: Path, output: str) -> int:
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            take(descriptor, output, os.getpid())
        except InputError:
            os.close(descriptor)
            raise
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.stat(path), os.fstat(descriptor)):
                return descriptor
        os.close(descriptor)  # its holder ended, and removed it, in between


def take(descriptor: int, output: str, owner: int) -> None:
    """Lock an open file for everyone who has it open, and write into it whose it is.

    Args:
        descriptor: of the file, opened for reading and writing.
        output: as in :func:`alone`.
        owner: process that the message to others names.

    Raises:
        InputError: another run is at work there.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        who = os.pread(descriptor, INFO_BYTES, 0).decode("utf-8", errors="replace") or "its process is not known"
        raise InputError(
            f"{output}: another run is at work there ({who}); valid: another folder, or wait for its end"
        ) from None
    except OSError as error:
        cli.say(f"warning: {output}: {error.strerror}; nothing keeps another run out, start none")
        return
    with contextlib.suppress(OSError):  # a full disk: the lock holds without
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"process {owner} on {socket.gethostname()}, or one that it started".encode(), 0)


def for_a_script() -> None:
    """Lock the file that a bash script has open, as ``VERB DESCRIPTOR OUTPUT``: it stays locked for the script's processes."""
    verb, descriptor, output = sys.argv[1:]
    cli.run(verb, lambda _: take(int(descriptor), output, os.getppid()))
