"""Attention: both forms agree in value and gradient, and each is chosen where it should be."""

import pytest
import torch
import torch.nn.functional as F

from fairseq_plugins.masked_lm import model as module
from fairseq_plugins.masked_lm.model import MOST_KEYS, attention


def made(keys, dtype=torch.float64, seed=1):
    generator = torch.Generator().manual_seed(seed)
    shapes = (3, 2, 5, 4), (3, 2, keys, 4), (3, 2, keys, 4), (3, 1, 1, keys), (3, 2, 5, 4)
    query, key, value, bias, weight = (torch.randn(shape, generator=generator).to(dtype) for shape in shapes)
    return [each.requires_grad_() for each in (query, key, value)], bias, weight


@pytest.mark.parametrize("with_bias", [True, False])
def test_written_out_equals_the_fused_kernel(monkeypatch, with_bias):
    monkeypatch.setattr(module, "is_fused_slow", lambda *_: True)
    inputs, bias, weight = made(7)
    bias = bias if with_bias else None
    found = attention(*inputs, bias)
    expected = F.scaled_dot_product_attention(*inputs, attn_mask=bias)
    torch.testing.assert_close(found, expected)
    for ours, theirs in zip(*(torch.autograd.grad((out * weight).sum(), inputs) for out in (found, expected))):
        torch.testing.assert_close(ours, theirs)


def test_dropout_takes_weights_away(monkeypatch):
    monkeypatch.setattr(module, "is_fused_slow", lambda *_: True)
    (query, key, _), _, _ = made(40)
    torch.manual_seed(1)
    kept = attention(query, key, torch.eye(40, dtype=query.dtype).expand(3, 2, 40, 40), None, 0.25)
    zero = kept.eq(0)
    assert 0.2 < zero.double().mean() < 0.3
    plain = F.scaled_dot_product_attention(query, key, torch.eye(40, dtype=query.dtype).expand(3, 2, 40, 40))
    torch.testing.assert_close(kept[~zero], plain[~zero] / 0.75)


@pytest.mark.cases(
    "dtype keys trains fused",
    (torch.bfloat16, MOST_KEYS, True, 0),
    (torch.bfloat16, MOST_KEYS + 1, True, 1),
    (torch.bfloat16, 3, False, 1),
    (torch.float32, 3, True, 1),
)
def test_form(monkeypatch, dtype, keys, trains, fused):
    calls = []
    stock = F.scaled_dot_product_attention
    monkeypatch.setattr(module.F, "scaled_dot_product_attention", lambda *a, **b: calls.append(1) or stock(*a, **b))
    inputs, bias, _ = made(keys, dtype)
    with torch.set_grad_enabled(trains):
        attention(*inputs, bias)
    assert len(calls) == fused
