"""Manifests (options, counts, hashes, versions), and steps that a second run can skip."""

import platform
from importlib import metadata
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence

from .files import sha256, write_json
from .io import PathLike, read_json

FORMAT = 1  # raised when the meaning of a record changes: older records are then made again
PACKAGES = ("fairseq", "fairseq-fixed", "sentencepiece", "torch")


def read_versions() -> Dict[str, str]:
    """Return the versions of Python and of the installed packages that shape the data."""
    versions = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions


def describe_files(
    paths: Sequence[PathLike], below: Optional[PathLike] = None
) -> List[Dict[str, Any]]:
    """Return name, size in bytes and SHA-256 of each file.

    Args:
        paths: the files.
        below: folder that names are relative to; default: names without any folder, so that a
            manifest moves with its files.
    """
    rows = []
    for path in map(Path, paths):
        name = path.name if below is None else path.relative_to(below).as_posix()
        rows.append({"file": name, "bytes": path.stat().st_size, "sha256": sha256(path)})
    return rows


def write_manifest(
    path: PathLike,
    verb: str,
    options: Mapping[str, Any],
    counts: Mapping[str, Any],
    inputs: Sequence[PathLike],
    outputs: Sequence[PathLike],
    below: Optional[PathLike] = None,
) -> None:
    """Write the manifest of a run as JSON; equal runs give equal bytes (no times, no folders).

    Args:
        path: the manifest.
        verb: name of the verb.
        options: what shaped the outputs.
        counts: what was counted.
        inputs: files that were read.
        outputs: files that were written.
        below: folder of the manifest, to name outputs relative to it.
    """
    content = {
        "format": FORMAT,
        "verb": verb,
        "options": dict(options),
        "counts": dict(counts),
        "inputs": describe_files(inputs),
        "outputs": describe_files(outputs, below),
        "versions": read_versions(),
    }
    write_json(path, content)


class Step:
    """A piece of work with a record of what it was made from, so that a second run can skip it.

    Args:
        record: JSON file that is written when the step is finished.
        inputs: name -> file; files are compared by hash.
        options: everything else that shapes the outputs.
        outputs: files that the step makes; a missing or changed one undoes the step.
        below: folder that the record names outputs relative to; default: names alone.
    """

    def __init__(
        self,
        record: PathLike,
        inputs: Mapping[str, PathLike],
        options: Mapping[str, Any],
        outputs: Sequence[PathLike],
        below: Optional[PathLike] = None,
    ):
        self.record = Path(record)
        self.below = below
        self.outputs = [Path(path) for path in outputs]
        self.key = {
            "format": FORMAT,
            "inputs": {name: sha256(path) for name, path in inputs.items()},
            "options": dict(options),
            "versions": read_versions(),
        }

    def recall(self) -> Optional[Dict[str, Any]]:
        """Return the counts that :meth:`finish` stored, or None if the step has to be run."""
        record = read_json(self.record)
        if record is None or any(record.get(name) != part for name, part in self.key.items()):
            return None
        if not all(path.is_file() for path in self.outputs):
            return None
        if record.get("outputs") != describe_files(self.outputs, self.below):
            return None
        return record.get("counts")

    def begin(self) -> None:
        """Forget an earlier run, so that a killed step is never taken for a finished one."""
        self.record.unlink(missing_ok=True)

    def finish(self, counts: Mapping[str, Any]) -> None:
        """Record that every output is in place."""
        outputs = describe_files(self.outputs, self.below)
        write_json(self.record, {**self.key, "outputs": outputs, "counts": dict(counts)})


def read_outputs(record: PathLike, below: PathLike) -> List[Path]:
    """Return the outputs that the record of a step names, relative to a folder."""
    rows = (read_json(record) or {}).get("outputs", [])
    names = [row.get("file") for row in rows if isinstance(row, dict)]
    return [Path(below) / name for name in names if isinstance(name, str)]
