"""Refuse a damaged data-bin, or one of another dictionary, when it is opened.

The index must describe the ``.bin`` file, and every id must be an entry of the dictionary. Files
are mapped into memory and read in blocks, once per process while sizes and times stay the same.
"""

import os
import struct
from typing import Any, Iterator, List, NamedTuple, Optional, Set, Tuple

import numpy as np

from .patch import Harm, Patch

DAMAGED_DATA = Patch(
    name="damaged_data",
    harm=Harm.WRONG_RESULT,
    defect="a damaged data-bin, or one of another dictionary, is trained on without an error",
    upstream="facebookresearch/fairseq#2644, #3903, #5543",
)
BLOCK_SIZE = 1 << 18
"""Numbers read at a time; they stay in the cache of a processor."""

MMAP_MAGIC = b"MMIDIDX\x00\x00"
MMAP_HEADER = struct.Struct("<9sQBQ")  # magic, format version, number type, rows
LEGACY_MAGIC = b"TNTIDX\x00\x00"
LEGACY_HEADER = struct.Struct("<8sQQQQQ")  # + bytes of a number, dimensions of all rows


class Header(NamedTuple):
    """Header of an index."""

    dtype: np.dtype  # of the ids
    rows: int
    size: int  # bytes of the header


class Rows(NamedTuple):
    """The rows of a data-bin, as its index describes them."""

    ids: np.ndarray  # (N,) integers of the .bin
    sizes: np.ndarray  # (R,) number of ids in each row
    shift: int  # stored id minus entry of the dictionary

    def blocks(self) -> Iterator["Block"]:
        """Yield the rows in blocks of at most ``BLOCK_SIZE``."""
        end = 0
        for first in range(0, len(self.sizes), BLOCK_SIZE):
            lengths = self.sizes[first : first + BLOCK_SIZE].astype(np.int64)
            ends = end + np.cumsum(lengths)
            end = int(ends[-1])
            yield Block(slice(first, first + len(lengths)), lengths, ends)


class Block(NamedTuple):
    """Consecutive rows of a data-bin."""

    rows: slice  # their numbers
    lengths: np.ndarray  # (n,) int64, number of ids in each row
    ends: np.ndarray  # (n,) int64, where each row ends in ``Rows.ids``


def check_files(path: str, impl: str) -> Optional[Rows]:
    """Compare an index with the size of its data. Reads no ids.

    Args:
        path: the two files without their endings.
        impl: value of ``--dataset-impl``.

    Returns:
        The rows; None for ``raw`` and ``huffman``, which are not checked.

    Raises:
        ValueError: a file is empty, cut, too long, or of another split; names the file.
    """
    if impl == "mmap":
        return _check_mmap(path)
    if impl in ("cached", "lazy"):
        return _check_legacy(path)
    return None


def _check_mmap(path: str) -> Rows:
    """Check the format of ``--dataset-impl mmap``.

    After its header the index holds the length of each row, and the byte where it starts.
    """
    index = f"{path}.idx"
    header = _read_header(index, MMAP_MAGIC, MMAP_HEADER)
    shapes = ((np.int32, header.rows), (np.int64, header.rows))
    sizes, places = _map_arrays(index, header.size, *shapes)
    rows = Rows(_map_ids(path, header.dtype, sizes), sizes, shift=0)
    for block in rows.blocks():
        starts = (block.ends - block.lengths) * header.dtype.itemsize
        if not np.array_equal(places[block.rows], starts):
            raise _wrong_places(index)
    return rows


def _check_legacy(path: str) -> Rows:
    """Check the format of ``--dataset-impl cached`` and ``lazy``, whose ids are stored plus 1.

    After its header the index holds three arrays: the number of each row's first dimension, the
    place of its first id, and its length. The first two end with the total. A row has one
    dimension, so its first dimension has the row's number.
    """
    index = f"{path}.idx"
    header = _read_header(index, LEGACY_MAGIC, LEGACY_HEADER)
    count = header.rows
    shapes = ((np.int64, count + 1), (np.int64, count + 1), (np.int64, count))
    dimensions, places, sizes = _map_arrays(index, header.size, *shapes)
    rows = Rows(_map_ids(path, header.dtype, sizes), sizes, shift=1)
    if (int(dimensions[count]), int(places[count])) != (count, len(rows.ids)):
        raise _wrong_places(index)
    for block in rows.blocks():
        numbers = np.arange(block.rows.start, block.rows.stop)
        if not np.array_equal(dimensions[block.rows], numbers):
            raise _wrong_places(index)
        if not np.array_equal(places[block.rows], block.ends - block.lengths):
            raise _wrong_places(index)
    return rows


def _read_header(index: str, magic: bytes, layout: struct.Struct) -> Header:
    """Read the header of an index; raise ValueError if it does not begin with ``magic``."""
    from fairseq.data.indexed_dataset import _code_to_dtype

    with open(index, "rb") as stream:
        header = stream.read(layout.size)
    if not header:
        raise _damaged(index, "is empty")
    if len(header) < layout.size or not header.startswith(magic):
        raise _damaged(index, "does not begin as an index of fairseq, for this --dataset-impl")
    _, version, code, *numbers = layout.unpack(header)
    if version != 1:
        raise _damaged(index, f"has format version {version}, expected 1")
    if code not in _code_to_dtype:
        valid = sorted(_code_to_dtype)
        raise _damaged(index, f"names the number type {code}, expected one of {valid}")
    dtype = np.dtype(_code_to_dtype[code])
    if layout is MMAP_HEADER:
        return Header(dtype, numbers[0], layout.size)
    item_bytes, count, dimensions = numbers
    if item_bytes != dtype.itemsize or dimensions != count:
        raise _damaged(index, f"does not describe rows of {dtype}")
    return Header(dtype, count, layout.size)


