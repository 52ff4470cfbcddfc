"""Average checkpoints: ``python -m fairseq_plugins.checkpoints.average --directory DIR --best 5 --output FILE``.

Works on every fairseq checkpoint, also on those that hold only the trained part of a model (a frozen part is named by a
marker without elements, which is copied; averaging over different frozen parts fails because the names differ).
"""

import argparse
import logging
import re
import sys
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import torch
from torch import Tensor

from ..own_commands import heartbeat
from .loading import listing
from .reading import CheckpointError, PathLike, model_of, read_checkpoint, tied_names
from .versions import stamped
from .writing import save_checkpoint

logger = logging.getLogger(__name__)

_BEST = re.compile(r"checkpoint\.best_(.+)_(-?\d+(?:\.\d+)?)\.pt")
_EPOCH = re.compile(r"checkpoint(\d+)\.pt")
_UPDATE = re.compile(r"checkpoint_\d+_(\d+)\.pt")
_LOWER_IS_BETTER = re.compile(r"(?:.*_)?(?:loss|ppl|perplexity|nll|wer|cer|ter)")
_HIGHER_IS_BETTER = re.compile(r"(?:.*_)?(?:bleu|chrf2?|rouge[12l]?|meteor|comet|accuracy|acc|f1|recall|precision)")
_DROPPED_STATE = ("ema", "ema_fp32_params", "previous_training_time")


def select_best(
    directory: PathLike,
    count: int,
    metric: Optional[str] = None,
    maximize: Optional[bool] = None,
    allow_fewer: bool = False,
) -> List[Path]:
    """The best ``count`` files of ``--keep-best-checkpoints``, best first, by the number in ``checkpoint.best_METRIC_VALUE.pt``.

    ``metric`` is as in the file names, needed when the folder has several; ``maximize``: larger is better, None infers it from the
    metric's name; ``allow_fewer`` takes what there is when there are fewer than ``count``.

    Raises CheckpointError: no or too few such files, several metrics, or a metric of unknown direction.
    """
    found: Dict[str, List[Tuple[float, Path]]] = {}
    for file, match in _matching(directory, _BEST):
        found.setdefault(match.group(1), []).append((float(match.group(2)), file))
    if metric is None and len(found) > 1:
        metrics = ", ".join(sorted(found))
        raise CheckpointError(f"--directory {directory}: has best checkpoints by {metrics}; give one as --metric")
    name = metric if metric is not None else next(iter(found), "*")
    if maximize is None and name in found:
        maximize = bool(_HIGHER_IS_BETTER.fullmatch(name.lower()))
        if not maximize and not _LOWER_IS_BETTER.fullmatch(name.lower()):
            raise CheckpointError(f"--metric {name}: larger or smaller is better? give --maximize or --minimize")
    ranked = sorted(found.get(name, []), key=lambda pair: (-pair[0] if maximize else pair[0], pair[1].name))
    files = [file for _, file in ranked]
    return _first(files, "--best", count, f"{directory}/checkpoint.best_{name}_*.pt", allow_fewer)


def select_last(directory: PathLike, count: int, by: Optional[str] = None, allow_fewer: bool = False) -> List[Path]:
    """The latest ``count`` of ``checkpointEPOCH.pt`` or ``checkpoint_EPOCH_UPDATE.pt``, latest first.

    ``by``: ``"epochs"`` or ``"updates"``, needed when the folder has both kinds; the others as in :func:`select_best`.

    Raises CheckpointError: no or too few such files, or both kinds.
    """
    epochs, updates = _matching(directory, _EPOCH), _matching(directory, _UPDATE)
    if by is None and epochs and updates:
        raise CheckpointError(f"--directory {directory}: has checkpoints by epochs and by updates; give --by")
    chosen = {"epochs": epochs, "updates": updates, None: epochs or updates}[by]
    names = {"epochs": "checkpointN.pt", "updates": "checkpoint_N_M.pt", None: "checkpoint[_]N[_M].pt"}[by]
    files = [file for file, _ in sorted(chosen, key=lambda pair: int(pair[1].group(1)), reverse=True)]
    return _first(files, "--last", count, f"{directory}/{names}", allow_fewer)


def _matching(directory: PathLike, pattern: "re.Pattern[str]") -> List[Tuple[Path, "re.Match[str]"]]:
    folder = Path(directory)
    if not folder.is_dir():
        raise CheckpointError(f"--directory {folder}: no such folder")
    pairs = ((file, pattern.fullmatch(file.name)) for file in sorted(folder.iterdir()))
    return [(file, match) for file, match in pairs if match]


def _first(files: List[Path], option: str, count: int, what: str, allow_fewer: bool) -> List[Path]:
    if count < 1:
        raise CheckpointError(f"{option} {count}: expected at least 1")
    if not files or (len(files) < count and not allow_fewer):
        hint = "; --allow-fewer averages what there is" if files else ""
        raise CheckpointError(f"{option} {count}: {len(files)} files {what}{hint}")
    if len(files) < count:
        logger.warning("%s %d: only %d files %s", option, count, len(files), what)
    return files[:count]


