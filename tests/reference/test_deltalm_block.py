"""DeltaLM's decoder against section 2.2 and Figure 2b written as loops over one sentence and position at a time, in float64."""

import pytest
import torch

from tests import builders, deltalm_builders
from tests.reference.loops import attend, embed, feed_forward, layer_norm, sublayer


def block(layer, states, source, heads, pre_norm=False):
    """One interleaved block: self-attention, bottom FFN, cross-attention, top FFN (section 2.2, Figure 2b).

    "The residual connections and the layer normalizations are performed in each sub-layers".
    """
    states = sublayer(
        layer.self_attn_layer_norm,
        states,
        lambda xs: attend(layer.self_attn, xs, [xs[: place + 1] for place in range(len(xs))], heads),
        pre_norm,
    )
    states = sublayer(layer.ffn_layer_norm, states, lambda xs: feed_forward(layer.fc3, layer.fc4, xs), pre_norm)
    states = sublayer(
        layer.encoder_attn_layer_norm,
        states,
        lambda xs: attend(layer.encoder_attn, xs, [source] * len(xs), heads),
        pre_norm,
    )
    return sublayer(layer.final_layer_norm, states, lambda xs: feed_forward(layer.fc1, layer.fc2, xs), pre_norm)


def decode(decoder, tokens, source, heads, first_position):
    """(T, V) logits of one sentence given the encoder's output.

    "The rest components of the decoder, including the embeddings, residual connections, the activation function, and the
    layer normalizations, are the same as the pretrained encoder" (section 2.2): learned positions, no scale, a layer norm
    after the embedding (where the module has one), GELU, and the token embedding as output matrix.
    """
    pre_norm = decoder.layer_norm is not None
    states = embed(decoder, tokens, range(first_position, first_position + len(tokens)))
    for layer in decoder.layers:
        states = block(layer, states, source, heads, pre_norm)
    if pre_norm:
        states = [layer_norm(decoder.layer_norm, x) for x in states]
    return torch.stack([decoder.embed_tokens.weight @ x for x in states])


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
        rows.append(decode(model.decoder, tokens, vectors, builders.HEADS, builders.PAD + 1))
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
        torch.testing.assert_close(fast, slow, rtol=1e-9, atol=1e-9)
    assert [name for name, gradient in gradients[1].items() if gradient is None] == []
    for name, gradient in gradients[1].items():
        torch.testing.assert_close(gradients[0][name], gradient, msg=name, rtol=1e-9, atol=1e-9)
        assert float(gradient.abs().max()) > 1e-6 or name.endswith("k_proj.bias"), name  # a key's bias cancels out