def _map_arrays(index: str, start: int, *shapes: Tuple[Any, int]) -> List[np.ndarray]:
    """Map the arrays that follow the header of an index into memory.

    Args:
        index: path of the index.
        start: length of the header in bytes.
        shapes: type and length of each array, in order.

    Raises:
        ValueError: the file is shorter or longer than these arrays.
    """
    expected = start + sum(np.dtype(dtype).itemsize * length for dtype, length in shapes)
    size = os.path.getsize(index)
    if size != expected:
        rows = shapes[-1][1]
        fault = f"has {size:,} bytes, expected {expected:,} for the {rows:,} rows that it names"
        raise _damaged(index, fault)
    arrays = []
    for dtype, length in shapes:
        arrays.append(np.memmap(index, dtype, "r", start, (length,)))
        start += arrays[-1].nbytes
    return arrays  # type: ignore[return-value]


def _map_ids(path: str, dtype: np.dtype, sizes: np.ndarray) -> np.ndarray:
    """Map the ids of a ``.bin`` into memory; raise ValueError if ``sizes`` do not add up to it."""
    if len(sizes) and int(sizes.min()) < 0:
        raise _damaged(f"{path}.idx", f"has a row of length {int(sizes.min())}")
    total = int(sizes.sum(dtype=np.int64))
    size, expected = os.path.getsize(f"{path}.bin"), total * dtype.itemsize
    if size != expected:
        raise _damaged(f"{path}.bin", f"has {size:,} bytes, expected {expected:,} by {path}.idx")
    return np.memmap(f"{path}.bin", dtype, "r") if total else np.zeros(0, dtype)


def _damaged(file: str, fault: str) -> ValueError:
    return ValueError(
        f"{file}: {fault}; the file is damaged or belongs to another one. "
        "Run fairseq-preprocess again, or copy .bin and .idx again"
    )


def _wrong_places(index: str) -> ValueError:
    return _damaged(index, "has places that do not follow from the lengths of its rows")


def check_ids(path: str, rows: Rows, dictionary: Any) -> None:
    """Compare every id with the dictionary. 1,000 million ids take about a second.

    Args:
        path: the data-bin without its endings, for messages.
        rows: its rows.
        dictionary: a fairseq dictionary.

    Raises:
        ValueError: there is no id, an id lies beyond the dictionary, or a row ends in ``<s>``,
            which has id 0: a damaged disk leaves blocks of zeros.
    """
    entries, shift = len(dictionary), rows.shift
    if not np.issubdtype(rows.ids.dtype, np.integer):
        fault = f"names the number type {rows.ids.dtype}, expected one of integers"
        raise _damaged(f"{path}.idx", fault)
    if not len(rows.ids):
        raise ValueError(f"{path}.bin: has no tokens; run fairseq-preprocess on text")
    for start in range(0, len(rows.ids), BLOCK_SIZE):
        block = np.asarray(rows.ids[start : start + BLOCK_SIZE])
        if int(block.min()) < shift or int(block.max()) >= entries + shift:
            position = start + int(((block < shift) | (block >= entries + shift)).argmax())
            valid = f"valid: 0 to {entries - 1:,}, the dictionary's entries"
            raise _wrong_id(path, rows, position, valid)
    for rows_block in rows.blocks():
        last = rows_block.ends[rows_block.lengths > 0] - 1
        bos = last[rows.ids[last] == dictionary.bos() + shift]
        if len(bos):
            valid = f"no row ends in {dictionary[dictionary.bos()]}"
            raise _wrong_id(path, rows, int(bos[0]), valid)


def _wrong_id(path: str, rows: Rows, position: int, valid: str) -> ValueError:
    """Build the error of the id at a position in ``rows.ids``; counts rows from 1."""
    row = sum(int(np.count_nonzero(block.ends <= position)) for block in rows.blocks())
    entry = int(rows.ids[position]) - rows.shift
    return ValueError(
        f"{path}.bin: has the id {entry:,} in row {row + 1:,}; {valid}. "
        "The file is damaged, or the dictionary is cut or another one than it was made with: "
        "run fairseq-preprocess again"
    )


_checked: Set[Tuple[Any, ...]] = set()
"""Files that this process has checked: tasks that open them in every epoch wait only once."""


def _file_state(file: str) -> Tuple[str, int, int]:
    """Return path, size and time of modification of a file."""
    status = os.stat(file)
    return os.path.realpath(file), status.st_size, status.st_mtime_ns


@DAMAGED_DATA.replace("fairseq.data.indexed_dataset:make_dataset")
def make_dataset(
    stock: Any,
    path: str,
    impl: str,
    fix_lua_indexing: bool = False,
    dictionary: Any = None,
) -> Any:
    """Check the files of a data-bin, then open them.

    fairseq opens word alignments without a dictionary; their ids are not checked.
    """
    files = [f"{path}.{ending}" for ending in ("idx", "bin")]
    if all(map(os.path.isfile, files)):
        key = (*map(_file_state, files), impl, None if dictionary is None else len(dictionary))
        if key not in _checked:
            rows = check_files(path, impl)
            if rows is not None and dictionary is not None:
                check_ids(path, rows, dictionary)
            _checked.add(key)
    return stock(path, impl, fix_lua_indexing, dictionary)
