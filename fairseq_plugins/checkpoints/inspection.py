"""Inspects a file of ``torch.save`` before torch reads it.

Checksums are compared, and sizes beyond the file's are refused. No object of the file is built: its
pickles are followed with empty stand-ins for everything that they name.
"""

import _compat_pickle
import io
import logging
import math
import pickle
import re
import zipfile
from typing import IO, Any, BinaryIO, Dict, Iterator, List, Optional, Set, Tuple

import torch

logger = logging.getLogger(__name__)


class CheckpointError(ValueError):
    """Raised for a checkpoint that cannot be read or has other content; names the file."""


class DamagedCheckpoint(CheckpointError):
    """Raised for a file that is truncated, damaged or no checkpoint at all."""


ZIP_START = b"PK\x03\x04"
"""First bytes by which torch recognises a zip file; ``zipfile`` also finds one further on."""
EXPANDED_BYTES = 16 * 2**20
"""Size to which the content may expand even if the file is smaller: bytes of tensors, elements."""
_LEGACY_PICKLES = 4  # magic number, protocol, machine, content; the bytes of the tensors follow
_NO_SIZES = {"builtins.set", "collections.Counter", "collections.OrderedDict"}
"""Containers: a number among their arguments is content, not a size to allocate."""
_NUMBERS = re.compile(r"[<>|=]?(?:[?bhilqBHILQefdgFD]|b1|[iu][1248]|f(?:2|4|8|16)|c(?:8|16|32))")
_NUMBERS_STATE = (None, None, None, -1, -1, 0)
"""State of a numpy type of numbers: no subtype, no fields, the type's own sizes and flags."""


def check_file(stream: BinaryIO, origin: str, names: Set[str]) -> None:
    """Refuse a file of ``torch.save`` that is damaged, or would need far more memory than its size.

    The checksum (CRC-32) of each record is compared; files from before torch 1.6 have none.

    Args:
        stream: the open file; left at its start.
        origin: name of the file, for messages.
        names: receives every ``module.name`` to which the file refers, also if it is damaged later.

    Raises:
        CheckpointError: a checksum differs, the zip records are not as ``torch.save`` writes them,
            or more is declared than the file holds.
        Exception: any other if the file is truncated or no checkpoint, so that torch cannot read
            it either.
    """
    size = stream.seek(0, io.SEEK_END)
    stream.seek(0)
    is_zip = stream.read(len(ZIP_START)) == ZIP_START
    stream.seek(0)
    has_checksums = False
    try:
        if is_zip:
            has_checksums = _check_zip(stream, size, names)
        else:
            _check_legacy(stream, size, names)
    except MemoryError as error:
        reason = f"asks for more memory than its {size:,} bytes can need"
        raise CheckpointError(f"checkpoint {origin}: {reason}") from error
    except CheckpointError as error:
        raise CheckpointError(f"checkpoint {origin}: {error}") from None
    if not has_checksums:
        reason = "has no checksums (before torch 1.6, or switched off): flipped bits go unnoticed"
        logger.info("checkpoint %s: %s", origin, reason)
    stream.seek(0)


def _check_zip(stream: BinaryIO, size: int, names: Set[str]) -> bool:
    """Inspect a zip file; return True if it has checksums."""
    with zipfile.ZipFile(stream) as archive:
        records = archive.infolist()
        _check_records(records, size)
        has_checksums = any(record.CRC for record in records if record.file_size)
        if not has_checksums:
            for record in records:
                record.CRC = None  # type: ignore[assignment]  # testzip then compares nothing
        damaged_record = archive.testzip()
        if damaged_record:
            damage = f"the checksum of record {damaged_record} is wrong"
            advice = "bits have changed since it was written; take another copy"
            raise CheckpointError(f"damaged, {damage}: {advice}")
        sizes = {record.filename: record.file_size for record in records}
        folder = records[0].filename.split("/")[0]
        if f"{folder}/data.pkl" not in sizes:
            return has_checksums  # torch refuses the file itself
        inspector = _Inspector(io.BytesIO(archive.read(f"{folder}/data.pkl")), size, names)
    inspector.load()
    for key, declared in inspector.storages.items():
        record_size = sizes.get(f"{folder}/data/{key}", declared)  # torch refuses a missing record
        if declared > record_size:
            demand = f"a tensor needs {declared:,} bytes of record {folder}/data/{key}"
            raise CheckpointError(f"{demand}, which has {record_size:,}")
    return has_checksums


