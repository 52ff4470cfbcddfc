"""Test DeltaLM's decoder against loops over one sentence and position at a time, in float64."""

import pytest
import torch

from tests import builders, deltalm_builders
from tests.reference.loops import attend, embed, feed_forward, layer_norm, sublayer


def run_block(layer, states, source, heads, pre_norm):
    """Run one interleaved block. Source: DeltaLM section 2.2, Figure 2b.

    Its sub-layers are self-attention, bottom FFN, cross-attention and top FFN. "The residual
    connections and the layer normalizations are performed in each sub-layers".
    """

    def to_itself(xs):
        contexts = [xs[: place + 1] for place in range(len(xs))]
        return attend(layer.self_attn, xs, contexts, heads)

    def to_source(xs):
        return attend(layer.encoder_attn, xs, [source] * len(xs), heads)

    def bottom(xs):
        return feed_forward(layer.fc3, layer.fc4, xs)

    def top(xs):
        return feed_forward(layer.fc1, layer.fc2, xs)

    states = sublayer(layer.self_attn_layer_norm, states, to_itself, pre_norm)
    states = sublayer(layer.ffn_layer_norm, states, bottom, pre_norm)
    states = sublayer(layer.encoder_attn_layer_norm, states, to_source, pre_norm)
    return sublayer(layer.final_layer_norm, states, top, pre_norm)


def decode(decoder, tokens, source, heads, first_position):
    """Compute (T, V) logits of a sentence, given the encoder's output.

    "The rest components of the decoder, including the embeddings, residual connections, the
    activation function, and the layer normalizations, are the same as the pretrained encoder"
    (section 2.2): learned positions, no scale, a layer norm after the embedding (if the module has
    one), GELU, and the token embedding as output matrix.
    """
    pre_norm = decoder.layer_norm is not None
    states = embed(decoder, tokens, range(first_position, first_position + len(tokens)))
    for layer in decoder.layers:
        states = run_block(layer, states, source, heads, pre_norm)
    if pre_norm:
        states = [layer_norm(decoder.layer_norm, x) for x in states]
    return torch.stack([decoder.embed_tokens.weight @ x for x in states])


@pytest.fixture(autouse=True)
def _double_precision(monkeypatch):
    deltalm_builders.in_double(monkeypatch)


def decode_batch(model, states, sample):
    """Decode a padded batch, given (S, B, C) states; return the logits of each row's tokens."""
    padding_mask = sample["src_tokens"].eq(builders.PAD)
    encoder_out = {"encoder_out": [states], "encoder_padding_mask": [padding_mask]}
    logits = model.decoder(sample["prev_output_tokens"], encoder_out=encoder_out)[0]
    is_token = sample["prev_output_tokens"].ne(builders.PAD)
    return [row[mask] for row, mask in zip(logits, is_token)]


def decode_slowly(model, states, sample):
    """Decode each sentence of a batch alone, by the loops."""
    rows = []
    for number, source in enumerate(sample["src_tokens"]):
        target = sample["prev_output_tokens"][number]
        tokens = target[target.ne(builders.PAD)].tolist()
        vectors = list(states[: int(source.ne(builders.PAD).sum()), number])
        rows.append(decode(model.decoder, tokens, vectors, builders.HEADS, builders.PAD + 1))
    return rows


@pytest.mark.parametrize(
    "options",
    [{}, {"layernorm_embedding": False}, {"decoder_normalize_before": True}],
    ids=["post", "large", "pre"],
)
def test_decoder_equals_the_loops_in_value_and_gradient(options):
    """Use a ragged batch with a further column of padding on both sides."""
    sample = deltalm_builders.net_input(extra=1)
    generator = torch.Generator().manual_seed(7)
    values = torch.randn(7, 3, builders.WIDTH, generator=generator, dtype=torch.float64)
    logits, gradients = [], []
    for run in (decode_batch, decode_slowly):
        model = deltalm_builders.random_model(kind="omegaconf", **options).double()
        has_norm = model.decoder.layernorm_embedding is not None
        assert has_norm == options.get("layernorm_embedding", True)
        states = values.clone().requires_grad_()
        rows = run(model, states, sample)
        assert [len(row) for row in rows] == [5, 3, 4]
        sum((row * row.detach().cos()).sum() for row in rows).backward()
        logits.append(rows)
        by_name = {name: parameter.grad for name, parameter in model.decoder.named_parameters()}
        gradients.append({**by_name, "encoder output": states.grad})
    for fast, slow in zip(*logits):
        torch.testing.assert_close(fast, slow, rtol=1e-9, atol=1e-9)
    fast_gradients, slow_gradients = gradients
    for name, gradient in slow_gradients.items():
        torch.testing.assert_close(fast_gradients[name], gradient, msg=name, rtol=1e-9, atol=1e-9)
        if not name.endswith("k_proj.bias"):  # a key's bias cancels out
            assert float(gradient.abs().max()) > 1e-6, name
