"""The three routes of VECO's pre-training against its equations (sections 2.1, 2.2 and 3) as slow loops, in value and gradient."""

import pytest
import torch

from fairseq_plugins.veco.criterion import CrossSequenceMLMConfig, CrossSequenceMLMCriterion
from tests import builders, veco_builders
from tests.deltalm_builders import in_double
from tests.reference import loops
from tests.reference.loops import attend, feed_forward, sublayer

PAD = builders.PAD


class VECOLoops:
    """Equations 4 to 7, with the weights of a pre-training model; "VECO follows the post-layernorm design" (section 5.1)."""

    def __init__(self, model, heads, padding_idx):
        self.model, self.heads, self.first = model, heads, padding_idx + 1

    def embed(self, tokens):
        """X^(0): token and learned position, a layer norm, no scale, no language embedding (section 3)."""
        return loops.embed(self.model.encoder, tokens, range(self.first, self.first + len(tokens)))

    def encode(self, tokens):
        """X^(N). Eq. 4: H = SelfAttention(X; theta_s), X = FFN(H; theta_f). Every position sees every other."""
        states = self.embed(tokens)
        for layer in self.model.encoder.layers:
            states = loops.encoder_layer(layer, states, self.heads)
        return states

    def decode(self, tokens, memory):
        """Y^(N) given X^(N), which is detached.

        Eq. 6: S = SelfAttention(Y; theta_s), "a triangular attention mask matrix is used" (footnote 3): itself and those before;
        Z = CrossAttention(S, X^(N); theta_c), Y = FFN(Z; theta_f). Self-attention and FFN are read from the *encoder's* layers:
        they are the same.
        """
        memory = [x.detach() for x in memory]
        states = self.embed(tokens)

        def to_itself(xs):
            return attend(own.self_attn, xs, [xs[: place + 1] for place in range(len(xs))], self.heads)

        def to_memory(xs):
            return attend(layer.encoder_attn, xs, [memory] * len(xs), self.heads)

        for layer, own in zip(self.model.decoder.layers, self.model.encoder.layers):
            states = sublayer(own.self_attn_layer_norm, states, to_itself)
            states = sublayer(layer.encoder_attn_layer_norm, states, to_memory)
            states = sublayer(own.final_layer_norm, states, lambda xs, at=own: feed_forward(at.fc1, at.fc2, xs))
        return states

    def nll(self, states, targets, padding_idx):
        """-log P of the masked tokens, nats (Eq. 5 and 7): XLM-R's head; ``targets`` are padding where nothing is predicted."""
        total = torch.zeros((), dtype=states[0].dtype)
        for x, target in zip(states, targets):
            if target != padding_idx:
                scores = loops.head(self.model.lm_head, self.model.encoder.embed_tokens.weight, x)
                total = total + torch.logsumexp(scores, 0) - scores[target]
        return total


def rows_of(tokens, padding_idx):
    """Each row without its padding."""
    return [[int(token) for token in row if int(token) != padding_idx] for row in tokens]


@pytest.fixture
def model(monkeypatch):
    """Two layers in float64."""
    in_double(monkeypatch)
    return veco_builders.random_pretrainer(encoder_layers=2).double()


def expected(model, sample):
    """Each objective of a batch, summed over its sentences."""
    slow = VECOLoops(model, builders.HEADS, PAD)
    rows = rows_of(sample["net_input"]["src_tokens"], PAD)
    targets = [list(map(int, row[: len(tokens)])) for row, tokens in zip(sample["target"], rows)]
    half = len(rows) // 2
    found = {name: torch.zeros((), dtype=torch.float64) for name in ("is_mlm", "cs_mlm", "tlm")}
    for number, (tokens, target) in enumerate(zip(rows, targets)):
        other = rows[number + half if number < half else number - half]
        found["is_mlm"] = found["is_mlm"] + slow.nll(slow.encode(tokens), target, PAD)
        found["cs_mlm"] = found["cs_mlm"] + slow.nll(slow.decode(tokens, slow.encode(other)), target, PAD)
    for tokens, target in zip(rows_of(sample["net_input"]["joint_tokens"], PAD), sample["joint_target"]):
        found["tlm"] = found["tlm"] + slow.nll(slow.encode(tokens), list(map(int, target[: len(tokens)])), PAD)
    return found


@pytest.mark.parametrize("objective", ["is", "cs", "tlm", None])
def test_each_objective_and_their_sum_equal_the_equations(model, objective):
    """Value, and gradient of every weight (none reaches the memory of CS-MLM through the loops either); the sum is Eq. 8."""
    sample, names = veco_builders.batch(extra=1), {"is": "is_mlm", "cs": "cs_mlm", "tlm": "tlm"}
    cfg = CrossSequenceMLMConfig(loss_chunk_size=3, **({} if objective is None else {"objectives": objective}))
    loss, size, logged = CrossSequenceMLMCriterion(None, cfg)(model, sample)
    found = expected(model, sample)
    if objective is None:
        assert int(size) == int(sample["net_input"]["masked"].sum())
    for name in names.values() if objective is None else [names[objective]]:
        torch.testing.assert_close(logged[name], found[name].detach(), rtol=1e-6, atol=0)
    slow = sum(found.values()) if objective is None else found[names[objective]]
    assert float(slow.detach()) > 5.0
    torch.testing.assert_close(loss, slow, rtol=1e-6, atol=0)
    parameters = dict(model.named_parameters())
    fast, wanted = (torch.autograd.grad(value, list(parameters.values()), allow_unused=True) for value in (loss, slow))
    moved = 0
    for key, left, right in zip(parameters, fast, wanted):
        if right is None:
            assert left is None or not bool(left.any()), key
            continue
        if "embed_" in key:  # fairseq gives the padding row no gradient
            right[PAD] = left[PAD]
        torch.testing.assert_close(left, right, rtol=1e-5, atol=1e-6, msg=lambda text, key=key: f"{key}: {text}")
        moved += bool(right.abs().max() > 1e-4)
    assert moved > 20
