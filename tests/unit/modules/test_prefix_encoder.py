"""PrefixEncoder: identity without prefix, padding, masks, positions, errors."""

import pytest
import torch

from tests import builders

HEAD = builders.WIDTH // builders.HEADS


@pytest.fixture(scope="module")
def encoder(device):
    """Two random layers in float64."""
    return builders.masked_lm().double().to(device).sentence_encoder.eval()


def _prefix(length, device, rows=1):
    generator = torch.Generator().manual_seed(8)
    shape = (rows, builders.HEADS, length, HEAD)
    return [
        tuple(torch.randn(shape, generator=generator, dtype=torch.float64).to(device) for _ in range(2))
        for _ in range(builders.LAYERS)
    ]


def _equal(found, expected):
    for ours, theirs in zip(found, expected):
        torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("with_prefix", [False, True])
def test_padding_on_either_side_changes_nothing(encoder, with_prefix, device):
    """Positions count the real tokens from padding_idx + 1, wherever the padding lies."""
    rows = builders.source_rows([6, 3])
    prefix = _prefix(3, device) if with_prefix else None
    alone = [encoder(row[None].to(device), prefix=prefix) for row in rows]
    right = torch.full((2, 8), builders.PAD, device=device)
    left = right.clone()
    for number, row in enumerate(rows):
        right[number, : len(row)] = row
        left[number, 8 - len(row) :] = row
    for tokens, side in ((right, "right"), (left, "left")):
        together = encoder(tokens, prefix=prefix)
        for number, row in enumerate(rows):
            inside = slice(0, len(row)) if side == "right" else slice(8 - len(row), 8)
            _equal([layer[number : number + 1, inside] for layer in together], alone[number])


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
    torch.testing.assert_close(
        outputs[-1][1, :4], alone[-1][0], rtol=0.02, atol=0.1 if dtype == torch.bfloat16 else 1e-5
    )


def test_more_tokens_than_positions_is_an_error(encoder, device):
    longest = torch.full((1, builders.POSITIONS), 5, device=device)
    assert encoder(longest)[-1].shape == (1, builders.POSITIONS, builders.WIDTH)
    with pytest.raises(ValueError, match=f"{builders.POSITIONS + 1}.*{builders.POSITIONS}"):
        encoder(torch.full((1, builders.POSITIONS + 1), 5, device=device))


def test_dropout_acts_in_training_only():
    for option in ("dropout", "attention_dropout"):
        encoder = builders.masked_lm(**{option: 0.5}).sentence_encoder
        tokens = builders.source_rows([6])[0][None]
        with torch.no_grad():
            encoder.eval()
            assert torch.equal(encoder(tokens)[-1], encoder(tokens)[-1])
            encoder.train()
            assert not torch.equal(encoder(tokens)[-1], encoder(tokens)[-1]), option
