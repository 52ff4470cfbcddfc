"""The interleaved decoder against section 2.2 written as loops over one sentence at a time, in float64."""

import pytest
import torch

from fairseq_plugins.modules.interleaved_layer import InterleavedDecoderLayer
from tests import builders, deltalm_builders
from tests.reference import deltalm_loops

CLOSE = dict(rtol=1e-9, atol=1e-9)


@pytest.fixture(autouse=True)
def _exact(monkeypatch):
    deltalm_builders.in_double(monkeypatch)


def decoded(model, states, data):
    """Logits of the real tokens of each row, given (S, B, C) encoder output, in one padded batch."""
    encoder_out = {"encoder_out": [states], "encoder_padding_mask": [data["src_tokens"].eq(builders.PAD)]}
    logits = model.decoder(data["prev_output_tokens"], encoder_out=encoder_out)[0]
    kept = data["prev_output_tokens"].ne(builders.PAD)
    return [row[mask] for row, mask in zip(logits, kept)]


def slowly(model, states, data):
    """The same by the loops: each sentence alone."""
    rows = []
    for number, (source, target) in enumerate(zip(data["src_tokens"], data["prev_output_tokens"])):
        tokens = target[target.ne(builders.PAD)].tolist()
        vectors = list(states[: int(source.ne(builders.PAD).sum()), number])
        rows.append(deltalm_loops.decode(model.decoder, tokens, vectors, builders.HEADS, builders.PAD + 1))
    return rows


@pytest.mark.parametrize(
    "options", [{}, {"layernorm_embedding": False}, {"decoder_normalize_before": True}], ids=["post", "large", "pre"]
)
def test_decoder_equals_the_loops_in_value_and_gradient(options):
    """A ragged batch with one more column of padding on both sides than needed."""
    kind = "omegaconf"  # where an option can be turned off
    models = [deltalm_builders.random_model(kind=kind, **options).double() for _ in range(2)]
    data = deltalm_builders.net_input(extra=1)
    generator = torch.Generator().manual_seed(7)
    values = torch.randn(7, 3, builders.WIDTH, generator=generator, dtype=torch.float64)
    gradients = []
    results = []
    for model, function in zip(models, (decoded, slowly)):
        assert (model.decoder.layernorm_embedding is None) is (options.get("layernorm_embedding") is False)
        states = values.clone().requires_grad_()
        rows = function(model, states, data)
        assert [len(row) for row in rows] == [5, 3, 4]
        sum((row * row.detach().cos()).sum() for row in rows).backward()
        results.append(rows)
        found = {name: parameter.grad for name, parameter in model.decoder.named_parameters()}
        gradients.append({**found, "the encoder's output": states.grad})
    for fast, slow in zip(*results):
        torch.testing.assert_close(fast, slow, **CLOSE)
    assert [name for name, gradient in gradients[1].items() if gradient is None] == []
    for name, gradient in gradients[1].items():
        torch.testing.assert_close(gradients[0][name], gradient, msg=name, **CLOSE)
        assert float(gradient.abs().max()) > 1e-6 or name.endswith("k_proj.bias"), name  # a key's bias cancels out


def _stack(*rows):
    return torch.stack([torch.stack(row) for row in rows], dim=1)


@pytest.mark.parametrize("pre_norm", [False, True])
def test_one_layer_equals_one_block(pre_norm):
    """The module itself, with the return values of fairseq's layer."""
    model = deltalm_builders.random_model(decoder_normalize_before=pre_norm).double()
    layer = model.decoder.layers[1]
    assert isinstance(layer, InterleavedDecoderLayer)
    generator = torch.Generator().manual_seed(8)
    states, source = (torch.randn(n, 2, builders.WIDTH, generator=generator, dtype=torch.float64) for n in (5, 3))
    future = torch.full((5, 5), float("-inf"), dtype=torch.float64).triu(1)
    hidden = torch.tensor([[False, False, False], [False, False, True]])
    found, weights, nothing = layer(
        states, source, hidden, self_attn_mask=future, need_attn=True, need_head_weights=False
    )
    slow = [
        deltalm_loops.block(layer, list(states[:, row]), list(source[:length, row]), builders.HEADS, pre_norm)
        for row, length in ((0, 3), (1, 2))
    ]
    torch.testing.assert_close(found, _stack(*slow), **CLOSE)
    assert nothing is None
    assert weights.shape == (2, 5, 3)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 5, dtype=torch.float64))
    assert float(weights[1, :, 2].detach().abs().max()) == 0.0
