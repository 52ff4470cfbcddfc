"""Averages checkpoints: ``fairseq-plugins average --directory DIR --best 5 --output FILE``.

It works on every fairseq checkpoint, also on one that holds only the trained part of a model. Such
a checkpoint names its frozen part by an empty tensor, which is copied. Checkpoints with different
frozen parts have different names, so averaging them fails.
"""

import logging
import re
import sys
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence

import torch
from torch import Tensor

from ..own_commands import forward
from .inspection import CheckpointError
from .loading import listing
from .metadata import stamped
from .reading import PathLike, model_of, read_checkpoint
from .vocabulary import as_dict
from .writing import save_checkpoint, tied_names

logger = logging.getLogger(__name__)

_BEST = re.compile(r"checkpoint\.best_(.+)_(-?\d+(?:\.\d+)?)\.pt")
_EPOCH = re.compile(r"checkpoint(\d+)\.pt")
_UPDATE = re.compile(r"checkpoint_\d+_(\d+)\.pt")
_OPTIMIZER = ("last_optimizer_state", "optimizer")
_RUN_ENTRIES = (*_OPTIMIZER, "ema", "ema_fp32_params", "previous_training_time")
"""Entries that only the run needs; they are left out of an average."""


# ---- Choose the files. ----


def select_best(
    directory: PathLike, count: int, metric: Optional[str] = None, allow_fewer: bool = False
) -> List[Path]:
    """Return the best files of ``--keep-best-checkpoints``, best first.

    They are sorted by the value in ``checkpoint.best_METRIC_VALUE.pt``. The run's options in one of
    the files state whether a larger value is better.

    Args:
        metric: metric in the names; required if the folder has several.
        allow_fewer: return all files if there are fewer than ``count``.

    Raises:
        CheckpointError: there are no or too few such files, the metric is ambiguous, or a file is
            unreadable.
    """
    matches = _matches(directory, _BEST)
    metrics = sorted({match[1] for match in matches.values()})
    if metric is None and len(metrics) > 1:
        choice = f"has best checkpoints by {', '.join(metrics)}; give one as --metric"
        raise CheckpointError(f"--directory {directory}: {choice}")
    if metric is None:
        metric = metrics[0] if metrics else "*"
    scores = {file: float(match[2]) for file, match in matches.items() if match[1] == metric}
    sign = -1 if scores and _larger_is_better(next(iter(scores))) else 1
    files = sorted(scores, key=lambda file: (sign * scores[file], file.name))
    return _first(files, "--best", count, f"{directory}/checkpoint.best_{metric}_*.pt", allow_fewer)


def _larger_is_better(path: Path) -> bool:
    """Return ``--maximize-best-checkpoint-metric`` of the run that wrote a checkpoint."""
    state = read_checkpoint(path)
    options = as_dict(state.get("args")) or as_dict(as_dict(state.get("cfg")).get("checkpoint"))
    name = "maximize_best_checkpoint_metric"
    if name not in options:
        reason = f"its options lack {name}, expected those of a run"
        raise CheckpointError(f"checkpoint {path}: {reason}")
    return bool(options[name])


def select_last(
    directory: PathLike, count: int, by: Optional[str] = None, allow_fewer: bool = False
) -> List[Path]:
    """Return the latest of ``checkpointEPOCH.pt`` or ``checkpoint_EPOCH_UPDATE.pt``, latest first.

    Args:
        by: ``"epochs"`` or ``"updates"``; required if the folder has both kinds of files.
        allow_fewer: return all files if there are fewer than ``count``.

    Raises:
        CheckpointError: there are no or too few such files, or the kind is ambiguous.
    """
    epochs, updates = _matches(directory, _EPOCH), _matches(directory, _UPDATE)
    if by is None and epochs and updates:
        choice = "has checkpoints by epochs and by updates; give --by"
        raise CheckpointError(f"--directory {directory}: {choice}")
    matches = {"epochs": epochs, "updates": updates, None: epochs or updates}[by]
    files = sorted(matches, key=lambda file: int(matches[file][1]), reverse=True)
    return _first(files, "--last", count, f"{directory}/checkpoint[_]N[_M].pt", allow_fewer)


def _matches(directory: PathLike, pattern: "re.Pattern[str]") -> Dict[Path, "re.Match[str]"]:
    """Return file -> match of its name, for the files of a folder that match, sorted by name."""
    folder = Path(directory)
    if not folder.is_dir():
        raise CheckpointError(f"--directory {folder}: no such folder")
    matches = {file: pattern.fullmatch(file.name) for file in sorted(folder.iterdir())}
    return {file: match for file, match in matches.items() if match}


