"""Test padding masks: True means padding; the additive form is finite."""

import pytest
import torch

from fairseq_plugins.ops.masks import additive_key_mask, lengths_to_padding_mask


def test_padding_is_true_behind_each_length(device):
    lengths = torch.tensor([2, 0, 3], device=device)
    mask = lengths_to_padding_mask(lengths)
    assert mask.tolist() == [[False, False, True], [True, True, True], [False, False, False]]
    assert lengths_to_padding_mask(lengths, 5).sum(1).tolist() == [3, 5, 2]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_additive_mask_is_finite_and_hides_completely(dtype, device):
    padding = torch.tensor([[False, True, False], [True, True, True]], device=device)
    bias = additive_key_mask(padding, dtype)
    assert bias.shape == (2, 1, 1, 3) and bias.dtype == dtype
    logits = torch.tensor([[-30.0, 30.0, -30.0]], device=device, dtype=dtype) + bias[:, 0, 0]
    assert bool(logits.isfinite().all())
    weights = logits.softmax(-1)
    assert weights[0].tolist() == [0.5, 0.0, 0.5]
    assert bool(weights[1].isfinite().all())
