"""Restarted jobs: a task that asks for it continues its own run instead of reading ``--restore-file`` again."""

import logging
import os
from contextlib import contextmanager
from typing import Any, Iterator

from .mend import Mend, instead_of, is_mended, source_has

logger = logging.getLogger(__name__)

NAME = "own_run"
DEFAULT = "checkpoint_last.pt"
OWN = ("checkpoint", "average")
"""How the names of a run's own files begin."""
RESETS = ("reset_optimizer", "reset_lr_scheduler", "reset_meters", "reset_dataloader")


def _starts_over() -> bool:
    from fairseq import checkpoint_utils

    stock = checkpoint_utils.load_checkpoint
    return not is_mended(stock, NAME) and source_has(stock, "checkpoint_path = cfg.restore_file")


def _continue_own_runs() -> None:
    from fairseq import checkpoint_utils

    stock = checkpoint_utils.load_checkpoint

    @instead_of(stock, NAME)
    def load_checkpoint(cfg: Any, trainer: Any, **passthrough_args: Any) -> Any:
        if not getattr(trainer.task, "continues_its_own_run", False):
            return stock(cfg, trainer, **passthrough_args)
        last = os.path.join(cfg.save_dir, f"checkpoint_last{trainer.checkpoint_suffix}.pt")
        if not os.path.isfile(last):
            if cfg.restore_file != DEFAULT and not os.path.isfile(cfg.restore_file):
                raise ValueError(
                    f"--restore-file {cfg.restore_file}: no such file; training would start from random values. Valid: an existing "
                    "checkpoint, or no --restore-file"
                )
            return stock(cfg, trainer, **passthrough_args)
        if cfg.restore_file != DEFAULT and not _is_own(cfg):
            logger.info(f"continuing {last}: --restore-file {cfg.restore_file} and --reset-* were for the run's start")
            with _plain_resume(cfg):
                state = stock(cfg, trainer, **passthrough_args)
                _restore_updates(trainer, last)
            return state
        state = stock(cfg, trainer, **passthrough_args)
        if not cfg.reset_optimizer:
            _restore_updates(trainer, last)
        return state

    checkpoint_utils.load_checkpoint = load_checkpoint


def _is_own(cfg: Any) -> bool:
    """True where --restore-file is another checkpoint of the same run: somebody goes back to it.

    By its name: a pretrained ``model.pt`` may lie in the folder of the run.
    """
    folder, name = os.path.split(os.path.abspath(cfg.restore_file))
    return folder == os.path.abspath(cfg.save_dir) and name.startswith(OWN)


@contextmanager
def _plain_resume(cfg: Any) -> Iterator[None]:
    """The options as if no --restore-file and nothing to reset had been given."""
    given = {name: getattr(cfg, name) for name in ("restore_file", *RESETS)}
    try:
        cfg.restore_file = DEFAULT
        for name in RESETS:
            setattr(cfg, name, False)
        yield
    finally:
        for name, value in given.items():
            setattr(cfg, name, value)


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


OWN_RUN = Mend(
    name=NAME,
    reason="a restarted job reads --restore-file again and starts over; without the optimizer's state the number of updates and "
    "the warm-up start over too; mended for tasks that set continues_its_own_run",
    upstream="facebookresearch/fairseq#3641 (updates); no report of the restart found",
    needed=_starts_over,
    apply=_continue_own_runs,
)
