"""Damaged data-bins: refused when they are opened, by the name of the file; a share of <unk> that is too large is reported."""

import logging
import struct

import numpy as np
import pytest
import torch
from fairseq.data import Dictionary, data_utils
from fairseq.data.indexed_dataset import make_builder
from fairseq.tasks.translation import load_langpair_dataset

from tests import builders

ROWS = 700  # 4,096 zeros overwrite more than one row
MMAP, LEGACY = "mmap", "cached"


def symbols(pieces=builders.PIECES):
    dictionary = Dictionary()
    for number in range(pieces):
        dictionary.add_symbol(f"p{number}")
    return dictionary


def write(prefix, impl=MMAP, count=ROWS, vocabulary=None):
    """Random rows of pieces with their </s>."""
    builder = make_builder(f"{prefix}.bin", impl, vocabulary)
    for row in builders.sentences(count, 3, 3, 12):
        builder.add_item(torch.tensor([*row, builders.EOS]).int())
    builder.finalize(f"{prefix}.idx")


def read(prefix, pieces=builders.PIECES):
    return data_utils.load_indexed_dataset(str(prefix), symbols(pieces))


def cut(share):
    return lambda content: content[: int(len(content) * share)]


def at(place, value):
    return lambda content: content[:place] + value + content[place + len(value) :]


def flipped(place, bit):
    return lambda content: at(place, bytes([content[place] ^ (1 << bit)]))(content)


