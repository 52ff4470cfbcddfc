"""Finds the checkpoint from which a training run starts, and compares its languages with the run's.

A run that starts from a checkpoint opens no pretrained file: the checkpoint has every tensor.
"""

import logging
import os
from typing import Any, Optional, Sequence

from .opening import find_settings
from .reading import read_checkpoint
from .vocabulary import stock_languages

logger = logging.getLogger(__name__)

LANGUAGES = "languages"
"""Entry of a task's state in checkpoints."""
LAST_CHECKPOINT = "checkpoint_last.pt"


def started_from(options: Any) -> Optional[str]:
    """Return the checkpoint from which training starts; None if there is none.

    It is ``restore_file``, else the run's own last checkpoint, else ``finetune_from_model``.
    """
    path = getattr(options, "restore_file", None) or LAST_CHECKPOINT
    if path == LAST_CHECKPOINT:
        last = os.path.join(getattr(options, "save_dir", None) or "", path)
        pretrained = getattr(options, "finetune_from_model", None) or ""
        path = last if os.path.isfile(last) else pretrained
    return path if os.path.isfile(path) else None


def explain_unread(option: str, path: str, options: Any, task: Any) -> Optional[str]:
    """Return the reason for not opening a pretrained file; None if it must be opened.

    The model raises this text as an error if it is used before a checkpoint has been loaded.

    Args:
        option: option that names the pretrained file, for the text.
        path: the pretrained file.
        options: model options; those of a command line also have ``restore_file`` and
            ``save_dir``, those of a YAML file do not.
        task: has a true ``from_checkpoint`` if a checkpoint will fill the model.
    """
    if getattr(task, "from_checkpoint", False):
        return f"{option} {path}: was not opened, since the model is read from a checkpoint"
    if not os.path.exists(path):
        return f"{option} {path}: no such file"
    checkpoint = started_from(options) if getattr(options, "save_dir", None) else None
    if checkpoint is None:
        return None
    return f"{option} {path}: was not opened, since training continues {checkpoint}"


def compare_order(
    langs: Sequence[str], trained: Optional[Sequence[str]], origin: str, option: str
) -> None:
    """Raise ValueError unless the languages of an option equal those of a checkpoint, in order.

    Args:
        langs: languages of the option.
        trained: languages of the checkpoint; None (logged as a warning) if it does not state them.
        origin: name of the checkpoint, for messages.
        option: name of the option, for messages.
    """
    if trained is None:
        text = "%s does not tell its languages: %s must have them in the order of its training"
        logger.warning(text, origin, option)
    elif list(trained) != list(langs):
        raise ValueError(
            f"{option} {','.join(langs)}: {origin} was trained with {','.join(trained)}; give the "
            "same languages in the same order, because the rows of their ids follow it"
        )


def compare_start(langs: Sequence[str], options: Any, option: str) -> None:
    """Call :func:`compare_order` with the checkpoint that training starts from, if there is one."""
    path = started_from(options)
    if path is not None:
        checkpoint = read_checkpoint(path)
        languages = stock_languages(checkpoint, find_settings(checkpoint), "[{}]")
        compare_order(langs, languages.listed, path, option)
