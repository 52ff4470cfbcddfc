"""SGA with a graph of slots, and glancing: losses from their parts, and what the slots show."""

import pytest
import torch

from fairseq_plugins.ops import ctc, dag
from fairseq_plugins.sga.model import Target
from tests import builders

LENGTHS = torch.tensor(builders.TARGETS)


def model_of(alignment="dag", **options):
    return builders.sga_model(alignment=alignment, ctc_upsample=3, **options)


def inputs(sample):
    return sample["net_input"]["src_tokens"], sample["net_input"]["src_lengths"], sample["target"]


def test_losses_are_those_of_the_graph_and_of_its_denoised_path():
    model, sample = model_of(), builders.sample()
    source, lengths, targets = inputs(sample)
    losses = builders.forward_losses(model, sample)
    guidance, slots = model.encode(source), 3 * lengths
    hidden, links = model.align_graph(guidance, slots)
    logits = torch.nn.functional.linear(hidden, *model.projection)
    plain = dag.linear_dag_with_best(
        logits, torch.eye(builders.VOCAB), None, links, targets, slots, LENGTHS, builders.BOS
    )
    torch.testing.assert_close(losses["alignment"], plain[0], rtol=1e-4, atol=1e-4)
    visited = dag.lookahead(links.detach(), logits.detach().log_softmax(-1).amax(-1), slots)
    read = [logits[row].argmax(-1)[visited[row]].unique_consecutive() for row in range(len(slots))]
    read = [row.repeat_interleave(2) for row in read]
    read = [row if len(row) else row.new_tensor([model.mask] * 2) for row in read]  # a path that emits nothing
    counts = torch.tensor([len(row) for row in read])
    hidden = model.denoise(builders.pad(read, value=model.mask), guidance, counts)
    expected = ctc.linear_ctc_loss(hidden, *model.projection, targets, counts, LENGTHS, builders.BOS)
    torch.testing.assert_close(losses["denoising"], expected, rtol=1e-4, atol=1e-4)


def test_every_trained_part_learns():
    model = model_of(no_denoising=True)
    changed = builders.moved(model, lambda: builders.forward_losses(model, builders.sample())["alignment"].sum())
    trained = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    # The bias of the keys adds the same to every link of a slot.
    assert trained - set(changed) <= {"transitions.key.bias"} and any(
        "transitions.distance" in name for name in changed
    )


def aligned_tokens(model, sample):
    """(B, T), the token of each slot in the best alignment, -1 where it has none; and the best path."""
    source, lengths, targets = inputs(sample)
    find = model.aligned_path if model.alignment == "dag" else model.aligned_tokens
    return find(model.encode(source), 3 * lengths, Target(targets, LENGTHS, 64))[:2]


def glanced_tokens(model, sample, ratio):
    """(B, T), what the alignment unit reads."""
    source, lengths, targets = inputs(sample)
    glance = model.glance_graph if model.alignment == "dag" else model.glance
    return glance(model.encode(source), 3 * lengths, Target(targets, LENGTHS, 64), ratio)[0]


@pytest.mark.parametrize("alignment", ["ctc", "dag"])
def test_glancing_shows_tokens_of_the_best_alignment(alignment):
    model, sample = model_of(alignment), builders.sample()
    _, lengths, targets = inputs(sample)
    aligned, path = aligned_tokens(model, sample)
    for row, length in enumerate(LENGTHS.tolist()):
        size = 3 * int(lengths[row])
        kept = aligned[row][aligned[row] >= 0]
        wanted = targets[row, :length].tolist()
        if alignment == "dag":
            assert kept.tolist() == wanted and int(aligned[row, 0]) == int(aligned[row, size - 1]) == -1
        else:
            assert len(kept) == size
            collapsed, _ = ctc.collapse(kept[None], torch.tensor([size]), model.blank)
            assert collapsed[0].tolist() == wanted
    torch.manual_seed(1)
    shown = torch.stack([glanced_tokens(model, sample, 0.5) for _ in range(400)])
    hidden = shown == model.mask
    assert torch.equal(shown[~hidden], aligned.expand_as(shown)[~hidden])
    some = aligned >= 0
    wrong = (some & (path.tokens != aligned)).sum(1) / some.sum(1)
    shares = (~hidden).sum(2).float().mean(0) / some.sum(1)
    torch.testing.assert_close(shares, 0.5 * wrong, rtol=0, atol=0.05)


def test_glanced_slots_are_what_the_alignment_unit_reads():
    model, sample = model_of(), builders.sample()
    _, lengths, targets = inputs(sample)
    torch.manual_seed(3)
    found = builders.forward_losses(model, sample, glancing=1.0)["alignment"]
    torch.manual_seed(3)
    guidance = model.encode(sample["net_input"]["src_tokens"])
    seen = glanced_tokens(model, sample, 1.0)
    assert bool((seen != model.mask).any())
    hidden, links = model.align_graph(guidance, 3 * lengths, seen)
    expected, _ = dag.linear_dag_with_best(hidden, *model.projection, links, targets, 3 * lengths, LENGTHS, model.blank)
    torch.testing.assert_close(found, expected)
    plain = builders.forward_losses(model, sample)["alignment"]
    assert float((found - plain).detach().abs().max()) > 1e-2


@pytest.mark.parametrize("alignment", ["ctc", "dag"])
def test_the_denoiser_reads_what_decoding_would_give_it(alignment, monkeypatch):
    model, sample, read = model_of(alignment), builders.sample(), []
    original = type(model).denoise
    monkeypatch.setattr(type(model), "denoise", lambda self, *given: read.append(given[0]) or original(self, *given))
    plain, glanced = (builders.forward_losses(model, sample, glancing=share)["alignment"] for share in (0.0, 1.0))
    assert not torch.allclose(plain, glanced), "the alignment unit has seen something"
    assert torch.equal(*read)
