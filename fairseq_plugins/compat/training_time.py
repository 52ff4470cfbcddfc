"""Wall time of a run: what was spent on the checkpoint that it starts from does not count for ``--stop-time-hours``."""

import os
from typing import Any

from .patch import Patch, instead_of, is_patched, source_has

NAME = "training_time"
DEFAULT = "checkpoint_last.pt"


def _counts_other_runs() -> bool:
    from fairseq import checkpoint_utils
    from fairseq.trainer import Trainer

    counts = source_has(Trainer.load_checkpoint, 'self._previous_training_time = extra_state["previous_training_time"]')
    return counts and not is_patched(checkpoint_utils.load_checkpoint, NAME)


def _count_own_time() -> None:
    from fairseq import checkpoint_utils

    stock = checkpoint_utils.load_checkpoint

    @instead_of(stock, NAME)
    def load_checkpoint(cfg: Any, trainer: Any, **passthrough_args: Any) -> Any:
        own = os.path.isfile(os.path.join(cfg.save_dir, f"checkpoint_last{trainer.checkpoint_suffix}.pt"))
        restored = cfg.restore_file != DEFAULT and cfg.reset_meters
        starts = restored or (cfg.finetune_from_model is not None and not own)
        state = stock(cfg, trainer, **passthrough_args)
        if starts:
            trainer._previous_training_time = 0
        return state

    checkpoint_utils.load_checkpoint = load_checkpoint


TRAINING_TIME = Patch(
    name=NAME,
    reason="the training time of the model that --finetune-from-model (or --restore-file with --reset-meters) names counts for "
    "--stop-time-hours: fine-tuning stops at once when it is shorter than pre-training was",
    upstream="no report found",
    needed=_counts_other_runs,
    apply=_count_own_time,
)
