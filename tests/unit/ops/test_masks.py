"""Padding masks: True = padding; the additive form is finite."""

import pytest
import torch

from fairseq_plugins.ops.masks import additive_key_mask, lengths_to_padding_mask


def test_lengths_to_padding_mask(device):
    lengths = torch.tensor([2, 0, 3], device=device)
    mask = lengths_to_padding_mask(lengths)
    assert mask.tolist() == [[False, False, True], [True, True, True], [False, False, False]]
    assert mask.dtype == torch.bool
    wide = lengths_to_padding_mask(lengths, 5)
    assert wide.shape == (3, 5)
    assert wide.sum(1).tolist() == [3, 5, 2]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_additive_mask_is_finite_and_hides_completely(dtype, device):
    padding = torch.tensor([[False, True, False], [True, True, True]], device=device)
    bias = additive_key_mask(padding, dtype)
    assert bias.shape == (2, 1, 1, 3)
    assert bias.dtype == dtype
    assert bool(bias.isfinite().all())
    logits = torch.tensor([[-30.0, 30.0, -30.0]], device=device, dtype=dtype) + bias[:, 0, 0]
    assert bool(logits.isfinite().all())
    weights = logits.softmax(-1)
    assert weights[0].tolist() == [0.5, 0.0, 0.5]
    assert bool(weights[1].isfinite().all())
