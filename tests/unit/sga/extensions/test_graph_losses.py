"""SGA with a graph of slots, and glancing: losses from their parts, and what the slots show."""

import torch

from fairseq_plugins.common.slot_model import Target
from fairseq_plugins.ops import ctc, dag
from tests import builders

LENGTHS = torch.tensor(builders.TARGETS)


def model_of(**options):
    return builders.sga_model(alignment="dag", ctc_upsample=3, **options)


def inputs(sample):
    return sample["net_input"]["src_tokens"], sample["net_input"]["src_lengths"], sample["target"]


def test_losses_are_those_of_the_graph_and_of_its_denoised_path():
    model, sample = model_of(), builders.sample()
    source, lengths, targets = inputs(sample)
    losses = builders.forward_losses(model, sample)
    guidance, slots = model.encode(source), 3 * lengths
    hidden, links = graph_states(model, sample)
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


def graph_states(model, sample, tokens=None):
    source, lengths, _ = inputs(sample)
    slots = 3 * lengths
    tokens = model.blank_sentence(slots) if tokens is None else tokens
    return model.align_graph(model.encode(source), slots, tokens)


def glanced_tokens(model, sample, ratio):
    """(B, T), what the alignment unit reads."""
    source, lengths, targets = inputs(sample)
    return model.glance(model.encode(source), 3 * lengths, Target(targets, LENGTHS, 64), ratio).tokens


def test_glancing_shows_tokens_of_the_best_path():
    model, sample = model_of(), builders.sample()
    _, lengths, targets = inputs(sample)
    target = Target(targets, LENGTHS, 64)
    aligned, path = model.aligned_tokens(graph_states(model, sample), 3 * lengths, target)
    for row, length in enumerate(LENGTHS.tolist()):
        last = 3 * int(lengths[row]) - 1
        assert aligned[row][aligned[row] >= 0].tolist() == targets[row, :length].tolist()
        assert int(aligned[row, 0]) == int(aligned[row, last]) == -1
    torch.manual_seed(1)
    shown = torch.stack([glanced_tokens(model, sample, 0.5) for _ in range(400)])
    hidden = shown == model.mask
    assert torch.equal(shown[~hidden], aligned.expand_as(shown)[~hidden])
    is_aligned = aligned >= 0
    wrong = (is_aligned & (path.tokens != aligned)).sum(1) / is_aligned.sum(1)
    shares = (~hidden).sum(2).float().mean(0) / is_aligned.sum(1)
    torch.testing.assert_close(shares, 0.5 * wrong, rtol=0, atol=0.05)


def test_glanced_slots_are_what_the_alignment_unit_reads():
    model, sample = model_of(), builders.sample()
    _, lengths, targets = inputs(sample)
    torch.manual_seed(3)
    found = builders.forward_losses(model, sample, glancing=1.0)["alignment"]
    torch.manual_seed(3)
    seen = glanced_tokens(model, sample, 1.0)
    assert bool((seen != model.mask).any())
    hidden, links = graph_states(model, sample, seen)
    expected, _ = dag.linear_dag_with_best(hidden, *model.projection, links, targets, 3 * lengths, LENGTHS, model.blank)
    torch.testing.assert_close(found, expected)
    plain = builders.forward_losses(model, sample)["alignment"]
    assert float((found - plain).detach().abs().max()) > 1e-2


def test_the_denoiser_reads_what_decoding_would_give_it(monkeypatch):
    model, sample, read = model_of(), builders.sample(), []
    original = type(model).denoise
    monkeypatch.setattr(type(model), "denoise", lambda self, *given: read.append(given[0]) or original(self, *given))
    plain, glanced = (builders.forward_losses(model, sample, glancing=share)["alignment"] for share in (0.0, 1.0))
    assert not torch.allclose(plain, glanced), "the alignment unit has seen something"
    assert torch.equal(*read)
