"""Reads, converts, loads, averages and writes checkpoints. Imports torch and safetensors only.

A pretrained file goes this way: ``inspection`` and ``reading`` read it without running code from
it, ``readers`` recognises it, a module of ``families`` renames its tensors by one table,
``fitting`` brings rows and positions to the model, and ``loading`` loads strictly. Every tensor is
accounted for, and every refusal names the file.
"""

from .inspection import CheckpointError
from .loading import load
from .masked_lm import read_masked_lm
from .reading import fingerprint, read_checkpoint
from .writing import write_masked_lm

__all__ = [
    "CheckpointError",
    "fingerprint",
    "load",
    "read_checkpoint",
    "read_masked_lm",
    "write_masked_lm",
]
