"""Write checkpoints so that a kill or a full disk leaves the previous one intact."""

import os
import re
from typing import Any, Dict, Mapping, Tuple

import safetensors.torch
import torch
from torch import Tensor

from data_prep.files import atomic_file, atomic_path

from .reading import FINGERPRINT, PathLike, fingerprint
from .versions import stamped


def save_checkpoint(state: Any, path: PathLike) -> None:
    """Save atomically: the file appears under its name once all of it is on disk.

    Raises as :func:`atomic_path`.
    """
    with atomic_file(path) as file:
        torch.save(state, file)


def start_state(
    model: Mapping[str, Tensor], updates: int = 0, epoch: int = 1, **entries: Any
) -> Dict[str, Any]:
    """Return a fairseq checkpoint that training can start from, with this process's versions.

    Args:
        entries: further entries of the checkpoint.
    """
    state: Dict[str, Any] = {
        "args": None,
        "cfg": None,
        "model": model,
        "criterion": None,
        "task_state": {},
        **entries,
    }
    state["optimizer_history"] = [{"num_updates": updates, "lr_scheduler_state": {}}]
    state["extra_state"] = {
        "train_iterator": {"epoch": epoch, "iterations_in_epoch": 0, "version": 2}
    }
    return dict(stamped(state))


def save_tensors(tensors: Mapping[str, Tensor], path: PathLike) -> None:
    """Write a safetensors file atomically, with the permissions of any other new file.

    Its header has the fingerprint of the tensors. Errors as of :func:`atomic_path`.
    """
    metadata = {"format": "pt", FINGERPRINT: fingerprint(tensors)}
    with atomic_path(path) as temporary:
        try:
            safetensors.torch.save_file(dict(tensors), str(temporary), metadata=metadata)
        except safetensors.SafetensorError as error:
            code = re.search(r"os error (\d+)", str(error))
            if not code:
                raise
            raise OSError(int(code[1]), os.strerror(int(code[1]))) from error
        mask = os.umask(0)
        os.umask(mask)
        temporary.chmod(0o666 & ~mask)  # safetensors lets only their owner read them


def memory_of(tensor: Tensor) -> Tuple[Any, ...]:
    """Return what two names of one tensor share: device, memory, shape, strides and dtype."""
    return tensor.device, tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype


def tied_names(model: Mapping[str, Tensor]) -> Dict[str, str]:
    """Map each name of a tied tensor to its first name. Tensors without elements are not tied."""
    first: Dict[Any, str] = {}
    tied = {}
    for name, tensor in model.items():
        owner = first.setdefault(memory_of(tensor), name) if tensor.numel() else name
        if owner != name:
            tied[name] = owner
    return tied
