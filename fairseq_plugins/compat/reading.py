"""Reading checkpoints: never a full unpickling, and errors that say which file, which object and what to do."""

import logging
import os
import re
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import torch

from ..checkpoints.errors import CheckpointError
from ..checkpoints.inspection import check_file
from ..checkpoints.reading import allowed_globals, refused_objects
from ..checkpoints.stored_options import check_options
from .patch import ModuleProxy, Patch, instead_of, is_patched, source_has

logger = logging.getLogger(__name__)

NOT_THE_CONTENT = (FileNotFoundError, PermissionError, IsADirectoryError, MemoryError, CheckpointError)
SAFE_LOADING_IS_SOUND = (2, 10)  # earlier torch has a known flaw in weights_only loading


def load(file: Any, *args: Any, **kwargs: Any) -> Any:
    """``torch.load`` that never unpickles more than tensors and what ``checkpoints.reading.allowed_globals`` lists.

    ``file``: an open binary file or a path. Its checksums, its sizes and the options in it are checked. Raises ValueError that
    names the file and either what it may not hold or the state the file is in.
    """
    kwargs.pop("pickle_module", None)
    kwargs["weights_only"] = True
    if not hasattr(file, "seek"):
        with open(file, "rb") as stream:
            return load(stream, *args, **kwargs)
    name = str(getattr(file, "name", file))
    try:
        check_file(file, name)
        state = torch.load(file, *args, **kwargs)
    except NOT_THE_CONTENT:
        raise
    except Exception as error:  # a damaged file can end in almost any error
        refused = refused_objects(file, str(error))
        # Not chained: torch's own text recommends to load the file without any check.
        if refused:
            raise ValueError(
                f"checkpoint {name} holds {', '.join(refused)}: refused, because a file that brings such an object can "
                "run any code. A checkpoint may hold tensors, plain Python values, argparse.Namespace, numpy arrays "
                "and fairseq's meters: have whoever made the file save it without the rest."
            ) from None
        raise ValueError(_damage_report(name, error)) from None
    check_options(state, f"checkpoint {name}")
    return state


def _damage_report(name: str, error: BaseException) -> str:
    path = Path(name)
    size = f"{path.stat().st_size:,} bytes" if path.is_file() else "no file"
    reason = (str(error).split("WeightsUnpickler error:")[-1].strip().splitlines() or [type(error).__name__])[0]
    report = f"checkpoint {name} ({size}) cannot be read: it is truncated, damaged or no checkpoint ({reason}). "
    others = [p for p in path.parent.glob("*.pt") if p.name != path.name and zipfile.is_zipfile(p)]
    if not others:
        return report + "There is no other checkpoint beside it: remove it to train from the start, or restore a copy."
    others.sort(key=os.path.getmtime, reverse=True)
    return report + (
        f"Use an earlier one (newest first: {', '.join(p.name for p in others[:3])}): copy it over this file to resume "
        "the training from there, or name it with --path to decode."
    )


def _loads_unsafely() -> bool:
    from fairseq import checkpoint_utils

    return not isinstance(checkpoint_utils.torch, ModuleProxy)  # a fairseq that has weights_only=True checks no options


def _load_safely() -> None:
    from fairseq import checkpoint_utils

    checkpoint_utils.torch = ModuleProxy(torch, load=load)  # covers every torch.load of that module, with any arguments
    torch.serialization.add_safe_globals(list(allowed_globals()))  # tuples need torch 2.6
    if hasattr(
        tarfile, "data_filter"
    ):  # from_pretrained unpacks what it fetches; Python 3.14 has this filter by default
        tarfile.TarFile.extraction_filter = staticmethod(tarfile.data_filter)
    version = tuple(int(number) for number in re.findall(r"\d+", torch.__version__)[:2])
    if version < SAFE_LOADING_IS_SOUND:
        logger.warning(f"torch {torch.__version__}: loading of untrusted files has a known flaw before torch 2.10")


def _hides_errors() -> bool:
    from fairseq.trainer import Trainer

    stock = Trainer.load_checkpoint
    return not is_patched(stock, "checkpoint_errors") and source_has(
        stock, 'except Exception: raise Exception("Cannot load model parameters'
    )


def _show_errors() -> None:
    from fairseq.trainer import Trainer

    stock = Trainer.load_checkpoint

    @instead_of(stock, "checkpoint_errors")
    def load_checkpoint(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return stock(self, *args, **kwargs)
        except Exception as error:
            cause = error.__context__
            if isinstance(cause, ValueError) and str(error).startswith("Cannot load model parameters"):
                raise cause from None
            raise

    Trainer.load_checkpoint = load_checkpoint


SAFE_LOADING = Patch(
    name="safe_loading",
    reason="checkpoints hold argparse.Namespace and numpy arrays, which torch >= 2.6 refuses; newer fairseq unpickles "
    "everything instead; no checksum is compared, and options stored in a file reach eval",
    upstream="facebookresearch/fairseq#5603, #5610, #5611",
    needed=_loads_unsafely,
    apply=_load_safely,
    guards=True,
)
CHECKPOINT_ERRORS = Patch(
    name="checkpoint_errors",
    reason='every error of a model\'s load_state_dict is reported as "Cannot load model parameters"; a ValueError is '
    "now shown as it was raised",
    upstream="facebookresearch/fairseq#307",
    needed=_hides_errors,
    apply=_show_errors,
)
