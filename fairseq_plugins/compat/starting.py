"""What a run starts from: which files are its own, and a file that is missing is refused."""

import os
from typing import Any

from .patch import Patch, source_has

DEFAULT = "checkpoint_last.pt"
"""Of ``--restore-file``."""
_OWN = ("checkpoint", "average")

MISSING_START = Patch(
    name="missing_start",
    reason="a --restore-file or --finetune-from-model that is missing or a folder is logged, and training starts from random "
    "values with exit status 0",
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
    optional = own and not PathManager.exists(filename)
    if not optional and not PathManager.isfile(filename):
        raise ValueError(_missing(cfg, filename, "a folder" if PathManager.exists(filename) else "no such file"))
    return stock(trainer, filename, *args, **kwargs)


def _missing(cfg: Any, filename: str, found: str) -> str:
    others = {getattr(cfg, name, None): name.replace("_", "-") for name in ("continue_once", "finetune_from_model")}
    option = others.get(filename, "restore-file")
    beside = os.path.join(cfg.save_dir, filename)
    hint = f" (as {beside}?)" if os.path.isfile(beside) else ""
    return (
        f"--{option} {filename}: {found}; training would start from random values. Valid: an existing checkpoint{hint}, or no "
        f"--{option}"
    )
