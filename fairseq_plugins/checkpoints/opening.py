"""Opens a weights file, or the one in a folder, with the options of its model."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence

from torch import Tensor

from .inspection import CheckpointError
from .loading import listing
from .reading import PathLike, read_checkpoint
from .vocabulary import CONFIG_NAME, as_dict, read_json

_FAIRSEQ_NAME = "model.pt"
_WEIGHT_NAMES = ("model.safetensors", "pytorch_model.bin", _FAIRSEQ_NAME)


@dataclass(frozen=True)
class Checkpoint:
    """A fairseq checkpoint or a Hugging Face folder as it is read.

    Attributes:
        entries: everything in the file.
        tensors: those of the model, by their names in the file.
        is_folder: a Hugging Face folder; its ``options`` are the content of ``config.json``.
        options: of the model.
    """

    file: Path
    entries: Mapping[str, Any]
    tensors: Mapping[str, Any]
    is_folder: bool
    options: Mapping[str, Any]

    @property
    def origin(self) -> str:
        """Name of the file in messages."""
        return f"checkpoint {self.file}"

    @property
    def options_origin(self) -> str:
        """Name of its options in messages."""
        return f"checkpoint {self.folder / CONFIG_NAME}" if self.is_folder else self.origin

    @property
    def folder(self) -> Path:
        """Folder that holds the file."""
        return self.file.parent

    @property
    def arch(self) -> str:
        """Architecture of a fairseq checkpoint; empty if its options do not name it."""
        return str(self.options.get("arch") or self.options.get("_name") or "")

    @property
    def model_type(self) -> Optional[str]:
        """Architecture of a Hugging Face folder; None if its configuration does not name it."""
        return self.options.get("model_type")

    def has_layers(self, *sides: str) -> bool:
        """Return True if each of these sides has layers in fairseq's names."""
        return all(
            any(name.startswith(f"{side}.layers.") for name in self.tensors) for side in sides
        )

    def refuse(self, problems: Sequence[str], expected: str) -> None:
        """Raise CheckpointError if there are problems with the options."""
        if problems:
            raise CheckpointError(
                f"{self.options_origin}: {'; '.join(problems)}; expected {expected}"
            )


def find_weights(path: Path) -> Path:
    """Return the weights file that a path means: itself, or the one in the folder.

    Raises:
        CheckpointError: no weights in the folder, several files, or weights in parts.
    """
    if not path.is_dir():
        return path
    present = [name for name in _WEIGHT_NAMES if (path / name).is_file()]
    if _FAIRSEQ_NAME in present and len(present) > 1:
        names = " and ".join(present)
        raise CheckpointError(f"checkpoint {path}: holds {names}; name the file that is meant")
    if not present:
        is_split = any(path.glob("*.index.json"))
        reason = (
            "its weights are split over several files" if is_split else "the folder has no weights"
        )
        raise CheckpointError(
            f"checkpoint {path}: {reason}; expected one of {', '.join(_WEIGHT_NAMES)}"
        )
    return path / present[0]


def open_checkpoint(path: PathLike, expected: str) -> Checkpoint:
    """Read a weights file, or the one in a folder, with the options of its model.

    Args:
        expected: description of the files that the caller reads, for messages.

    Raises:
        CheckpointError: unreadable or untrusted, or neither of the two formats.
    """
    file = find_weights(Path(path))
    entries = read_checkpoint(file)
    for key in ("model", "weights"):
        if isinstance(entries.get(key), Mapping):
            _check_names(entries[key], f"checkpoint {file}")
            return Checkpoint(file, entries, entries[key], False, find_settings(entries))
    _check_names(entries, f"checkpoint {file}")
    if not entries or not all(isinstance(entry, Tensor) for entry in entries.values()):
        names = listing(sorted(map(str, entries))) or "(none)"
        raise CheckpointError(f"checkpoint {file}: holds the entries {names}; expected {expected}")
    return Checkpoint(file, entries, entries, True, read_json(file.parent / CONFIG_NAME, expected))


def _check_names(tensors: Mapping[Any, Any], origin: str) -> None:
    for name in tensors:
        if not isinstance(name, str):
            kind = type(name).__name__
            raise CheckpointError(
                f"{origin}: the name of a tensor is of type {kind}, expected text"
            )


def find_settings(entries: Mapping[str, Any]) -> Dict[str, Any]:
    """Return the options of a fairseq checkpoint's model; empty if it has none.

    They lie in ``args`` (old) or in ``cfg["model"]`` (current).
    """
    args = entries.get("args")
    return as_dict(as_dict(entries.get("cfg")).get("model") if args is None else args)


def differing(options: Mapping[str, Any], expected: Mapping[str, Any]) -> List[str]:
    """Describe the options whose value is not the expected one, or one of an expected tuple."""
    problems = []
    for name, values in expected.items():
        valid = values if isinstance(values, tuple) else (values,)
        if options.get(name) is not None and options[name] not in valid:
            choices = " or ".join(map(repr, valid))
            problems.append(f"{name} = {options[name]!r}, expected {choices}")
    return problems
