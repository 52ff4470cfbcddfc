"""Damaged data-bins: refused when they are opened, by the name of the file."""

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


def symbols(pieces=builders.PIECES):
    return builders.of_symbols(builders.piece_names(pieces))


def write(prefix, rows, impl=MMAP, vocabulary=None):
    builder = make_builder(f"{prefix}.bin", impl, vocabulary)
    for row in rows:
        builder.add_item(torch.tensor(row).int())
    builder.finalize(f"{prefix}.idx")


def write_random(prefix, impl=MMAP, count=ROWS, vocabulary=None):
    write(prefix, [[*row, builders.EOS] for row in builders.sentences(count, 3, 3, 12)], impl, vocabulary)


def read(prefix, pieces=builders.PIECES):
    return data_utils.load_indexed_dataset(str(prefix), symbols(pieces))


def at(place, value):
    return lambda content: content[:place] + value + content[place + len(value) :]


def flipped(place, bit):
    return lambda content: at(place, bytes([content[place] ^ (1 << bit)]))(content)


def both(mmap, legacy, value):
    return {MMAP: at(mmap, value), LEGACY: at(legacy, value)}


PLACES, LENGTHS = {MMAP: 26 + 4 * ROWS, LEGACY: 48 + 8 * (ROWS + 1)}, {MMAP: 26, LEGACY: 48 + 16 * (ROWS + 1)}
EVERYWHERE = {
    "empty": lambda content: b"",
    "one byte less": lambda content: content[:-1],
    "one byte more": lambda content: content + b"\0",
    "the first byte lost": lambda content: content[1:],
    "zeros at the start": at(0, bytes(4096)),
}
IN_INDEX = {
    "magic": {MMAP: flipped(3, 1), LEGACY: flipped(3, 1)},
    "version": both(9, 8, b"\x02"),
    "another number type": both(17, 16, b"\x05"),
    "no number type": both(17, 16, b"\x63"),
    "fewer rows": both(18, 32, struct.pack("<Q", ROWS - 1)),
    "more rows": both(18, 32, struct.pack("<Q", 1 << 40)),
    "a length": {MMAP: flipped(LENGTHS[MMAP] + 40, 0), LEGACY: flipped(LENGTHS[LEGACY] + 80, 0)},
    "a negative length": {MMAP: flipped(LENGTHS[MMAP] + 43, 7), LEGACY: flipped(LENGTHS[LEGACY] + 87, 7)},
    "a place": {impl: flipped(PLACES[impl] + 80, 3) for impl in PLACES},
    "the last place": {MMAP: flipped(PLACES[MMAP] + 8 * ROWS - 8, 3), LEGACY: flipped(LENGTHS[LEGACY] - 8, 3)},
    "two lengths exchanged": {
        MMAP: lambda content: content[:26] + content[30:34] + content[26:30] + content[34:],
        LEGACY: lambda content: content[: -8 * ROWS] + np.frombuffer(content[-8 * ROWS :], np.int64)[::-1].tobytes(),
    },
}
IN_DATA = {"a high bit": flipped(403, 5), "the sign": flipped(407, 7), "a page of zeros": at(4096, bytes(4096))}
DAMAGE = [*(("bin", kind) for kind in (*EVERYWHERE, *IN_DATA)), *(("idx", kind) for kind in (*EVERYWHERE, *IN_INDEX))]


@pytest.fixture(scope="module")
def whole(path):
    for impl in (MMAP, LEGACY):
        write_random(path / impl, impl)
    return path


@pytest.mark.parametrize("impl", [MMAP, LEGACY])
@pytest.mark.parametrize(("ending", "kind"), DAMAGE)
def test_damage_is_refused_by_the_name_of_the_file(whole, tmp_path, monkeypatch, impl, ending, kind):
    monkeypatch.setattr(data_files, "BLOCK_SIZE", 64)  # more than one block of everything
    for one in ("bin", "idx"):
        (tmp_path / f"text.{one}").write_bytes((whole / f"{impl}.{one}").read_bytes())
    assert len(read(tmp_path / "text")) == ROWS
    file = tmp_path / f"text.{ending}"
    change = {**EVERYWHERE, **IN_DATA}.get(kind) or IN_INDEX[kind][impl]
    file.write_bytes(change(file.read_bytes()))
    with pytest.raises(ValueError, match=r"/text\.(bin|idx): "):
        read(tmp_path / "text")


@pytest.mark.parametrize("impl", [MMAP, LEGACY])
@pytest.mark.parametrize("vocabulary", [None, 30, 70000])
def test_an_id_beyond_the_dictionary_is_refused(tmp_path, monkeypatch, impl, vocabulary):
    monkeypatch.setattr(data_files, "BLOCK_SIZE", 4)
    write(tmp_path / "text", [[5, 2], [6, 0, 2], [27, 2], [28, 9, 2], [28, 2]], impl, vocabulary)
    assert len(read(tmp_path / "text")) == 5
    with pytest.raises(ValueError, match=r"text\.bin: has the id 28 in row 4; valid: 0 to 27"):
        read(tmp_path / "text", builders.PIECES - 1)


def test_files_are_read_once_until_they_change(tmp_path, monkeypatch):
    checked, stock = [], data_files.check_files
    monkeypatch.setattr(data_files, "check_files", lambda *given: (checked.append(given), stock(*given))[1])
    write_random(tmp_path / "text")
    for pieces in (builders.PIECES, builders.PIECES, builders.PIECES + 1):  # another dictionary is another check
        read(tmp_path / "text", pieces)
    with open(tmp_path / "text.idx", "r+b") as index:
        index.truncate(1000)
    with pytest.raises(ValueError, match=r"text\.idx"):
        read(tmp_path / "text")
    assert len(checked) == 3


@pytest.mark.parametrize("impl", [MMAP, LEGACY])
def test_a_row_that_ends_in_the_first_symbol_is_refused(tmp_path, impl):
    write(tmp_path / "text", [[0, 2], [], [0, 5, 2]], impl)
    read(tmp_path / "text")
    write(tmp_path / "text", [[5, 2], [], [5, 2, 0]], impl)
    with pytest.raises(ValueError, match=r"text\.bin: has the id 0 in row 3; no row ends in <s>"):
        read(tmp_path / "text")
