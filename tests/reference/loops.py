"""The masked LM and SGA written out one sentence, one position and one key at a time, without padding or masks.

Vectors are 1-D tensors; a sentence is a list of vectors; prefixes are lists of (key, value) vectors a layer. Everything is
differentiable, and nothing here calls the package: only the weights of its modules are read.
"""

import math

import torch


def affine(linear, x):
    """W x + b."""
    return linear.weight @ x + linear.bias


def layer_norm(norm, x):
    """Ba et al. 2016: zero mean, unit (biased) variance, then scale and shift."""
    centred = x - x.mean()
    return centred / torch.sqrt((centred * centred).mean() + norm.eps) * norm.weight + norm.bias


def gelu(x):
    """Hendrycks and Gimpel 2016, the exact form: x Phi(x)."""
    return 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))


def attend(module, queries, seen, heads, prefix=()):
    """Vaswani et al. 2017, section 3.2: query i attends to the vectors ``seen[i]``.

    The keys and values of ``prefix`` (pairs) are concatenated with the own ones: the prompts of SGA section 3.
    """
    size = len(queries[0]) // heads
    outputs = []
    for x, others in zip(queries, seen):
        keys = [key for key, _ in prefix] + [affine(module.k_proj, y) for y in others]
        values = [value for _, value in prefix] + [affine(module.v_proj, y) for y in others]
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
    """W_2 gelu(W_1 x + b_1) + b_2, each position alone."""
    return [affine(second, gelu(affine(first, x))) for x in states]


def sublayer(norm, states, function, pre_norm=False):
    """LayerNorm(x + f(x)) as in the vanilla Transformer, or x + f(LayerNorm(x)) for a pre-norm one."""
    changes = function([layer_norm(norm, x) for x in states] if pre_norm else states)
    sums = [x + change for x, change in zip(states, changes)]
    return sums if pre_norm else [layer_norm(norm, x) for x in sums]


def embed(side, tokens, positions):
    """Token and learned position, then a layer norm where the module has one."""
    sums = [side.embed_tokens.weight[token] + side.embed_positions.weight[row] for token, row in zip(tokens, positions)]
    norm = side.layernorm_embedding
    return sums if norm is None else [layer_norm(norm, x) for x in sums]


def encode(encoder, tokens, positions, prefixes, heads):
    """h^1 .. h^L of one sentence: post-norm layers (XLM-R); ``prefixes`` holds one entry a layer."""
    states, outputs = embed(encoder, tokens, positions), []
    for layer, prefix in zip(encoder.layers, prefixes):
        states = encoder_layer(layer, states, heads, prefix)
        outputs.append(states)
    return outputs


def encoder_layer(layer, states, heads, prefix=()):
    """Self-attention in which every position sees every other, then the feed-forward block; post-norm."""
    states = sublayer(
        layer.self_attn_layer_norm,
        states,
        lambda xs: attend(layer.self_attn, xs, [xs] * len(xs), heads, prefix),
    )
    return sublayer(layer.final_layer_norm, states, lambda xs: feed_forward(layer.fc1, layer.fc2, xs))


def head(lm_head, embedding, x):
    """(V,) dense, GELU, layer norm, then the token embedding as output matrix (XLM-R's head)."""
    return embedding @ layer_norm(lm_head.layer_norm, gelu(affine(lm_head.dense, x))) + lm_head.bias


def logits(masked_lm, sentence):
    """(T, V)."""
    return torch.stack([head(masked_lm.lm_head, masked_lm.sentence_encoder.embed_tokens.weight, x) for x in sentence])


def prompt_prefix(prompts, layer):
    """Key and value prompts of one layer, times max(1, scale) where the unit has a scale."""
    scale = getattr(prompts, "scale", None)
    factor = scale if scale is not None and float(scale.detach()) > 1 else 1.0
    return [(factor * key, factor * value) for key, value in zip(prompts.key[layer], prompts.value[layer])]


class SGALoops:
    """Equations 1 to 7 for one sentence.

    Args:
        model: an SGAModel, for its weights.
        heads: attention heads.
        upsample: slots per source token.
        padding_idx: positions start one after it.
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
        """Eq. 1: h^1..h^L = f_LM(theta_s, X). Eq. 2: K^l = h^l W_K and V^l = h^l W_V, one pair for every layer."""
        prompts = [prompt_prefix(self.model.encoder_prompts, layer) for layer in range(self.layers)]
        hidden = self._run(source, prompts)
        semantic = self.model.semantic
        return [
            [(affine(semantic.key, x), affine(semantic.value, x)) for x in hidden[layer]]
            for layer in range(self.layers)
        ]

    def unit(self, prompts, tokens, guidance):
        """Eq. 3 and 4, Eq. 5 and 6: f_LM(concat[semantic, prompt], tokens), as (T, V) logits."""
        prefixes = [list(guidance[layer]) + list(prompt_prefix(prompts, layer)) for layer in range(self.layers)]
        return logits(self.lm, self._run(tokens, prefixes)[-1])

    def alignment(self, source):
        """T_0's logits (Eq. 4): the input is a row of ``<mask>``, upsample x source length."""
        blank_sentence = [self.model.mask] * (self.upsample * len(source))
        return self.unit(self.model.alignment_prompts, blank_sentence, self.guidance(source))

    def denoiser_input(self, alignment, fill_blanks=False):
        """T_0, not collapsed; where asked for, blanks are replaced by the second-best token."""
        tokens = []
        for row in alignment.detach():
            best = int(row.argmax())
            if fill_blanks and best == self.model.blank:
                best = int(row.argsort(descending=True)[1])
            tokens.append(best)
        return tokens

    def denoising(self, source, tokens):
        """T_1's logits (Eq. 6)."""
        return self.unit(self.model.denoiser_prompts, tokens, self.guidance(source))
