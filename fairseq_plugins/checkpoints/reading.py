"""Reads checkpoint files that may come from anybody: nothing in them is executed."""

import argparse
import contextlib
import errno
import hashlib
import importlib
import os
import re
import threading
from pathlib import Path
from typing import Any, BinaryIO, Dict, List, Mapping, Set, Tuple, Union

import numpy
import safetensors
import torch
from torch import Tensor

from .inspection import CheckpointError, DamagedCheckpoint, check_file
from .metadata import check_options, check_versions

PathLike = Union[str, "os.PathLike[str]"]
AllowedGlobal = Tuple[Any, str]

FINGERPRINT = "fairseq_plugins.tensors"
"""Entry of a safetensors file's metadata; other programs that write tensors leave it out."""

_HASH_BYTES = 16
_VALUES_AT_ONCE = 1 << 22
_GIT_LFS_START = b"version https://git-lfs"
_NUMPY_DTYPE_CODES = "?bhilqBHILQefdgFD"
_METERS = ("AverageMeter", "SumMeter", "TimeMeter", "StopwatchMeter")
_ALLOWED_BY_TORCH = {"collections.OrderedDict", "collections.Counter", "_codecs.encode"}
_ALLOWED_BY_TORCH |= {"builtins.set", "builtins.bytearray", "builtins.complex"}
"""Objects outside torch that its safe loading allows."""
_REFUSED = re.compile(r"GLOBAL (\S+)")
_lock = threading.Lock()  # torch's allow-list is global to the process


def allowed_globals() -> List[AllowedGlobal]:
    """List the objects that a checkpoint may hold besides tensors, numbers, strings and containers.

    They are the options of a fairseq run, numpy arrays and scalars (BLEU of validations), under
    their names in numpy 1.x and 2.x, and fairseq's meters.

    Returns:
        pairs of an object and its dotted name in a pickle.
    """
    numbers = {type(numpy.dtype(code)) for code in _NUMPY_DTYPE_CODES}
    classes = [argparse.Namespace, numpy.ndarray, numpy.dtype, *numbers]
    allowed: List[AllowedGlobal] = [
        (kind, f"{kind.__module__}.{kind.__qualname__}") for kind in classes
    ]
    functions = {
        "_reconstruct": numpy.zeros(1).__reduce__()[0],
        "scalar": numpy.float64(0).__reduce__()[0],
    }
    for module in ("numpy.core.multiarray", "numpy._core.multiarray"):
        allowed += [(function, f"{module}.{name}") for name, function in functions.items()]
    with contextlib.suppress(ImportError):
        meters: Any = importlib.import_module("fairseq.logging.meters")
        for module in ("fairseq.meters", "fairseq.logging.meters"):
            allowed += [(getattr(meters, name), f"{module}.{name}") for name in _METERS]
    return allowed


def read_checkpoint(path: PathLike) -> Dict[str, Any]:
    """Read a file of ``torch.save`` or of safetensors onto the CPU without executing anything.

    There is no fallback to full unpickling.

    Returns:
        the content; name -> tensor for safetensors.

    Raises:
        CheckpointError: the file is missing, empty, a folder, damaged, of a newer format, or holds
            no dictionary; or it declares more than it holds, or has an object outside
            :func:`allowed_globals`, an option that is code, or one that was retired.
    """
    file = Path(path)
    _check_readable(file)
    content = read_safetensors(file) if file.suffix == ".safetensors" else _read_pickle(file)
    if not isinstance(content, dict):
        kind = type(content).__name__
        raise CheckpointError(f"checkpoint {file}: expected a dictionary, found {kind}")
    check_options(content, f"checkpoint {file}")
    check_versions(content, f"checkpoint {file}")
    return content


def model_of(checkpoint: Mapping[str, Any], path: PathLike) -> Dict[str, Tensor]:
    """Return the tensors of a fairseq checkpoint by name. Raises CheckpointError if it has none."""
    model = checkpoint.get("model")
    if isinstance(model, Mapping) and all(isinstance(tensor, Tensor) for tensor in model.values()):
        return dict(model)
    entries = ", ".join(sorted(map(str, checkpoint))[:10])
    expected = f"expected an entry 'model' with tensors, found {entries}"
    raise CheckpointError(f"checkpoint {path}: {expected}")


def read_safetensors(file: Path) -> Dict[str, Tensor]:
    """Read name -> tensor.

    Raises:
        CheckpointError: the file is damaged, or its tensors have another fingerprint than its
            metadata state.
    """
    try:
        with safetensors.safe_open(str(file), framework="pt", device="cpu") as opened:
            expected = (opened.metadata() or {}).get(FINGERPRINT)
            tensors = {name: opened.get_tensor(name) for name in opened.keys()}
    except (safetensors.SafetensorError, OSError, ValueError) as error:
        raise _damaged(str(file), file.stat().st_size, error) from error
    if expected is not None and fingerprint(tensors) != expected:
        difference = f"the fingerprint {fingerprint(tensors)}, it was written with {expected}"
        raise CheckpointError(f"checkpoint {file}: its tensors have {difference}; it is damaged")
    for name, tensor in tensors.items():
        if not tensor.numel():
            # It would share its neighbour's memory, where torch.save refuses another dtype.
            tensors[name] = torch.empty_like(tensor)
    return tensors


