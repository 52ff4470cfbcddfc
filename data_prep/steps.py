"""Steps that need not be done twice, and manifests: what went in, what came out, with counts, hashes and versions."""

import platform
from importlib import metadata
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence

from .io import PathLike, read_json, sha256, write_json

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


def facts(paths: Sequence[PathLike]) -> List[Dict[str, Any]]:
    """Return name, size and SHA-256 of each file. Names carry no folder, so that a manifest moves with its files."""
    return [{"file": Path(p).name, "bytes": Path(p).stat().st_size, "sha256": sha256(p)} for p in paths]


def write_manifest(
    path: PathLike,
    verb: str,
    options: Mapping[str, Any],
    counts: Mapping[str, Any],
    inputs: Sequence[PathLike],
    outputs: Sequence[PathLike],
) -> None:
    """Write the manifest of one verb's run as JSON; the same run gives the same bytes (no times, no folders)."""
    write_json(
        path,
        {
            "format": FORMAT,
            "verb": verb,
            "options": dict(options),
            "counts": dict(counts),
            "inputs": facts(inputs),
            "outputs": facts(outputs),
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
    """

    def __init__(
        self,
        record: PathLike,
        inputs: Mapping[str, PathLike],
        options: Mapping[str, Any],
        outputs: Sequence[PathLike],
    ):
        self.record = Path(record)
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
        if not all(path.is_file() for path in self.outputs) or record.get("outputs") != facts(self.outputs):
            return None
        return record.get("counts")

    def begin(self) -> None:
        """Forget an earlier run of the step, so that a kill halfway cannot be taken for the finished step."""
        self.record.unlink(missing_ok=True)

    def finish(self, counts: Mapping[str, Any]) -> None:
        """Record that every output is in place."""
        write_json(self.record, {**self.key, "outputs": facts(self.outputs), "counts": dict(counts)})
