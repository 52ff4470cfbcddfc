"""A look at a file of ``torch.save`` before torch reads it: checksums, and sizes that the file cannot hold.

Nothing is built from the file. Its pickles are followed with empty stand-ins for every object that they name.
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

from .errors import CheckpointError

logger = logging.getLogger(__name__)

ZIP_START = b"PK\x03\x04"  # as torch decides; zipfile.is_zipfile would also take a pickle with a zip file behind it
EXPANDED_BYTES = 16 * 2**20  # to which copies of tensors that repeat their storage may grow, where the file is smaller
_LEGACY_PICKLES = 4  # magic number, protocol, machine, content; the bytes of the tensors follow
_NO_SIZES = {"builtins.set", "collections.Counter", "collections.OrderedDict"}  # called with values of any size
_NUMBERS = re.compile(r"[<>|=]?(?:[?bhilqBHILQefdgFD]|b1|[iu][1248]|f(?:2|4|8|16)|c(?:8|16|32))")
_NUMBERS_STATE = (None, None, None, -1, -1, 0)  # no part of another type, no fields, sizes and flags of the type itself


def check_file(stream: BinaryIO, origin: str, names: Set[str]) -> None:
    """Refuse a file of ``torch.save`` that is damaged, or that would take more memory than the file is big.

    The checksum (CRC-32) of each record is compared, in half the time that torch.load takes for the same file. Files from before
    torch 1.6 have none. ``names`` gets every ``module.name`` that the file refers to, those before its damage if it is damaged.
    The stream may be at any position, and is at its start afterwards.

    Raises CheckpointError: a checksum differs, records are compressed or overlap, or more is declared than it holds; any other
    Exception where the file is truncated or no checkpoint: torch cannot read it either.
    """
    size = stream.seek(0, io.SEEK_END)
    stream.seek(0)
    zipped = stream.read(len(ZIP_START)) == ZIP_START
    stream.seek(0)
    try:
        note = (_check_zip if zipped else _check_legacy)(stream, size, names)
    except MemoryError as error:
        raise CheckpointError(f"checkpoint {origin}: asks for more memory than its {size:,} bytes can need") from error
    except CheckpointError as error:
        raise CheckpointError(f"checkpoint {origin}: {error}") from None
    if note:
        logger.info("checkpoint %s: %s", origin, note)
    stream.seek(0)


def _check_zip(stream: BinaryIO, size: int, names: Set[str]) -> str:
    note = ""
    with zipfile.ZipFile(stream) as archive:
        records = archive.infolist()
        _check_records(records, size)
        if not any(record.CRC for record in records if record.file_size):
            note = "was saved without checksums (torch.serialization.set_crc32_options)"
            for record in records:
                record.CRC = None  # type: ignore[assignment]  # there is nothing to compare with
        wrong = archive.testzip()
        if wrong:
            raise CheckpointError(
                f"damaged, the checksum of record {wrong} is wrong: bits have changed since it was written. Take another copy of "
                "the file or an earlier checkpoint"
            )
        sizes = {record.filename: record.file_size for record in records}
        folder = records[0].filename.split("/")[0]
        if f"{folder}/data.pkl" not in sizes:
            return note  # torch refuses it with its own words
        inspector = _Inspector(io.BytesIO(archive.read(f"{folder}/data.pkl")), size, names)
    inspector.load()
    for key, declared in inspector.storages.items():
        held = sizes.get(f"{folder}/data/{key}", declared)  # a missing record is torch's to report
        if declared > held:
            raise CheckpointError(
                f"a tensor needs {declared:,} bytes of record {folder}/data/{key}, which has {held:,}"
            )
    return note


def _check_records(records: List[zipfile.ZipInfo], size: int) -> None:
    compressed = [record for record in records if record.compress_type != zipfile.ZIP_STORED]
    if compressed:
        worst = max(compressed, key=lambda record: record.file_size)
        raise CheckpointError(
            f"its record {worst.filename} is compressed, {worst.compress_size:,} to {worst.file_size:,} bytes; torch.save writes "
            "records as they are"
        )
    declared, names = sum(record.file_size for record in records), {record.filename for record in records}
    if declared > size or len(names) < len(records) or min(record.header_offset for record in records) != 0:
        raise CheckpointError(
            f"its {len(records)} records overlap ({declared:,} bytes of records, {size:,} bytes of file); torch.save writes them "
            "one after the other"
        )


def _check_legacy(stream: BinaryIO, size: int, names: Set[str]) -> str:
    inspector = _Inspector(stream, size, names)
    for _ in range(_LEGACY_PICKLES):
        inspector.load()
    declared = sum(inspector.storages.values())
    if declared > size:
        raise EOFError(f"its tensors need {declared:,} bytes")  # like any file that is cut
    return "a file of the format before torch 1.6 has no checksums; flipped bits go unnoticed"


def _no_numbers(found: Any) -> CheckpointError:
    return CheckpointError(
        f"refused, it describes a numpy type by {str(found)[:80]}; valid: arrays of numbers, because numpy reads memory that is "
        "not its own where the description of another type is forged"
    )


class _Named:
    """Stands for whatever a pickle names: takes any arguments and any state, does nothing."""

    name = ""
    inspector: "_Inspector"

    def __new__(cls, *args: Any) -> Any:
        cls.inspector.called(cls.name, args)
        return super().__new__(cls)

    def __init__(self, *args: Any) -> None: ...

    def __setstate__(self, state: Any) -> None:
        self.inspector.built(self.name, state)

    def __setitem__(self, key: Any, value: Any) -> None: ...


# The one in Python, not in C: that one lets a pickle ask for a memo of any length.
class _Inspector(pickle._Unpickler):
    """Follows pickles and notes the names of objects and the bytes of storages in them."""

    def __init__(self, stream: IO[bytes], size: int, names: Set[str]) -> None:
        super().__init__(stream, encoding="latin1")
        self.size, self.names = size, names
        self.storages: Dict[str, int] = {}
        self.expanded = 0
        self._stand_ins: Dict[str, Any] = {"torch.Size": tuple}

    def find_class(self, module: str, name: str) -> Any:
        module, name = _compat_pickle.NAME_MAPPING.get((module, name), (module, name))
        full = f"{_compat_pickle.IMPORT_MAPPING.get(module, module)}.{name}"
        self.names.add(full)
        if full not in self._stand_ins:
            self._stand_ins[full] = type("_Named", (_Named,), {"name": full, "inspector": self})
        return self._stand_ins[full]

    def get_extension(self, code: int) -> None:
        raise pickle.UnpicklingError("copyreg's extensions are not followed")

    def persistent_load(self, pid: Any) -> Tuple[int, int]:
        """Bytes of a storage and of one element of it."""
        _, kind, key, _, count = pid[:5]
        element = _element_bytes(kind.name)
        self.storages[str(key)] = max(self.storages.get(str(key), 0), int(count) * element)
        return int(count) * element, element

    def called(self, name: str, args: Tuple[Any, ...]) -> None:
        """Look at a call that the pickle asks for: no tensor bigger than its storage, no size bigger than the file."""
        function = name.rsplit(".", 1)[-1]
        if name == "numpy.dtype":
            if not args or not isinstance(args[0], str) or not _NUMBERS.fullmatch(args[0]):
                raise _no_numbers(args[:1])
        elif name == "numpy.ndarray" or name.startswith("numpy.dtype"):
            raise _no_numbers(name)  # numpy's own pickles only refer to these
        elif function == "_rebuild_from_type_v2":
            args[0](*args[2])
        elif function == "_rebuild_sparse_tensor":
            self.called(f"{name} (dense)", args[1])
        elif function.startswith("_rebuild_") and args and isinstance(args[0], tuple):
            self._tensor(args[0], args[2], args[6].name if function.endswith("_v3") else None)
        elif name not in _NO_SIZES:
            asked = max(_sizes(args), default=0)
            if asked > max(self.size, EXPANDED_BYTES):
                raise CheckpointError(f"asks for {name} of {asked:,} elements, the file has {self.size:,} bytes")

    def built(self, name: str, state: Any) -> None:
        """Look at the state of an object: tensors of old files get their storage there, numpy's types their layout."""
        if name == "numpy.dtype" and (not isinstance(state, tuple) or state[2:] != _NUMBERS_STATE):
            raise _no_numbers(state)
        if isinstance(state, tuple) and len(state) > 2 and isinstance(state[0], tuple):
            self._tensor(state[0], state[2])

    def _tensor(self, storage: Tuple[int, int], shape: Any, dtype: Optional[str] = None) -> None:
        held, element = storage
        needed = math.prod(shape) * (_element_bytes(dtype) if dtype else element)
        self.expanded += needed if needed > held else 0
        if self.expanded > max(self.size, EXPANDED_BYTES):
            raise CheckpointError(
                f"a tensor of shape {tuple(shape)} ({needed:,} bytes) repeats a storage of {held:,} "
                f"bytes; the file has {self.size:,}"
            )


def _sizes(args: Tuple[Any, ...]) -> Iterator[int]:
    """What the numbers among arguments may stand for: each by itself, and a shape's product."""
    for value in (args, *args):
        if isinstance(value, (tuple, list)):
            numbers = [abs(item) for item in value if isinstance(item, int)]
            yield from numbers
            yield math.prod(numbers)


def _element_bytes(name: str) -> int:
    """Bytes of one element of ``torch.FloatStorage``, ``torch.UntypedStorage`` or ``torch.float32``."""
    last = name.rsplit(".", 1)[-1]
    if last == "UntypedStorage":
        return 1
    dtype = torch.serialization.StorageType(last).dtype if last.endswith("Storage") else getattr(torch, last)
    return int(dtype.itemsize)