def _check_readable(file: Path) -> None:
    try:
        with file.open("rb") as stream:
            start = stream.read(len(_GIT_LFS_START))
    except OSError as error:
        reasons = {errno.EISDIR: "is a folder, expected a file", errno.ENOENT: "no such file"}
        reason = reasons.get(error.errno or 0, f"cannot be opened ({error.strerror})")
        raise CheckpointError(f"checkpoint {file}: {reason}") from error
    if not start:
        raise CheckpointError(f"checkpoint {file}: is empty (0 bytes)")
    if start == _GIT_LFS_START:
        reason = "is a git-lfs pointer, not the model itself; run `git lfs pull`"
        raise CheckpointError(f"checkpoint {file}: {reason}")


def _read_pickle(file: Path) -> Any:
    with _lock, file.open("rb") as stream:
        # On exit the context removes what it was given, so what was allowed before is left out.
        allowed = set(torch.serialization.get_safe_globals())
        additional: List[Any] = [pair for pair in allowed_globals() if pair not in allowed]
        with torch.serialization.safe_globals(additional):
            return load_stream(stream, str(file), map_location="cpu")


def load_stream(stream: BinaryIO, name: str, *args: Any, **kwargs: Any) -> Any:
    """Inspect an open file, then read it by ``torch.load`` with ``weights_only=True``.

    The caller has put :func:`allowed_globals` on torch's allow-list.

    Args:
        name: name of the file, for messages.
        args: further arguments of ``torch.load``, like ``kwargs``.

    Raises:
        DamagedCheckpoint: the file is truncated, damaged, or not of ``torch.save``.
        CheckpointError: it holds an object that is not allowed, which is named, or declares more
            than it holds.
    """
    names: Set[str] = set()
    try:
        check_file(stream, name, names)
        return torch.load(stream, *args, **{**kwargs, "weights_only": True})
    except (MemoryError, CheckpointError):
        raise
    except Exception as error:  # a damaged file can make the reader fail in any way
        objects = _refused_objects(names, str(error))
        if not objects:
            raise _damaged(name, stream.seek(0, os.SEEK_END), error) from error
        # Not chained: torch's own text recommends to unpickle everything.
        raise CheckpointError(
            f"checkpoint {name}: refused, because it holds the pickled object "
            f"{', '.join(objects)}, which could run code; get the file in safetensors form, or "
            "from a source that stores tensors only"
        ) from None


def _damaged(name: str, size: int, error: BaseException) -> DamagedCheckpoint:
    """Return the error for a file that torch or safetensors cannot read, with their reason."""
    text = str(error).split("WeightsUnpickler error:")[-1].strip() or type(error).__name__
    reason = f"{size:,} bytes; {text.splitlines()[0][:200]}"
    kind = "truncated, damaged or no checkpoint at all"
    return DamagedCheckpoint(f"checkpoint {name}: {kind} ({reason})")


def _refused_objects(names: Set[str], message: str) -> List[str]:
    """Return the objects for which torch refused a file; empty if it failed for another reason.

    Args:
        names: ``module.name`` of the objects to which the file refers.
        message: message of torch; in a truncated file it may name half a name, which is ignored.
    """
    refusal = _REFUSED.search(message)
    if refusal and refusal[1].rsplit(".", 1)[-1] in {name.rsplit(".", 1)[-1] for name in names}:
        return [refusal[1] if "." in refusal[1] else f"builtins.{refusal[1]}"]
    allowed = {*_ALLOWED_BY_TORCH, *(name for _, name in allowed_globals())}
    return sorted(name for name in names if name not in allowed and not name.startswith("torch."))


def fingerprint(tensors: Mapping[str, Tensor]) -> str:
    """Return a 128-bit hash of names, shapes and values as float32.

    Order, dtype and memory layout of the tensors do not change it.
    """
    digest = hashlib.blake2b(digest_size=_HASH_BYTES)
    for name in sorted(tensors):
        tensor = tensors[name].detach()
        digest.update(f"{name}\0{tuple(tensor.shape)}\0".encode())
        for chunk in tensor.reshape(-1).split(_VALUES_AT_ONCE):
            values = chunk.to(device="cpu", dtype=torch.float32).contiguous()
            digest.update(values.view(torch.uint8).numpy().data)
    return digest.hexdigest()
