"""Sentences without a token: what counts as one, and how it is named."""

import numpy as np
import pytest
from fairseq.data import AppendTokenDataset, ConcatDataset, StripTokenDataset, TruncateDataset, data_utils

from fairseq_plugins.common.data_bins import BinSide, refuse_empty
from tests import builders


def write(folder, rows, split="test"):
    builders.write_side(folder, split, "de-en", "de", rows)
    return data_utils.load_indexed_dataset(str(folder / f"{split}.de-en.de"))


def side(folder):
    return BinSide(str(folder), "test", ("de", "en"), "de", "mmap")


def refused(rows, place):
    with pytest.raises(ValueError) as found:
        refuse_empty(rows, place)
    return str(found.value)


@pytest.mark.parametrize("longest", [1, 4])
def test_what_is_truncated_is_judged_by_what_it_was(tmp_path, longest):
    def cut(rows):
        return AppendTokenDataset(TruncateDataset(StripTokenDataset(rows, builders.EOS), longest), builders.EOS)

    refuse_empty(cut(write(tmp_path, [[5], [6, 7, 8]])), side(tmp_path))
    rows = cut(write(tmp_path, [[5], [6, 7], []]))
    assert np.asarray(rows.sizes)[2] == 2
    assert "line 3 is" in refused(rows, side(tmp_path))


def test_the_part_of_a_split_and_its_lines_are_named(tmp_path):
    parts = [write(tmp_path, [[5], [6]]), write(tmp_path, [[7], []], split="test1")]
    assert refused(ConcatDataset(parts, [3, 1]), side(tmp_path)).startswith(f"{tmp_path}/test1.de-en.de: line 2 is")
    many = refused(write(tmp_path, [[5]] + [[]] * 9), side(tmp_path))
    assert "lines 2, 3, 4, 5, 6, … are without a token (9 empty" in many
