"""Test that empty source sentences of a batch are counted and refused."""

import pytest
import torch

from fairseq_plugins.baselines.empty_sources import refuse_empty_sources

PAD, EOS = 1, 2


@pytest.mark.parametrize("left_pad", [True, False])
def test_empty_rows_are_counted_and_the_first_is_named(left_pad, device):
    lines = [[5, 6, EOS], [7, EOS, PAD], [EOS, PAD, PAD], [9, EOS, PAD], [EOS, PAD, PAD]]
    rows = torch.tensor(lines, device=device)
    rows = rows.flip(1) if left_pad else rows
    refuse_empty_sources(rows[:2], (PAD, EOS), training=False)
    with pytest.raises(ValueError, match="2 of the 5 .* row 3"):
        refuse_empty_sources(rows, (PAD, EOS), training=False)
    if device.type != "cpu":
        refuse_empty_sources(rows, (PAD, EOS), training=True)  # a GPU does not wait in training
    else:
        with pytest.raises(ValueError, match="3 of the 5 .* row 3"):
            refuse_empty_sources(rows, (9, PAD, EOS), training=True)