def _check_records(records: List[zipfile.ZipInfo], size: int) -> None:
    """Refuse zip records that expand beyond the file, or that zip readers may find differently.

    ``torch.save`` stores each record once, uncompressed, from the first byte of the file on.

    Raises:
        CheckpointError: a record is compressed, the records are together longer than the file, two
            have the same name, or there are bytes before the first.
    """
    for record in records:
        if record.compress_type != zipfile.ZIP_STORED:
            sizes = f"{record.compress_size:,} to {record.file_size:,} bytes"
            reason = f"its record {record.filename} is compressed ({sizes})"
            raise CheckpointError(f"{reason}; torch.save writes records as they are")
    declared = sum(record.file_size for record in records)
    names = {record.filename for record in records}
    first = min(record.header_offset for record in records)
    if declared > size:
        sizes = f"{declared:,} bytes in a file of {size:,}"
        fault = f"its {len(records)} records overlap ({sizes})"
    elif len(names) < len(records):
        fault = f"its {len(records)} records have {len(names)} different names"
    elif first != 0:
        fault = f"its first record begins after {first:,} other bytes"
    else:
        return
    raise CheckpointError(f"{fault}; torch.save writes no such file")


def _check_legacy(stream: BinaryIO, size: int, names: Set[str]) -> None:
    """Inspect a file from before torch 1.6."""
    inspector = _Inspector(stream, size, names)
    for _ in range(_LEGACY_PICKLES):
        inspector.load()
    declared = sum(inspector.storages.values())
    if declared > size:
        raise EOFError(f"its tensors need {declared:,} bytes")  # as for a truncated file


def _numpy_error(description: Any) -> CheckpointError:
    """Return the error for a numpy type other than numbers.

    With a forged description of such a type, numpy would read memory that is not its own.
    """
    text = f"refused, it describes a numpy type by {str(description)[:80]}"
    return CheckpointError(f"{text}; valid: arrays of numbers")


class _StandIn:
    """Replaces an object that a pickle names: takes any arguments and state, and only checks them.

    The inspector makes a subclass for each name.
    """

    name = ""
    inspector: "_Inspector"

    def __new__(cls, *args: Any) -> Any:
        cls.inspector.check_call(cls.name, args)
        return super().__new__(cls)

    def __init__(self, *args: Any) -> None: ...

    def __setstate__(self, state: Any) -> None:
        self.inspector.check_state(self.name, state)

    def __setitem__(self, key: Any, value: Any) -> None: ...


