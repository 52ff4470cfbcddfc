"""Options that cannot work together are refused before a dictionary is read: in every stock command, hydra's included.

A task may name the criterions that train it (``criterions``), a criterion the tasks that it trains (``tasks``).
"""

import os
from argparse import Namespace
from typing import Any, Optional, Tuple

import torch
from omegaconf import OmegaConf

from .patch import Patch, instead_of, is_patched

NAME = "early_errors"


class MissingData(FileNotFoundError, ValueError):
    """A folder of data is not there: who can do without it catches the one, commands print the other."""


class Options:
    """The options of a command as its task is set up with them.

    Args:
        cfg: what ``tasks.setup_task`` gets: a part of the whole configuration, or a Namespace that holds all options.
    """

    def __init__(self, cfg: Any):
        self.cfg = cfg
        self.whole = cfg._get_root() if OmegaConf.is_config(cfg) else None

    def get(self, group: str, name: str) -> Any:
        """Value of an option; None where it is missing or the command has no such option."""
        if isinstance(self.cfg, Namespace):
            return getattr(self.cfg, name, None)
        return None if self.whole is None else _value(_value(self.whole, group), name)

    def chosen(self, kind: str) -> Optional[str]:
        """What was chosen of a registry, as ``criterion``."""
        if isinstance(self.cfg, Namespace):
            return getattr(self.cfg, kind, None)
        part = self.cfg if kind == "task" else _value(self.whole, kind)
        return part if isinstance(part, str) else _value(part, "_name")

    @property
    def data(self) -> Any:
        """The folders of the data."""
        return _value(self.cfg, "data")


def _value(part: Any, name: str) -> Any:
    if part is None or OmegaConf.is_config(part) and (name not in part or OmegaConf.is_missing(part, name)):
        return None
    return getattr(part, name, None)


def check_criterion(task_name: Optional[str], criterion_name: Optional[str]) -> None:
    """Compare what task and criterion name. One that is registered elsewhere is let pass by the tasks of this package.

    Raises:
        ValueError: the criterion does not train the task.
    """
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


def check_data(task_name: Optional[str], data: Any) -> None:
    """Look for the folders of the data.

    Raises:
        MissingData: one is not there.
        ValueError: none is named, for a task that translates or one of this package.
    """
    from fairseq.tasks import TASK_REGISTRY
    from fairseq.tasks.translation import TranslationTask
    from fairseq.utils import split_paths

    task = TASK_REGISTRY.get(task_name)
    own = task is not None and task.__module__.split(".")[0] == __name__.split(".")[0]
    if not data and (own or task is not None and issubclass(task, TranslationTask)):
        raise ValueError(
            f"--task {task_name} needs a folder of data (task.data): the one that fairseq-preprocess wrote"
        )
    for path in split_paths(data) if isinstance(data, str) else ():
        if "://" not in path and not os.path.exists(path):
            raise MissingData(f"data folder {path}: is missing; valid: one that fairseq-preprocess wrote")


def check(cfg: Any, from_checkpoint: bool) -> None:
    """Refuse what cannot work.

    Args:
        cfg: see :class:`Options`.
        from_checkpoint: the options are those of a checkpoint, of a training that is over.

    Raises:
        ValueError: naming options, values and what is valid.
    """
    options = Options(cfg)
    task_name = options.chosen("task")
    if from_checkpoint:
        return
    check_data(task_name, options.data)
    if not options.get("common_eval", "path"):  # commands that read a checkpoint have the default criterion
        check_criterion(task_name, options.chosen("criterion"))
    bpe, removed = options.chosen("bpe"), options.get("common_eval", "post_process")
    if bpe and removed:
        raise ValueError(
            f"--bpe {bpe} and --remove-bpe {removed} (--post-process) both join the pieces, and the second would join the words; "
            "valid: one of them"
        )


def check_precision(common: Any) -> None:
    """Refuse a training in half precision on CPU. Decoding computes in single precision there.

    Args:
        common: the options ``fp16``, ``cpu`` and ``tpu``.

    Raises:
        ValueError: see :func:`check`.
    """
    on_cpu = common.cpu or not (torch.cuda.is_available() or common.tpu)
    if on_cpu and common.fp16:
        raise ValueError(
            "--fp16 trains on a GPU, and none is used here (--cpu, or there is none); valid on CPU: --bf16, or neither"
        )


def _checks_nothing() -> bool:
    from fairseq import tasks

    return not is_patched(tasks.setup_task, NAME)


def _check_early() -> None:
    from fairseq import file_utils, tasks
    from fairseq.distributed import utils
    from fairseq.trainer import Trainer

    setup, load_archive = tasks.setup_task, file_utils.load_archive_file
    call, trainer = utils.call_main, Trainer.__init__

    @instead_of(call, NAME)
    def call_main(cfg: Any, main: Any, **kwargs: Any) -> Any:
        if not cfg.common_eval.path:
            check_precision(cfg.common)
        return call(cfg, main, **kwargs)

    @instead_of(trainer, NAME)
    def __init__(self: Any, cfg: Any, *args: Any, **kwargs: Any) -> None:
        check_precision(getattr(cfg, "common", cfg))  # fairseq-hydra-train imports the user dir after its call_main
        trainer(self, cfg, *args, **kwargs)

    @instead_of(setup, NAME)
    def setup_task(cfg: Any, **kwargs: Any) -> Any:
        check(cfg, bool(kwargs.get("from_checkpoint")))
        try:
            return setup(cfg, **kwargs)
        except OSError:  # some tasks do without the folder that a checkpoint was trained on
            options = Options(cfg)
            check_data(options.chosen("task"), options.data)
            raise

    @instead_of(load_archive, NAME)
    def load_archive_file(archive_file: str) -> str:
        if os.path.isfile(archive_file):  # stock puts the content in the place of the archive, which is gone then
            raise ValueError(
                f"{archive_file}: is a file; valid: a folder. Unpack an archive yourself and name its folder"
            )
        found = load_archive(archive_file)
        if found is None:  # from_pretrained would go on with it
            raise ValueError(f"{archive_file}: no such file or folder; valid: the folder of a model, or of its data")
        return str(found)

    tasks.setup_task, utils.call_main, Trainer.__init__ = setup_task, call_main, __init__
    file_utils.load_archive_file = load_archive_file


EARLY_ERRORS = Patch(
    name=NAME,
    reason="options that cannot work together, and missing folders, fail after the model is built, by another name or not at all",
    upstream="no report found",
    needed=_checks_nothing,
    apply=_check_early,
)
