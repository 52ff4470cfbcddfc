"""Test that sentences without a token are refused, and named by file and line."""

import numpy as np
import pytest
from fairseq.data import (
    AppendTokenDataset,
    ConcatDataset,
    StripTokenDataset,
    TruncateDataset,
    data_utils,
)

from fairseq_plugins.common.data_bins import BinSide, refuse_empty
from tests import builders


def write_rows(folder, rows, split="test"):
    builders.write_side(folder, split, "de-en", "de", rows)
    return data_utils.load_indexed_dataset(str(folder / f"{split}.de-en.de"))


def truncate(rows, length):
    """Wrap a dataset as fairseq does for --truncate-source."""
    stripped = StripTokenDataset(rows, builders.EOS)
    return AppendTokenDataset(TruncateDataset(stripped, length), builders.EOS)


@pytest.mark.parametrize("length", [1, 4])
def test_truncated_sentences_are_judged_by_their_full_length(tmp_path, length):
    side = BinSide(str(tmp_path), "test", ("de", "en"), "de", "mmap")
    refuse_empty(truncate(write_rows(tmp_path, [[5], [6, 7, 8]]), length), side)
    rows = truncate(write_rows(tmp_path, [[5], [6, 7], []]), length)
    assert np.asarray(rows.sizes)[2] == 2
    with pytest.raises(ValueError, match="line 3 is without a token"):
        refuse_empty(rows, side)


def test_empty_lines_of_each_part_of_a_split_are_listed(tmp_path):
    side = BinSide(str(tmp_path), "test", ("de", "en"), "de", "mmap")
    parts = [write_rows(tmp_path, [[5], [6]]), write_rows(tmp_path, [[7], []], split="test1")]
    with pytest.raises(ValueError, match=rf"^{tmp_path}/test1\.de-en\.de: line 2 is"):
        refuse_empty(ConcatDataset(parts, [3, 1]), side)
    with pytest.raises(ValueError, match=r"lines 2, 3, 4, 5, 6, … are .*\(9 empty"):
        refuse_empty(write_rows(tmp_path, [[5]] + [[]] * 9), side)
