"""DeltaLM's decoder written out one sentence, one position and one key at a time, without padding or masks.

Vectors are 1-D tensors; a sentence is a list of vectors. Everything is differentiable, and nothing here calls the package
or fairseq: only the weights of the modules are read. Source: DeltaLM, section 2.2 and Figure 2b.
"""

import math
from typing import List

import torch
from torch import Tensor

from tests.reference.loops import affine, gelu, layer_norm


def attend(module, queries, seen, heads):
    """Vaswani et al. 2017, section 3.2: query i attends to the vectors ``seen[i]``."""
    size = len(queries[0]) // heads
    outputs = []
    for x, others in zip(queries, seen):
        query, parts = affine(module.q_proj, x), []
        keys, values = ([affine(linear, y) for y in others] for linear in (module.k_proj, module.v_proj))
        for head in range(heads):
            part = slice(head * size, (head + 1) * size)
            weights = torch.stack([query[part].dot(key[part]) / math.sqrt(size) for key in keys]).softmax(0)
            parts.append(sum(weight * value[part] for weight, value in zip(weights, values)))
        outputs.append(affine(module.out_proj, torch.cat(parts)))
    return outputs


def sublayer(norm, states, function, pre_norm):
    """ "The residual connections and the layer normalizations are performed in each sub-layers" (section 2.2).

    LayerNorm(x + f(x)) as in the vanilla Transformer, or x + f(LayerNorm(x)) for a pre-norm one.
    """
    changes = function([layer_norm(norm, x) for x in states] if pre_norm else states)
    sums = [x + change for x, change in zip(states, changes)]
    return sums if pre_norm else [layer_norm(norm, x) for x in sums]


def feed_forward(first, second, states):
    """W_2 gelu(W_1 x + b_1) + b_2, each position alone."""
    return [affine(second, gelu(affine(first, x))) for x in states]


def block(layer, states, source, heads, pre_norm=False):
    """One interleaved block: self-attention, bottom FFN, cross-attention, top FFN (section 2.2, Figure 2b)."""
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
    states: List[Tensor] = []
    for place, token in enumerate(tokens):
        x = decoder.embed_tokens.weight[token] + decoder.embed_positions.weight[first_position + place]
        states.append(x if decoder.layernorm_embedding is None else layer_norm(decoder.layernorm_embedding, x))
    for layer in decoder.layers:
        states = block(layer, states, source, heads, pre_norm)
    if pre_norm:
        states = [layer_norm(decoder.layer_norm, x) for x in states]
    return torch.stack([decoder.embed_tokens.weight @ x for x in states])
