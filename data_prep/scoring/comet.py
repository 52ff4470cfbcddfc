"""Files for COMET, which needs an environment of its own (numpy < 2), and the commands to run there."""

import re
import shlex
from pathlib import Path
from typing import Dict, List, Mapping, Sequence

from ..files import atomic_texts
from ..io import LINE_BREAKERS, InputError, PathLike

SOURCE, REFERENCE = "source", "reference"


def file_names(systems: Sequence[str]) -> Dict[str, str]:
    """A file name for each system: its name with everything but letters, digits, ``.``, ``-`` replaced by ``_``.

    Raises:
        InputError: two systems would share a file, or one would take that of the source or the reference.
    """
    names: Dict[str, str] = {}
    taken = {SOURCE: "the source", REFERENCE: "the reference"}
    for system in systems:
        name = re.sub(r"[^\w.-]+", "_", system)
        if name.lower() in taken:
            raise InputError(
                f"--system {system}: its COMET file {name}.txt is that of {taken[name.lower()]}; rename it"
            )
        taken[name.lower()] = system
        names[system] = f"{name}.txt"
    return names


def write_comet_files(
    folder: PathLike, source: List[str], systems: Mapping[str, List[str]], reference: List[str]
) -> List[str]:
    """Write what COMET's own commands read, one sentence per line, all files or none.

    Args:
        folder: ``source.txt``, ``reference.txt`` and a file for each system appear here.
        source: one sentence per line.
        systems: lines by the name of the system.
        reference: one sentence per line.

    Returns:
        The commands to run: ``comet-score``, and ``comet-compare`` for two systems or more.

    Raises:
        InputError: file names clash, or a line holds a character that COMET would take for its end.
    """
    root = Path(folder)
    names = file_names(list(systems))
    texts = {f"{SOURCE}.txt": source, **{names[key]: lines for key, lines in systems.items()}}
    texts[f"{REFERENCE}.txt"] = reference
    for name, lines in texts.items():
        for number, line in enumerate(lines, start=1):
            found = LINE_BREAKERS.search(line)
            if found:
                raise InputError(
                    f"--comet-files: line {number} of {name} holds U+{ord(found[0]):04X}, which COMET could take for the "
                    "end of the line; valid: lines that end with LF, without other line separators"
                )
    with atomic_texts([root / name for name in texts], "--comet-files", empty_ok=True) as files:
        for file, lines in zip(files, texts.values()):
            file.writelines(f"{line}\n" for line in lines)
    return comet_commands(root, list(names.values()))


def comet_commands(
    folder: Path, systems: Sequence[str], model: str = "Unbabel/wmt22-comet-da"
) -> List[str]:
    """COMET's commands for the files of a folder (``--gpus 0`` may be added, for the CPU).

    Args:
        folder: of the files.
        systems: file names of the outputs.
        model: of COMET, which downloads it.
    """

    def command(name: str, *more: str) -> str:
        outputs = [str(folder / system) for system in systems]
        files = [
            "-s",
            str(folder / f"{SOURCE}.txt"),
            "-t",
            *outputs,
            "-r",
            str(folder / f"{REFERENCE}.txt"),
        ]
        return shlex.join([name, *files, "--model", model, *more])

    commands = [command("comet-score", "--quiet", "--only_system")]
    if len(systems) > 1:
        commands.append(command("comet-compare"))
    return commands
