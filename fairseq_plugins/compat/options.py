"""Options of stock commands, hydra's included: ``--bf16``, ``--num-shards`` and ``--shard-id`` mean what they say, and those that
cannot work together are refused before a dictionary is read.

A task may name the criterions that train it (``criterions``), a criterion the tasks that it trains (``tasks``).
"""

import logging
import os
import sys
from argparse import ArgumentParser, Namespace
from typing import Any, Optional, Sequence, Tuple

import torch
from omegaconf import OmegaConf

from .patch import Patch

logger = logging.getLogger(__name__)

SHARD_BY_THEMSELVES = ("context_window", "eos_prob_threshold")  # what only fairseq-eval-lm and speech generation have

EARLY_ERRORS = Patch(
    name="early_errors",
    reason="options that cannot work together, and missing folders, fail after the model is built, by another name or not at all",
)
BF16 = Patch(
    name="bf16",
    reason="the argument parser switches to TPU whenever --bf16 is given, which fails without torch_xla (xla_device)",
    upstream="facebookresearch/fairseq#4696",
)
GENERATION_SHARDS = Patch(
    name="generation_shards",
    reason="fairseq-generate takes --num-shards and --shard-id and decodes the whole set all the same",
)


class MissingData(FileNotFoundError, ValueError):
    """A folder of data is not there: who can do without it catches the one, commands print the other."""


def _value(part: Any, name: str) -> Any:
    if part is None or OmegaConf.is_config(part) and (name not in part or OmegaConf.is_missing(part, name)):
        return None
    return getattr(part, name, None)


def option(cfg: Any, group: str, name: str = "_name") -> Any:
    """Value of an option, or what was chosen of a registry, as ``criterion``; None where there is none.

    ``cfg`` is what ``tasks.setup_task`` gets: the task's part of the whole configuration, or a Namespace that holds all options.
    """
    if isinstance(cfg, Namespace):
        return getattr(cfg, group if name == "_name" else name, None)
    root = cfg._get_root() if OmegaConf.is_config(cfg) else None
    part = cfg if group == "task" else _value(root, group)
    return part if isinstance(part, str) else _value(part, name)


def check_criterion(task_name: Optional[str], criterion_name: Optional[str]) -> None:
    """Refuse a criterion that does not train the task (ValueError). Our tasks let pass what is registered elsewhere."""
    from fairseq.criterions import CRITERION_REGISTRY
    from fairseq.tasks import TASK_REGISTRY

    task, criterion = TASK_REGISTRY.get(task_name), CRITERION_REGISTRY.get(criterion_name)
    if task is None or criterion is None:
        return
    given = f"--criterion {criterion_name} with --task {task_name}"
    trained_by: Tuple[str, ...] = getattr(task, "criterions", ())
    known = criterion.__module__.split(".")[0] in ("fairseq", __name__.split(".")[0])
    if trained_by and known and not issubclass(criterion, tuple(CRITERION_REGISTRY[name] for name in trained_by)):
        raise ValueError(f"{given}: the task is trained with --criterion {' or '.join(trained_by)}")
    trains: Tuple[str, ...] = getattr(criterion, "tasks", ())
    if trains and not issubclass(task, tuple(TASK_REGISTRY[name] for name in trains)):
        raise ValueError(f"{given}: the criterion is for --task {' or '.join(trains)}")


def check_data(cfg: Any) -> None:
    """Look for the folders of the data. ``cfg``: see :func:`option`.

    Raises MissingData: one is not there; ValueError: none is named, for a task that translates or one of this package.
    """
    from fairseq.tasks import TASK_REGISTRY
    from fairseq.tasks.translation import TranslationTask
    from fairseq.utils import split_paths

    task_name, data = option(cfg, "task"), option(cfg, "task", "data")
    task = TASK_REGISTRY.get(task_name)
    own = task is not None and task.__module__.split(".")[0] == __name__.split(".")[0]
    if not data and (own or task is not None and issubclass(task, TranslationTask)):
        raise ValueError(f"--task {task_name} needs a folder of data (task.data), as fairseq-preprocess writes it")
    for path in split_paths(data) if isinstance(data, str) else ():
        if "://" not in path and not os.path.exists(path):
            raise MissingData(f"data folder {path}: is missing; valid: one that fairseq-preprocess wrote")


def check(cfg: Any) -> None:
    """Refuse options of a command that cannot work together (ValueError). ``cfg``: see :func:`option`."""
    check_data(cfg)
    if not option(cfg, "common_eval", "path"):  # commands that read a checkpoint have the default criterion
        check_criterion(option(cfg, "task"), option(cfg, "criterion"))
    bpe, removed = option(cfg, "bpe"), option(cfg, "common_eval", "post_process")
    if bpe and removed:
        raise ValueError(
            f"--bpe {bpe} and --remove-bpe {removed} (--post-process) both join the pieces, and the second would join the words; "
            "valid: one of them"
        )


