"""Refuse to start from a file that is missing, and to train on when a finished run is restarted."""

import logging
import math
import os
import sys
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Optional

from .patch import Harm, Patch, source_has

logger = logging.getLogger(__name__)

DEFAULT = "checkpoint_last.pt"
"""Default of ``--restore-file``."""
RUN_PREFIXES = ("checkpoint", "average")
"""Beginnings of the names of a run's own checkpoints."""
PATIENCE = "early_stop"
"""Key of the counter of ``--patience`` in a checkpoint's extra state."""
SECONDS_PER_HOUR = 3600

MISSING_START = Patch(
    name="missing_start",
    harm=Harm.WRONG_RESULT,
    defect="a --restore-file or --finetune-from-model that is missing or a folder is logged, and "
    "training starts from random values with exit status 0",
)
FINISHED_RUNS = Patch(
    name="finished_runs",
    harm=Harm.WRONG_RESULT,
    defect="a run that has ended and is started again makes one more update (--max-update, "
    "--stop-time-hours) or goes on (--patience)",
)


def last_checkpoint(cfg: Any, trainer: Any) -> str:
    """Return the path of a run's newest checkpoint.

    Args:
        cfg: part ``checkpoint`` of fairseq's configuration.
        trainer: fairseq's trainer, whose processes may each write a file with a suffix.
    """
    return os.path.join(cfg.save_dir, f"checkpoint_last{trainer.checkpoint_suffix}.pt")


def is_last(trainer: Any, filename: str) -> bool:
    """Return True if a file is the newest checkpoint of the run; it need not exist yet."""
    last = last_checkpoint(trainer.cfg.checkpoint, trainer)
    return os.path.abspath(filename) == os.path.abspath(last)


def is_same_run(cfg: Any) -> bool:
    """Return True if ``--restore-file`` names a checkpoint of the same run in ``--save-dir``.

    The file's name decides, because a pretrained ``model.pt`` may lie in the same folder.
    """
    folder, name = os.path.split(os.path.abspath(cfg.restore_file))
    in_save_dir = folder == os.path.abspath(cfg.save_dir)
    return cfg.restore_file != DEFAULT and in_save_dir and name.startswith(RUN_PREFIXES)


@MISSING_START.probe
def _starts_from_nothing() -> bool:
    """Return True if fairseq only logs that a checkpoint is missing."""
    from fairseq.trainer import Trainer

    return source_has(Trainer.load_checkpoint, 'logger.info("No existing checkpoint found {}"')


@MISSING_START.replace("fairseq.trainer:Trainer.load_checkpoint")
def load_checkpoint(stock: Any, trainer: Any, filename: str, *args: Any, **kwargs: Any) -> Any:
    """Load a checkpoint.

    Raises:
        ValueError: the file is missing or a folder. Only ``checkpoint_last.pt`` may be missing: a
            new run has none.
    """
    from fairseq.file_io import PathManager

    exists = PathManager.exists(filename)
    if not PathManager.isfile(filename) and (exists or not is_last(trainer, filename)):
        fault = "a folder" if exists else "no such file"
        raise _missing_file(trainer.cfg.checkpoint, filename, fault)
    return stock(trainer, filename, *args, **kwargs)


def _missing_file(cfg: Any, filename: str, fault: str) -> ValueError:
    """Build the error that names the option of the file."""
    options = {getattr(cfg, name, None): name for name in ("continue_once", "finetune_from_model")}
    option = options.get(filename, "restore_file").replace("_", "-")
    in_save_dir = os.path.join(cfg.save_dir, filename)
    hint = f" (as {in_save_dir}?)" if os.path.isfile(in_save_dir) else ""
    return ValueError(
        f"--{option} {filename}: {fault}; training would start from random values. "
        f"Valid: an existing checkpoint{hint}, or no --{option}"
    )


