"""Exchanges checkpoints with other programs, as safetensors and JSON.

``fairseq-plugins export --format safetensors CHECKPOINT FOLDER`` writes model.safetensors,
config.json and the dictionaries. They have what a model needs (tensors, options of model, task and
decoding, versions, hashes), and not what only training needs (optimizer, moving averages, metrics).
``fairseq-plugins import FOLDER CHECKPOINT`` makes a checkpoint for the stock commands from such a
folder, or from the Hugging Face folder of a VECO; generation and pre-training can start from it.
"""

import argparse
import logging
import math
import os
import sys
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Optional

import safetensors.torch
import torch
from torch import Tensor

from data_prep.files import atomic_path, sha256

from ..own_commands import forward
from .inspection import CheckpointError
from .loading import listing
from .metadata import DEEPEST_CONTENT, VERSIONS, check_options, check_versions, stamp
from .reading import PathLike, fingerprint, model_of, read_checkpoint, read_safetensors
from .veco import write_veco
from .vocabulary import read_json
from .writing import save_checkpoint, save_tensors, start_state, tied_names, write_json

logger = logging.getLogger(__name__)

WEIGHTS, CONFIG, LAYOUT = "model.safetensors", "config.json", 1
SECTIONS = ("model", "task", "criterion", "dataset", "generation", "bpe", "tokenizer", "scoring")
"""Sections of a run's configuration that describe the model or its decoding."""
_TEXTS = ("tied", "types", "dictionaries")  # entries of config.json that map text to text
_REQUIRED = (VERSIONS, "layout", "fingerprint", "training", "task_state", *_TEXTS)


def export_checkpoint(
    checkpoint: PathLike,
    folder: PathLike,
    data: Optional[PathLike] = None,
    dictionaries: bool = True,
    half: bool = False,
) -> Dict[str, Any]:
    """Export a checkpoint to a folder; each file is replaced atomically, ``config.json`` last.

    Args:
        checkpoint: the checkpoint; it may hold only the trained part of a model.
        data: folder with ``dict*.txt``; None for the run's own data folder, or else the folder of
            the checkpoint.
        dictionaries: False leaves the dictionaries out.
        half: round floating-point tensors to float16; stock commands cast them back on loading.

    Returns:
        the content of ``config.json``.

    Raises:
        CheckpointError: the checkpoint is unreadable, there are no dictionaries, an option is not
            a plain value, safetensors has no such dtype, or float16 cannot hold a number.
    """
    state = read_checkpoint(checkpoint)
    model = model_of(state, checkpoint)
    origin, tied = f"checkpoint {checkpoint}", tied_names(model)
    owners = [name for name in model if name not in tied]
    # Contiguous copies: safetensors refuses tensors that share memory.
    tensors = {name: model[name].detach().contiguous().clone() for name in owners}
    if half:
        tensors = _halve(tensors, origin)
    files = _dictionaries(state, checkpoint, data) if dictionaries else []
    config = _describe(state, origin)
    exported = {name: tensors[tied.get(name, name)] for name in model}
    config.update(fingerprint=fingerprint(exported), tied=tied)
    config["dictionaries"] = {file.name: sha256(file) for file in files}
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    try:
        # The large file first: if the disk is full, no file is left, and the same command can be
        # repeated.
        save_tensors(tensors, target / WEIGHTS)
    except (safetensors.SafetensorError, KeyError, ValueError) as error:
        raise CheckpointError(f"{origin}: cannot be written as safetensors: {error}") from error
    for file in files:
        with atomic_path(target / file.name) as temporary:
            temporary.write_bytes(file.read_bytes())
    write_json(config, target / CONFIG)
    counts = f"{len(tensors)} tensors, {len(tied)} tied"
    logger.info("wrote %s: %s, fingerprint %s", folder, counts, config["fingerprint"])
    return config


def _halve(tensors: Mapping[str, Tensor], origin: str) -> Dict[str, Tensor]:
    """Round floating-point tensors to float16. Raises CheckpointError if one becomes infinite."""
    halves = {}
    for name, tensor in tensors.items():
        halves[name] = tensor.half() if tensor.is_floating_point() else tensor
        if bool(torch.isfinite(tensor).all()) and not bool(torch.isfinite(halves[name]).all()):
            largest = f"whose largest value is {tensor.abs().max():.3g}"
            raise CheckpointError(f"{origin}: --half cannot hold {name}, {largest}")
    return halves


def _describe(state: Mapping[str, Any], origin: str) -> Dict[str, Any]:
    """Return the entries of ``config.json`` except those about tensors and dictionaries."""
    history, extra = (state.get("optimizer_history") or [{}])[-1], state.get("extra_state") or {}
    names = ("criterion_name", "optimizer_name", "num_updates")
    training = {name: history.get(name) for name in names}
    training["epoch"] = (extra.get("train_iterator") or {}).get("epoch")
    entries: Dict[str, Any] = {"training": training, "task_state": state.get("task_state") or {}}
    if state.get("args") is not None:
        entries["args"] = state["args"]
    elif isinstance(state.get("cfg"), Mapping):
        entries["cfg"] = {name: state["cfg"][name] for name in SECTIONS if name in state["cfg"]}
    else:
        reason = "has neither 'cfg' nor 'args', so nobody knows which model it is"
        raise CheckpointError(f"{origin}: {reason}")
    types: Dict[str, str] = {}
    try:
        config = dict(to_json(entries, types))
    except CheckpointError as error:
        raise CheckpointError(f"{origin}: {error}") from error
    config.update({VERSIONS: stamp(), "written_by": state.get(VERSIONS)})
    config.update(types=types, layout=LAYOUT)
    return config


