"""Tasks whose runs start from the checkpoint of another run: what of it counts, and how such a run is continued."""

import logging
import os
from contextlib import contextmanager
from typing import Any, Dict, Iterator

from fairseq.tasks import FairseqTask

from ..compat.patch import is_patched, put_instead
from ..compat.starting import DEFAULT, is_own, last_checkpoint

logger = logging.getLogger(__name__)

NAME = "own_run"
RESETS = ("reset_optimizer", "reset_lr_scheduler", "reset_meters", "reset_dataloader")


class OwnRun(FairseqTask):
    """Base of such tasks; stands before the stock task. fairseq's functions are replaced when the first of them is made.

    ``--stop-time-hours`` counts the hours of the run alone, not those of the checkpoint that ``--finetune-from-model``, or
    ``--restore-file`` with ``--reset-meters``, names.
    """

    continues_its_own_run = False
    """True: a restarted run goes on from its own ``checkpoint_last.pt``, where stock would read ``--restore-file`` again; and
    without the optimizer's state in it (--no-save-optimizer-state), from its number of updates."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        for target, function in HOOKS.items():
            if not is_patched(target, NAME):
                put_instead(target, function, NAME)
        super().__init__(*args, **kwargs)


def load_checkpoint(stock: Any, cfg: Any, trainer: Any, **passthrough_args: Any) -> Any:
    """Resume from the run's own last checkpoint where the options would start over."""
    last = last_checkpoint(cfg, trainer)
    elsewhere = cfg.restore_file != DEFAULT and not is_own(cfg)
    if not (getattr(trainer.task, "continues_its_own_run", False) and elsewhere and os.path.isfile(last)):
        return stock(cfg, trainer, **passthrough_args)
    logger.info(f"continuing {last}: --restore-file {cfg.restore_file} and --reset-* were for the run's start")
    with changed(cfg, restore_file=DEFAULT, **dict.fromkeys(RESETS, False)):
        return stock(cfg, trainer, **passthrough_args)


@contextmanager
def changed(cfg: Any, **values: Any) -> Iterator[None]:
    """Set options for the length of a block: stock code reads them from the config."""
    before = {name: getattr(cfg, name) for name in values}
    try:
        for name, value in values.items():
            setattr(cfg, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(cfg, name, value)


def read_into_trainer(
    stock: Any, trainer: Any, filename: str, reset_optimizer: bool = False, *args: Any, **kwargs: Any
) -> Any:
    extra_state = stock(trainer, filename, reset_optimizer, *args, **kwargs)
    if not isinstance(trainer.task, OwnRun) or extra_state is None:
        return extra_state
    cfg = trainer.cfg.checkpoint
    own = os.path.abspath(filename) == os.path.abspath(last_checkpoint(cfg, trainer))
    if kwargs.get("reset_meters") and not own:
        trainer._previous_training_time = 0
    if trainer.task.continues_its_own_run and not reset_optimizer and (own or is_own(cfg)):
        _restore_updates(trainer, filename)
    return extra_state


def _restore_updates(trainer: Any, path: str) -> None:
    """Where the checkpoint has no optimizer, take the number of updates and the schedule from its history."""
    history = trainer._optim_history or []
    updates = history[-1].get("num_updates", 0) if history else 0
    if updates <= trainer.get_num_updates():
        return
    trainer.lr_scheduler.load_state_dict(history[-1].get("lr_scheduler_state") or {})
    trainer.set_num_updates(updates)
    logger.warning(
        f"{path} holds no optimizer (--no-save-optimizer-state): going on at update {updates} of the schedule (learning rate "
        f"{trainer.get_lr():g}), but the optimizer's moments are lost and build up again"
    )


HOOKS: Dict[str, Any] = {
    "fairseq.checkpoint_utils:load_checkpoint": load_checkpoint,
    "fairseq.trainer:Trainer.load_checkpoint": read_into_trainer,
}
