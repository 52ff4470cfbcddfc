"""What a run starts from: a task that asks for it continues its own run instead of reading ``--restore-file`` again, and a file
that is not there is refused."""

import logging
import os
from contextlib import contextmanager
from typing import Any, Iterator

from .patch import Patch, instead_of, is_patched, source_has

logger = logging.getLogger(__name__)

NAME, NAME_START = "own_run", "missing_start"
DEFAULT = "checkpoint_last.pt"
OWN = ("checkpoint", "average")
"""How the names of a run's own files begin."""
RESETS = ("reset_optimizer", "reset_lr_scheduler", "reset_meters", "reset_dataloader")


def _starts_over() -> bool:
    from fairseq import checkpoint_utils

    stock = checkpoint_utils.load_checkpoint
    return not is_patched(stock, NAME) and source_has(stock, "checkpoint_path = cfg.restore_file")


def _continue_own_runs() -> None:
    from fairseq import checkpoint_utils

    stock = checkpoint_utils.load_checkpoint

    @instead_of(stock, NAME)
    def load_checkpoint(cfg: Any, trainer: Any, **passthrough_args: Any) -> Any:
        last = last_checkpoint(cfg, trainer)
        if not _asks(trainer) or not os.path.isfile(last):
            return stock(cfg, trainer, **passthrough_args)
        if continues_its_run(cfg, trainer):
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


def last_checkpoint(cfg: Any, trainer: Any) -> str:
    """The path of a run's own newest checkpoint."""
    return os.path.join(cfg.save_dir, f"checkpoint_last{trainer.checkpoint_suffix}.pt")


def continues_its_run(cfg: Any, trainer: Any) -> bool:
    """True where --restore-file and --reset-* were for the start of a run that is now continued."""
    asks = _asks(trainer) and cfg.restore_file != DEFAULT and not is_own(cfg)
    return asks and os.path.isfile(last_checkpoint(cfg, trainer))


def _asks(trainer: Any) -> bool:
    return getattr(trainer.task, "continues_its_own_run", False)


def is_own(cfg: Any) -> bool:
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


def _starts_from_nothing() -> bool:
    from fairseq.trainer import Trainer

    stock = Trainer.load_checkpoint
    return not is_patched(stock, NAME_START) and source_has(stock, 'logger.info("No existing checkpoint found {}"')


def _refuse_missing() -> None:
    from fairseq.file_io import PathManager
    from fairseq.trainer import Trainer

    stock = Trainer.load_checkpoint

    @instead_of(stock, NAME_START)
    def load_checkpoint(self: Any, filename: str, *args: Any, **kwargs: Any) -> Any:
        cfg = self.cfg.checkpoint
        own = os.path.abspath(filename) == os.path.abspath(last_checkpoint(cfg, self))
        optional = own and not PathManager.exists(filename)
        if not optional and not PathManager.isfile(filename):
            raise ValueError(_missing(cfg, filename, "a folder" if PathManager.exists(filename) else "no such file"))
        return stock(self, filename, *args, **kwargs)

    Trainer.load_checkpoint = load_checkpoint


def _missing(cfg: Any, filename: str, found: str) -> str:
    others = {getattr(cfg, name, None): name.replace("_", "-") for name in ("continue_once", "finetune_from_model")}
    option = others.get(filename, "restore-file")
    beside = os.path.join(cfg.save_dir, filename)
    hint = f" (as {beside}?)" if os.path.isfile(beside) else ""
    return (
        f"--{option} {filename}: {found}; training would start from random values. Valid: an existing checkpoint{hint}, or no "
        f"--{option}"
    )


OWN_RUN = Patch(
    name=NAME,
    reason="a restarted job reads --restore-file again and starts over; without the optimizer's state the number of updates and "
    "the warm-up start over too; patched for tasks that set continues_its_own_run",
    upstream="facebookresearch/fairseq#3641 (updates); no report of the restart found",
    needed=_starts_over,
    apply=_continue_own_runs,
)
MISSING_START = Patch(
    name=NAME_START,
    reason="a --restore-file or --finetune-from-model that is missing or a folder is logged, and training starts from random "
    "values with exit status 0",
    upstream="no report found",
    needed=_starts_from_nothing,
    apply=_refuse_missing,
)
