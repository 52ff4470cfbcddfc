"""Test SGA with a graph of slots: its losses from their parts, and glancing."""

import pytest
import torch
import torch.nn.functional as F

from fairseq_plugins.common.slot_model import Target
from fairseq_plugins.ops import ctc, dag
from tests import builders

LENGTHS = torch.tensor(builders.TARGETS)


@pytest.fixture
def model():
    return builders.sga_model(alignment="dag", ctc_upsample=3)


@pytest.fixture
def sample():
    return builders.sample()


def count_slots(sample):
    return 3 * sample["net_input"]["src_lengths"]


def graph_states(model, sample, tokens=None):
    """Return states and links of the alignment unit that reads ``tokens`` (<mask> if None)."""
    slots = count_slots(sample)
    if tokens is None:
        tokens = model.blank_sentence(slots)
    return model.align_graph(model.encode(sample["net_input"]["src_tokens"]), slots, tokens)


def glance(model, sample, ratio):
    """Return the tokens (B, T) that the alignment unit reads."""
    guidance = model.encode(sample["net_input"]["src_tokens"])
    target = Target(sample["target"], LENGTHS, 64)
    return model.glance(guidance, count_slots(sample), target, ratio).tokens


def test_losses_are_those_of_the_graph_and_of_its_denoised_path(model, sample):
    losses = builders.forward_losses(model, sample)
    slots, targets = count_slots(sample), sample["target"]
    hidden, links = graph_states(model, sample)
    logits = F.linear(hidden, *model.projection)
    graph = links, targets, slots, LENGTHS, builders.BOS
    expected, _ = dag.linear_dag_with_best(logits, torch.eye(builders.VOCAB), None, *graph)
    torch.testing.assert_close(losses["alignment"], expected, rtol=1e-4, atol=1e-4)
    best = logits.detach().log_softmax(-1).max(-1)
    visited = dag.lookahead(links.detach(), best.values, slots)
    rows = []
    for tokens, is_visited in zip(best.indices, visited):
        row = tokens[is_visited].unique_consecutive().repeat_interleave(2)
        # A path that emits nothing is read as one <mask>.
        rows.append(row if len(row) else row.new_tensor([model.mask] * 2))
    counts = torch.tensor([len(row) for row in rows])
    guidance = model.encode(sample["net_input"]["src_tokens"])
    hidden = model.denoise(builders.pad(rows, value=model.mask), guidance, counts)
    path = targets, counts, LENGTHS, builders.BOS
    expected = ctc.linear_ctc_loss(hidden, *model.projection, *path)
    torch.testing.assert_close(losses["denoising"], expected, rtol=1e-4, atol=1e-4)


def test_every_trained_part_learns():
    """The bias of the keys adds the same to every link of a slot, and so has no gradient."""
    model = builders.sga_model(alignment="dag", ctc_upsample=3, no_denoising=True)
    trained = {name for name, parameter in model.named_parameters() if parameter.requires_grad}

    def loss():
        return builders.forward_losses(model, builders.sample())["alignment"].sum()

    changed = builders.moved(model, loss)
    assert trained - changed <= {"transitions.key.bias"}
    assert any("transitions.distance" in name for name in changed)


def test_glancing_shows_tokens_of_the_best_path(model, sample):
    """The share of shown tokens is the ratio times the share of wrong ones."""
    slots, targets = count_slots(sample), sample["target"]
    target = Target(targets, LENGTHS, 64)
    aligned, path = model.aligned_tokens(graph_states(model, sample), slots, target)
    is_aligned = aligned >= 0
    for row, length in enumerate(LENGTHS.tolist()):
        assert aligned[row][is_aligned[row]].tolist() == targets[row, :length].tolist()
        assert int(aligned[row, 0]) == int(aligned[row, slots[row] - 1]) == -1
    torch.manual_seed(1)
    inputs = torch.stack([glance(model, sample, 0.5) for _ in range(400)])
    is_shown = inputs != model.mask
    assert torch.equal(inputs[is_shown], aligned.expand_as(inputs)[is_shown])
    counts = is_aligned.sum(1)
    wrong = (is_aligned & (path.tokens != aligned)).sum(1) / counts
    shares = is_shown.sum(2).float().mean(0) / counts
    torch.testing.assert_close(shares, 0.5 * wrong, rtol=0, atol=0.05)


def test_the_alignment_unit_reads_the_shown_tokens(model, sample):
    torch.manual_seed(3)
    loss = builders.forward_losses(model, sample, glancing=1.0)["alignment"]
    torch.manual_seed(3)
    tokens = glance(model, sample, 1.0)
    assert bool((tokens != model.mask).any())
    hidden, links = graph_states(model, sample, tokens)
    graph = links, sample["target"], count_slots(sample), LENGTHS, model.blank
    expected, _ = dag.linear_dag_with_best(hidden, *model.projection, *graph)
    torch.testing.assert_close(loss, expected)
    plain = builders.forward_losses(model, sample)["alignment"]
    assert float((loss - plain).detach().abs().max()) > 1e-2


def test_glancing_does_not_change_what_the_denoiser_reads(model, sample, monkeypatch):
    inputs, original = [], type(model).denoise

    def denoise(self, tokens, *args):
        inputs.append(tokens)
        return original(self, tokens, *args)

    monkeypatch.setattr(type(model), "denoise", denoise)
    plain, glanced = (
        builders.forward_losses(model, sample, glancing=ratio)["alignment"] for ratio in (0.0, 1.0)
    )
    assert not torch.allclose(plain, glanced)
    assert torch.equal(*inputs)
