"""PrefixEncoder: identity without prefix, padding, masks, positions, errors."""

import pytest
import torch

from tests import builders

HEAD = builders.WIDTH // builders.HEADS


@pytest.fixture(scope="module")
def encoder(device):
    return builders.masked_lm().double().to(device).sentence_encoder.eval()


def _prefix(length, device, rows=1):
    generator = torch.Generator().manual_seed(8)
    shape = (rows, builders.HEADS, length, HEAD)
    drawn = torch.randn(2, builders.LAYERS, *shape, generator=generator, dtype=torch.float64).to(device)
    return list(zip(*drawn))


@pytest.mark.parametrize("length", [0, 3])
@pytest.mark.parametrize("side", ["right", "left"])
def test_padding_on_either_side_changes_nothing(encoder, length, side, device):
    rows, prefix = builders.source_rows([6, 3]), _prefix(length, device) if length else None
    tokens = builders.pad(rows, extra=2)
    together = encoder((builders.left_padded(tokens) if side == "left" else tokens).to(device), prefix=prefix)
    for number, row in enumerate(rows):
        inside = slice(0, len(row)) if side == "right" else slice(8 - len(row), 8)
        for found, expected in zip(together, encoder(row[None].to(device), prefix=prefix)):
            torch.testing.assert_close(found[number, inside], expected[0], rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("prefix_length", [0, 3])
def test_a_row_of_padding_only_gives_finite_numbers(dtype, prefix_length, device):
    encoder = builders.masked_lm().to(device, dtype).sentence_encoder
    tokens = torch.full((2, 5), builders.PAD, device=device)
    tokens[1, :4] = builders.source_rows([4])[0].to(device)
    prefix = [(k.to(dtype), v.to(dtype)) for k, v in _prefix(prefix_length, device, rows=2)]
    mask = torch.ones(2, prefix_length, dtype=torch.bool, device=device)
    outputs = encoder(tokens, prefix=prefix, prefix_padding_mask=mask)
    assert all(bool(layer.isfinite().all()) for layer in outputs)
    outputs[-1][1, :4].sum().backward()
    gradients = [parameter.grad for parameter in encoder.parameters() if parameter.grad is not None]
    assert all(bool(gradient.isfinite().all()) for gradient in gradients)
    alone = encoder(tokens[1:, :4])
    close = dict(rtol=0.02, atol=0.1 if dtype == torch.bfloat16 else 1e-5)
    torch.testing.assert_close(outputs[-1][1, :4], alone[-1][0], **close)


def test_more_tokens_than_positions_is_an_error(encoder, device):
    longest = torch.full((1, builders.POSITIONS), 5, device=device)
    assert encoder(longest)[-1].shape == (1, builders.POSITIONS, builders.WIDTH)
    with pytest.raises(ValueError, match=f"{builders.POSITIONS + 1}.*{builders.POSITIONS}"):
        encoder(torch.full((1, builders.POSITIONS + 1), 5, device=device))
