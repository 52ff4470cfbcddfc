"""Runs that are over: started again, they do nothing, whatever ended them; ``--patience`` counts on where it was."""

import logging
import math
import os
import sys
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Optional

from .patch import Patch
from .starting import is_own, last_checkpoint

logger = logging.getLogger(__name__)

PATIENCE = "early_stop"
"""Where a checkpoint's extra state keeps what ``--patience`` has counted."""
SECONDS_PER_HOUR = 3600

FINISHED_RUNS = Patch(
    name="finished_runs",
    reason="a run that has ended and is started again makes one more update (--max-update, --stop-time-hours) or goes on "
    "(--patience)",
)


@FINISHED_RUNS.probe
def _trains_once_more() -> bool:
    spec = find_spec("fairseq_cli.train")  # not imported: that sets up logging
    source = Path(spec.origin).read_text(encoding="utf-8") if spec and spec.origin else ""
    loop = "while epoch_itr.next_epoch_idx <= max_epoch: if lr <= cfg.optimization.stop_min_lr:"
    return "".join(loop.split()) in "".join(source.split())


@FINISHED_RUNS.replace("fairseq.checkpoint_utils:load_checkpoint")
def load_checkpoint(stock: Any, cfg: Any, trainer: Any, **passthrough_args: Any) -> Any:
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
