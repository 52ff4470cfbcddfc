"""Options that fairseq evaluates: whatever way a text takes to ``eval``, it is read as a literal there."""

import importlib
import sys
from typing import Any

from ..checkpoints.stored_options import literal
from .patch import Patch

NAME = "literal_options"
STARTS = ("fairseq.utils", "fairseq.models", "fairseq.tasks", "fairseq.criterions", "fairseq.optim")


def _evaluate(text: Any, *scopes: Any) -> Any:
    """Takes the place of ``eval`` in fairseq's modules. A TypeError is part of how fairseq reads truth values."""
    if not isinstance(text, (str, bytes)):
        raise TypeError("an option's text is expected")
    return literal(text if isinstance(text, str) else text.decode("latin1"))


def _modules() -> Any:
    return [
        module for name, module in sorted(sys.modules.items()) if name.startswith("fairseq.") and module is not None
    ]


def _evaluates() -> bool:
    return any("eval" not in vars(importlib.import_module(name)) for name in STARTS)


def _read_literals() -> None:
    for name in STARTS:
        importlib.import_module(name)  # each brings all of its siblings
    for module in _modules():
        vars(module).setdefault("eval", _evaluate)  # a module's own name comes before the built-in one


LITERAL_OPTIONS = Patch(
    name=NAME,
    reason="fairseq passes options to eval, those that a checkpoint brings among them, so a file can run any code",
    upstream="no report found",
    needed=_evaluates,
    apply=_read_literals,
    guards=True,
)
