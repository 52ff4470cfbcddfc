"""Reading, converting, loading, averaging and exporting checkpoints. Imports torch and safetensors only.

Every file is read without running code from it, every tensor is accounted for, and every refusal names the file.
"""

from .families.roberta import write_masked_lm
from .inspection import CheckpointError
from .loading import load
from .readers import read_masked_lm
from .reading import fingerprint, read_checkpoint
from .writing import atomic_path

__all__ = [
    "CheckpointError",
    "atomic_path",
    "fingerprint",
    "load",
    "read_checkpoint",
    "read_masked_lm",
    "write_masked_lm",
]
