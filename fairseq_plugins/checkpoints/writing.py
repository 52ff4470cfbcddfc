"""Writing files so that a kill or a full disk leaves the previous one intact, and writing masked LMs."""

import contextlib
import dataclasses
import json
import os
from pathlib import Path
from typing import Any, Dict, Iterator, Mapping

import safetensors.torch
import torch
from torch import Tensor

from . import huggingface
from .fingerprints import FINGERPRINT, fingerprint
from .masked_lm import check_shapes
from .reading import CheckpointError, PathLike
from .renames import apply_rules, listing


@contextlib.contextmanager
def atomic_path(path: PathLike) -> Iterator[Path]:
    """Yield a temporary file's path beside ``path``; on success it is flushed to disk and takes the place of ``path``.

    When the block raises, the temporary file is removed and ``path`` is what it was.

    Raises:
        CheckpointError: the folder of ``path`` does not exist, or ``path`` is a folder.
    """
    target = Path(path)
    if target.is_dir() or not target.parent.is_dir():
        raise CheckpointError(f"output {target}: expected a file name in an existing folder")
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        with temporary.open("rb+") as stream:
            os.fsync(stream.fileno())
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()
        raise
    _sync_folder(target.parent)


def _sync_folder(folder: Path) -> None:
    """Make a renaming in a folder survive a power cut, where the system can do that."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def write_masked_lm(
    folder: PathLike,
    sizes: Any,
    tensors: Mapping[str, Tensor],
    dtype: torch.dtype = torch.float16,
) -> str:
    """Write a Hugging Face XLM-RoBERTa folder: ``config.json`` and ``model.safetensors``.

    Args:
        folder: made when missing; both files are replaced one by one, each atomically.
        sizes: ``MaskedLMSizes``, or a mapping with its fields.
        tensors: name -> floating-point tensor in the names of ``MaskedLM``; the tied ``lm_head.weight`` may be there.
        dtype: of the stored tensors; values are rounded to it.

    Returns:
        The fingerprint that :func:`~.masked_lm.read_masked_lm` will give for the folder, i.e. of the *rounded* tensors.

    Raises:
        CheckpointError: names or shapes that are not those of a masked LM of these sizes, or values beyond ``dtype``.
    """
    origin = f"masked LM for {folder}"
    numbers: Dict[str, int] = dict(sizes if isinstance(sizes, Mapping) else dataclasses.asdict(sizes))
    kept = dict(tensors)
    output = kept.pop(huggingface.OUTPUT_WEIGHT, None)
    check_shapes(kept, numbers, origin, "the tensors of modules.masked_lm.MaskedLM")
    if output is not None and not torch.equal(output, kept[huggingface.WORDS]):
        raise CheckpointError(f"{origin}: {huggingface.OUTPUT_WEIGHT} differs from the token embedding, expected a tie")
    rounded = _round(kept, dtype, origin)
    stored = apply_rules(rounded, huggingface.EXPORT_RULES, origin, "a masked LM").tensors
    stored[huggingface.STORED_TOKEN_TYPES] = torch.zeros(1, numbers["embed_dim"], dtype=dtype)
    Path(folder).mkdir(parents=True, exist_ok=True)
    made = fingerprint(rounded)
    with atomic_path(Path(folder) / huggingface.WEIGHTS_NAME) as temporary:
        safetensors.torch.save_file(stored, str(temporary), metadata={"format": "pt", FINGERPRINT: made})
    with atomic_path(Path(folder) / huggingface.CONFIG_NAME) as temporary:
        config = json.dumps(huggingface.export_config(numbers, dtype), indent=2, sort_keys=True)
        temporary.write_text(config + "\n", encoding="utf-8")
    return made


def _round(tensors: Mapping[str, Tensor], dtype: torch.dtype, origin: str) -> Dict[str, Tensor]:
    rounded = {name: tensor.detach().to("cpu", dtype, copy=True).contiguous() for name, tensor in tensors.items()}
    overflown = [name for name, tensor in rounded.items() if not bool(torch.isfinite(tensor).all())]
    if overflown:
        raise CheckpointError(f"{origin}: values that are not finite in {dtype}: {listing(overflown)}")
    return rounded
