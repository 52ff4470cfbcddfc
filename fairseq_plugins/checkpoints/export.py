"""Exchange checkpoints with other programs, as safetensors and JSON.

``python -m fairseq_plugins.checkpoints.export CHECKPOINT FOLDER`` writes model.safetensors, config.json and the dictionaries: what
a model needs (tensors, options of model, task and decoding, versions, hashes), not what only training needs (optimizer, moving
averages, metrics). ``python -m fairseq_plugins.checkpoints.export import FOLDER CHECKPOINT`` makes a checkpoint of them that the
stock commands read, also of the Hugging Face folder of a VECO, which generation and pre-training can then start from.
"""

import argparse
import hashlib
import json
import logging
import math
import os
import sys
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence

import safetensors.torch
import torch
from torch import Tensor

from ..own_commands import run
from . import reading, versions
from .families.veco import write_veco
from .inspection import DEEPEST_CONTENT, CheckpointError, check_options
from .loading import listing
from .vocabulary import read_json
from .writing import atomic_path, save_checkpoint, save_tensors, start_state, tied_names

logger = logging.getLogger(__name__)

PROGRAM = "python -m fairseq_plugins.checkpoints.export"
IMPORT = "import"
WEIGHTS, CONFIG, LAYOUT = "model.safetensors", "config.json", 1
SECTIONS = ("model", "task", "criterion", "dataset", "generation", "bpe", "tokenizer", "scoring")
"""What is kept of a run's configuration; the rest (optimizer, distributed training, folders ...) tells nothing of the model."""
_TEXTS = ("tied", "types", "dictionaries")  # entries that are objects of text
_REQUIRED = (versions.KEY, "layout", "fingerprint", "training", "task_state", *_TEXTS)


def export_checkpoint(
    checkpoint: reading.PathLike,
    folder: reading.PathLike,
    data: Optional[reading.PathLike] = None,
    dictionaries: bool = True,
    half: bool = False,
) -> Dict[str, Any]:
    """Write the folder of a checkpoint; its files are replaced one by one, each atomically, ``config.json`` last.

    ``checkpoint`` may hold the trained part only. ``data``: where ``dict*.txt`` lie; None = in the run's own data folder, or else
    beside the checkpoint. ``half``: floating-point tensors as float16, rounded; stock commands cast them back when they load them.

    Returns the content of ``config.json``. Raises CheckpointError: an unreadable checkpoint, no dictionaries, options that are no
    plain values, tensors of a dtype that safetensors does not know, values that float16 cannot hold.
    """
    state = reading.read_checkpoint(checkpoint)
    model = reading.model_of(state, checkpoint)
    origin, tied = f"checkpoint {checkpoint}", tied_names(model)
    # Each in memory of its own, without gaps.
    stored = {name: one.detach().contiguous().clone() for name, one in model.items() if name not in tied}
    if half:
        stored = _halved(stored, origin)
    files = _dictionaries(state, checkpoint, data) if dictionaries else []
    config = _config(state, origin)
    config.update(fingerprint=reading.fingerprint({name: stored[tied.get(name, name)] for name in model}), tied=tied)
    config["dictionaries"] = {file.name: _sha256(file) for file in files}
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    try:
        # First: on a full disk nothing stays, so that the command can be given again.
        save_tensors(stored, target / WEIGHTS)
    except (safetensors.SafetensorError, KeyError, ValueError) as error:
        raise CheckpointError(f"{origin}: cannot be written as safetensors: {error}") from error
    for file in files:
        with atomic_path(target / file.name) as temporary:
            temporary.write_bytes(file.read_bytes())
    with atomic_path(target / CONFIG) as temporary:
        temporary.write_text(json.dumps(config, indent=2, sort_keys=True, allow_nan=False) + "\n", encoding="utf-8")
    logger.info("wrote %s: %d tensors, %d tied, fingerprint %s", folder, len(stored), len(tied), config["fingerprint"])
    return config


def _halved(tensors: Mapping[str, Tensor], origin: str) -> Dict[str, Tensor]:
    """Floating-point tensors as float16; CheckpointError where that makes a value infinite."""
    halved = {name: one.half() if one.is_floating_point() else one for name, one in tensors.items()}
    for name, one in tensors.items():
        if not bool(torch.isfinite(halved[name]).all()) and bool(torch.isfinite(one).all()):
            raise CheckpointError(f"{origin}: --half cannot hold {name}, whose largest value is {one.abs().max():.3g}")
    return halved


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
    return {
        **config,
        "types": types,
        "layout": LAYOUT,
        versions.KEY: versions.stamp(),
        "written_by": state.get(versions.KEY),
    }


def _dictionaries(
    state: Mapping[str, Any], checkpoint: reading.PathLike, data: Optional[reading.PathLike]
) -> List[Path]:
    recorded = _task_options(state).get("data")
    recorded = recorded.split(os.pathsep)[0] if isinstance(recorded, str) else None
    places = [Path(place) for place in ([data] if data else [recorded, Path(checkpoint).parent]) if place]
    files = next(filter(None, (sorted(place.glob("dict*.txt")) for place in places)), None)
    if files is None:
        raise CheckpointError(
            f"checkpoint {checkpoint}: no dict*.txt in {' or '.join(map(str, places))}; give the data folder with --data, or "
            "--no-dictionaries to leave them out"
        )
    return files


