"""Which versions wrote a checkpoint, in which format, and how the older formats are read.

A checkpoint carries ``state["fairseq_plugins"] = {version, format, fairseq, torch}``: plain strings and one number beside
fairseq's own entries, where stock fairseq, averaging, moving averages and resuming leave them alone.
"""

import re
import sys
from pathlib import Path
from typing import Any, Callable, Dict, Mapping

import torch

from .errors import CheckpointError

KEY = "fairseq_plugins"
"""The entry of a checkpoint; the same wherever the package's folder lies and whatever it is called."""

FORMAT = 2
"""What is written now. It grows by one, with an entry in MIGRATIONS, when an older checkpoint must be changed to be read."""

_VERSION = re.compile(r'^__version__ = "([^"]+)"', re.MULTILINE)


def _from_1(state: Dict[str, Any]) -> None:
    """Format 1 is everything written before there was a format number: the same entries, without the versions."""


MIGRATIONS: Dict[int, Callable[[Dict[str, Any]], None]] = {1: _from_1}
"""Format -> what turns a checkpoint of that format into one of the next, in place. Also gets files of stock fairseq, which
carry no number and count as format 1: change only what is recognised."""


def package_version() -> str:
    """Version of this package. Read from the file: the first log line comes while the package is still being imported."""
    text = (Path(__file__).resolve().parents[1] / "__init__.py").read_text(encoding="utf-8")
    found = _VERSION.search(text)
    return found.group(1) if found else "unknown"


def stamp() -> Dict[str, Any]:
    """What a checkpoint written now carries under :data:`KEY`."""
    fairseq = getattr(sys.modules.get("fairseq"), "__version__", "not imported")
    return {
        "version": package_version(),
        "format": FORMAT,
        "fairseq": str(fairseq),
        "torch": str(torch.__version__),  # a subclass of str, which safe loading would refuse
    }


def stamped(state: Any) -> Any:
    """A checkpoint with the versions of this process; anything that is no checkpoint as it is. Nothing is changed in place."""
    return {**state, KEY: stamp()} if isinstance(state, dict) and "model" in state else state


def summary() -> str:
    """Versions and format in one line, for the log."""
    now = stamp()
    return f"fairseq_plugins {now['version']} (checkpoint format {now['format']}), fairseq {now['fairseq']}, torch {now['torch']}"


def migrated(state: Dict[str, Any], origin: str) -> Dict[str, Any]:
    """Bring a checkpoint that was just read into the current format, in place.

    Args:
        state: the content of the file; what is no fairseq checkpoint and carries no versions is left alone.
        origin: how messages call it.

    Returns:
        ``state``, with the current format number; ``migrated_from`` beside it tells the file's own, where it was older.

    Raises:
        CheckpointError: the format is newer than this package knows, or the entry is damaged; both name the versions.
    """
    if KEY not in state and not ("model" in state and ("cfg" in state or "args" in state)):
        return state
    entry = state.get(KEY, {"format": 1})
    found = check_format(entry, origin)
    for number in range(found, FORMAT):
        MIGRATIONS[number](state)
    state[KEY] = {**entry, "format": FORMAT}
    if found != FORMAT:
        state[KEY]["migrated_from"] = found
    return state


def check_format(entry: Any, origin: str) -> int:
    """Format number in the entry of a checkpoint.

    Raises:
        CheckpointError: newer than this package knows, or no such entry at all; names the versions.
    """
    number = entry.get("format") if isinstance(entry, Mapping) else None
    if type(number) is not int or number < 1:
        raise CheckpointError(
            f"{origin}: its entry {KEY!r} is {entry!r}, expected versions and a format number from 1 to {FORMAT}; "
            "the file was changed after it was written"
        )
    if number > FORMAT:
        version, fairseq, torch_version = (entry.get(name, "unknown") for name in ("version", "fairseq", "torch"))
        raise CheckpointError(
            f"{origin}: was written in format {number} by fairseq_plugins {version} (fairseq {fairseq}, torch "
            f"{torch_version}); this is fairseq_plugins {package_version()}, which reads formats 1 to {FORMAT}. "
            f"Use fairseq_plugins {version} or newer"
        )
    return number
