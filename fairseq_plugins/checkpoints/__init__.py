"""Reading, converting, loading, averaging and exporting checkpoints. Imports torch and safetensors only.

Every file is read without running code from it, every tensor is accounted for, and every refusal names the file.
"""

from .loading import LoadReport, load
from .pipeline import read_masked_lm
from .portable import export_checkpoint, import_checkpoint
from .reading import CheckpointError, fingerprint, read_checkpoint
from .writing import atomic_path
from .xlmr import write_masked_lm

__all__ = [
    "CheckpointError",
    "LoadReport",
    "atomic_path",
    "export_checkpoint",
    "fingerprint",
    "import_checkpoint",
    "load",
    "read_checkpoint",
    "read_masked_lm",
    "write_masked_lm",
]
