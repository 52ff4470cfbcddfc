"""The folder of an exported model: graphs, vocabulary, pieces, and their description."""

import json
import logging
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, Union

from torch import nn

from data_prep.files import atomic_folder, sha256

from ..checkpoints import fingerprint
from ..checkpoints.metadata import stamp
from .graphs import Graph, write_graphs

logger = logging.getLogger(__name__)

FORMAT = 1
DESCRIPTION = "model.json"


@dataclass
class Content:
    """Content of a folder.

    Args:
        kind: kind of decoding: ``slots``, ``encoder_decoder`` or ``encoder``.
        architecture: name of the model, for people.
        model: the exported model; the fingerprint is that of its parameters.
        graphs: by name; the files are ``NAME.onnx``.
        files: name -> text or a path to copy: vocabulary, pieces.
        description: the other entries of ``model.json``.
    """

    kind: str
    architecture: str
    model: nn.Module
    graphs: Dict[str, Graph]
    files: Dict[str, Union[str, Path]] = field(default_factory=dict)
    description: Dict[str, Any] = field(default_factory=dict)


def write(folder: Path, content: Content, int8: bool = False) -> Dict[str, Any]:
    """Write a model's folder atomically.

    Returns:
        The content of ``model.json``.

    Raises:
        ValueError: the folder is a file, or is not empty.
        OSError: it cannot be written.
    """
    check_folder(folder)
    weights_stamp = fingerprint(dict(content.model.named_parameters()))
    with atomic_folder(folder) as place:
        quantised = write_graphs(content.graphs, place, weights_stamp, int8)
        for name, source in content.files.items():
            if isinstance(source, Path):
                shutil.copyfile(source, place / name)
            else:
                (place / name).write_text(source, encoding="utf-8", newline="\n")
        description = {
            "format": FORMAT,
            "written_by": _versions(),
            "kind": content.kind,
            "architecture": content.architecture,
            "fingerprint": weights_stamp,
            "precision": "int8" if int8 else "float32",
            "quantised": quantised,
            "graphs": {name: f"{name}.onnx" for name in content.graphs},
            "files": {file.name: sha256(file) for file in sorted(place.iterdir())},
            **content.description,
        }
        text = json.dumps(description, indent=1, ensure_ascii=False)
        (place / DESCRIPTION).write_text(text + "\n", encoding="utf-8")
    size = sum(file.stat().st_size for file in folder.iterdir()) / 1e6
    precision = description["precision"]
    logger.info("wrote %s: %s, %s, %.1f MB", folder, content.kind, precision, size)
    return description


def check_folder(folder: Path) -> None:
    """Raise ValueError unless a folder is missing or empty."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"FOLDER {folder}: is a file; valid: a new or empty folder")
    names = sorted(file.name for file in folder.iterdir()) if folder.exists() else []
    if names:
        content = "a model" if DESCRIPTION in names else names[0]
        raise ValueError(
            f"FOLDER {folder}: has {content} already, and nothing is replaced; valid: a new or "
            "empty folder"
        )


def _versions() -> Dict[str, str]:
    import onnx

    versions = stamp()
    return {
        "fairseq_plugins": versions["version"],
        "torch": versions["torch"],
        "onnx": onnx.__version__,
    }
