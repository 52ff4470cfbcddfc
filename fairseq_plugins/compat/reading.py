"""Read checkpoints without running any code that a file holds, and tell a model its file."""

import importlib
import logging
import os
import re
import sys
import tarfile
from typing import Any

import torch

from ..checkpoints.inspection import DamagedCheckpoint
from ..checkpoints.metadata import check_options, literal
from ..checkpoints.reading import allowed_globals, load_stream
from .patch import Harm, ModuleProxy, Patch

logger = logging.getLogger(__name__)

SOUND_TORCH = (2, 10)
"""First version of torch whose ``weights_only`` loading has no known flaw."""

EVALUATING_MODULES = (
    "fairseq.utils",
    "fairseq.models",
    "fairseq.tasks",
    "fairseq.criterions",
    "fairseq.optim",
)
"""Packages of fairseq whose modules call ``eval``; importing a package imports these modules."""

SAFE_LOADING = Patch(
    name="safe_loading",
    harm=Harm.EXECUTION,
    defect="a checkpoint can run code, an archive can write into any folder, and damaged numbers "
    "are read; fairseq 0.12.2 reads no checkpoint at all with torch >= 2.6",
    upstream="facebookresearch/fairseq#5603, #5610, #5611",
)
LITERAL_OPTIONS = Patch(
    name="literal_options",
    harm=Harm.EXECUTION,
    defect="fairseq passes options to eval, also options that a checkpoint brings",
)
STATE_FILES = Patch(
    name="state_files",
    harm=Harm.PAPER_BLOCKED,
    defect="a model is not told which file a state comes from, and tensors alone do not say "
    "whether VECO's layers and rows are still to be chosen",
)


def load(file: Any, *args: Any, **kwargs: Any) -> Any:
    """Load a checkpoint as ``torch.load`` does, but run no code that the file holds.

    Only objects of the types in ``allowed_globals`` are unpickled. Checksums, sizes and the options
    in the file are checked.

    Args:
        file: an open binary file or a path.

    Raises:
        ValueError: the file is damaged or holds a forbidden object; names both.
    """
    kwargs.pop("pickle_module", None)
    if not hasattr(file, "seek"):
        with open(file, "rb") as stream:
            return load(stream, *args, **kwargs)
    name = str(getattr(file, "name", file))
    try:
        state = load_stream(file, name, *args, **kwargs)
    except DamagedCheckpoint as error:
        raise ValueError(str(error)) from None  # hides torch's advice to load without the check
    check_options(state, f"checkpoint {name}")
    return state


@SAFE_LOADING.step
def load_safely() -> None:
    """Replace ``torch.load`` in fairseq's checkpoint module, and make archives safe to unpack.

    The module sees a torch whose ``load`` is :func:`load`, so arguments such as
    ``weights_only=False`` have no effect.
    """
    from fairseq import checkpoint_utils

    checkpoint_utils.torch = ModuleProxy(torch, load=load)
    torch.serialization.add_safe_globals(list(allowed_globals()))  # tuples need torch 2.6
    if hasattr(tarfile, "data_filter"):  # the default from Python 3.14 on
        tarfile.TarFile.extraction_filter = staticmethod(tarfile.data_filter)
    else:  # Python 3.11.3 and older would write wherever an archive says
        tarfile.TarFile.extractall = _refuse_archive  # type: ignore[method-assign]
    version = tuple(int(number) for number in re.findall(r"\d+", torch.__version__)[:2])
    if version < SOUND_TORCH:
        flaw = "loading of untrusted files has a known flaw before torch 2.10"
        logger.warning(f"torch {torch.__version__}: {flaw}")


def _refuse_archive(*_: Any, **__: Any) -> Any:
    raise ValueError(
        "an archive cannot be unpacked safely by this Python; valid: Python 3.11.4 or newer, or "
        "the folder of an unpacked archive"
    )


@SAFE_LOADING.replace("fairseq.file_utils:load_archive_file")
def load_archive_file(stock: Any, archive_file: str) -> Any:
    """Return the folder that ``from_pretrained`` names.

    Raises:
        ValueError: the path is a file. Stock would unpack it as an archive and delete it.
    """
    if os.path.isfile(archive_file):
        raise ValueError(f"{archive_file}: is a file; valid: the folder of an unpacked archive")
    return stock(archive_file)


def evaluate_literal(text: Any, *scopes: Any) -> Any:
    """Read a literal, in place of ``eval``.

    Raises:
        TypeError: ``text`` is not text. fairseq's ``eval_bool`` catches the error of ``eval`` for
            truth values.
    """
    if not isinstance(text, (str, bytes)):
        raise TypeError("an option's text is expected")
    return literal(text if isinstance(text, str) else text.decode("latin1"))


@LITERAL_OPTIONS.step
def read_literals() -> None:
    """Define a global ``eval`` in every module of fairseq, which hides the built-in function."""
    for name in EVALUATING_MODULES:
        importlib.import_module(name)
    for name, module in sorted(sys.modules.items()):
        if name.startswith("fairseq.") and module is not None:
            vars(module).setdefault("eval", evaluate_literal)


@STATE_FILES.replace("fairseq.trainer:Trainer.load_checkpoint")
def load_checkpoint(stock: Any, trainer: Any, filename: str, *args: Any, **kwargs: Any) -> Any:
    """Write the path into a model that has an attribute ``state_file``, then load."""
    model = trainer.get_model()
    if hasattr(model, "state_file"):
        model.state_file = filename
    return stock(trainer, filename, *args, **kwargs)
