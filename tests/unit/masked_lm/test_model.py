"""Test PrefixEncoder: padding changes nothing, also with a prefix; too long inputs are refused."""

import pytest
import torch

from tests import builders


@pytest.fixture(scope="module")
def encoder(device):
    return builders.masked_lm().double().to(device).sentence_encoder.eval()


def draw_prefix(length, device, rows=1):
    draw = builders.drawing(8)
    shape = rows, builders.HEADS, length, builders.WIDTH // builders.HEADS
    return [
        tuple(draw(*shape).double().to(device) for _ in ("keys", "values"))
        for _ in range(builders.LAYERS)
    ]


@pytest.mark.parametrize("length", [0, 3])
@pytest.mark.parametrize("side", ["right", "left"])
def test_padding_on_either_side_changes_nothing(encoder, length, side, device):
    rows, prefix = builders.source_rows([6, 3]), draw_prefix(length, device) if length else None
    tokens = builders.pad(rows, extra=2)
    if side == "left":
        tokens = builders.left_padded(tokens)
    batch = encoder(tokens.to(device), prefix=prefix)
    for number, row in enumerate(rows):
        inside = slice(0, len(row)) if side == "right" else slice(8 - len(row), 8)
        single = encoder(row[None].to(device), prefix=prefix)
        for states, expected in zip(batch, single):
            torch.testing.assert_close(states[number, inside], expected[0], rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("prefix_length", [0, 3])
def test_a_row_of_padding_only_has_finite_states_and_gradients(dtype, prefix_length, device):
    """The prefix is masked, too, so that nothing may be attended."""
    encoder = builders.masked_lm().to(device, dtype).sentence_encoder
    tokens = torch.full((2, 5), builders.PAD, device=device)
    tokens[1, :4] = builders.source_rows([4])[0].to(device)
    prefix = draw_prefix(prefix_length, device, rows=2)
    prefix = [(keys.to(dtype), values.to(dtype)) for keys, values in prefix]
    mask = torch.ones(2, prefix_length, dtype=torch.bool, device=device)
    outputs = encoder(tokens, prefix=prefix, prefix_padding_mask=mask)
    assert all(bool(states.isfinite().all()) for states in outputs)
    outputs[-1][1, :4].sum().backward()
    gradients = [parameter.grad for parameter in encoder.parameters()]
    assert all(bool(grad.isfinite().all()) for grad in gradients if grad is not None)
    single = encoder(tokens[1:, :4])[-1][0]
    close = {"rtol": 0.02, "atol": 0.1 if dtype == torch.bfloat16 else 1e-5}
    torch.testing.assert_close(outputs[-1][1, :4], single, **close)


def test_more_tokens_than_positions_are_refused(encoder, device):
    tokens = torch.full((1, builders.POSITIONS + 1), 5, device=device)
    assert encoder(tokens[:, 1:])[-1].shape == (1, builders.POSITIONS, builders.WIDTH)
    with pytest.raises(ValueError, match=f"{builders.POSITIONS + 1}.*{builders.POSITIONS}"):
        encoder(tokens)