def average_checkpoints(paths: Sequence[PathLike]) -> Dict[str, Any]:
    """Average the ``model`` entries of fairseq checkpoints.

    Floating-point tensors are summed in float64 and returned in their own dtype; integer and boolean tensors must be
    equal; tensors without elements are copied. Tensors that shared memory in the first file (tied weights) and are equal in every
    other one still do.

    Returns the first checkpoint with the averaged model, without what only the run needs: optimizer, moving averages, hours. Raises
    CheckpointError: unreadable files, or models that differ in names, shapes, dtypes or integers; names the tensor.
    """
    if not paths:
        raise CheckpointError("--inputs: expected at least one checkpoint")
    resolved = [Path(path).resolve() for path in paths]
    twice = sorted({str(path) for path in resolved if resolved.count(path) > 1})
    if twice:
        raise CheckpointError(f"--inputs: given more than once: {', '.join(twice)}")
    state: Dict[str, Any] = {}
    sums: Dict[str, Tensor] = {}
    for index, path in enumerate(paths, start=1):
        checkpoint = read_checkpoint(path)
        model = model_of(checkpoint, path)
        if not state:
            state, tied = checkpoint, tied_names(model)
        _compare(model, state["model"], f"checkpoint {path}", str(paths[0]))
        # What is tied in every model is summed once: most tensors of a VECO have several names.
        for name in [name for name, owner in tied.items() if sums and not torch.equal(model[name], model[owner])]:
            sums[name] = sums[tied.pop(name)]
        for name, tensor in model.items():
            if name not in tied and tensor.is_floating_point():
                sums[name] = sums[name] + tensor.double() if name in sums else tensor.double()
        logger.info("read %d of %d: %s", index, len(paths), path)
    means = {name: (one / len(paths)).to(state["model"][name].dtype) for name, one in sums.items()}
    state["model"] = {name: means.get(tied.get(name, name), tensor) for name, tensor in state["model"].items()}
    dropped = [key for key in ("last_optimizer_state", "optimizer") if state.pop(key, None) is not None]
    extra = state.get("extra_state")
    if isinstance(extra, dict):
        dropped += [key for key in _DROPPED_STATE if extra.pop(key, None) is not None]
    if dropped:
        logger.info("dropped: %s", ", ".join(dropped))
    return state


def _compare(model: Mapping[str, Tensor], first: Mapping[str, Tensor], origin: str, other: str) -> None:
    different = sorted(set(model) ^ set(first))
    if different:
        raise CheckpointError(f"{origin}: its tensors are not those of {other}; only one has {listing(different)}")
    for name, tensor in model.items():
        found, expected = (f"{one.dtype} {tuple(one.shape)}" for one in (tensor, first[name]))
        if found != expected:
            raise CheckpointError(f"{origin}: {name} is {found}, but {expected} in {other}")
        if not tensor.is_floating_point() and not torch.equal(tensor, first[name]):
            raise CheckpointError(f"{origin}: {name} is {tensor.dtype} and differs from {other}")


def write_average(paths: Sequence[PathLike], output: PathLike) -> None:
    """Average files into ``output``, which is replaced at once when everything is on disk.

    Raises CheckpointError: see :func:`average_checkpoints`; or ``output`` is one of the inputs.
    """
    if Path(output).resolve() in [Path(path).resolve() for path in paths]:
        raise CheckpointError(f"--output {output}: is one of the inputs, expected another file")
    save_checkpoint(stamped(average_checkpoints(paths)), output)
    logger.info("wrote %s, the average of %d", output, len(paths))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m fairseq_plugins.checkpoints.average", description=__doc__)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--inputs", nargs="+", metavar="FILE", help="the checkpoints to average")
    source.add_argument("--directory", metavar="DIR", help="a --save-dir, with --best or --last")
    parser.add_argument("--output", required=True, metavar="FILE", help="the averaged checkpoint")
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--best", type=int, metavar="N", help="the best N of --keep-best-checkpoints")
    choice.add_argument("--last", type=int, metavar="N", help="the last N epoch or interval checkpoints")
    parser.add_argument("--metric", help="for --best: the metric in the file names, when there are several")
    direction = parser.add_mutually_exclusive_group()
    direction.add_argument("--maximize", dest="maximize", action="store_const", const=True, help="larger is better")
    direction.add_argument("--minimize", dest="maximize", action="store_const", const=False, help="smaller is better")
    parser.add_argument("--by", choices=("epochs", "updates"), help="for --last: which kind, when there are both")
    parser.add_argument("--allow-fewer", action="store_true", help="average what there is when there are fewer than N")
    return parser


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Run the command; exit status 0, or 2 with a message."""
    parser = _parser()
    args = parser.parse_args(argv)
    if (args.directory is None) != (args.best is None and args.last is None):
        parser.error("--directory goes with --best N or --last N, and these only with --directory")
    try:
        if args.best is not None:
            paths = select_best(args.directory, args.best, args.metric, args.maximize, args.allow_fewer)
        elif args.last is not None:
            paths = select_last(args.directory, args.last, args.by, args.allow_fewer)
        else:
            paths = [Path(path) for path in args.inputs]
        with heartbeat():
            write_average(paths, args.output)
    except (ValueError, OSError) as error:
        parser.error(str(error))
    return 0


if __name__ == "__main__":
    sys.exit(main())
