"""The order of a model's languages: the rows of their ids follow it, so that a run must name them as the run before did."""

import logging
from typing import Any, Dict, Optional, Sequence

from .encoder_languages import stock_languages
from .reading import read_checkpoint
from .starting import started_from

logger = logging.getLogger(__name__)

KEY = "languages"  # in the state of a task, which checkpoints keep


def language_state(langs: Sequence[str]) -> Dict[str, Any]:
    """What the state of a task keeps of its languages."""
    return {KEY: {"langs": [str(language) for language in langs]}}


def compare_order(langs: Sequence[str], trained: Optional[Sequence[str]], origin: str) -> None:
    """Compare ``--langs`` with the languages of a checkpoint.

    Args:
        langs: in their order.
        trained: in theirs; None = the checkpoint does not tell, which is logged.
        origin: the checkpoint, for messages.

    Raises:
        ValueError: other languages, or another order: the rows of their ids would be those of other languages.
    """
    if trained is None:
        logger.warning("%s does not tell its languages: --langs must have them in the order of its training", origin)
    elif list(trained) != list(langs):
        raise ValueError(
            f"--langs {','.join(langs)}: {origin} was trained with {','.join(trained)}; give the same languages in the same "
            "order, because the rows of their ids follow it"
        )


def compare_start(langs: Sequence[str], options: Any) -> None:
    """Compare ``--langs`` with the checkpoint that training starts from or goes on with, if there is one.

    Args:
        langs: in their order.
        options: have ``restore_file``, ``save_dir``, ``finetune_from_model``, as fairseq-train's.

    Raises:
        ValueError: see :func:`compare_order`.
    """
    path = started_from(options)
    if path is not None:
        content = read_checkpoint(path)
        settings = vars(content["args"]) if content.get("args") else {}
        compare_order(langs, stock_languages(content, settings, "[{}]").listed, path)