def _dictionaries(
    state: Mapping[str, Any], checkpoint: PathLike, data: Optional[PathLike]
) -> List[Path]:
    """Return the ``dict*.txt`` in ``data``.

    If ``data`` is None: those in the run's data folder, or else those beside the checkpoint.

    Raises:
        CheckpointError: if there are none.
    """
    option = _task_options(state).get("data")
    run_data = option.split(os.pathsep)[0] if isinstance(option, str) else None
    folders = [data] if data else [run_data, Path(checkpoint).parent]
    places = [Path(folder) for folder in folders if folder]
    for place in places:
        files = sorted(place.glob("dict*.txt"))
        if files:
            return files
    raise CheckpointError(
        f"checkpoint {checkpoint}: no dict*.txt in {' or '.join(map(str, places))}; give the data "
        "folder with --data, or --no-dictionaries to leave them out"
    )


def _task_options(state: Mapping[str, Any]) -> Dict[str, Any]:
    """Return the options of the task, such that a change of them changes ``state``."""
    options = state.get("args")
    if options is None:
        options = (state.get("cfg") or {}).get("task")
    if isinstance(options, argparse.Namespace):
        options = vars(options)
    return options if isinstance(options, dict) else {}


def import_checkpoint(folder: PathLike, checkpoint: PathLike) -> None:
    """Write a fairseq checkpoint with the tensors and options of an exported folder.

    The number of updates and the epoch are restored. If the folder has dictionaries, it becomes the
    task's data folder.

    Raises:
        CheckpointError: a file is missing, damaged, of a newer format, or not the one that
            ``config.json`` describes.
    """
    source = Path(folder)
    config = _read_config(source)
    for name, digest in config["dictionaries"].items():
        file = source / Path(name).name
        if not file.is_file() or sha256(file) != digest:
            reason = f"is missing or not the dictionary that {CONFIG} describes"
            raise CheckpointError(f"{file}: {reason} (sha256 {digest})")
    names = [name for name in ("training", "task_state", "cfg", "args") if name in config]
    try:
        entries = from_json({name: config[name] for name in names}, config["types"])
    except (TypeError, ValueError) as error:  # a type that does not fit its value
        raise CheckpointError(f"{source / CONFIG}: {error}") from error
    check_options(entries, str(source / CONFIG))
    model, training = _restore(source, config), entries.pop("training")
    updates, epoch = training.get("num_updates") or 0, training.get("epoch") or 1
    state = start_state(model, updates, epoch, **entries)
    for name in ("criterion_name", "optimizer_name"):
        if training.get(name):
            state["optimizer_history"][0][name] = training[name]
    if config["dictionaries"]:
        _task_options(state)["data"] = str(source.resolve())
    save_checkpoint(state, checkpoint)
    text = "wrote %s: %d tensors, fingerprint %s"
    logger.info(text, checkpoint, len(model), config["fingerprint"])


def _read_config(folder: Path) -> Dict[str, Any]:
    """Read ``config.json`` of an exported folder. Raises CheckpointError if it is no such file."""
    file = folder / CONFIG
    if not file.is_file() or not (folder / WEIGHTS).is_file():
        raise CheckpointError(f"export {folder}: expected a folder with {CONFIG} and {WEIGHTS}")
    config = read_json(file, "an export")
    if VERSIONS not in config:
        raise CheckpointError(f"{file}: was not written by this package, {VERSIONS} is missing")
    check_versions(config, str(file))
    missing = [name for name in _REQUIRED if name not in config]
    if missing or not ("cfg" in config or "args" in config) or config["layout"] != LAYOUT:
        expected = f"expected layout {LAYOUT} with {', '.join(_REQUIRED)} and cfg or args"
        raise CheckpointError(f"{file}: {expected}; lacks {listing(missing)}")
    for name in ("training", "task_state", *_TEXTS):
        is_sound = isinstance(config[name], dict)
        if is_sound and name in _TEXTS:
            is_sound = all(isinstance(text, str) for text in config[name].values())
        if not is_sound:
            expected = f"expected an object under {name}, of text where it names things"
            raise CheckpointError(f"{file}: {expected}")
    return config


def _restore(folder: Path, config: Mapping[str, Any]) -> Dict[str, Tensor]:
    """Return the tensors of an exported folder under all their names.

    Raises:
        CheckpointError: a tensor is missing, or the fingerprint is not that of ``config.json``.
    """
    weights = folder / WEIGHTS
    model = read_safetensors(weights)
    absent = sorted(set(config["tied"].values()) - set(model))
    if absent:
        reason = f"lacks {listing(absent)}, to which {CONFIG} ties other tensors"
        raise CheckpointError(f"{weights}: {reason}")
    model.update({alias: model[name] for alias, name in config["tied"].items()})
    actual, expected = fingerprint(model), config["fingerprint"]
    if actual != expected:
        raise CheckpointError(
            f"{weights}: its tensors have the fingerprint {actual}, {CONFIG} describes {expected}; "
            "one of the two files is not the one that was exported"
        )
    return model


