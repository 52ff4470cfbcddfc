"""Reading, converting, loading, averaging and exporting checkpoints. Imports torch and safetensors only.

Every file is read without running code from it, every tensor is accounted for, and every refusal names the file.
"""

from .inspection import CheckpointError
from .loading import load
from .pipeline import read_masked_lm
from .reading import fingerprint, read_checkpoint
from .xlmr import write_masked_lm

__all__ = [
    "CheckpointError",
    "fingerprint",
    "load",
    "read_checkpoint",
    "read_masked_lm",
    "write_masked_lm",
]
