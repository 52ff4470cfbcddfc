"""Average checkpoints: ``fairseq-plugins average --directory DIR --best 5 --output FILE``.

Works on every fairseq checkpoint, also on those that hold only the trained part of a model (a frozen part is named by a
marker without elements, which is copied; averaging over different frozen parts fails because the names differ).
"""

import logging
import re
import sys
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

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
_RUN_ENTRIES = (
    "last_optimizer_state",
    "optimizer",
    "ema",
    "ema_fp32_params",
    "previous_training_time",
)
"""Entries that only the run needs."""


# ---- Choose the files. ----


def select_best(
    directory: PathLike, count: int, metric: Optional[str] = None, allow_fewer: bool = False
) -> List[Path]:
    """Return the best files of ``--keep-best-checkpoints``, best first.

    The number in ``checkpoint.best_METRIC_VALUE.pt`` ranks them. The run's own options in a file
    state whether larger is better.

    Args:
        metric: required if the folder has several.
        allow_fewer: take what there is.

    Raises:
        CheckpointError: no or too few such files, several metrics, or an unreadable file.
    """
    by_metric: Dict[str, List[Tuple[float, Path]]] = {}
    for file, match in _matching(directory, _BEST):
        by_metric.setdefault(match.group(1), []).append((float(match.group(2)), file))
    if metric is None and len(by_metric) > 1:
        metrics = ", ".join(sorted(by_metric))
        choice = f"has best checkpoints by {metrics}; give one as --metric"
        raise CheckpointError(f"--directory {directory}: {choice}")
    name = metric if metric is not None else next(iter(by_metric), "*")
    ranked = by_metric.get(name, [])
    sign = -1 if ranked and _larger_is_better(ranked[0][1]) else 1
    files = [file for _, file in sorted(ranked, key=lambda pair: (sign * pair[0], pair[1].name))]
    return _first(files, "--best", count, f"{directory}/checkpoint.best_{name}_*.pt", allow_fewer)


def _larger_is_better(path: Path) -> bool:
    state = read_checkpoint(path)
    config = as_dict(state.get("cfg"))
    options = as_dict(state.get("args")) or as_dict(config.get("checkpoint"))
    name = "maximize_best_checkpoint_metric"
    if name not in options:
        raise CheckpointError(
            f"checkpoint {path}: its options lack {name}, expected those of a run"
        )
    return bool(options[name])


def select_last(
    directory: PathLike, count: int, by: Optional[str] = None, allow_fewer: bool = False
) -> List[Path]:
    """Return the latest of ``checkpointEPOCH.pt`` or ``checkpoint_EPOCH_UPDATE.pt``, latest first.

    Args:
        by: ``"epochs"`` or ``"updates"``; required if the folder has both kinds.
        allow_fewer: take what there is.

    Raises:
        CheckpointError: no or too few such files.
    """
    epochs, updates = _matching(directory, _EPOCH), _matching(directory, _UPDATE)
    if by is None and epochs and updates:
        choice = "has checkpoints by epochs and by updates; give --by"
        raise CheckpointError(f"--directory {directory}: {choice}")
    matches = {"epochs": epochs, "updates": updates, None: epochs or updates}[by]
    latest = sorted(matches, key=lambda pair: int(pair[1].group(1)), reverse=True)
    files = [file for file, _ in latest]
    return _first(files, "--last", count, f"{directory}/checkpoint[_]N[_M].pt", allow_fewer)


def _matching(
    directory: PathLike, pattern: "re.Pattern[str]"
) -> List[Tuple[Path, "re.Match[str]"]]:
    folder = Path(directory)
    if not folder.is_dir():
        raise CheckpointError(f"--directory {folder}: no such folder")
    pairs = ((file, pattern.fullmatch(file.name)) for file in sorted(folder.iterdir()))
    return [(file, match) for file, match in pairs if match]


def _first(
    files: List[Path], option: str, count: int, pattern: str, allow_fewer: bool
) -> List[Path]:
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
    boolean tensors must be equal. Tensors without elements are copied. Tensors that are tied in the
    first file and equal in every other one stay tied.

    Returns:
        the first checkpoint with the averaged model, without what only the run needs: optimizer,
        moving averages, hours.

    Raises:
        CheckpointError: unreadable files, or models that differ in names, shapes, dtypes or
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
        # What is tied in every model is summed once: most tensors of a VECO have several names.
        for name, owner in list(tied.items()):
            if sums and not torch.equal(model[name], model[owner]):
                sums[name] = sums[tied.pop(name)]
        for name, tensor in model.items():
            if name not in tied and tensor.is_floating_point():
                sums[name] = sums[name] + tensor.double() if name in sums else tensor.double()
    first = state["model"]
    means = {name: (total / len(paths)).to(first[name].dtype) for name, total in sums.items()}
    state["model"] = {
        name: means.get(tied.get(name, name), tensor) for name, tensor in first.items()
    }
    extra = state.get("extra_state")
    for entries in (state, extra) if isinstance(extra, dict) else (state,):
        for name in _RUN_ENTRIES:
            entries.pop(name, None)
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
    different = sorted(set(model) ^ set(first))
    if different:
        difference = f"its tensors are not those of {first_path}; only one has {listing(different)}"
        raise CheckpointError(f"{origin}: {difference}")
    for name, tensor in model.items():
        actual, expected = _describe(tensor), _describe(first[name])
        if actual != expected:
            raise CheckpointError(f"{origin}: {name} is {actual}, but {expected} in {first_path}")
        if not tensor.is_floating_point() and not torch.equal(tensor, first[name]):
            raise CheckpointError(
                f"{origin}: {name} is {tensor.dtype} and differs from {first_path}"
            )


def _describe(tensor: Tensor) -> str:
    return f"{tensor.dtype} {tuple(tensor.shape)}"


def write_average(paths: Sequence[PathLike], output: PathLike) -> None:
    """Average files into ``output``, which is replaced atomically.

    Raises:
        CheckpointError: ``output`` is one of the files, or as :func:`average_checkpoints`.
    """
    if Path(output).resolve() in [Path(path).resolve() for path in paths]:
        raise CheckpointError(f"--output {output}: is one of the inputs, expected another file")
    save_checkpoint(stamped(average_checkpoints(paths)), output)
    logger.info("wrote %s, the average of %d", output, len(paths))


if __name__ == "__main__":
    sys.exit(forward("average"))
