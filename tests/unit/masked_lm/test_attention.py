"""Test attention: both forms agree in value and gradient, and the faster one is chosen."""

import pytest
import torch
import torch.nn.functional as F

from fairseq_plugins.masked_lm import model as module
from fairseq_plugins.masked_lm.model import MOST_KEYS, attention


def draw_inputs(keys, dtype=torch.float64):
    """Return query, key and value with gradients, an additive bias, and output weights."""
    generator = torch.Generator().manual_seed(1)
    shapes = (3, 2, 5, 4), (3, 2, keys, 4), (3, 2, keys, 4), (3, 1, 1, keys), (3, 2, 5, 4)
    *inputs, bias, weight = (torch.randn(shape, generator=generator).to(dtype) for shape in shapes)
    return [tensor.requires_grad_() for tensor in inputs], bias, weight


@pytest.mark.parametrize("has_bias", [True, False])
def test_the_plain_form_equals_the_fused_kernel(monkeypatch, has_bias):
    monkeypatch.setattr(module, "is_fused_slow", lambda *_: True)
    inputs, bias, weight = draw_inputs(7)
    bias = bias if has_bias else None
    outputs = attention(*inputs, bias)
    expected = F.scaled_dot_product_attention(*inputs, attn_mask=bias)
    torch.testing.assert_close(outputs, expected)
    gradients, expected_gradients = (
        torch.autograd.grad((states * weight).sum(), inputs) for states in (outputs, expected)
    )
    torch.testing.assert_close(gradients, expected_gradients)


def test_dropout_removes_weights_and_scales_the_others(monkeypatch):
    monkeypatch.setattr(module, "is_fused_slow", lambda *_: True)
    (query, key, _), _, _ = draw_inputs(40)
    value = torch.eye(40, dtype=query.dtype).expand(3, 2, 40, 40)  # outputs are the weights
    torch.manual_seed(1)
    weights = attention(query, key, value, None, 0.25)
    is_dropped = weights.eq(0)
    assert 0.2 < is_dropped.double().mean() < 0.3
    expected = F.scaled_dot_product_attention(query, key, value) / 0.75
    torch.testing.assert_close(weights[~is_dropped], expected[~is_dropped])


@pytest.mark.cases(
    "dtype keys is_training is_fused",
    (torch.bfloat16, MOST_KEYS, True, False),
    (torch.bfloat16, MOST_KEYS + 1, True, True),
    (torch.bfloat16, 3, False, True),
    (torch.float32, 3, True, True),
)
def test_bfloat16_training_over_few_keys_is_not_fused(
    monkeypatch, dtype, keys, is_training, is_fused
):
    calls, stock = [], F.scaled_dot_product_attention

    def fused_attention(*args, **kwargs):
        calls.append(args)
        return stock(*args, **kwargs)

    monkeypatch.setattr(module.F, "scaled_dot_product_attention", fused_attention)
    inputs, bias, _ = draw_inputs(keys, dtype)
    with torch.set_grad_enabled(is_training):
        attention(*inputs, bias)
    assert len(calls) == is_fused