class _Inspector(pickle._Unpickler):
    """Follows pickles, and notes the names of objects and the bytes of storages in them.

    It derives from the unpickler in Python: that in C allocates a memo of any length that a pickle
    asks for.

    Attributes:
        size: bytes of the file.
        names: every ``module.name`` that the pickles refer to.
        storages: key of a storage -> its bytes.
        expanded: bytes of all tensors that are larger than their storage.
    """

    def __init__(self, stream: IO[bytes], size: int, names: Set[str]) -> None:
        super().__init__(stream, encoding="latin1")
        self.size, self.names = size, names
        self.storages: Dict[str, int] = {}
        self.expanded = 0
        self._stand_ins: Dict[str, Any] = {"torch.Size": tuple}

    def find_class(self, module: str, name: str) -> Any:
        """Return the stand-in for an object, and note its name."""
        module, name = _compat_pickle.NAME_MAPPING.get((module, name), (module, name))
        full = f"{_compat_pickle.IMPORT_MAPPING.get(module, module)}.{name}"
        self.names.add(full)
        if full not in self._stand_ins:
            self._stand_ins[full] = type("_StandIn", (_StandIn,), {"name": full, "inspector": self})
        return self._stand_ins[full]

    def get_extension(self, code: int) -> None:
        """Refuse an object that is named by a number of ``copyreg``."""
        raise pickle.UnpicklingError("copyreg's extensions are not followed")

    def persistent_load(self, pid: Any) -> Tuple[int, int]:
        """Return the bytes of a storage and of one of its elements."""
        _, kind, key, _, count = pid[:5]
        element = _element_bytes(kind.name)
        self.storages[str(key)] = max(self.storages.get(str(key), 0), int(count) * element)
        return int(count) * element, element

    def check_call(self, name: str, args: Tuple[Any, ...]) -> None:
        """Refuse a call that could allocate far more memory than the file has bytes.

        A tensor built from a storage counts as :meth:`_check_tensor` says. In any other call no
        number of :func:`_sizes` may exceed the bytes of the file or :data:`EXPANDED_BYTES`,
        whichever is more. A numpy type must be one of numbers.
        """
        function = name.rsplit(".", 1)[-1]
        if name == "numpy.dtype":
            if not args or not isinstance(args[0], str) or not _NUMBERS.fullmatch(args[0]):
                raise _numpy_error(args[:1])
        elif name == "numpy.ndarray" or name.startswith("numpy.dtype"):
            raise _numpy_error(name)  # numpy's own pickles only refer to these
        elif function == "_rebuild_from_type_v2":  # (inner function, class, its arguments, state)
            args[0](*args[2])  # a stand-in: the inner call is checked in turn
        elif function == "_rebuild_sparse_tensor":  # (layout, (indices, values, dense shape, ...))
            # Under another name: no tensor of a storage, so the dense shape meets the last test.
            self.check_call(f"{name} (dense)", args[1])
        elif function.startswith("_rebuild_") and args and isinstance(args[0], tuple):
            # (storage, offset, shape, ...); in _v3 the seventh is the dtype.
            self._check_tensor(args[0], args[2], args[6].name if function.endswith("_v3") else None)
        elif name not in _NO_SIZES:
            elements = max(_sizes(args), default=0)
            if elements > max(self.size, EXPANDED_BYTES):
                request = f"asks for {name} of {elements:,} elements"
                raise CheckpointError(f"{request}, the file has {self.size:,} bytes")

    def check_state(self, name: str, state: Any) -> None:
        """Check the state that an object is given: of a numpy type, or of a tensor of old files."""
        is_numbers = isinstance(state, tuple) and state[2:] == _NUMBERS_STATE
        if name == "numpy.dtype" and not is_numbers:
            raise _numpy_error(state)
        if isinstance(state, tuple) and len(state) > 2 and isinstance(state[0], tuple):
            self._check_tensor(state[0], state[2])

    def _check_tensor(
        self, storage: Tuple[int, int], shape: Any, dtype: Optional[str] = None
    ) -> None:
        """Limit the total bytes of tensors that are larger than their storage.

        A stride of 0 repeats values, so one such tensor is valid; a copy of it needs its full size.

        Args:
            storage: bytes of the storage and of one of its elements.
            dtype: name of the tensor's dtype if its storage has none.
        """
        available, element = storage
        size = math.prod(shape) * (_element_bytes(dtype) if dtype else element)
        if size > available:
            self.expanded += size
        if self.expanded > max(self.size, EXPANDED_BYTES):
            tensor = f"a tensor of shape {tuple(shape)} ({size:,} bytes)"
            limits = f"a storage of {available:,}; the file has {self.size:,}"
            raise CheckpointError(f"{tensor} repeats {limits}")


def _sizes(args: Tuple[Any, ...]) -> Iterator[int]:
    """Yield each number among the arguments or in a list of theirs, and the product of each list.

    Each may be a size to allocate; the arguments together may be a shape.
    """
    for value in (args, *args):
        if isinstance(value, (tuple, list)):
            numbers = [abs(item) for item in value if isinstance(item, int)]
            yield from numbers
            yield math.prod(numbers)


def _element_bytes(name: str) -> int:
    """Return the bytes of an element of ``torch.FloatStorage``, ``torch.float32`` or the like."""
    last = name.rsplit(".", 1)[-1]
    if last == "UntypedStorage":
        return 1
    if last.endswith("Storage"):
        return int(torch.serialization.StorageType(last).dtype.itemsize)
    return int(getattr(torch, last).itemsize)