def _first(
    files: List[Path], option: str, count: int, pattern: str, allow_fewer: bool
) -> List[Path]:
    """Return the first ``count`` files; ``pattern`` describes their names in messages."""
    if count < 1:
        raise CheckpointError(f"{option} {count}: expected at least 1")
    if not files or (len(files) < count and not allow_fewer):
        hint = "; --allow-fewer averages what there is" if files else ""
        raise CheckpointError(f"{option} {count}: {len(files)} files {pattern}{hint}")
    if len(files) < count:
        logger.warning("%s %d: only %d files %s", option, count, len(files), pattern)
    return files[:count]


# ---- Average them. ----


def average_checkpoints(paths: Sequence[PathLike]) -> Dict[str, Any]:
    """Average the ``model`` entries of fairseq checkpoints.

    Floating-point tensors are summed in float64 and returned in their own dtype. Integer and
    boolean tensors must be equal. Empty tensors are copied. Tensors that are tied in the first file
    and equal in all others stay tied.

    Returns:
        the first checkpoint with the averaged model, without optimizer, moving averages and
        training time.

    Raises:
        CheckpointError: a file is unreadable, or the models differ in names, shapes, dtypes or
            integers; names the tensor.
    """
    _check_inputs(paths)
    state: Dict[str, Any] = {}
    sums: Dict[str, Tensor] = {}
    for path in paths:
        checkpoint = read_checkpoint(path)
        model = model_of(checkpoint, path)
        if not state:
            state, tied = checkpoint, tied_names(model)
        _compare(model, state["model"], f"checkpoint {path}", str(paths[0]))
        # A tied tensor is summed once, which saves most of the work for a VECO. Names that differ
        # in a later file are tied no more: both go on from the sum so far.
        for name, owner in list(tied.items()):
            if sums and not torch.equal(model[name], model[owner]):
                del tied[name]
                sums[name] = sums[owner]
        for name, tensor in model.items():
            if name not in tied and tensor.is_floating_point():
                sums[name] = sums[name] + tensor.double() if name in sums else tensor.double()
    model = state["model"]
    means = {name: (total / len(paths)).to(model[name].dtype) for name, total in sums.items()}
    state["model"] = {name: means.get(tied.get(name, name), model[name]) for name in model}
    extra = state.get("extra_state")
    for name in _RUN_ENTRIES:
        state.pop(name, None)
        if isinstance(extra, dict):
            extra.pop(name, None)
    return state


def _check_inputs(paths: Sequence[PathLike]) -> None:
    if not paths:
        raise CheckpointError("--inputs: expected at least one checkpoint")
    files = [Path(path).resolve() for path in paths]
    twice = {str(path) for path, file in zip(paths, files) if files.count(file) > 1}
    if twice:
        raise CheckpointError(f"--inputs: given more than once: {', '.join(sorted(twice))}")


def _compare(
    model: Mapping[str, Tensor], first: Mapping[str, Tensor], origin: str, first_path: str
) -> None:
    """Raise CheckpointError if a model cannot be averaged with the first."""
    different = sorted(set(model) ^ set(first))
    if different:
        difference = f"its tensors are not those of {first_path}; only one has {listing(different)}"
        raise CheckpointError(f"{origin}: {difference}")
    for name, tensor in model.items():
        actual, expected = _describe(tensor), _describe(first[name])
        if actual != expected:
            raise CheckpointError(f"{origin}: {name} is {actual}, but {expected} in {first_path}")
        if not tensor.is_floating_point() and not torch.equal(tensor, first[name]):
            difference = f"{name} is {tensor.dtype} and differs from {first_path}"
            raise CheckpointError(f"{origin}: {difference}")


def _describe(tensor: Tensor) -> str:
    return f"{tensor.dtype} {tuple(tensor.shape)}"


def write_average(paths: Sequence[PathLike], output: PathLike) -> None:
    """Write the average of checkpoints to ``output``, which is replaced atomically.

    Raises:
        CheckpointError: ``output`` is one of the inputs, or as :func:`average_checkpoints`.
    """
    if Path(output).resolve() in [Path(path).resolve() for path in paths]:
        raise CheckpointError(f"--output {output}: is one of the inputs, expected another file")
    save_checkpoint(stamped(average_checkpoints(paths)), output)
    logger.info("wrote %s, the average of %d", output, len(paths))


if __name__ == "__main__":
    sys.exit(forward("average"))
