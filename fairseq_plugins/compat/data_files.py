"""Data-bins: what ``.idx`` says must be what ``.bin`` holds, and every id must be an entry of the dictionary."""

import logging
import os
import struct
from typing import Any, NamedTuple, Optional, Set, Tuple

import numpy as np

from .patch import Patch

logger = logging.getLogger(__name__)

MAX_UNKNOWN = 0.02
"""Share of ``<unk>`` in a file above which a warning says so."""

DAMAGED_DATA = Patch(
    name="damaged_data",
    reason="a damaged .bin or .idx, or one of another dictionary, is opened without a word or fails without its name",
    upstream="facebookresearch/fairseq#2644, #3903, #5543",
)
_AT_ONCE = 1 << 18  # ids that stay in a processor's cache
_MMAP = (b"MMIDIDX\x00\x00", "<QBQ")  # format version, number type, rows
_LEGACY = (b"TNTIDX\x00\x00", "<QQQQQ")  # format version, number type, its bytes, rows, dimensions


class Rows(NamedTuple):
    """What an index says of its data."""

    data: np.ndarray  # (N,) integers of the .bin, mapped into memory
    ends: np.ndarray  # (rows,) int64, position behind the last id of each row
    shift: int = 0  # what the stored ids are larger by


def check_files(path: str, impl: str) -> Optional[Rows]:
    """Compare the index of ``path`` (without its ending) with its data, which are not read.

    A ``--dataset-impl`` without index, and ``huffman``, are not looked at.

    Raises ValueError: empty, cut, longer than it should be, or of two different splits; names the file.
    """
    if impl not in ("mmap", "cached", "lazy"):
        return None
    with open(f"{path}.idx", "rb") as stream:
        index = stream.read()
    return _mmap_rows(path, index) if impl == "mmap" else _legacy_rows(path, index)


def _header(path: str, index: bytes, layout: Any) -> Any:
    """Fields of the head of an index after its version, as integers, and where it ends."""
    magic, fields = layout
    end = len(magic) + struct.calcsize(fields)
    if not index.startswith(magic) or len(index) < end:
        what = "is empty" if not index else "does not begin as an index of fairseq does, for this --dataset-impl"
        raise _damaged(f"{path}.idx", what)
    found = struct.unpack(fields, index[len(magic) : end])
    if found[0] != 1:
        raise _damaged(f"{path}.idx", f"has format version {found[0]}, expected 1")
    return found[1:], end


def _number_type(path: str, code: int) -> Any:
    from fairseq.data.indexed_dataset import _code_to_dtype

    if code not in _code_to_dtype:
        raise _damaged(f"{path}.idx", f"names the number type {code}, expected one of {sorted(_code_to_dtype)}")
    return np.dtype(_code_to_dtype[code])


def _mmap_rows(path: str, index: bytes) -> Rows:
    (code, count), start = _header(path, index, _MMAP)
    dtype = _number_type(path, code)
    _check_length(path, len(index), start + 12 * count, count)
    sizes = np.frombuffer(index, dtype=np.int32, count=count, offset=start).astype(np.int64)
    ends = _ends(path, sizes)
    pointers = np.frombuffer(index, dtype=np.int64, count=count, offset=start + 4 * count)
    if not np.array_equal(pointers, (ends - sizes) * dtype.itemsize):
        raise _damaged(f"{path}.idx", "has places that do not follow from the lengths of its rows")
    return Rows(_data(path, ends, dtype), ends)


def _legacy_rows(path: str, index: bytes) -> Rows:
    (code, width, count, dims), start = _header(path, index, _LEGACY)
    dtype = _number_type(path, code)
    if width != dtype.itemsize:
        raise _damaged(f"{path}.idx", f"says that {dtype} has {width} bytes")
    _check_length(path, len(index), start + 8 * (2 * (count + 1) + dims), count)
    numbers = np.frombuffer(index, dtype=np.int64, offset=start)
    firsts, offsets, sizes = numbers[: count + 1], numbers[count + 1 : 2 * count + 2], numbers[2 * count + 2 :]
    if dims != count or not np.array_equal(firsts, np.arange(count + 1)):
        raise _damaged(f"{path}.idx", "has rows that are no rows of ids")
    ends = _ends(path, sizes)
    if offsets[0] != 0 or not np.array_equal(offsets[1:], ends):
        raise _damaged(f"{path}.idx", "has places that do not follow from the lengths of its rows")
    return Rows(_data(path, ends, dtype), ends, shift=1)


def _check_length(path: str, found: int, expected: int, count: int) -> None:
    if found != expected:
        raise _damaged(
            f"{path}.idx", f"has {found:,} bytes, expected {expected:,} for the {count:,} rows that it names"
        )


def _ends(path: str, sizes: np.ndarray) -> np.ndarray:
    if len(sizes) and int(sizes.min()) < 0:
        raise _damaged(f"{path}.idx", f"has a row of length {int(sizes.min())}")
    return np.cumsum(sizes, dtype=np.int64)


