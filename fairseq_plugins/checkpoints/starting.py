"""What a run starts from: which of its files are opened, and whether the languages have the order of the run before."""

import logging
import os
from typing import Any, Dict, Optional, Sequence

from .encoder_languages import stock_languages
from .reading import read_checkpoint

logger = logging.getLogger(__name__)

KEY = "languages"  # in the state of a task, which checkpoints keep
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


def language_state(langs: Sequence[str]) -> Dict[str, Any]:
    """What the state of a task keeps of its languages."""
    return {KEY: {"langs": [str(language) for language in langs]}}


def compare_order(langs: Sequence[str], trained: Optional[Sequence[str]], origin: str) -> None:
    """Raise ValueError where ``--langs`` are not the languages of a checkpoint, in their order, which the rows of their ids follow.

    ``trained``: None = the checkpoint does not tell, which is logged.
    """
    if trained is None:
        logger.warning("%s does not tell its languages: --langs must have them in the order of its training", origin)
    elif list(trained) != list(langs):
        raise ValueError(
            f"--langs {','.join(langs)}: {origin} was trained with {','.join(trained)}; give the same languages in the same "
            "order, because the rows of their ids follow it"
        )


def compare_start(langs: Sequence[str], options: Any) -> None:
    """As :func:`compare_order`, with the checkpoint that training starts from or goes on with, if there is one.

    ``options`` have ``restore_file``, ``save_dir``, ``finetune_from_model``, as fairseq-train's.
    """
    path = started_from(options)
    if path is not None:
        content = read_checkpoint(path)
        settings = vars(content["args"]) if content.get("args") else {}
        compare_order(langs, stock_languages(content, settings, "[{}]").listed, path)
