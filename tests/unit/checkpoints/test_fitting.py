"""Test fitting the rows of an embedding to a dictionary or a length."""

import pytest
import torch

from fairseq_plugins.checkpoints.fitting import fit_positions, fit_rows
from fairseq_plugins.common.fit_options import FIT_OPTIONS
from fairseq_plugins.understanding.pretrained import with_mask_row

FILE = torch.arange(12.0).reshape(4, 3)


def options(policy):
    return FIT_OPTIONS._replace(rows=policy, rows_option="--rows")


def test_rows_beyond_the_files_keep_the_models_values():
    """Tied or trained rows may lie there."""
    target = -torch.arange(1.0, 22.0).reshape(7, 3)
    rows, change = fit_rows(FILE, target, options("extend"), "here")
    assert torch.equal(rows, torch.cat([FILE, target[4:]]))
    assert "3 random rows" in change and "--rows extend" in change
    rows, change = fit_rows(FILE, target[:2], options("truncate"), "here")
    assert torch.equal(rows, FILE[:2])
    assert "2 of 4 rows" in change and "--rows truncate" in change
    cases = (("error", "extend", 7), ("truncate", "extend", 7), ("extend", "truncate", 2))
    for policy, valid, size in cases:
        with pytest.raises(ValueError, match=f"--rows is {policy}; valid here: {valid}"):
            fit_rows(FILE, target[:size], options(policy), "here")


def test_the_row_of_a_mask_is_the_mean():
    rows, _ = with_mask_row(FILE.half())
    assert rows.dtype == torch.float16 and torch.equal(rows[:4], FILE.half())
    assert rows[4].tolist() == pytest.approx(FILE.mean(0).tolist())


def test_positions_are_the_first_ones_of_the_file():
    for rows in (3, 4):
        fitted, _ = fit_positions(FILE, rows, 1, "here", "--max-source-positions")
        assert torch.equal(fitted, FILE[:rows])
    with pytest.raises(ValueError, match="--max-source-positions 4: here has 3"):
        fit_positions(FILE, 5, 1, "here", "--max-source-positions")
