"""Rows of an embedding brought to a dictionary or a length: which rows stand where."""

import pytest
import torch

from fairseq_plugins.checkpoints.fitting import fit_positions, fit_words
from fairseq_plugins.models.nlu.nlu_pretrained import with_mask_row

FILE = torch.arange(12.0).reshape(4, 3)


def test_rows_beyond_the_files_keep_the_models_values():
    """Their own ones: tied or already trained rows lie there."""
    target = -torch.arange(1.0, 22.0).reshape(7, 3)
    rows, change = fit_words(FILE, target, "--rows extend", "here")
    assert torch.equal(rows, torch.cat([FILE, target[4:]])) and "3 random rows after the file's 4" in change
    rows, change = fit_words(FILE, target[:2], "--rows truncate", "here")
    assert torch.equal(rows, FILE[:2]) and "the first 2 of 4 rows" in change
    for policy, wanted, size in (("error", "extend", 7), ("truncate", "extend", 7), ("extend", "truncate", 2)):
        with pytest.raises(ValueError, match=f"--rows is {policy}; valid here: {wanted}"):
            fit_words(FILE, target[:size], f"--rows {policy}", "here")


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
