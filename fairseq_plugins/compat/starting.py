"""What a run starts from: its own files, or one that must be there; a run that is over does nothing when it is started again,
whatever ended it, and ``--patience`` counts on where it was."""

import logging
import math
import os
import sys
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Optional

from .patch import Patch, source_has

logger = logging.getLogger(__name__)

DEFAULT = "checkpoint_last.pt"  # of --restore-file
_OWN = ("checkpoint", "average")
PATIENCE = "early_stop"  # where a checkpoint's extra state keeps what --patience has counted
SECONDS_PER_HOUR = 3600

MISSING_START = Patch(
    name="missing_start",
    reason="a --restore-file or --finetune-from-model that is missing or a folder is logged, and training starts from random "
    "values with exit status 0",
)
FINISHED_RUNS = Patch(
    name="finished_runs",
    reason="a run that has ended and is started again makes one more update (--max-update, --stop-time-hours) or goes on "
    "(--patience)",
)


def last_checkpoint(cfg: Any, trainer: Any) -> str:
    """The path of a run's own newest checkpoint."""
    return os.path.join(cfg.save_dir, f"checkpoint_last{trainer.checkpoint_suffix}.pt")


def is_own(cfg: Any) -> bool:
    """True where ``--restore-file`` names a checkpoint of the same run: somebody goes back to it.

    By its name: a pretrained ``model.pt`` may lie in the folder of the run.
    """
    folder, name = os.path.split(os.path.abspath(cfg.restore_file))
    return cfg.restore_file != DEFAULT and folder == os.path.abspath(cfg.save_dir) and name.startswith(_OWN)


@MISSING_START.probe
def _starts_from_nothing() -> bool:
    from fairseq.trainer import Trainer

    return source_has(Trainer.load_checkpoint, 'logger.info("No existing checkpoint found {}"')


@MISSING_START.replace("fairseq.trainer:Trainer.load_checkpoint")
def load_checkpoint(stock: Any, trainer: Any, filename: str, *args: Any, **kwargs: Any) -> Any:
    """Refuse any missing file but the run's own newest checkpoint, which a new run does not have."""
    from fairseq.file_io import PathManager

    cfg = trainer.cfg.checkpoint
    own = os.path.abspath(filename) == os.path.abspath(last_checkpoint(cfg, trainer))
    there = PathManager.exists(filename)
    if not PathManager.isfile(filename) and (there or not own):
        others = {getattr(cfg, name, None): name.replace("_", "-") for name in ("continue_once", "finetune_from_model")}
        option, beside = others.get(filename, "restore-file"), os.path.join(cfg.save_dir, filename)
        hint = f" (as {beside}?)" if os.path.isfile(beside) else ""
        raise ValueError(
            f"--{option} {filename}: {'a folder' if there else 'no such file'}; training would start from random values. Valid: an "
            f"existing checkpoint{hint}, or no --{option}"
        )
    return stock(trainer, filename, *args, **kwargs)


@FINISHED_RUNS.probe
def _trains_once_more() -> bool:
    spec = find_spec("fairseq_cli.train")  # not imported: that sets up logging
    source = Path(spec.origin).read_text(encoding="utf-8") if spec and spec.origin else ""
    loop = "while epoch_itr.next_epoch_idx <= max_epoch: if lr <= cfg.optimization.stop_min_lr:"
    return "".join(loop.split()) in "".join(source.split())


@FINISHED_RUNS.replace("fairseq.checkpoint_utils:load_checkpoint")
def load_and_end(stock: Any, cfg: Any, trainer: Any, **passthrough_args: Any) -> Any:
    """Let fairseq's loop over the epochs end before it begins."""
    own = os.path.isfile(last_checkpoint(cfg, trainer)) or is_own(cfg)
    extra_state, epoch_itr = stock(cfg, trainer, **passthrough_args)
    if not own or extra_state is None:
        return extra_state, epoch_itr
    if not cfg.reset_meters:
        _count_on(extra_state.get(PATIENCE))
    reason = _ended_by(trainer, epoch_itr)
    if reason:
        logger.info(
            f"the run in {cfg.save_dir} has ended before: {reason}; nothing is trained, its files stay as they are"
        )
        epoch_itr = SimpleNamespace(next_epoch_idx=math.nan)  # below no --max-epoch, not even without one
    return extra_state, epoch_itr


@FINISHED_RUNS.replace("fairseq.trainer:Trainer.state_dict")
def state_dict(stock: Any, trainer: Any) -> Any:
    """Keep what ``--patience`` has counted."""
    state = stock(trainer)
    counter = _counter()
    if getattr(counter, "best", None) is not None:
        state["extra_state"][PATIENCE] = {"best": float(counter.best), "num_runs": int(counter.num_runs)}
    return state


def _counter() -> Any:
    """fairseq's function that counts for ``--patience``, in attributes of its own: of the command that runs."""
    modules = (sys.modules.get(name) for name in ("__main__", "__mp_main__", "fairseq_cli.train"))
    return next(filter(None, (getattr(module, "should_stop_early", None) for module in modules)), None)


def _count_on(record: Any) -> None:
    counter = _counter()
    if counter is not None:  # without a record it starts anew: another run of this process may have counted
        counter.best, counter.num_runs = (record["best"], record["num_runs"]) if record else (None, 0)


def _ended_by(trainer: Any, epoch_itr: Any) -> Optional[str]:
    """The option that a run has reached, in words; None for one that goes on. The same in every process of a job."""
    limits, patience = trainer.cfg.optimization, trainer.cfg.checkpoint.patience
    hours = trainer._previous_training_time / SECONDS_PER_HOUR
    if trainer.get_num_updates() >= (limits.max_update or math.inf):
        return f"{trainer.get_num_updates()} updates, --max-update {limits.max_update}"
    if epoch_itr.next_epoch_idx > (limits.max_epoch or math.inf):
        return f"{epoch_itr.next_epoch_idx - 1} epochs, --max-epoch {limits.max_epoch}"
    if 0 < limits.stop_time_hours < hours:
        return f"{hours:.2f} hours, --stop-time-hours {limits.stop_time_hours}"
    runs = getattr(_counter(), "num_runs", 0)
    if 0 < patience <= runs:
        return f"{runs} validations without a better result, --patience {patience}"
    return None  # --stop-min-lr: fairseq itself looks before it trains
