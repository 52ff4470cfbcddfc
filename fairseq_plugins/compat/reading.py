"""Reading checkpoints: no code of a file runs, and errors say which file, which object and what to do."""

import importlib
import logging
import os
import re
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import torch

from ..checkpoints.inspection import DamagedCheckpoint
from ..checkpoints.reading import allowed_globals, load_stream
from ..checkpoints.stored_options import check_options, literal
from .patch import ModuleProxy, Patch, source_has

logger = logging.getLogger(__name__)

SAFE_LOADING_IS_SOUND = (2, 10)  # earlier torch has a known flaw in weights_only loading

EVALUATING = ("fairseq.utils", "fairseq.models", "fairseq.tasks", "fairseq.criterions", "fairseq.optim")
"""Modules that call ``eval``; each brings all of its siblings."""

SAFE_LOADING = Patch(
    name="safe_loading",
    reason="checkpoints hold argparse.Namespace and numpy arrays, which torch >= 2.6 refuses; newer fairseq unpickles "
    "everything instead; no checksum is compared, and options stored in a file reach eval",
    upstream="facebookresearch/fairseq#5603, #5610, #5611",
    guards=True,
)
LITERAL_OPTIONS = Patch(
    name="literal_options",
    reason="fairseq passes options to eval, those that a checkpoint brings among them, so a file can run any code",
    guards=True,
)
CHECKPOINT_ERRORS = Patch(
    name="checkpoint_errors",
    reason='every error of a model\'s load_state_dict is reported as "Cannot load model parameters"; a ValueError is '
    "now shown as it was raised",
    upstream="facebookresearch/fairseq#307",
)


def load(file: Any, *args: Any, **kwargs: Any) -> Any:
    """``torch.load`` of an open binary file or a path that never unpickles more than ``allowed_globals`` lists.

    Checksums, sizes and the options in the file are checked.

    Raises ValueError: names the file and either what it may not hold or the state the file is in.
    """
    kwargs.pop("pickle_module", None)
    if not hasattr(file, "seek"):
        with open(file, "rb") as stream:
            return load(stream, *args, **kwargs)
    name = str(getattr(file, "name", file))
    try:
        state = load_stream(file, name, *args, **kwargs)
    except DamagedCheckpoint as error:
        raise ValueError(f"{error}. {_way_out(Path(name))}") from None
    check_options(state, f"checkpoint {name}")
    return state


def _way_out(path: Path) -> str:
    others = [p for p in path.parent.glob("*.pt") if p.name != path.name and zipfile.is_zipfile(p)]
    names = ", ".join(p.name for p in sorted(others, key=os.path.getmtime, reverse=True)[:3])
    if not names:
        return "There is no other checkpoint beside it: remove it to train from the start, or restore a copy"
    return (
        f"Use an earlier one (newest first: {names}): copy it over this file to resume the training from there, or name it with "
        "--path to decode"
    )


@SAFE_LOADING.probe
def _loads_unsafely() -> bool:
    from fairseq import checkpoint_utils

    return not isinstance(checkpoint_utils.torch, ModuleProxy)  # a fairseq that has weights_only=True checks no options


@SAFE_LOADING.step
def load_safely() -> None:
    """Cover every ``torch.load`` of fairseq's module, with any arguments, and the archives that ``from_pretrained`` fetches."""
    from fairseq import checkpoint_utils

    checkpoint_utils.torch = ModuleProxy(torch, load=load)
    torch.serialization.add_safe_globals(list(allowed_globals()))  # tuples need torch 2.6
    if hasattr(tarfile, "data_filter"):  # the default from Python 3.14 on
        tarfile.TarFile.extraction_filter = staticmethod(tarfile.data_filter)
    else:  # as in 3.11.2, which would write wherever an archive says
        tarfile.TarFile.extractall = _no_filter  # type: ignore[method-assign]
    version = tuple(int(number) for number in re.findall(r"\d+", torch.__version__)[:2])
    if version < SAFE_LOADING_IS_SOUND:
        logger.warning(f"torch {torch.__version__}: loading of untrusted files has a known flaw before torch 2.10")


def _no_filter(*_: Any, **__: Any) -> Any:
    raise ValueError(
        "an archive cannot be unpacked safely by this Python; valid: 3.11.4 or newer, or unpack it and give the folder"
    )


def _evaluate(text: Any, *scopes: Any) -> Any:
    """Takes the place of ``eval`` in fairseq's modules. A TypeError is part of how fairseq reads truth values."""
    if not isinstance(text, (str, bytes)):
        raise TypeError("an option's text is expected")
    return literal(text if isinstance(text, str) else text.decode("latin1"))


@LITERAL_OPTIONS.probe
def _evaluates() -> bool:
    return any("eval" not in vars(importlib.import_module(name)) for name in EVALUATING)


@LITERAL_OPTIONS.step
def read_literals() -> None:
    """Give every module of fairseq an ``eval`` of its own, which comes before the built-in one."""
    for name in EVALUATING:
        importlib.import_module(name)
    for name, module in sorted(sys.modules.items()):
        if name.startswith("fairseq.") and module is not None:
            vars(module).setdefault("eval", _evaluate)


@CHECKPOINT_ERRORS.probe
def _hides_errors() -> bool:
    from fairseq.trainer import Trainer

    return source_has(Trainer.load_checkpoint, 'except Exception: raise Exception("Cannot load model parameters')


@CHECKPOINT_ERRORS.replace("fairseq.trainer:Trainer.load_checkpoint")
def load_checkpoint(stock: Any, trainer: Any, *args: Any, **kwargs: Any) -> Any:
    """Show a ValueError of the model."""
    try:
        return stock(trainer, *args, **kwargs)
    except Exception as error:
        cause = error.__context__
        if isinstance(cause, ValueError) and str(error).startswith("Cannot load model parameters"):
            raise cause from None
        raise
