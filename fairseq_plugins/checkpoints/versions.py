"""Which versions wrote a checkpoint, and in which format.

A checkpoint carries ``state["fairseq_plugins"] = {version, format, fairseq, torch}``: plain strings and one number beside
fairseq's own entries, where stock fairseq, averaging, moving averages and resuming leave them alone.
"""

import sys
from typing import Any, Dict, Mapping

import torch

from .errors import CheckpointError

# Of the package, whatever it is called; set before it imports anything.
__version__: str = sys.modules[__name__.rsplit(".", 2)[0]].__version__

KEY = "fairseq_plugins"
"""The entry of a checkpoint; the same wherever the package's folder lies and whatever it is called."""
FORMAT = 1
"""What is written and read. It grows by one when checkpoints change so that earlier versions of this package cannot read them."""


def stamp() -> Dict[str, Any]:
    """What a checkpoint written now carries under :data:`KEY`."""
    fairseq = str(getattr(sys.modules.get("fairseq"), "__version__", "not imported"))
    # torch's version is of a subclass of str, which safe loading would refuse.
    return {"version": __version__, "format": FORMAT, "fairseq": fairseq, "torch": str(torch.__version__)}


def stamped(state: Any) -> Any:
    """A checkpoint with the versions of this process; anything that is no checkpoint as it is. Nothing is changed in place."""
    return {**state, KEY: stamp()} if isinstance(state, dict) and "model" in state else state


def summary() -> str:
    """Versions and format in one line, for the log."""
    now = stamp()
    return f"fairseq_plugins {now['version']} (checkpoint format {now['format']}), fairseq {now['fairseq']}, torch {now['torch']}"


def check_versions(state: Any, origin: str) -> None:
    """Raise CheckpointError, with the versions, where a state is of a newer format, or its entry is damaged.

    One without versions, as stock fairseq writes it, passes. ``origin``: how messages call the file.
    """
    if not isinstance(state, Mapping) or KEY not in state:
        return
    entry = state[KEY]
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
            f"{torch_version}); this is fairseq_plugins {__version__}, which reads formats 1 to {FORMAT}. "
            f"Use fairseq_plugins {version} or newer"
        )