@FINISHED_RUNS.probe
def _trains_once_more() -> bool:
    """Return True if fairseq-train tests only epochs and learning rate before it trains.

    The test of ``--max-update`` and ``--stop-time-hours`` then comes after the first update.
    """
    spec = find_spec("fairseq_cli.train")  # read, not imported: its import sets up logging
    source = Path(spec.origin).read_text(encoding="utf-8") if spec and spec.origin else ""
    loop = "while epoch_itr.next_epoch_idx <= max_epoch: if lr <= cfg.optimization.stop_min_lr:"
    return "".join(loop.split()) in "".join(source.split())


@FINISHED_RUNS.replace("fairseq.checkpoint_utils:load_checkpoint")
def load_and_end(stock: Any, cfg: Any, trainer: Any, **passthrough_args: Any) -> Any:
    """Load the checkpoint of a run; if the run has ended, let fairseq-train train nothing.

    fairseq-train trains while the number of the next epoch is at most ``--max-epoch``. The number
    returned for an ended run is nan, for which that test is False, also without ``--max-epoch``.
    """
    continues = os.path.isfile(last_checkpoint(cfg, trainer)) or is_same_run(cfg)
    extra_state, epoch_itr = stock(cfg, trainer, **passthrough_args)
    if not continues or extra_state is None:
        return extra_state, epoch_itr
    if not cfg.reset_meters:
        _restore_patience(extra_state.get(PATIENCE))
    reason = _reached_limit(trainer, epoch_itr)
    if reason:
        outcome = "nothing is trained, its files stay as they are"
        logger.info(f"the run in {cfg.save_dir} has ended before: {reason}; {outcome}")
        epoch_itr = SimpleNamespace(next_epoch_idx=math.nan)
    return extra_state, epoch_itr


@FINISHED_RUNS.replace("fairseq.trainer:Trainer.state_dict")
def state_dict(stock: Any, trainer: Any) -> Any:
    """Store the counter of ``--patience`` in the checkpoint."""
    state = stock(trainer)
    counter = _patience_counter()
    if getattr(counter, "best", None) is not None:
        record = {"best": float(counter.best), "num_runs": int(counter.num_runs)}
        state["extra_state"][PATIENCE] = record
    return state


def _patience_counter() -> Any:
    """Return the function that counts for ``--patience``; None outside fairseq-train.

    fairseq-train's ``should_stop_early`` stores the best score and the validations since then as
    attributes of itself. Its module has another name when it is run as a script.
    """
    for name in ("__main__", "__mp_main__", "fairseq_cli.train"):
        counter = getattr(sys.modules.get(name), "should_stop_early", None)
        if counter is not None:
            return counter
    return None


def _restore_patience(record: Any) -> None:
    """Set the counter to a record of :func:`state_dict`; reset it if there is no record."""
    counter = _patience_counter()
    if counter is None:
        return
    if record:
        counter.best, counter.num_runs = record["best"], record["num_runs"]
    else:  # another run of this process may have counted
        counter.best, counter.num_runs = None, 0


def _reached_limit(trainer: Any, epoch_itr: Any) -> Optional[str]:
    """Describe the limit that a run has reached; None if it has reached none.

    Every process of a job gets the same result. fairseq itself tests ``--stop-min-lr`` in time.
    """
    limits, patience = trainer.cfg.optimization, trainer.cfg.checkpoint.patience
    hours = trainer._previous_training_time / SECONDS_PER_HOUR
    if trainer.get_num_updates() >= (limits.max_update or math.inf):
        return f"{trainer.get_num_updates()} updates, --max-update {limits.max_update}"
    if epoch_itr.next_epoch_idx > (limits.max_epoch or math.inf):
        return f"{epoch_itr.next_epoch_idx - 1} epochs, --max-epoch {limits.max_epoch}"
    if 0 < limits.stop_time_hours < hours:
        return f"{hours:.2f} hours, --stop-time-hours {limits.stop_time_hours}"
    validations = getattr(_patience_counter(), "num_runs", 0)
    if 0 < patience <= validations:
        return f"{validations} validations without a better result, --patience {patience}"
    return None