def check_precision(common: Any) -> None:
    """Refuse a training in half precision on CPU (ValueError). Decoding computes in single precision there."""
    on_cpu = common.cpu or not (torch.cuda.is_available() or common.tpu)
    if on_cpu and common.fp16:
        raise ValueError(
            "--fp16 trains on a GPU, and none is used here (--cpu, or there is none); valid on CPU: --bf16, or neither"
        )


@EARLY_ERRORS.replace("fairseq.distributed.utils:call_main")
def call_main(stock: Any, cfg: Any, main: Any, **kwargs: Any) -> Any:
    """Check a training before its processes start."""
    if not cfg.common_eval.path:
        check_precision(cfg.common)
    return stock(cfg, main, **kwargs)


@EARLY_ERRORS.replace("fairseq.trainer:Trainer.__init__")
def start_trainer(stock: Any, trainer: Any, cfg: Any, *args: Any, **kwargs: Any) -> None:
    """fairseq-hydra-train imports the user dir after its call_main."""
    check_precision(getattr(cfg, "common", cfg))
    stock(trainer, cfg, *args, **kwargs)


@EARLY_ERRORS.replace("fairseq.tasks:setup_task")
def setup_task(stock: Any, cfg: Any, **kwargs: Any) -> Any:
    """Check the options first; those of a checkpoint are of a training that is over."""
    if not kwargs.get("from_checkpoint"):
        check(cfg)
    try:
        return stock(cfg, **kwargs)
    except OSError:  # some tasks do without the folder that a checkpoint was trained on
        check_data(cfg)
        raise


@EARLY_ERRORS.replace("fairseq.file_utils:load_archive_file")
def load_archive_file(stock: Any, archive_file: str) -> str:
    """Refuse what ``from_pretrained`` cannot use."""
    if os.path.isfile(archive_file):  # stock puts the content in the place of the archive, which is gone then
        raise ValueError(f"{archive_file}: is a file; valid: a folder. Unpack an archive yourself and name its folder")
    found = stock(archive_file)
    if found is None:  # from_pretrained would go on with it
        raise ValueError(f"{archive_file}: no such file or folder; valid: the folder of a model, or of its data")
    return str(found)


@BF16.probe
def _bf16_means_tpu() -> bool:
    from fairseq import options

    parser = ArgumentParser()
    for flag in ("--bf16", "--fp16", "--tpu"):
        parser.add_argument(flag, action="store_true")
    parser.set_defaults(batch_size=None)
    return bool(options.parse_args_and_arch(parser, ["--bf16"]).tpu)


@BF16.replace("fairseq.options:parse_args_and_arch")
def free_bf16(
    stock: Any, parser: ArgumentParser, input_args: Optional[Sequence[str]] = None, *args: Any, **kwargs: Any
) -> Any:
    """TPU only where ``--tpu`` asks for it."""
    parsed = stock(parser, input_args, *args, **kwargs)
    namespace = parsed[0] if isinstance(parsed, tuple) else parsed
    asked_for = "--tpu" in (sys.argv[1:] if input_args is None else input_args)
    if getattr(namespace, "bf16", False) and not asked_for:
        namespace.tpu = False
    return parsed


@GENERATION_SHARDS.replace("fairseq.options:parse_args_and_arch")
def heed_shards(stock: Any, *args: Any, **kwargs: Any) -> Any:
    """Set what :func:`take_shard` sets."""
    parsed = stock(*args, **kwargs)
    take_shard(parsed[0] if isinstance(parsed, tuple) else parsed)
    return parsed


def take_shard(args: Namespace) -> None:
    """Let fairseq-generate take one part of the batches, as one of several processes, with a folder under ``--results-path``.

    Raises ValueError: a part that does not exist, or a command that has none.
    """
    shards, shard = getattr(args, "num_shards", 1), getattr(args, "shard_id", 0)
    if (shards, shard) == (1, 0) or any(hasattr(args, option) for option in SHARD_BY_THEMSELVES):
        return
    given = f"--num-shards {shards} --shard-id {shard}"
    if not 0 <= shard < shards:
        raise ValueError(f"{given}: valid: --num-shards of at least 1, --shard-id from 0 to --num-shards - 1")
    if not hasattr(args, "beam") or hasattr(args, "buffer_size"):
        raise ValueError(f"{given}: parts are for fairseq-generate and fairseq-eval-lm; leave the options out here")
    args.distributed_world_size, args.distributed_rank = shards, shard
    if getattr(args, "results_path", None) is not None:
        args.results_path = os.path.join(args.results_path, f"shard{shard}of{shards}")
    logger.info(f"{given}: what is printed, the score included, is of this part alone")


@GENERATION_SHARDS.replace("fairseq.trainer:Trainer.__init__")
def start_whole(stock: Any, trainer: Any, cfg: Any, *args: Any, **kwargs: Any) -> None:
    """Hydra runs have no argument parser, and a training reads the whole set (ValueError)."""
    take_shard(getattr(cfg, "dataset", cfg))
    stock(trainer, cfg, *args, **kwargs)
