"""Test VECO's pre-training objectives against its equations as slow loops.

Source: VECO sections 2.1, 2.2 and 3.
"""

import pytest
import torch

from fairseq_plugins.veco.criterion import CrossSequenceMLMConfig, CrossSequenceMLMCriterion
from tests import builders, veco_builders
from tests.deltalm_builders import in_double
from tests.reference import loops
from tests.reference.loops import attend, feed_forward, sublayer

PAD = builders.PAD


class VECOLoops:
    """Equations 4 to 7 with the weights of a pre-training model.

    "VECO follows the post-layernorm design" (section 5.1).
    """

    def __init__(self, model, heads):
        self.model, self.heads = model, heads

    def embed(self, tokens):
        """Compute X^(0): token and learned position, a layer norm, no scale (section 3)."""
        positions = range(PAD + 1, PAD + 1 + len(tokens))
        return loops.embed(self.model.encoder, tokens, positions)

    def encode(self, tokens):
        """Compute X^(N), where every position attends to all.

        Eq. 4: H = SelfAttention(X; theta_s), X = FFN(H; theta_f).
        """
        states = self.embed(tokens)
        for layer in self.model.encoder.layers:
            states = loops.encoder_layer(layer, states, self.heads)
        return states

    def decode(self, tokens, memory):
        """Compute Y^(N) given X^(N), which is detached.

        Eq. 6: S = SelfAttention(Y; theta_s), "a triangular attention mask matrix is used" (footnote
        3): a position attends to itself and those before; Z = CrossAttention(S, X^(N); theta_c), Y
        = FFN(Z; theta_f). Self-attention and FFN are those of the *encoder's* layers.
        """
        memory = [x.detach() for x in memory]
        states = self.embed(tokens)
        for layer, shared in zip(self.model.decoder.layers, self.model.encoder.layers):
            states = self.decoder_layer(layer, shared, states, memory)
        return states

    def decoder_layer(self, layer, shared, states, memory):
        def to_itself(xs):
            contexts = [xs[: place + 1] for place in range(len(xs))]
            return attend(shared.self_attn, xs, contexts, self.heads)

        def to_memory(xs):
            return attend(layer.encoder_attn, xs, [memory] * len(xs), self.heads)

        def ffn(xs):
            return feed_forward(shared.fc1, shared.fc2, xs)

        states = sublayer(shared.self_attn_layer_norm, states, to_itself)
        states = sublayer(layer.encoder_attn_layer_norm, states, to_memory)
        return sublayer(shared.final_layer_norm, states, ffn)

    def nll(self, states, targets):
        """Sum -log P of the masked tokens, in nats (Eq. 5 and 7), by XLM-R's head.

        Targets are padding where nothing is predicted.
        """
        total = torch.zeros((), dtype=states[0].dtype)
        embedding = self.model.encoder.embed_tokens.weight
        for x, target in zip(states, targets):
            if target != PAD:
                scores = loops.head(self.model.lm_head, embedding, x)
                total = total + torch.logsumexp(scores, 0) - scores[target]
        return total

    def losses(self, sample):
        """Compute each objective of a batch, summed over its sentences."""
        rows = unpad(sample["net_input"]["src_tokens"])
        targets = sample["target"].tolist()
        half = len(rows) // 2
        names = ("is_mlm", "cs_mlm", "tlm")
        losses = {name: torch.zeros((), dtype=torch.float64) for name in names}
        for number, (tokens, target) in enumerate(zip(rows, targets)):
            translation = rows[(number + half) % len(rows)]
            losses["is_mlm"] = losses["is_mlm"] + self.nll(self.encode(tokens), target)
            decoded = self.decode(tokens, self.encode(translation))
            losses["cs_mlm"] = losses["cs_mlm"] + self.nll(decoded, target)
        joint_rows = unpad(sample["net_input"]["joint_tokens"])
        for tokens, target in zip(joint_rows, sample["joint_target"].tolist()):
            losses["tlm"] = losses["tlm"] + self.nll(self.encode(tokens), target)
        return losses


def unpad(tokens):
    """Return the rows of a batch as lists without padding."""
    return [[token for token in row if token != PAD] for row in tokens.tolist()]


@pytest.fixture
def model(monkeypatch):
    """Two layers in float64."""
    in_double(monkeypatch)
    return veco_builders.random_pretrainer(encoder_layers=2).double()


@pytest.mark.cases(
    "options names",
    ({"objectives": "is"}, ["is_mlm"]),
    ({"objectives": "cs"}, ["cs_mlm"]),
    ({"objectives": "tlm"}, ["tlm"]),
    ({}, ["is_mlm", "cs_mlm", "tlm"]),
)
def test_objectives_and_their_sum_equal_the_equations(model, options, names):
    """Compare value, and gradient of every weight; without options the loss is Eq. 8."""
    sample = veco_builders.batch(extra=1)
    cfg = CrossSequenceMLMConfig(loss_chunk_size=3, **options)
    loss, size, log = CrossSequenceMLMCriterion(None, cfg)(model, sample)
    losses = VECOLoops(model, builders.HEADS).losses(sample)
    if len(names) == 3:
        assert int(size) == int(sample["net_input"]["masked"].sum())
    for name in names:
        torch.testing.assert_close(log[name], losses[name].detach(), rtol=1e-6, atol=0)
    slow = sum(losses[name] for name in names)
    assert float(slow.detach()) > 5.0
    torch.testing.assert_close(loss, slow, rtol=1e-6, atol=0)

    parameters = dict(model.named_parameters())
    fast_gradients, slow_gradients = (
        torch.autograd.grad(part, list(parameters.values()), materialize_grads=True)
        for part in (loss, slow)
    )
    nonzero = 0
    for name, actual, expected in zip(parameters, fast_gradients, slow_gradients):
        if "embed_" in name:  # fairseq gives the padding row no gradient
            expected[PAD] = actual[PAD]
        torch.testing.assert_close(
            actual,
            expected,
            rtol=1e-5,
            atol=1e-6,
            msg=lambda text, name=name: f"{name}: {text}",
        )
        nonzero += bool(expected.abs().max() > 1e-4)
    assert nonzero > 20
