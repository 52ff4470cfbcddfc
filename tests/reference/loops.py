"""Compute the masked LM and SGA one sentence, one position and one key at a time, without masks.

Vectors are 1-D tensors; a sentence is a list of vectors; prefixes are lists of (key, value) vectors
per layer. Everything is differentiable. Nothing here calls the package: only the weights of its
modules are read.
"""

import math

import torch


def affine(linear, x):
    """Compute W x + b."""
    return linear.weight @ x + linear.bias


def layer_norm(norm, x):
    """Normalise to zero mean and unit (biased) variance, then scale and shift. Ba et al. 2016."""
    centred = x - x.mean()
    return centred / torch.sqrt((centred * centred).mean() + norm.eps) * norm.weight + norm.bias


def gelu(x):
    """Compute x Phi(x), the exact form of Hendrycks and Gimpel 2016."""
    return 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))


def attend(module, queries, contexts, heads, prefix=()):
    """Let query i attend to the vectors ``contexts[i]``. Vaswani et al. 2017, section 3.2.

    The (key, value) pairs of ``prefix`` come first: the prompts of SGA section 3.
    """
    size = len(queries[0]) // heads
    outputs = []
    for x, context in zip(queries, contexts):
        keys = [key for key, _ in prefix] + [affine(module.k_proj, y) for y in context]
        values = [value for _, value in prefix] + [affine(module.v_proj, y) for y in context]
        query, parts = affine(module.q_proj, x), []
        for head in range(heads):
            part = slice(head * size, (head + 1) * size)
            scores = torch.stack([query[part].dot(key[part]) / math.sqrt(size) for key in keys])
            weights = (scores - scores.max()).exp()
            weights = weights / weights.sum()
            parts.append(sum(weight * value[part] for weight, value in zip(weights, values)))
        outputs.append(affine(module.out_proj, torch.cat(parts)))
    return outputs


def feed_forward(first, second, states):
    """Compute W_2 gelu(W_1 x + b_1) + b_2, each position alone."""
    return [affine(second, gelu(affine(first, x))) for x in states]


def sublayer(norm, states, function, pre_norm=False):
    """Compute LayerNorm(x + f(x)), or x + f(LayerNorm(x)) in a pre-norm Transformer."""
    changes = function([layer_norm(norm, x) for x in states] if pre_norm else states)
    sums = [x + change for x, change in zip(states, changes)]
    return sums if pre_norm else [layer_norm(norm, x) for x in sums]


def embed(side, tokens, positions):
    """Add embeddings of tokens and positions, then apply a layer norm if the module has one."""
    words, places = side.embed_tokens.weight, side.embed_positions.weight
    sums = [words[token] + places[position] for token, position in zip(tokens, positions)]
    norm = side.layernorm_embedding
    return sums if norm is None else [layer_norm(norm, x) for x in sums]


def encode(encoder, tokens, positions, prefixes, heads):
    """Compute h^1 .. h^L of a sentence by post-norm layers (XLM-R), with a prefix per layer."""
    states, outputs = embed(encoder, tokens, positions), []
    for layer, prefix in zip(encoder.layers, prefixes):
        states = encoder_layer(layer, states, heads, prefix)
        outputs.append(states)
    return outputs


def encoder_layer(layer, states, heads, prefix=()):
    """Apply self-attention over all positions, then the feed-forward block; post-norm."""

    def attention(xs):
        return attend(layer.self_attn, xs, [xs] * len(xs), heads, prefix)

    states = sublayer(layer.self_attn_layer_norm, states, attention)
    return sublayer(
        layer.final_layer_norm, states, lambda xs: feed_forward(layer.fc1, layer.fc2, xs)
    )


def head(lm_head, embedding, x):
    """Apply XLM-R's head: dense, GELU, layer norm, the token embedding as output matrix. (V,)"""
    return embedding @ layer_norm(lm_head.layer_norm, gelu(affine(lm_head.dense, x))) + lm_head.bias


def logits(masked_lm, sentence):
    """Apply the head to each state of a sentence. (T, V)"""
    embedding = masked_lm.sentence_encoder.embed_tokens.weight
    return torch.stack([head(masked_lm.lm_head, embedding, x) for x in sentence])


def prompt_prefix(prompts, layer):
    """Return key and value prompts of a layer, times max(1, scale) if the unit has a scale."""
    scale = getattr(prompts, "scale", None)
    factor = scale if scale is not None and float(scale.detach()) > 1 else 1.0
    pairs = zip(prompts.key[layer], prompts.value[layer])
    return [(factor * key, factor * value) for key, value in pairs]


class SGALoops:
    """Equations 1 to 7 for one sentence, with the weights of a model.

    Positions start one after ``padding_idx``.
    """

    def __init__(self, model, heads, upsample, padding_idx):
        self.model, self.heads, self.upsample = model, heads, upsample
        self.first = padding_idx + 1
        self.lm = model.frozen.module
        self.layers = len(self.lm.sentence_encoder.layers)

    def _run(self, tokens, prefixes):
        positions = [self.first + place for place in range(len(tokens))]
        return encode(self.lm.sentence_encoder, tokens, positions, prefixes, self.heads)

    def guidance(self, source):
        """Compute keys and values of each layer.

        Eq. 1: h^1..h^L = f_LM(theta_s, X). Eq. 2: K^l = h^l W_K and V^l = h^l W_V.
        """
        prompts = [prompt_prefix(self.model.encoder_prompts, layer) for layer in range(self.layers)]
        hidden = self._run(source, prompts)
        semantic = self.model.semantic
        return [
            [(affine(semantic.key, x), affine(semantic.value, x)) for x in states]
            for states in hidden
        ]

    def unit(self, prompts, tokens, guidance):
        """Compute f_LM(concat[semantic, prompt], tokens), (T, V) logits. Eq. 3 and 4, 5 and 6."""
        prefixes = [
            [*guidance[layer], *prompt_prefix(prompts, layer)] for layer in range(self.layers)
        ]
        return logits(self.lm, self._run(tokens, prefixes)[-1])

    def alignment(self, source):
        """Compute the logits of T_0 (Eq. 4) for upsample x source length symbols ``<mask>``."""
        blank_sentence = [self.model.mask] * (self.upsample * len(source))
        return self.unit(self.model.alignment_prompts, blank_sentence, self.guidance(source))

    def denoiser_input(self, alignment, fill_blanks=False):
        """Return T_0, not collapsed; ``fill_blanks`` replaces blanks by the second-best token."""
        tokens = []
        for row in alignment.detach():
            best = int(row.argmax())
            if fill_blanks and best == self.model.blank:
                best = int(row.argsort(descending=True)[1])
            tokens.append(best)
        return tokens

    def denoising(self, source, tokens):
        """Compute the logits of T_1 (Eq. 6)."""
        return self.unit(self.model.denoiser_prompts, tokens, self.guidance(source))
