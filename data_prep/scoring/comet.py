"""Files for COMET, which needs an environment of its own (numpy < 2), and the commands there."""

import re
import shlex
from pathlib import Path
from typing import Dict, List, Mapping, Sequence

from ..files import atomic_texts
from ..io import LINE_BREAKERS, InputError, PathLike

SOURCE, REFERENCE = "source", "reference"
MODEL = "Unbabel/wmt22-comet-da"  # COMET downloads it
CSR_MODEL = "wmt-large-da-estimator-1719"
"""CSR's model (IV-A). Only COMET before 1.0 reads it, whose command is ``comet score``."""
HINT = "COMET, in an environment of its own (extra comet; --gpus 0 for the CPU):"
OLD_HINT = "COMET before 1.0, in an environment of its own (pip install 'unbabel-comet<1'):"


def file_names(systems: Sequence[str]) -> Dict[str, str]:
    """Return a file name for each system: other characters than letters, digits, ``.-`` are ``_``.

    Raises:
        InputError: two systems would share a file, or one would take that of the source or the
            reference.
    """
    names: Dict[str, str] = {}
    owners = {SOURCE: "the source", REFERENCE: "the reference"}
    for system in systems:
        name = re.sub(r"[^\w.-]+", "_", system)
        owner = owners.get(name.lower())
        if owner is not None:
            problem = f"its COMET file {name}.txt is that of {owner}"
            raise InputError(f"--system {system}: {problem}; rename it")
        owners[name.lower()] = system
        names[system] = f"{name}.txt"
    return names


def write_comet_files(
    folder: PathLike,
    source: List[str],
    systems: Mapping[str, List[str]],
    reference: List[str],
    model: str = MODEL,
) -> List[str]:
    """Write what COMET's own commands read, one sentence per line, all files or none.

    Args:
        folder: gets source.txt, reference.txt and a file for each system.
        source: one sentence per line.
        systems: name of the system -> lines.
        reference: one sentence per line.
        model: name of COMET's model.

    Returns:
        The commands to run, as of :func:`comet_commands`.

    Raises:
        InputError: file names clash, or a line holds a character that COMET takes for its end.
    """
    names = file_names(list(systems))
    texts = {f"{SOURCE}.txt": source, f"{REFERENCE}.txt": reference}
    texts.update({names[system]: lines for system, lines in systems.items()})
    for name, lines in texts.items():
        for number, line in enumerate(lines, start=1):
            match = LINE_BREAKERS.search(line)
            if match:
                place = f"line {number} of {name} holds U+{ord(match[0]):04X}"
                raise InputError(
                    f"--comet-files: {place}, which COMET could take for the end of the line; "
                    "valid: lines that end with LF, without other line separators"
                )
    root = Path(folder)
    with atomic_texts([root / name for name in texts], "--comet-files", empty_ok=True) as files:
        for file, lines in zip(files, texts.values()):
            file.writelines(f"{line}\n" for line in lines)
    return comet_commands(root, list(names.values()), model)


def comet_commands(folder: Path, systems: Sequence[str], model: str = MODEL) -> List[str]:
    """Return COMET's commands for the files of a folder (``--gpus 0`` stands for the CPU).

    They are ``comet-score`` and, for two systems or more, ``comet-compare``; with
    :data:`CSR_MODEL` a ``comet score`` for each system.

    Args:
        folder: folder of the files.
        systems: file names of the outputs.
        model: name of COMET's model.
    """
    source, reference = (str(folder / f"{name}.txt") for name in (SOURCE, REFERENCE))
    outputs = [str(folder / system) for system in systems]
    if model == CSR_MODEL:
        line = ["comet", "score", "-s", source, "-r", reference, "--model", model]
        return [shlex.join([*line, "-h", output]) for output in outputs]
    files = ["-s", source, "-t", *outputs, "-r", reference, "--model", model]
    commands = [shlex.join(["comet-score", *files, "--quiet", "--only_system"])]
    if len(systems) > 1:
        commands.append(shlex.join(["comet-compare", *files]))
    return commands
