"""DeltaLM's decoder written out one sentence, one position and one key at a time, without padding or masks.

Vectors are 1-D tensors; a sentence is a list of vectors. Everything is differentiable, and nothing here calls the package
or fairseq: only the weights of the modules are read. Source: DeltaLM, section 2.2 and Figure 2b.
"""

import torch

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
