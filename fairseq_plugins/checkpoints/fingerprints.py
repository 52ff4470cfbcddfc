"""A name for a set of weights."""

import hashlib
from typing import Mapping

import torch
from torch import Tensor

_BYTES = 16
_VALUES_AT_ONCE = 1 << 22


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
