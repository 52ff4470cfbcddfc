"""Test damaged data-bins: they are refused when they are opened, by the name of the file."""

import struct

import numpy as np
import pytest
import torch
from fairseq.data import data_utils
from fairseq.data.indexed_dataset import make_builder

from fairseq_plugins.compat import data_files
from tests import builders

ROWS = 700  # 4,096 zeros overwrite more than one row
MMAP, LEGACY = "mmap", "cached"


def write(prefix, rows, impl=MMAP, vocabulary=None):
    builder = make_builder(f"{prefix}.bin", impl, vocabulary)
    for row in rows:
        builder.add_item(torch.tensor(row).int())
    builder.finalize(f"{prefix}.idx")


def write_random(prefix, impl=MMAP):
    rows = builders.sentences(ROWS, seed=3, low=3, high=12)
    write(prefix, [[*row, builders.EOS] for row in rows], impl)


def load(prefix, pieces=builders.PIECES):
    symbols = builders.of_symbols(builders.piece_names(pieces))
    return data_utils.load_indexed_dataset(str(prefix), symbols)


def put(place, value):
    """Return an edit that overwrites bytes."""
    return lambda content: content[:place] + value + content[place + len(value) :]


def flip(place, bit):
    return lambda content: put(place, bytes([content[place] ^ (1 << bit)]))(content)


def each(edit, mmap, legacy, value):
    """Return an edit for each format, with the place that it has there."""
    return {MMAP: edit(mmap, value), LEGACY: edit(legacy, value)}


def exchange_lengths(content):
    return content[:26] + content[30:34] + content[26:30] + content[34:]


def reverse_lengths(content):
    lengths = np.frombuffer(content[-8 * ROWS :], np.int64)
    return content[: -8 * ROWS] + lengths[::-1].tobytes()


# Where the lengths and the places of the rows begin in an index of either format.
MMAP_LENGTHS, MMAP_PLACES = 26, 26 + 4 * ROWS
LEGACY_LENGTHS, LEGACY_PLACES = 48 + 16 * (ROWS + 1), 48 + 8 * (ROWS + 1)
DAMAGE = {
    "empty": lambda content: b"",
    "one byte less": lambda content: content[:-1],
    "one byte more": lambda content: content + b"\0",
    "first byte lost": lambda content: content[1:],
    "zeros at the start": put(0, bytes(4096)),
}
INDEX_DAMAGE = {
    **{name: {MMAP: edit, LEGACY: edit} for name, edit in DAMAGE.items()},
    "magic": each(flip, 3, 3, 1),
    "version": each(put, 9, 8, b"\x02"),
    "another number type": each(put, 17, 16, b"\x05"),
    "no number type": each(put, 17, 16, b"\x63"),
    "fewer rows": each(put, 18, 32, struct.pack("<Q", ROWS - 1)),
    "more rows": each(put, 18, 32, struct.pack("<Q", 1 << 40)),
    "a length": each(flip, MMAP_LENGTHS + 40, LEGACY_LENGTHS + 80, 0),
    "a negative length": each(flip, MMAP_LENGTHS + 43, LEGACY_LENGTHS + 87, 7),
    "a place": each(flip, MMAP_PLACES + 80, LEGACY_PLACES + 80, 3),
    "the last place": each(flip, MMAP_PLACES + 8 * ROWS - 8, LEGACY_LENGTHS - 8, 3),
    "lengths in another order": {MMAP: exchange_lengths, LEGACY: reverse_lengths},
}
DATA_DAMAGE = {
    **DAMAGE,
    "a high bit": flip(403, 5),
    "the sign": flip(407, 7),
    "a page of zeros": put(4096, bytes(4096)),
}
CASES = [*(("idx", kind) for kind in INDEX_DAMAGE), *(("bin", kind) for kind in DATA_DAMAGE)]


@pytest.fixture(scope="module")
def sound(path):
    for impl in (MMAP, LEGACY):
        write_random(path / impl, impl)
    return path


@pytest.mark.parametrize("impl", [MMAP, LEGACY])
@pytest.mark.parametrize(("ending", "kind"), CASES)
def test_damage_is_refused(sound, tmp_path, monkeypatch, impl, ending, kind):
    monkeypatch.setattr(data_files, "BLOCK_SIZE", 64)  # several blocks of rows and of ids
    for name in ("bin", "idx"):
        (tmp_path / f"text.{name}").write_bytes((sound / f"{impl}.{name}").read_bytes())
    assert len(load(tmp_path / "text")) == ROWS
    file = tmp_path / f"text.{ending}"
    edit = DATA_DAMAGE[kind] if ending == "bin" else INDEX_DAMAGE[kind][impl]
    file.write_bytes(edit(file.read_bytes()))
    with pytest.raises(ValueError, match=r"/text\.(bin|idx): "):
        load(tmp_path / "text")


@pytest.mark.parametrize("impl", [MMAP, LEGACY])
@pytest.mark.parametrize("vocabulary", [None, 30, 70000])
def test_an_id_beyond_the_dictionary_is_refused(tmp_path, monkeypatch, impl, vocabulary):
    monkeypatch.setattr(data_files, "BLOCK_SIZE", 4)
    rows = [[5, 2], [6, 0, 2], [27, 2], [28, 9, 2], [28, 2]]
    write(tmp_path / "text", rows, impl, vocabulary)
    assert len(load(tmp_path / "text")) == 5
    with pytest.raises(ValueError, match=r"text\.bin: has the id 28 in row 4; valid: 0 to 27"):
        load(tmp_path / "text", builders.PIECES - 1)


@pytest.mark.parametrize("impl", [MMAP, LEGACY])
def test_a_row_that_ends_in_the_first_symbol_is_refused(tmp_path, impl):
    write(tmp_path / "text", [[0, 2], [], [0, 5, 2]], impl)
    load(tmp_path / "text")
    write(tmp_path / "text", [[5, 2], [], [5, 2, 0]], impl)
    with pytest.raises(ValueError, match=r"text\.bin: has the id 0 in row 3; no row ends in <s>"):
        load(tmp_path / "text")
