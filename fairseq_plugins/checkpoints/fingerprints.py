"""A name for a set of weights."""

import hashlib
from pathlib import Path
from typing import Mapping

import safetensors
import torch
from torch import Tensor

from .errors import CheckpointError

FINGERPRINT = "fairseq_plugins.fingerprint"
"""Entry of a safetensors file's metadata, in files that this package writes. Programs that change the tensors leave it out."""

_BYTES = 16
_VALUES_AT_ONCE = 1 << 22


def check_stated(file: Path, found: str) -> None:
    """Compare the fingerprint of tensors that were read from a safetensors file with the one that it states, if it does.

    Raises:
        CheckpointError: they differ: the file was damaged since it was written.
    """
    if file.suffix != ".safetensors":
        return
    with safetensors.safe_open(str(file), framework="pt") as opened:
        stated = (opened.metadata() or {}).get(FINGERPRINT)
    if stated not in (None, found):
        raise CheckpointError(
            f"checkpoint {file}: its tensors have the fingerprint {found}, it was written with {stated}; it is damaged: copy it"
        )


def fingerprint(tensors: Mapping[str, Tensor]) -> str:
    """Hash of names, shapes and float32 values: the same in any order, dtype and memory layout.

    Args:
        tensors: name -> tensor; half-precision tensors count as their float32 values, other dtypes too.

    Returns:
        32 hexadecimal digits (128 bits); one changed bit of a float32 value changes them.
    """
    digest = hashlib.blake2b(digest_size=_BYTES)
    for name in sorted(tensors):
        tensor = tensors[name].detach()
        digest.update(f"{name}\0{tuple(tensor.shape)}\0".encode())
        for chunk in tensor.reshape(-1).split(_VALUES_AT_ONCE):
            values = chunk.to(device="cpu", dtype=torch.float32).contiguous()
            digest.update(values.view(torch.uint8).numpy().data)
    return digest.hexdigest()
