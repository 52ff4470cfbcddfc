"""Data-bins: what ``.idx`` says must be what ``.bin`` holds, and every id must be an entry of the dictionary.

Files are mapped into memory and read in blocks, once in a process as long as their sizes and times stay the same.
"""

import logging
import os
import struct
from typing import Any, Iterator, List, NamedTuple, Optional, Set, Tuple

import numpy as np

from .patch import Patch

logger = logging.getLogger(__name__)

MAX_UNKNOWN = 0.02  # share of <unk> in a file above which a warning says so

DAMAGED_DATA = Patch(
    name="damaged_data",
    reason="a damaged .bin or .idx, or one of another dictionary, is opened without a word or fails without its name",
    upstream="facebookresearch/fairseq#2644, #3903, #5543",
)
_AT_ONCE = 1 << 18  # numbers that stay in a processor's cache
_MMAP = (b"MMIDIDX\x00\x00", struct.Struct("<9sQBQ"))  # magic, format version, number type, rows
_LEGACY = (b"TNTIDX\x00\x00", struct.Struct("<8sQQQQQ"))  # number type, bytes of a number, rows, dimensions of all rows


class Rows(NamedTuple):
    """What an index says of its data."""

    data: np.ndarray  # (N,) integers of the .bin
    sizes: np.ndarray  # (rows,) ids in each row
    shift: int  # what the stored ids are larger by

    def blocks(self) -> Iterator[Tuple[slice, np.ndarray, np.ndarray]]:
        """For some rows at a time: their numbers, their lengths, and the positions behind their last ids, both (n,) int64."""
        end = 0
        for first in range(0, len(self.sizes), _AT_ONCE):
            sizes = self.sizes[first : first + _AT_ONCE].astype(np.int64)
            ends = end + np.cumsum(sizes)
            end = int(ends[-1])
            yield slice(first, first + len(sizes)), sizes, ends


def check_files(path: str, impl: str) -> Optional[Rows]:
    """Compare the index of ``path`` (without its ending) with its data, whose ids are not read.

    A ``--dataset-impl`` without index, and ``huffman``, are not looked at.

    Raises ValueError: empty, cut, longer than it should be, or of two different splits; names the file.
    """
    if impl not in ("mmap", "cached", "lazy"):
        return None
    index, numbers, unit = f"{path}.idx", None, 1
    if impl == "mmap":
        dtype, count, start = _header(index, *_MMAP)
        sizes, places = _mapped(index, start, (np.int32, count), (np.int64, count))
        unit = dtype.itemsize
    else:
        dtype, count, start = _header(index, *_LEGACY)
        numbers, places, sizes = _mapped(index, start, *[(np.int64, count + 1)] * 2, (np.int64, count))
    if count and int(sizes.min()) < 0:
        raise _damaged(index, f"has a row of length {int(sizes.min())}")
    total, found = int(sizes.sum(dtype=np.int64)), os.path.getsize(f"{path}.bin")
    if found != total * dtype.itemsize:
        raise _damaged(f"{path}.bin", f"has {found:,} bytes, expected {total * dtype.itemsize:,} by {index}")
    data = np.memmap(f"{path}.bin", dtype, "r") if total else np.zeros(0, dtype)
    rows = Rows(data, sizes, shift=0 if numbers is None else 1)
    right = numbers is None or (int(numbers[count]), int(places[count])) == (count, total)
    for part, lengths, ends in rows.blocks():
        right = right and np.array_equal(places[part], (ends - lengths) * unit)
        right = right and (numbers is None or np.array_equal(numbers[part], np.arange(part.start, part.stop)))
    if not right:
        raise _damaged(index, "has places that do not follow from the lengths of its rows")
    return rows


