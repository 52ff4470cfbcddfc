"""A fairseq checkpoint as a folder that any program can read: ``model.safetensors``, ``config.json``, dictionaries.

What a model needs is there: tensors, options of model, task and decoding, versions, hashes. What only training needs is not:
optimizer, moving averages, metrics.
"""

import argparse
import hashlib
import json
import logging
import math
import os
import re
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

import safetensors.torch
import torch
from torch import Tensor

from .errors import CheckpointError
from .loading import listing
from .reading import PathLike, fingerprint, model_of, read_checkpoint, read_safetensors, tied_names
from .stored_options import DEEPEST_CONTENT, check_options
from .versions import KEY, check_versions, stamp, stamped
from .writing import atomic_path, save_checkpoint, save_tensors

logger = logging.getLogger(__name__)

WEIGHTS, CONFIG, LAYOUT = "model.safetensors", "config.json", 1
SECTIONS = ("model", "task", "criterion", "dataset", "generation", "bpe", "tokenizer", "scoring")
"""What is kept of a run's configuration; the rest (optimizer, distributed training, folders ...) tells nothing of the model."""
_TEXTS = ("tied", "types", "dictionaries")  # entries that are objects of text
_REQUIRED = (KEY, "layout", "fingerprint", "training", "task_state", *_TEXTS)
_FROZEN = re.compile(r"(?:(.*)\.)?fingerprint\.([0-9a-f]{32})")


def export_checkpoint(
    checkpoint: PathLike,
    folder: PathLike,
    data: Optional[PathLike] = None,
    dictionaries: bool = True,
    half: bool = False,
) -> Dict[str, Any]:
    """Write the folder of a checkpoint; its files are replaced one by one, each atomically, ``config.json`` last.

    Args:
        checkpoint: any fairseq checkpoint, whole or with the trained part only.
        folder: made when missing.
        data: where ``dict*.txt`` lie; when None the run's own data folder, or else the checkpoint's.
        dictionaries: False leaves them out.
        half: store floating-point tensors as float16, rounded. Stock commands cast them back when they load them.

    Returns the content of ``config.json``. Raises CheckpointError: an unreadable checkpoint, no dictionaries, options that are no
    plain values, tensors of a dtype that safetensors does not know, values that float16 cannot hold.
    """
    state = read_checkpoint(checkpoint)
    model = model_of(state, checkpoint)
    if half:
        model = _halved(model, f"checkpoint {checkpoint}")
    stored, tied = _separate(model)
    files = _dictionaries(state, checkpoint, data) if dictionaries else []
    config = _config(state, f"checkpoint {checkpoint}")
    config.update(fingerprint=fingerprint(model), frozen=_frozen_parts(model), tied=tied)
    config["dictionaries"] = {file.name: _sha256(file) for file in files}
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    try:
        save_tensors(
            stored, target / WEIGHTS
        )  # first: on a full disk nothing stays, so that the command can be given again
    except (safetensors.SafetensorError, KeyError, ValueError) as error:
        raise CheckpointError(f"checkpoint {checkpoint}: cannot be written as safetensors: {error}") from error
    for file in files:
        with atomic_path(target / file.name) as temporary:
            temporary.write_bytes(file.read_bytes())
    with atomic_path(target / CONFIG) as temporary:
        temporary.write_text(json.dumps(config, indent=2, sort_keys=True, allow_nan=False) + "\n", encoding="utf-8")
    logger.info("wrote %s: %d tensors, %d tied, fingerprint %s", folder, len(stored), len(tied), config["fingerprint"])
    return config


def _separate(model: Mapping[str, Tensor]) -> Tuple[Dict[str, Tensor], Dict[str, str]]:
    """Tensors that own their memory, and alias -> name for those that are another one."""
    stored, tied, storages = {}, tied_names(model), set()
    for name, tensor in model.items():
        if name not in tied:
            storage = tensor.untyped_storage()
            whole = tensor.is_contiguous() and storage.nbytes() == tensor.numel() * tensor.element_size()
            own = whole and storage.data_ptr() not in storages
            storages.add(storage.data_ptr())
            stored[name] = tensor.detach() if own else tensor.detach().clone().contiguous()
    return stored, tied


