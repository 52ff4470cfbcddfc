"""Load checkpoints that record options of earlier versions of this package."""

from contextlib import nullcontext
from typing import Any, Dict, Tuple

from omegaconf import OmegaConf, open_dict

from .patch import Harm, Patch, source_has

RETIRED: Dict[str, Tuple[str, ...]] = {
    "denoise_start": (),
    "pack_weights": (),
    "glancing": ("sga_ctc", "sga_mask_predict"),
}
"""Option -> the criterions that no longer have it; empty: nothing has it.

0.1.0 is the last version that has them.
"""

RETIRED_OPTIONS = Patch(
    name="retired_options",
    harm=Harm.PAPER_BLOCKED,
    defect="in 0.12.2 a checkpoint that records a retired option cannot be decoded",
    upstream="fixed after 0.12.2: setup_task(from_checkpoint=True)",
)


def drop_retired(cfg: Any) -> Any:
    """Delete the retired options of a stored configuration. Changes and returns ``cfg``."""
    with open_dict(cfg) if OmegaConf.is_config(cfg) else nullcontext():
        for name, criterions in RETIRED.items():
            if name in cfg and (not criterions or getattr(cfg, "_name", None) in criterions):
                delattr(cfg, name)
    return cfg


@RETIRED_OPTIONS.probe
def _refuses_unknown_options() -> bool:
    from fairseq import tasks

    return not source_has(tasks.setup_task, "remove_missing")


@RETIRED_OPTIONS.replace("fairseq.tasks:setup_task")
def setup_task(stock: Any, cfg: Any, **kwargs: Any) -> Any:
    """Set up a task from the options that are left."""
    return stock(drop_retired(cfg), **kwargs)
