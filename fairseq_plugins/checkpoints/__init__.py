"""Reads, converts, loads, averages and writes checkpoints. Imports torch and safetensors only.

A pretrained file goes this way. ``inspection``, ``reading`` and ``metadata`` read it without
running code from it. ``opening`` recognises its kind. The converter of the kind (``masked_lm``,
``bart``, ``veco``, ``gpt``) renames its tensors by one table (``renaming``) to a
``pretrained.PretrainedFile``. ``fitting`` brings rows and positions to the model, and ``loading``
loads strictly. Every tensor is accounted for, and every refusal names the file.

Readers: ``masked_lm.read_masked_lm``, ``encoders.read_encoder`` (of any kind, with the entries of
its rows), ``gpt.read_causal_lm``, ``bart.read_deltalm``, ``veco.read_veco_folder``.
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
