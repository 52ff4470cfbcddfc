"""States which versions wrote a checkpoint, and refuses one that this version does not read."""

import argparse
import sys
from typing import Any, Dict, Iterator, Mapping, Tuple

from .inspection import CheckpointError

# Of the package, whatever it is called; set before it imports anything.
__version__: str = sys.modules[__name__.rsplit(".", 2)[0]].__version__

KEY = "fairseq_plugins"
"""Entry of a checkpoint, the same wherever the package's folder lies and whatever its name is."""
FORMAT = 1
"""Number of the format that is written. Formats 1 to this one are read.

It grows by one when checkpoints change so that earlier versions of this package cannot read them.
"""

RETIRED: Dict[Tuple[str, str], str] = {}
"""(name of an option, its retired value) -> last version of this package that reads it.

``arch``, ``task`` and ``criterion`` are registered names. Any other name is an option of the model,
the task or the criterion, as checkpoints store it.
"""

_SECTIONS = {"model": "arch", "task": "task", "criterion": "criterion"}
"""Section of a run's configuration -> name under which :data:`RETIRED` lists its ``_name``."""


def stamp() -> Dict[str, Any]:
    """Return the entry :data:`KEY` of a checkpoint that is written now."""
    fairseq = str(getattr(sys.modules.get("fairseq"), "__version__", "not imported"))
    # torch's version is of a subclass of str, which safe loading would refuse.
    torch = str(sys.modules["torch"].__version__)
    return {"version": __version__, "format": FORMAT, "fairseq": fairseq, "torch": torch}


def stamped(state: Any) -> Any:
    """Return a copy of a checkpoint with the versions of this process; anything else as it is."""
    return {**state, KEY: stamp()} if isinstance(state, dict) and "model" in state else state


def summary() -> str:
    """Return versions and format in one line, for the log."""
    versions = stamp()
    return (
        f"fairseq_plugins {versions['version']} (checkpoint format {FORMAT}), "
        f"fairseq {versions['fairseq']}, torch {versions['torch']}"
    )


def check_versions(state: Any, origin: str) -> None:
    """Refuse a checkpoint of a newer format, or one that needs something retired.

    A checkpoint without versions passes, as stock fairseq writes it.

    Args:
        origin: name of the file, for messages.

    Raises:
        CheckpointError: names the version that reads it; or a damaged entry.
    """
    if not isinstance(state, Mapping):
        return
    check_retired(state, origin)
    if KEY not in state:
        return
    entry = state[KEY]
    number = entry.get("format") if isinstance(entry, Mapping) else None
    if type(number) is not int or number < 1:
        expected = f"expected versions and a format from 1 to {FORMAT}"
        raise CheckpointError(f"{origin}: its entry {KEY!r} is {entry!r}, {expected}")
    if number > FORMAT:
        version = entry.get("version")
        libraries = ", ".join(f"{name} {entry.get(name)}" for name in ("fairseq", "torch"))
        raise CheckpointError(
            f"{origin}: was written in format {number} by fairseq_plugins {version} ({libraries}); "
            f"this is fairseq_plugins {__version__}, which reads formats 1 to {FORMAT}. Use "
            f"fairseq_plugins {version} or newer"
        )


def check_retired(state: Mapping[str, Any], origin: str) -> None:
    """Refuse a checkpoint whose options name something of :data:`RETIRED`.

    Raises:
        CheckpointError: names the option and the last version that reads it.
    """
    for option in _stored_options(state):
        last = RETIRED.get(option)
        if last is not None:
            name, value = option
            raise CheckpointError(
                f"{origin}: needs {name} {value!r}, which fairseq_plugins {__version__} no longer "
                f"has; the last version that reads it is fairseq_plugins {last}"
            )


def _stored_options(state: Mapping[str, Any]) -> Iterator[Tuple[str, str]]:
    """Yield name and value of every plain option of model, task and criterion."""
    sections = [("", state.get("args"))]
    config = state.get("cfg")
    if isinstance(config, Mapping):
        sections += [(name, config.get(section)) for section, name in _SECTIONS.items()]
    for registered, options in sections:
        options = vars(options) if isinstance(options, argparse.Namespace) else options
        if not isinstance(options, Mapping):
            continue
        for name, value in options.items():
            if isinstance(value, (str, bool, int, float)):
                yield (registered if name == "_name" else str(name)), str(value)
