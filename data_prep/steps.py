"""Steps that need not be done twice, and manifests: what went in, what came out, with counts, hashes and versions."""

import platform
from importlib import metadata
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence

from .files import sha256, write_json
from .io import PathLike, read_json

FORMAT = 1  # raise it when the meaning of a manifest or a step record changes: old records are then made again
PACKAGES = ("fairseq", "fairseq-fixed", "sentencepiece", "torch")


def versions() -> Dict[str, str]:
    """Return the versions of Python and of the packages that shape the data; packages that are absent are left out."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def facts(paths: Sequence[PathLike], below: Optional[PathLike] = None) -> List[Dict[str, Any]]:
    """Return name, size and SHA-256 of each file.

    Args:
        paths: the files.
        below: names are relative to this folder; default: no folder at all, so that a manifest moves with its files.
    """
    named = [(Path(p).relative_to(below).as_posix() if below is not None else Path(p).name, Path(p)) for p in paths]
    return [{"file": name, "bytes": path.stat().st_size, "sha256": sha256(path)} for name, path in named]


def write_manifest(
    path: PathLike,
    verb: str,
    options: Mapping[str, Any],
    counts: Mapping[str, Any],
    inputs: Sequence[PathLike],
    outputs: Sequence[PathLike],
    below: Optional[PathLike] = None,
) -> None:
    """Write the manifest of one verb's run as JSON; the same run gives the same bytes (no times, no folders).

    With ``below``, the outputs are named relative to that folder, which should be the manifest's own.
    """
    write_json(
        path,
        {
            "format": FORMAT,
            "verb": verb,
            "options": dict(options),
            "counts": dict(counts),
            "inputs": facts(inputs),
            "outputs": facts(outputs, below),
            "versions": versions(),
        },
    )


class Step:
    """One piece of work whose record says what it was made from, so that a second run can skip it.

    Args:
        record: the JSON file that is written when the step is finished.
        inputs: name to file; the files are compared by hash.
        options: everything else that shapes the outputs.
        outputs: the files the step makes; a missing or changed one undoes the step.
        below: the record names the outputs relative to this folder; default: by their names alone.
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
            "versions": versions(),
        }

    def done(self) -> Optional[Dict[str, Any]]:
        """Return the counts that :meth:`finish` stored, or None when the step has to be done (again)."""
        record = read_json(self.record)
        if record is None or any(record.get(name) != value for name, value in self.key.items()):
            return None
        if not all(path.is_file() for path in self.outputs) or record.get("outputs") != facts(self.outputs, self.below):
            return None
        return record.get("counts")

    def begin(self) -> None:
        """Forget an earlier run of the step, so that a kill halfway cannot be taken for the finished step."""
        self.record.unlink(missing_ok=True)

    def finish(self, counts: Mapping[str, Any]) -> None:
        """Record that every output is in place."""
        write_json(self.record, {**self.key, "outputs": facts(self.outputs, self.below), "counts": dict(counts)})

    @staticmethod
    def outputs_of(record: PathLike, below: PathLike) -> List[Path]:
        """Return the outputs that a record names, for steps that learn their outputs from their inputs."""
        rows = (read_json(record) or {}).get("outputs", [])
        return [Path(below) / row["file"] for row in rows if isinstance(row, dict) and isinstance(row.get("file"), str)]
