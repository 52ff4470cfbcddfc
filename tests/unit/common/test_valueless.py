"""Test that a model without values has the shapes of a real one, and its tokens and masks."""

import pytest
import torch
from torch import nn

from fairseq_plugins.common.valueless import Valueless, drop_values


def test_values_are_freed_in_place():
    embedding, norm = nn.Embedding(11, 8), nn.BatchNorm1d(8)
    projection = nn.Linear(8, 11, bias=False)
    projection.weight = weight = embedding.weight
    counter = norm.num_batches_tracked
    drop_values(nn.ModuleList([embedding, norm, projection]), torch.bfloat16)
    assert projection.weight is embedding.weight is weight
    assert isinstance(weight, nn.Parameter)
    assert weight.is_meta and norm.running_mean.is_meta
    assert weight.dtype == torch.bfloat16
    assert not counter.is_meta and counter.item() == 0, "integers keep their values"


def gradient_shapes(module, tokens):
    """Return the shapes of the gradients after a forward and a backward pass."""
    module(tokens).float().logsumexp(-1).sum().backward()
    return {name: weight.grad.shape for name, weight in module.named_parameters()}


class Encoder(nn.Module):
    """Embedding and layer of a masked LM, with a mask that is computed from the tokens."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(11, 8, padding_idx=1)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True)
        self.project = nn.Linear(8, 11)

    def forward(self, tokens):
        mask = tokens.eq(1)
        assert mask.tolist() == [[False, False, False], [False, True, True]], "real booleans"
        return self.project(self.layer(self.embed(tokens), src_key_padding_mask=mask))


def test_a_training_step_has_the_same_shapes():
    tokens, module = torch.tensor([[4, 5, 6], [7, 1, 1]]), Encoder()
    expected = gradient_shapes(module, tokens)
    module.zero_grad(set_to_none=True)
    drop_values(module)
    with Valueless():
        assert gradient_shapes(module, tokens) == expected
    assert all(weight.grad.is_meta for weight in module.parameters())


@pytest.mark.cases(
    "compute expected",
    (lambda numbers: numbers.argmax(-1), [0, 0]),
    (lambda numbers: numbers > 0.5, [[True] * 3] * 2),
    (lambda numbers: numbers.isfinite() & numbers.eq(numbers), [[True] * 3] * 2),
    (lambda numbers: torch.arange(3, device=numbers.device), [0, 1, 2]),
    (lambda numbers: numbers.sum(), 1.0),
    (lambda numbers: numbers.cpu(), [[1.0] * 3] * 2),
)
def test_integers_booleans_and_copies_have_values(compute, expected):
    numbers = torch.empty(2, 3, device="meta")
    with Valueless():
        output = compute(numbers)
        assert (output.tolist() if output.dim() else output.item()) == expected


def test_operators_in_place_return_their_argument():
    numbers = torch.empty(2, 3, device="meta")
    with Valueless():
        assert numbers.mul_(2) is numbers
        assert torch.nn.functional.relu_(numbers) is numbers
