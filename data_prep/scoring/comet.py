"""Files for COMET, which needs an environment of its own (numpy < 2), and the commands there."""

import re
import shlex
from pathlib import Path
from typing import Dict, List, Mapping, Sequence

from ..files import atomic_texts
from ..io import LINE_BREAKERS, InputError, PathLike

SOURCE, REFERENCE = "source", "reference"
MODEL = "Unbabel/wmt22-comet-da"  # COMET downloads it


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
    folder: PathLike, source: List[str], systems: Mapping[str, List[str]], reference: List[str]
) -> List[str]:
    """Write what COMET's own commands read, one sentence per line, all files or none.

    Args:
        folder: gets source.txt, reference.txt and a file for each system.
        source: one sentence per line.
        systems: name of the system -> lines.
        reference: one sentence per line.

    Returns:
        The commands to run: ``comet-score``, and ``comet-compare`` for two systems or more.

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
    return comet_commands(root, list(names.values()))


def comet_commands(folder: Path, systems: Sequence[str]) -> List[str]:
    """Return COMET's commands for the files of a folder (``--gpus 0`` stands for the CPU).

    Args:
        folder: folder of the files.
        systems: file names of the outputs.
    """
    source, reference = (str(folder / f"{name}.txt") for name in (SOURCE, REFERENCE))
    outputs = [str(folder / system) for system in systems]
    files = ["-s", source, "-t", *outputs, "-r", reference, "--model", MODEL]
    commands = [shlex.join(["comet-score", *files, "--quiet", "--only_system"])]
    if len(systems) > 1:
        commands.append(shlex.join(["comet-compare", *files]))
    return commands
