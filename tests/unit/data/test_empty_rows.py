"""Sentences without a token: what counts as one, and how it is named."""

import numpy as np
import pytest
from fairseq.data import AppendTokenDataset, ConcatDataset, StripTokenDataset, TruncateDataset, data_utils

from fairseq_plugins.data.empty_rows import BinSide, refuse_empty
from tests import builders


def write(folder, rows, split="test", pair="de-en"):
    builders.write_side(folder, split, pair, "de", rows)
    return data_utils.load_indexed_dataset(str(folder / f"{split}.{pair}.de"))


def side(folder, languages=("de", "en"), impl="mmap"):
    return BinSide(str(folder), "test", languages, "de", impl)


def refused(rows, place):
    with pytest.raises(ValueError) as found:
        refuse_empty(rows, place)
    return str(found.value)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([[5], [6, 7], [], [8]], "line 3 is without a token (1 empty sentences in all); valid: at least"),
        ([[], [5], [], []], "lines 1, 3, 4 are without a token (3 empty"),
        ([[5]] + [[]] * 9, "lines 2, 3, 4, 5, 6, … are without a token (9 empty"),
    ],
)
def test_the_lines_are_named(tmp_path, rows, words):
    assert refused(write(tmp_path, rows), side(tmp_path)).startswith(f"{tmp_path}/test.de-en.de: {words}")


@pytest.mark.parametrize("longest", [1, 4])
def test_what_is_truncated_is_judged_by_what_it_was(tmp_path, longest):
    """--truncate-source counts a </s> that it cuts off and puts back; and one token is left of many."""

    def cut(rows):
        return AppendTokenDataset(TruncateDataset(StripTokenDataset(rows, builders.EOS), longest), builders.EOS)

    refuse_empty(cut(write(tmp_path, [[5], [6, 7, 8]])), side(tmp_path))
    rows = cut(write(tmp_path, [[5], [6, 7], []]))
    assert np.asarray(rows.sizes)[2] == 2
    assert "line 3 is" in refused(rows, side(tmp_path))


def test_the_part_of_a_split_is_named(tmp_path):
    parts = [write(tmp_path, [[5], [6]]), write(tmp_path, [[7], []], split="test1")]
    message = refused(ConcatDataset(parts, [3, 1]), side(tmp_path))
    assert message.startswith(f"{tmp_path}/test1.de-en.de: line 2 is")


def test_a_pair_that_is_read_the_other_way_round_is_named_as_on_disk(tmp_path):
    rows = write(tmp_path, [[]], pair="en-de")
    builders.write_side(tmp_path, "test", "en-de", "en", [[5]])
    assert refused(rows, side(tmp_path)).startswith(f"{tmp_path}/test.en-de.de: line 1 is")
    assert refused(rows, side(tmp_path, ("en", "de"), None)).startswith(f"{tmp_path}/test.en-de.de: line 1 is")
