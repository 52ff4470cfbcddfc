"""What waits for the device, and where: the host stops until the device has done all it was given."""

import contextlib
import sys
from pathlib import Path
from typing import NamedTuple, Optional

import torch

TORCH = str(Path(torch.__file__).parent)
HERE = tuple(str(Path(__file__).with_name(f"{name}.py")) for name in ("device", "waits", "cuda"))


class Wait(NamedTuple):
    """Why the host waits, and the innermost line outside torch; without a line, the backward pass of torch's own operators."""

    kind: str
    file: str
    line: int
    function: str


class _State:
    recorded: Optional[list] = None
    pending: list = []


def wait(kind):
    """The host waits: what was under way is done. Recorded inside :func:`waits`."""
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
    """A list that gets a :class:`Wait` each time the host waits for the device, until the process ends."""
    _State.recorded = []
    return _State.recorded


@contextlib.contextmanager
def waits():
    """As :func:`record`, inside a block."""
    before = _State.recorded
    try:
        yield record()
    finally:
        _State.recorded = before


def under_way(done):
    """Call ``done`` at the next wait."""
    _State.pending.append(done)


def finish():
    pending, _State.pending = _State.pending, []
    for done in pending:
        done()