def _halved(model: Mapping[str, Tensor], origin: str) -> Dict[str, Tensor]:
    """Floating-point tensors as float16; what was one tensor stays one."""
    tied = tied_names(model)
    halved: Dict[str, Tensor] = {}
    for name, tensor in model.items():
        if name in tied or not tensor.is_floating_point() or not tensor.numel():
            halved[name] = halved.get(tied.get(name, ""), tensor)
            continue
        halved[name] = tensor.half()
        if not bool(torch.isfinite(halved[name]).all()) and bool(torch.isfinite(tensor).all()):
            raise CheckpointError(
                f"{origin}: --half cannot hold {name}, whose largest value is {float(tensor.abs().max()):.3g}"
            )
    return halved


def _frozen_parts(model: Mapping[str, Tensor]) -> Dict[str, str]:
    """Fingerprint of each part whose weights a checkpoint may leave out, by its name in the model."""
    found = {name: _FROZEN.fullmatch(name) for name, tensor in model.items() if not tensor.numel()}
    return {match.group(1) or "": match.group(2) for match in found.values() if match}


def _config(state: Mapping[str, Any], origin: str) -> Dict[str, Any]:
    """Everything in ``config.json`` but what depends on the tensors and on other files."""
    history, extra = (state.get("optimizer_history") or [{}])[-1], state.get("extra_state") or {}
    training = {name: history.get(name) for name in ("criterion_name", "optimizer_name", "num_updates")}
    training["epoch"] = (extra.get("train_iterator") or {}).get("epoch")
    kept: Dict[str, Any] = {"training": training, "task_state": state.get("task_state") or {}}
    if state.get("args") is not None:
        kept["args"] = state["args"]
    elif isinstance(state.get("cfg"), Mapping):
        kept["cfg"] = {name: state["cfg"][name] for name in SECTIONS if name in state["cfg"]}
    else:
        raise CheckpointError(f"{origin}: has neither 'cfg' nor 'args', so nobody knows which model it is")
    types: Dict[str, str] = {}
    try:
        config = to_json(kept, types)
    except CheckpointError as error:
        raise CheckpointError(f"{origin}: {error}") from error
    return {**config, "types": types, "layout": LAYOUT, KEY: stamp(), "written_by": state.get(KEY)}


def _dictionaries(state: Mapping[str, Any], checkpoint: PathLike, data: Optional[PathLike]) -> List[Path]:
    recorded = _task_options(state).get("data")
    recorded = recorded.split(os.pathsep)[0] if isinstance(recorded, str) else None
    places = [Path(place) for place in ([data] if data else [recorded, Path(checkpoint).parent]) if place]
    for files in (sorted(place.glob("dict*.txt")) for place in places):
        if files:
            return files
    raise CheckpointError(
        f"checkpoint {checkpoint}: no dict*.txt in {' or '.join(map(str, places))}; give the data folder with --data, or "
        "--no-dictionaries to leave them out"
    )


def _task_options(state: Mapping[str, Any]) -> Dict[str, Any]:
    """The options of the task by name, as they lie in the state."""
    owner = state["args"] if state.get("args") is not None else (state.get("cfg") or {}).get("task")
    owner = vars(owner) if isinstance(owner, argparse.Namespace) else owner
    return owner if isinstance(owner, dict) else {}


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def import_checkpoint(folder: PathLike, checkpoint: PathLike) -> None:
    """Make a fairseq checkpoint of an exported folder: the stock commands read it, and its tensors are those of the original.

    The dictionaries stay in the folder, which becomes the task's data folder; the number of updates and the epoch are kept.

    Raises CheckpointError: a file is missing, damaged, of a newer format, or not the one that ``config.json`` describes.
    """
    source = Path(folder)
    config = _read_config(source)
    for name, digest in config["dictionaries"].items():
        file = source / Path(name).name
        if not file.is_file() or _sha256(file) != digest:
            raise CheckpointError(f"{file}: is missing or not the dictionary that {CONFIG} describes (sha256 {digest})")
    try:
        kept = from_json(
            {name: config[name] for name in ("training", "task_state", "cfg", "args") if name in config},
            config["types"],
        )
    except (CheckpointError, TypeError, ValueError) as error:  # a type that does not fit its value
        raise CheckpointError(f"{source / CONFIG}: {error}") from error
    check_options(kept, str(source / CONFIG))
    model = _restored(source, config)
    training = kept["training"]
    history = {name: training[name] for name in ("criterion_name", "optimizer_name") if training.get(name)}
    history.update(num_updates=training.get("num_updates") or 0, lr_scheduler_state={})
    iterator = {"epoch": training.get("epoch") or 1, "iterations_in_epoch": 0, "version": 2}
    state = {name: kept.get(name) for name in ("args", "cfg", "task_state")}
    state.update(model=model, criterion=None, optimizer_history=[history], extra_state={"train_iterator": iterator})
    if config["dictionaries"]:
        _task_options(state)["data"] = str(source.resolve())
    save_checkpoint(stamped(state), checkpoint)
    logger.info("wrote %s: %d tensors, fingerprint %s", checkpoint, len(model), config["fingerprint"])