# ---- Plain values as JSON and back; the types that JSON lacks are listed beside them. ----

_BUILDERS: Dict[str, Callable[[Any], Any]] = {
    "namespace": lambda options: argparse.Namespace(**options),
    "tuple": tuple,
    "float": float,
}
"""Type that JSON does not have -> function that restores it."""


def to_json(value: Any, types: Dict[str, str], pointer: str = "") -> Any:
    """Turn a value into one that ``json`` can write and :func:`from_json` restores.

    Args:
        value: plain value: None, a number, text, a namespace, or a container of plain values.
        types: receives JSON pointer -> type, a key of ``_BUILDERS``, for types that JSON lacks.
        pointer: JSON pointer of the value.

    Raises:
        CheckpointError: an object is no plain value; names its place and type.
    """
    if isinstance(value, float) and not math.isfinite(value):
        types[pointer] = "float"
        return str(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, argparse.Namespace):
        types[pointer] = "namespace"
        value = vars(value)
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: to_json(value[key], types, f"{pointer}/{_escape(key)}") for key in value}
    if isinstance(value, (list, tuple)):
        if isinstance(value, tuple):
            types[pointer] = "tuple"
        return [to_json(member, types, f"{pointer}/{index}") for index, member in enumerate(value)]
    valid = "None, booleans, numbers, text; dictionaries by text, lists, tuples, argparse.Namespace"
    kind = type(value).__name__
    raise CheckpointError(f"{pointer or '/'}: {kind} cannot be written as JSON; valid: {valid}")


def from_json(value: Any, types: Mapping[str, str], pointer: str = "") -> Any:
    """Restore the value that :func:`to_json` turned into JSON.

    Raises:
        CheckpointError: a type is unknown, or the value is nested too deep.
    """
    if pointer.count("/") > DEEPEST_CONTENT:  # a / inside a key is escaped
        raise CheckpointError(f"{pointer[:40]}...: nested deeper than {DEEPEST_CONTENT}")
    if isinstance(value, dict):
        value = {key: from_json(value[key], types, f"{pointer}/{_escape(key)}") for key in value}
    elif isinstance(value, list):
        value = [
            from_json(member, types, f"{pointer}/{index}") for index, member in enumerate(value)
        ]
    kind = types.get(pointer)
    if kind is not None and kind not in _BUILDERS:
        valid = ", ".join(_BUILDERS)
        raise CheckpointError(f"{pointer or '/'}: type {kind!r} is unknown; valid: {valid}")
    return value if kind is None else _BUILDERS[kind](value)


def _escape(key: str) -> str:
    """Escape a key for a JSON pointer (RFC 6901)."""
    return key.replace("~", "~0").replace("/", "~1")


def import_folder(folder: str, checkpoint: str) -> None:
    """Write a checkpoint with the model of an exported folder, or of a VECO's Hugging Face folder.

    An existing checkpoint is not replaced. If it has the tensors of the exported folder, nothing
    is left to do.

    Raises:
        CheckpointError: the folder is unreadable, or the checkpoint exists with other tensors.
    """
    file = Path(folder) / CONFIG
    is_veco = file.is_file() and VERSIONS not in read_json(file, "an export")
    if Path(checkpoint).is_file():
        _check_same(folder, checkpoint, is_veco)
    elif is_veco:
        write_veco(folder, checkpoint)
    else:
        import_checkpoint(folder, checkpoint)


def _check_same(folder: str, checkpoint: str, is_veco: bool) -> None:
    """Raise CheckpointError unless a checkpoint has the tensors of an exported folder.

    The folder of a VECO has no fingerprint to compare with, so it is an error in any case.
    """
    expected = None if is_veco else _read_config(Path(folder))["fingerprint"]
    model = read_checkpoint(checkpoint).get("model") if expected else None
    if not expected or fingerprint(model or {}) != expected:
        valid = "valid: a new name, or remove it first"
        raise CheckpointError(f"{checkpoint}: is there already, and is not replaced; {valid}")
    logger.info("%s: is there already, with the tensors of %s", checkpoint, folder)


def check_folder(folder: Path) -> None:
    """Raise CheckpointError if a folder to write into has a model already, or is a file."""
    present = [name for name in (WEIGHTS, CONFIG) if (folder / name).exists()]
    present += sorted(file.name for file in folder.glob("dict*.txt"))
    if present or (folder.exists() and not folder.is_dir()):
        reason = f"has {present[0]} already, and nothing is replaced" if present else "is a file"
        raise CheckpointError(f"{folder}: {reason}; valid: a new or empty folder")


if __name__ == "__main__":
    if sys.argv[1:2] == ["import"]:
        sys.exit(forward())
    sys.exit(forward("export", "--format", "safetensors"))