def _data(path: str, ends: np.ndarray, dtype: Any) -> np.ndarray:
    numbers = int(ends[-1]) if len(ends) else 0
    found, expected = os.path.getsize(f"{path}.bin"), numbers * dtype.itemsize
    if found != expected:
        raise _damaged(f"{path}.bin", f"has {found:,} bytes, expected {expected:,} by {path}.idx")
    return np.memmap(f"{path}.bin", dtype=dtype, mode="r") if numbers else np.zeros(0, dtype)


def _damaged(file: str, what: str) -> ValueError:
    return ValueError(
        f"{file}: {what}; the file is damaged or belongs to another one. Run fairseq-preprocess again, or copy .bin and .idx again"
    )


def check_ids(path: str, rows: Rows, dictionary: Any) -> None:
    """Look at every id once: about a second for 1,000 million of them.

    Raises ValueError: an id beyond the dictionary, or a row that ends in ``<s>``, as where a block of zeros was written.
    """
    entries, shift, unknown, total = len(dictionary), rows.shift, 0, len(rows.data)
    if not np.issubdtype(rows.data.dtype, np.integer):
        raise _damaged(f"{path}.idx", f"names the number type {rows.data.dtype}, expected one of integers")
    if not total:
        raise ValueError(f"{path}.bin: has no tokens; valid: at least one row. Run fairseq-preprocess on text")
    for start in range(0, total, _AT_ONCE):
        part = np.asarray(rows.data[start : start + _AT_ONCE])
        low, high = int(part.min()) - shift, int(part.max()) - shift
        if low < 0 or high >= entries:
            wrong = (part < shift) | (part >= entries + shift)
            raise _wrong_id(
                path, rows, start + int(wrong.argmax()), f"valid: 0 to {entries - 1:,}, the dictionary's entries"
            )
        unknown += int(np.count_nonzero(part == dictionary.unk() + shift))
    filled = rows.ends[np.diff(rows.ends, prepend=0) > 0] - 1
    last = rows.data[filled]
    started = np.flatnonzero(last == dictionary.bos() + shift)
    if len(started):
        raise _wrong_id(path, rows, int(filled[started[0]]), f"no row ends in {dictionary[dictionary.bos()]}")
    warn_unknown(path, unknown, total)


def _wrong_id(path: str, rows: Rows, position: int, valid: str) -> ValueError:
    row = int(np.searchsorted(rows.ends, position, side="right"))
    return ValueError(
        f"{path}.bin: has the id {int(rows.data[position]) - rows.shift:,} in row {row + 1:,}; {valid}. The file is damaged, or "
        "the dictionary is cut or another one than it was made with: run fairseq-preprocess again"
    )


def warn_unknown(path: str, unknown: int, total: int) -> bool:
    """Log a warning where more than ``MAX_UNKNOWN`` of the pieces are ``<unk>``; True where they are."""
    if unknown > MAX_UNKNOWN * total:
        logger.warning(
            "%s: %s of %s pieces (%.1f %%) are <unk>: do text, pieces and dictionary belong together?",
            path,
            f"{unknown:,}",
            f"{total:,}",
            100 * unknown / total,
        )
    return unknown > MAX_UNKNOWN * total


_checked: Set[Tuple[Any, ...]] = set()  # tasks open their data again at each epoch


@DAMAGED_DATA.replace("fairseq.data.indexed_dataset:make_dataset")
def make_dataset(stock: Any, path: str, impl: str, fix_lua_indexing: bool = False, dictionary: Any = None) -> Any:
    """Check the files first."""
    there = all(os.path.isfile(f"{path}.{ending}") for ending in ("idx", "bin"))
    rows = check_files(path, impl) if there else None
    if rows is not None and dictionary is not None:
        found = os.stat(f"{path}.bin")
        key = (os.path.realpath(path), found.st_size, found.st_mtime_ns, rows.ends.tobytes()[-8:], len(dictionary))
        if key not in _checked:
            check_ids(path, rows, dictionary)
        _checked.add(key)
    made = stock(path, impl, fix_lua_indexing, dictionary)
    if impl == "raw" and made is not None and len(made):
        lines = made.tokens_list
        unknown = sum(int(line.eq(dictionary.unk()).sum()) for line in lines)
        warn_unknown(path, unknown, sum(map(len, lines)))
    return made


@DAMAGED_DATA.replace("fairseq.data:LanguagePairDataset.__init__")
def make_pairs(
    stock: Any, self: Any, src: Any, src_sizes: Any, src_dict: Any, tgt: Any = None, *args: Any, **kwargs: Any
) -> None:
    """Compare the numbers of rows."""
    if tgt is not None and len(src) != len(tgt):
        raise ValueError(
            f"the two sides of a pair have different numbers of rows: {_file(src)} {len(src):,}, {_file(tgt)} {len(tgt):,}; "
            "run fairseq-preprocess again on the two texts"
        )
    stock(self, src, src_sizes, src_dict, tgt, *args, **kwargs)


def _file(rows: Any) -> str:
    """Where a dataset was read, for messages."""
    while not hasattr(rows, "_path") and hasattr(rows, "dataset"):
        rows = rows.dataset
    return str(getattr(rows, "_path", None) or getattr(rows, "path", None) or "one side")