EVERYWHERE = {
    "empty": lambda content: b"",
    "one byte less": lambda content: content[:-1],
    "one byte more": lambda content: content + b"\0",
    "half": cut(0.5),
    "a tenth": cut(0.1),
    "a page less": lambda content: content[:-4096],
    "a page more": lambda content: content + bytes(4096),
    "twice": lambda content: content * 2,
    "the first byte lost": lambda content: content[1:],
    "zeros at the start": at(0, bytes(4096)),
    "all zeros": lambda content: bytes(len(content)),
    "another kind of file": lambda content: (b"text " * len(content))[: len(content)],
}
IN_INDEX = {
    "magic": {MMAP: flipped(3, 1), LEGACY: flipped(3, 1)},
    "version": {MMAP: flipped(9, 1), LEGACY: flipped(8, 1)},
    "another number type": {MMAP: at(17, b"\x05"), LEGACY: at(16, b"\x05")},
    "a number type of floats": {MMAP: at(17, b"\x06"), LEGACY: at(16, b"\x06")},
    "no number type": {MMAP: at(17, b"\x63"), LEGACY: at(16, b"\x63")},
    "fewer rows": {MMAP: at(18, struct.pack("<Q", ROWS - 1)), LEGACY: at(32, struct.pack("<Q", ROWS - 1))},
    "more rows": {MMAP: at(18, struct.pack("<Q", 1 << 40)), LEGACY: at(32, struct.pack("<Q", 1 << 40))},
    "a length": {MMAP: flipped(26 + 40, 0), LEGACY: flipped(48 + 16 * (ROWS + 1) + 80, 0)},
    "a negative length": {MMAP: flipped(26 + 43, 7), LEGACY: flipped(48 + 16 * (ROWS + 1) + 87, 7)},
    "a place": {MMAP: flipped(26 + 4 * ROWS + 80, 3), LEGACY: flipped(48 + 8 * (ROWS + 1) + 80, 3)},
    "zeros among the places": {
        MMAP: at(26 + 4 * ROWS + 800, bytes(4096)),
        LEGACY: at(48 + 8 * (ROWS + 1) + 800, bytes(4096)),
    },
    "two lengths exchanged": {
        MMAP: lambda content: content[:26] + content[30:34] + content[26:30] + content[34:],
        LEGACY: lambda content: content[: -8 * ROWS] + np.frombuffer(content[-8 * ROWS :], np.int64)[::-1].tobytes(),
    },
}
IN_DATA = {
    "high bit of an id": flipped(403, 5),
    "sign of an id": flipped(407, 7),
    "third byte of an id": flipped(802, 0),
    "a page of zeros": at(4096, bytes(4096)),
    "a page of ones": at(4096, b"\xff" * 4096),
    "the last page of zeros": lambda content: content[:-4096] + bytes(4096),
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    for impl in (MMAP, LEGACY):
        write(folder / impl, impl)
    return folder


@pytest.mark.parametrize("impl", [MMAP, LEGACY])
@pytest.mark.parametrize(
    ("ending", "kind"),
    [
        *((ending, kind) for ending in ("bin", "idx") for kind in EVERYWHERE),
        *(("idx", kind) for kind in IN_INDEX),
        *(("bin", kind) for kind in IN_DATA),
    ],
)
def test_damage_is_refused_by_the_name_of_the_file(whole, tmp_path, impl, ending, kind):
    for one in ("bin", "idx"):
        (tmp_path / f"text.{one}").write_bytes((whole / f"{impl}.{one}").read_bytes())
    assert len(read(tmp_path / "text")) == ROWS
    file = tmp_path / f"text.{ending}"
    change = {**EVERYWHERE, **IN_DATA}.get(kind) or IN_INDEX[kind][impl]
    file.write_bytes(change(file.read_bytes()))
    with pytest.raises(ValueError, match=r"/text\.(bin|idx): "):
        read(tmp_path / "text")


@pytest.mark.parametrize("impl", [MMAP, LEGACY])
def test_files_of_two_splits_are_refused(tmp_path, impl):
    write(tmp_path / "train", impl)
    write(tmp_path / "valid", impl, count=20)
    (tmp_path / "train.idx").write_bytes((tmp_path / "valid.idx").read_bytes())
    with pytest.raises(ValueError, match=r"train\.bin: has .* bytes, expected .* by .*train\.idx"):
        read(tmp_path / "train")


@pytest.mark.parametrize("impl", [MMAP, LEGACY])
@pytest.mark.parametrize("vocabulary", [None, 30, 70000])
def test_an_id_beyond_the_dictionary_is_refused(tmp_path, impl, vocabulary):
    """Whatever the type of the numbers; the last entry is one of the dictionary."""
    write(tmp_path / "text", impl, vocabulary=vocabulary)
    assert len(read(tmp_path / "text")) == ROWS
    with pytest.raises(
        ValueError, match=rf"text\.bin: has the id {builders.MASK - 1} in row .*valid: 0 to {builders.MASK - 2}"
    ):
        read(tmp_path / "text", builders.PIECES - 1)


def test_sides_of_different_length_are_refused_by_name(tmp_path):
    """By every task that reads pairs, the stock ones too."""
    for language, count in (("en", 12), ("de", 11)):
        write(tmp_path / f"train.en-de.{language}", count=count)
    with pytest.raises(ValueError, match=r"different numbers of rows: .*train\.en-de\.en 12, .*train\.en-de\.de 11"):
        load_langpair_dataset(
            str(tmp_path), "train", "en", symbols(), "de", symbols(),
            combine=False, dataset_impl=None, upsample_primary=1, left_pad_source=True, left_pad_target=False,
            max_source_positions=20, max_target_positions=20, prepend_bos=True, truncate_source=True,
        )  # fmt: skip


@pytest.mark.parametrize(("unknown", "said"), [(2, False), (3, True)])
@pytest.mark.parametrize("impl", [MMAP, LEGACY, "raw"])
def test_many_unknown_pieces_are_reported(tmp_path, caplog, impl, unknown, said):
    """Of 100 pieces, </s> counted, 2 may be <unk>."""
    if impl == "raw":
        (tmp_path / "text").write_text("? " * unknown + "p3 " * (99 - unknown) + "\n", encoding="utf-8")
    else:
        builder = make_builder(str(tmp_path / "text.bin"), impl)
        builder.add_item(torch.tensor([*[builders.UNK] * unknown, *[7] * (99 - unknown), builders.EOS]).int())
        builder.finalize(str(tmp_path / "text.idx"))
    with caplog.at_level(logging.WARNING):
        read(tmp_path / "text")
    assert ("<unk>" in caplog.text and "/text: " in caplog.text) is said