def _read_config(folder: Path) -> Dict[str, Any]:
    file = folder / CONFIG
    if not file.is_file() or not (folder / WEIGHTS).is_file():
        raise CheckpointError(f"export {folder}: expected a folder with {CONFIG} and {WEIGHTS}")
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{file}: is no JSON ({error})") from error
    if not isinstance(config, dict) or KEY not in config:
        raise CheckpointError(
            f"{file}: was not written by this package, {KEY} is missing; --pretrained-mlm reads other folders"
        )
    check_versions(config, str(file))
    missing = [name for name in _REQUIRED if name not in config]
    if missing or not ("cfg" in config or "args" in config) or config["layout"] != LAYOUT:
        raise CheckpointError(
            f"{file}: expected layout {LAYOUT} with {', '.join(_REQUIRED)} and cfg or args; lacks {listing(missing)}"
        )
    wrong = [name for name in ("training", "task_state", *_TEXTS) if not isinstance(config[name], dict)]
    wrong += [
        name for name in _TEXTS if name not in wrong and any(not isinstance(one, str) for one in config[name].values())
    ]
    if wrong:
        raise CheckpointError(f"{file}: expected an object under {', '.join(wrong)}, of text where it names things")
    return config


def _restored(folder: Path, config: Mapping[str, Any]) -> Dict[str, Tensor]:
    """The tensors, tied again, after a comparison with the fingerprint."""
    weights = folder / WEIGHTS
    model = read_safetensors(weights)
    absent = sorted(set(config["tied"].values()) - set(model))
    if absent:
        raise CheckpointError(f"{weights}: lacks {listing(absent)}, to which {CONFIG} ties other tensors")
    model.update({alias: model[name] for alias, name in config["tied"].items()})
    found = fingerprint(model)
    if found != config["fingerprint"]:
        raise CheckpointError(
            f"{weights}: its tensors have the fingerprint {found}, {CONFIG} describes {config['fingerprint']}; one of the two "
            "files is not the one that was exported"
        )
    return model


# ---- Plain values as JSON, and back, without losing what JSON cannot say. ----

Types = Dict[str, str]
"""JSON pointer -> "namespace", "tuple" or "float": what the value there was before it became an object, array or string."""

_BUILDERS: Dict[str, Callable[[Any], Any]] = dict(
    namespace=lambda one: argparse.Namespace(**one), tuple=tuple, float=float
)


def to_json(value: Any, types: Types, where: str = "") -> Any:
    """Turn a value into what ``json`` writes, and note in ``types`` what :func:`from_json` needs to give back the very same value.

    Raises CheckpointError: an object that is none of the plain ones; names the place (``where``, a JSON pointer) and the type.
    """
    if isinstance(value, float) and not math.isfinite(value):
        types[where] = "float"
        return str(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, argparse.Namespace):
        types[where] = "namespace"
        value = vars(value)
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: to_json(item, types, f"{where}/{_escaped(key)}") for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        if isinstance(value, tuple):
            types[where] = "tuple"
        return [to_json(item, types, f"{where}/{index}") for index, item in enumerate(value)]
    raise CheckpointError(
        f"{where or '/'}: {type(value).__name__} cannot be written as JSON; valid: None, booleans, numbers, strings, and "
        "dictionaries with string keys, lists, tuples and argparse.Namespace of these"
    )


def from_json(value: Any, types: Mapping[str, str], where: str = "") -> Any:
    """The value that :func:`to_json` was given; CheckpointError for an unknown type, or one that is nested too deep."""
    if where.count("/") > DEEPEST_CONTENT:  # a key's own / is escaped
        raise CheckpointError(f"{where[:40]}...: nested deeper than {DEEPEST_CONTENT}")
    if isinstance(value, dict):
        value = {key: from_json(item, types, f"{where}/{_escaped(key)}") for key, item in value.items()}
    elif isinstance(value, list):
        value = [from_json(item, types, f"{where}/{index}") for index, item in enumerate(value)]
    kind = types.get(where)
    if kind is not None and kind not in _BUILDERS:
        raise CheckpointError(f"{where or '/'}: type {kind!r} is unknown; valid: {', '.join(_BUILDERS)}")
    return value if kind is None else _BUILDERS[kind](value)


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