def _header(index: str, magic: bytes, layout: struct.Struct) -> Tuple[Any, int, int]:
    """Type of the ids, number of rows, and where the head of an index ends."""
    from fairseq.data.indexed_dataset import _code_to_dtype

    with open(index, "rb") as stream:
        head = stream.read(layout.size)
    if len(head) < layout.size or not head.startswith(magic):
        what = "does not begin as an index of fairseq does, for this --dataset-impl" if head else "is empty"
        raise _damaged(index, what)
    _, version, code, *numbers = layout.unpack(head)
    if version != 1:
        raise _damaged(index, f"has format version {version}, expected 1")
    if code not in _code_to_dtype:
        raise _damaged(index, f"names the number type {code}, expected one of {sorted(_code_to_dtype)}")
    dtype = np.dtype(_code_to_dtype[code])
    if len(numbers) > 1 and numbers != [dtype.itemsize, numbers[1], numbers[1]]:
        raise _damaged(index, f"does not describe rows of {dtype}")
    return dtype, numbers[:2][-1], layout.size


def _mapped(index: str, start: int, *arrays: Tuple[Any, int]) -> List[Any]:
    """The arrays, of a type and a length each, that follow the head of an index."""
    expected = start + sum(np.dtype(kind).itemsize * length for kind, length in arrays)
    found = os.path.getsize(index)
    if found != expected:
        raise _damaged(
            index, f"has {found:,} bytes, expected {expected:,} for the {arrays[-1][1]:,} rows that it names"
        )
    made = []
    for kind, length in arrays:
        made.append(np.memmap(index, kind, "r", start, (length,)))
        start += made[-1].nbytes
    return made


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
        if int(part.min()) < shift or int(part.max()) >= entries + shift:
            wrong = int(((part < shift) | (part >= entries + shift)).argmax())
            raise _wrong_id(path, rows, start + wrong, f"valid: 0 to {entries - 1:,}, the dictionary's entries")
        unknown += int(np.count_nonzero(part == dictionary.unk() + shift))
    for _, lengths, ends in rows.blocks():
        last = ends[lengths > 0] - 1
        started = last[rows.data[last] == dictionary.bos() + shift]
        if len(started):
            raise _wrong_id(path, rows, int(started[0]), f"no row ends in {dictionary[dictionary.bos()]}")
    warn_unknown(path, unknown, total)


def _wrong_id(path: str, rows: Rows, position: int, valid: str) -> ValueError:
    row = sum(int(np.count_nonzero(ends <= position)) for _, _, ends in rows.blocks())
    return ValueError(
        f"{path}.bin: has the id {int(rows.data[position]) - rows.shift:,} in row {row + 1:,}; {valid}. The file is damaged, or "
        "the dictionary is cut or another one than it was made with: run fairseq-preprocess again"
    )


def warn_unknown(path: str, unknown: int, total: int) -> bool:
    """Log a warning where more than ``MAX_UNKNOWN`` of the pieces are ``<unk>``; True where they are."""
    if unknown > MAX_UNKNOWN * total:
        logger.warning(
            f"{path}: {unknown:,} of {total:,} pieces ({100 * unknown / total:.1f} %) are <unk>: do text, pieces and dictionary "
            "belong together?"
        )
    return unknown > MAX_UNKNOWN * total


_checked: Set[Tuple[Any, ...]] = set()  # tasks open their data again at each epoch


@DAMAGED_DATA.replace("fairseq.data.indexed_dataset:make_dataset")
def make_dataset(stock: Any, path: str, impl: str, fix_lua_indexing: bool = False, dictionary: Any = None) -> Any:
    """Check the files first. Those of alignments come without a dictionary."""
    files = [f"{path}.{ending}" for ending in ("idx", "bin")]
    if all(map(os.path.isfile, files)):
        found = [(os.path.realpath(file), os.stat(file).st_size, os.stat(file).st_mtime_ns) for file in files]
        key = (*found, impl, None if dictionary is None else len(dictionary))
        rows = None if key in _checked else check_files(path, impl)
        if rows is not None and dictionary is not None:
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