def _task_options(state: Mapping[str, Any]) -> Dict[str, Any]:
    """The options of the task by name, as they lie in the state."""
    owner = state["args"] if state.get("args") is not None else (state.get("cfg") or {}).get("task")
    owner = vars(owner) if isinstance(owner, argparse.Namespace) else owner
    return owner if isinstance(owner, dict) else {}


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def import_checkpoint(folder: reading.PathLike, checkpoint: reading.PathLike) -> None:
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
        named = {name: config[name] for name in ("training", "task_state", "cfg", "args") if name in config}
        kept = from_json(named, config["types"])
    except (TypeError, ValueError) as error:  # a type that does not fit its value
        raise CheckpointError(f"{source / CONFIG}: {error}") from error
    check_options(kept, str(source / CONFIG))
    model = _restored(source, config)
    training = kept["training"]
    names = {name: training[name] for name in ("criterion_name", "optimizer_name") if training.get(name)}
    entries = {name: kept.get(name) for name in ("args", "cfg", "task_state")}
    state = start_state(model, training.get("num_updates") or 0, training.get("epoch") or 1, **entries)
    state["optimizer_history"][0].update(names)
    if config["dictionaries"]:
        _task_options(state)["data"] = str(source.resolve())
    save_checkpoint(state, checkpoint)
    logger.info("wrote %s: %d tensors, fingerprint %s", checkpoint, len(model), config["fingerprint"])


def _read_config(folder: Path) -> Dict[str, Any]:
    file = folder / CONFIG
    if not file.is_file() or not (folder / WEIGHTS).is_file():
        raise CheckpointError(f"export {folder}: expected a folder with {CONFIG} and {WEIGHTS}")
    config = read_json(file, "an export")
    if versions.KEY not in config:
        raise CheckpointError(f"{file}: was not written by this package, {versions.KEY} is missing")
    versions.check_versions(config, str(file))
    missing = [name for name in _REQUIRED if name not in config]
    if missing or not ("cfg" in config or "args" in config) or config["layout"] != LAYOUT:
        raise CheckpointError(
            f"{file}: expected layout {LAYOUT} with {', '.join(_REQUIRED)} and cfg or args; lacks {listing(missing)}"
        )
    for name in ("training", "task_state", *_TEXTS):
        found = config[name]
        if not isinstance(found, dict) or (name in _TEXTS and any(not isinstance(one, str) for one in found.values())):
            raise CheckpointError(f"{file}: expected an object under {name}, of text where it names things")
    return config


def _restored(folder: Path, config: Mapping[str, Any]) -> Dict[str, Tensor]:
    """The tensors, tied again, after a comparison with the fingerprint."""
    weights = folder / WEIGHTS
    model = reading.read_safetensors(weights)
    absent = sorted(set(config["tied"].values()) - set(model))
    if absent:
        raise CheckpointError(f"{weights}: lacks {listing(absent)}, to which {CONFIG} ties other tensors")
    model.update({alias: model[name] for alias, name in config["tied"].items()})
    found = reading.fingerprint(model)
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


# ---- The command. ----


def _parser(importing: bool) -> argparse.ArgumentParser:
    if importing:
        description = "Make a fairseq checkpoint of an exported folder, or of VECO's."
        parser = argparse.ArgumentParser(prog=f"{PROGRAM} {IMPORT}", description=description)
        others = "the Hugging Face folder of a VECO (cross_attention.* or crossattention.*)"
        parser.add_argument("folder", help=f"with {WEIGHTS} and {CONFIG}; or {others}")
        parser.add_argument("checkpoint", help="the file to write; another one is not replaced")
        return parser
    description = f"Write a fairseq checkpoint as {WEIGHTS} and {CONFIG}."
    back = f"The way back: {PROGRAM} {IMPORT} FOLDER CHECKPOINT"
    parser = argparse.ArgumentParser(prog=PROGRAM, description=description, epilog=back)
    parser.add_argument("checkpoint", help="any fairseq checkpoint; it is read without running code")
    parser.add_argument("folder", help="made when missing; nothing in it is replaced")
    parser.add_argument("--half", action="store_true", help="store float16: half the size, rounded")
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--data", metavar="DIR", help="where dict*.txt lie, when not in the run's data folder")
    choice.add_argument("--no-dictionaries", action="store_true", help="leave the dictionaries out")
    return parser


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Run the command; exit status 0, or 2 with a message."""
    line = list(sys.argv[1:] if argv is None else argv)
    importing = line[:1] == [IMPORT]
    parser = _parser(importing)
    args = parser.parse_args(line[importing:])

    def work() -> None:
        if importing:
            _import(args.folder, args.checkpoint)
        else:
            check_folder(Path(args.folder))
            export_checkpoint(args.checkpoint, args.folder, args.data, not args.no_dictionaries, args.half)

    return run(parser, work)


def _import(folder: str, checkpoint: str) -> None:
    """Make the checkpoint; one that is there already stays, and must be what would be made (CheckpointError)."""
    file = Path(folder) / CONFIG
    others = file.is_file() and versions.KEY not in read_json(file, "an export")
    if Path(checkpoint).is_file():
        stated = None if others else _read_config(Path(folder))["fingerprint"]
        if stated and reading.fingerprint(reading.read_checkpoint(checkpoint).get("model") or {}) == stated:
            logger.info("%s: is there already, with the tensors of %s", checkpoint, folder)
            return
        raise CheckpointError(
            f"{checkpoint}: is there already, and is not replaced; valid: a new name, or remove it first"
        )
    (write_veco if others else import_checkpoint)(folder, checkpoint)


def check_folder(folder: Path) -> None:
    """Raise CheckpointError where a folder to write into has a model already, or is a file."""
    found = [name for name in (WEIGHTS, CONFIG) if (folder / name).exists()]
    found += sorted(file.name for file in folder.glob("dict*.txt"))
    if found or (folder.exists() and not folder.is_dir()):
        what = f"has {found[0]} already, and nothing is replaced" if found else "is a file"
        raise CheckpointError(f"{folder}: {what}; valid: a new or empty folder")


if __name__ == "__main__":
    sys.exit(main())
