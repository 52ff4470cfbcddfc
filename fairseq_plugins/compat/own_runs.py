"""Continue a run that started from another run's checkpoint, and count only the run's own hours.

A task asks for this by two attributes, ``continues_its_own_run`` and ``counts_its_own_hours``.
"""

import logging
import os
from contextlib import contextmanager
from typing import Any, Iterator

from .patch import Harm, Patch
from .starting import DEFAULT, is_last, is_same_run, last_checkpoint

logger = logging.getLogger(__name__)

RESETS = ("reset_optimizer", "reset_lr_scheduler", "reset_meters", "reset_dataloader")

RESTARTED_RUNS = Patch(
    name="restarted_runs",
    harm=Harm.DATA_LOSS,
    defect="a job that is started again reads --restore-file anew, trains from there and "
    "overwrites the checkpoints of the run; for tasks with continues_its_own_run",
)
INHERITED_HOURS = Patch(
    name="inherited_hours",
    harm=Harm.WRONG_RESULT,
    defect="--stop-time-hours counts the hours of the checkpoint that a run starts from, so the "
    "run ends too early; for tasks with counts_its_own_hours",
)


@contextmanager
def temporary_options(cfg: Any, **values: Any) -> Iterator[None]:
    """Set options of a configuration inside a ``with`` block, and restore them at its end."""
    before = {name: getattr(cfg, name) for name in values}
    try:
        for name, value in values.items():
            setattr(cfg, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(cfg, name, value)


@RESTARTED_RUNS.replace("fairseq.checkpoint_utils:load_checkpoint")
def resume_own_run(stock: Any, cfg: Any, trainer: Any, **passthrough_args: Any) -> Any:
    """Resume from the run's newest checkpoint although ``--restore-file`` names another run's.

    A new run starts from ``--restore-file``. Stock reads that file again when the same command is
    restarted.
    """
    last = last_checkpoint(cfg, trainer)
    starts_elsewhere = cfg.restore_file != DEFAULT and not is_same_run(cfg)
    if not (_continues_its_own_run(trainer) and starts_elsewhere and os.path.isfile(last)):
        return stock(cfg, trainer, **passthrough_args)
    start = f"--restore-file {cfg.restore_file} and --reset-*"
    logger.info(f"continuing {last}: {start} only count at the start of the run")
    with temporary_options(cfg, restore_file=DEFAULT, **dict.fromkeys(RESETS, False)):
        return stock(cfg, trainer, **passthrough_args)


@RESTARTED_RUNS.replace("fairseq.trainer:Trainer.load_checkpoint")
def load_with_updates(
    stock: Any,
    trainer: Any,
    filename: str,
    reset_optimizer: bool = False,
    *args: Any,
    **kwargs: Any,
) -> Any:
    """Load a checkpoint; restore the number of updates also if it has no optimizer state.

    Stock reads this number only together with the optimizer's state, which
    ``--no-save-optimizer-state`` leaves out, so a resumed run would start again at update 0. It is
    restored only from checkpoints of the same run.
    """
    extra_state = stock(trainer, filename, reset_optimizer, *args, **kwargs)
    is_resumed = is_last(trainer, filename) or is_same_run(trainer.cfg.checkpoint)
    keeps_updates = _continues_its_own_run(trainer) and not reset_optimizer
    if extra_state is not None and is_resumed and keeps_updates:
        _restore_updates(trainer, filename)
    return extra_state


@INHERITED_HOURS.replace("fairseq.trainer:Trainer.load_checkpoint")
def load_without_hours(stock: Any, trainer: Any, filename: str, *args: Any, **kwargs: Any) -> Any:
    """Load a checkpoint; with ``--reset-meters``, forget the hours of another run.

    Stock adds the hours in the checkpoint to those that ``--stop-time-hours`` limits, also with
    ``--reset-meters``, which ``--finetune-from-model`` implies.
    """
    extra_state = stock(trainer, filename, *args, **kwargs)
    counts_its_own_hours = getattr(trainer.task, "counts_its_own_hours", False)
    is_start = kwargs.get("reset_meters") and not is_last(trainer, filename)
    if extra_state is not None and counts_its_own_hours and is_start:
        trainer._previous_training_time = 0
    return extra_state


def _continues_its_own_run(trainer: Any) -> bool:
    return getattr(trainer.task, "continues_its_own_run", False)


def _restore_updates(trainer: Any, path: str) -> None:
    """Restore updates and learning rate from the history in a checkpoint without optimizer state.

    fairseq appends an entry with both to ``optimizer_history`` at each save.
    """
    history = trainer._optim_history or []
    updates = history[-1].get("num_updates", 0) if history else 0
    if updates <= trainer.get_num_updates():
        return  # stock has restored them with the optimizer's state
    schedule = history[-1].get("lr_scheduler_state")
    if schedule:  # an imported checkpoint has none
        trainer.lr_scheduler.load_state_dict(schedule)
    trainer.set_num_updates(updates)
    logger.warning(
        f"{path} holds no optimizer (--no-save-optimizer-state): going on at update {updates} of "
        f"the schedule (learning rate {trainer.get_lr():g}), but the optimizer's moments are lost "
        "and build up again"
    )
