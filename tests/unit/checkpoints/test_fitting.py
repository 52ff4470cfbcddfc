"""Rows of an embedding brought to a dictionary or a length."""

import pytest
import torch

from fairseq_plugins.checkpoints.fitting import fit_positions, fit_rows
from fairseq_plugins.common.fit_options import FIT_OPTIONS
from fairseq_plugins.understanding.pretrained import with_mask_row

FILE = torch.arange(12.0).reshape(4, 3)


def options(policy):
    return FIT_OPTIONS._replace(rows=policy, rows_option="--rows")


def test_rows_beyond_the_files_keep_the_models_values():
    """Their own ones: tied or already trained rows lie there."""
    target = -torch.arange(1.0, 22.0).reshape(7, 3)
    rows, change = fit_rows(FILE, target, options("extend"), "here")
    assert torch.equal(rows, torch.cat([FILE, target[4:]]))
    assert "3 random rows after the file's 4 (--rows extend)" in change
    rows, change = fit_rows(FILE, target[:2], options("truncate"), "here")
    assert torch.equal(rows, FILE[:2]) and "the first 2 of 4 rows (--rows truncate)" in change
    for policy, valid, size in (("error", "extend", 7), ("truncate", "extend", 7), ("extend", "truncate", 2)):
        with pytest.raises(ValueError, match=f"--rows is {policy}; valid here: {valid}"):
            fit_rows(FILE, target[:size], options(policy), "here")


def test_the_row_of_a_mask_is_the_mean():
    half = FILE.half()
    rows, _ = with_mask_row(half)
    assert rows.dtype == torch.float16 and torch.equal(rows[:4], half)
    assert rows[4].tolist() == pytest.approx(FILE.mean(0).tolist())


@pytest.mark.parametrize("want", [1, 3, 4, 5])
def test_positions_are_the_first_ones_of_the_file(want):
    if want <= 4:
        assert torch.equal(fit_positions(FILE, want, 1, "here", "--max-source-positions")[0], FILE[:want])
    else:
        with pytest.raises(ValueError, match="--max-source-positions 4: here has 3 learned positions"):
            fit_positions(FILE, want, 1, "here", "--max-source-positions")
