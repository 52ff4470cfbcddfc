"""Record waits: the host stops until the device has finished all of its work."""

import contextlib
import sys
from pathlib import Path
from typing import NamedTuple, Optional

import torch

TORCH = str(Path(torch.__file__).parent)
HERE = tuple(str(Path(__file__).with_name(f"{name}.py")) for name in ("device", "waits", "cuda"))


class Wait(NamedTuple):
    """Why the host waits, and the innermost line outside torch.

    A wait without a line is in the backward pass of torch's own operators.
    """

    kind: str
    file: str
    line: int
    function: str


class _State:
    recorded: Optional[list] = None
    pending: list = []


def wait(kind):
    """Finish all pending work; record the wait inside :func:`waits`."""
    finish()
    if _State.recorded is not None:
        _State.recorded.append(Wait(kind, *_site()))


def _site():
    frame = sys._getframe(2)
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith((TORCH, *HERE, "<")):
            return file, frame.f_lineno, frame.f_code.co_name
        frame = frame.f_back
    return "", 0, "backward"


def record():
    """Return a list that gets every :class:`Wait` until the process ends."""
    _State.recorded = []
    return _State.recorded


@contextlib.contextmanager
def waits():
    """Record the waits inside a block."""
    before = _State.recorded
    try:
        yield record()
    finally:
        _State.recorded = before


def call_at_next_wait(function):
    _State.pending.append(function)


def finish():
    """Call the pending functions."""
    pending, _State.pending = _State.pending, []
    for function in pending:
        function()
