"""Which files a run starts from, and which of them need not be opened any more."""

import os
from typing import Any, Optional

DEFAULT = "checkpoint_last.pt"


def started_from(options: Any) -> Optional[str]:
    """What fairseq-train will read: ``--restore-file``, else the run's own last checkpoint, else ``--finetune-from-model``."""
    path = getattr(options, "restore_file", None) or DEFAULT
    if path == DEFAULT:
        last = os.path.join(getattr(options, "save_dir", None) or "", path)
        path = last if os.path.isfile(last) else getattr(options, "finetune_from_model", None) or ""
    return path if os.path.isfile(path) else None


def left_closed(option: str, path: str, options: Any, task: Any) -> Optional[str]:
    """Why a pretrained file is not opened: a checkpoint that is about to be loaded has everything.

    Args:
        option: that names the file, for messages.
        path: of the file.
        options: of the model; those of the command line have ``restore_file`` and ``save_dir`` too, those of a YAML do not.
        task: has ``from_checkpoint`` where the model is built to be filled from a checkpoint; see ``compat.stock_tasks``.

    Returns:
        None where it is to be opened; otherwise why not, for the error of a model that nothing was loaded into.
    """
    if getattr(task, "from_checkpoint", False):
        return f"{option} {path}: was not opened, since the model is read from a checkpoint"
    if not os.path.exists(path):
        return f"{option} {path}: no such file"
    checkpoint = started_from(options) if getattr(options, "save_dir", None) else None
    return checkpoint and f"{option} {path}: was not opened, since {checkpoint} is there to be continued"
