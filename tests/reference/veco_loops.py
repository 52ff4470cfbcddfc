"""VECO's three objectives written out one sentence, one position and one key at a time, without padding or masks.

Vectors are 1-D tensors; a sentence is a list of vectors. Everything is differentiable; only the weights of a pre-training model
are read. Source: VECO, sections 2.1, 2.2 and 3.
"""

import torch

from tests.reference import loops
from tests.reference.loops import attend, feed_forward, sublayer


class VECOLoops:
    """Equations 1 to 7; "VECO follows the post-layernorm design" (section 5.1).

    Args:
        model: a pre-training model, for its weights.
        heads: attention heads.
        padding_idx: positions start one after it.
    """

    def __init__(self, model, heads, padding_idx):
        self.model, self.heads, self.first = model, heads, padding_idx + 1

    def embed(self, tokens):
        """X^(0): token and learned position, a layer norm, no scale, no language embedding (section 3)."""
        return loops.embed(self.model.encoder, tokens, range(self.first, self.first + len(tokens)))

    def encode(self, tokens):
        """X^(N). Eq. 1: H = SelfAttention(X; theta_s). Eq. 2: X = FFN(H; theta_f). Every position sees every other."""
        states = self.embed(tokens)
        for layer in self.model.encoder.layers:
            states = loops.encoder_layer(layer, states, self.heads)
        return states

    def decode(self, tokens, memory):
        """Y^(N) given X^(N), which is detached.

        Eq. 4: S = SelfAttention(Y; theta_s), "a triangular attention mask matrix is used" (footnote 3): itself and those before.
        Eq. 5: Z = CrossAttention(S, X^(N); theta_c). Eq. 6: Y = FFN(Z; theta_f). Self-attention and FFN are read from the
        *encoder's* layers: they are the same.
        """
        memory = [x.detach() for x in memory]
        states = self.embed(tokens)
        for layer, own in zip(self.model.decoder.layers, self.model.encoder.layers):
            states = sublayer(
                own.self_attn_layer_norm,
                states,
                lambda xs, at=own: attend(at.self_attn, xs, [xs[: place + 1] for place in range(len(xs))], self.heads),
            )
            states = sublayer(
                layer.encoder_attn_layer_norm,
                states,
                lambda xs, at=layer: attend(at.encoder_attn, xs, [memory] * len(xs), self.heads),
            )
            states = sublayer(own.final_layer_norm, states, lambda xs, at=own: feed_forward(at.fc1, at.fc2, xs))
        return states

    def nll(self, states, targets, padding_idx):
        """-log P of the masked tokens, nats (Eq. 3 and 7): XLM-R's head; ``targets`` are padding where nothing is predicted."""
        total = torch.zeros((), dtype=states[0].dtype)
        for x, target in zip(states, targets):
            if target != padding_idx:
                scores = loops.head(self.model.lm_head, self.model.encoder.embed_tokens.weight, x)
                total = total + torch.logsumexp(scores, 0) - scores[target]
        return total


def rows_of(tokens, padding_idx):
    """Each row without its padding."""
    return [[int(token) for token in row if int(token) != padding_idx] for row in tokens]
