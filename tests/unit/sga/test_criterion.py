"""Test sga_ctc: sums, divisors, counts and noise; tests/reference compares the losses."""

import pytest
import torch
from fairseq.distributed.module_proxy_wrapper import ModuleProxyWrapper
from torch import nn

from fairseq_plugins.sga.config import SGACTCConfig
from fairseq_plugins.sga.criterion import SGACTCCriterion, unwrapped
from tests import builders
from tests.builders import TARGETS


def build_criterion(**options):
    return SGACTCCriterion(builders.task(), SGACTCConfig(**{"sentence_avg": False, **options}))


@pytest.fixture
def model(device):
    return builders.sga_model().double().to(device)


def test_targets_that_cannot_be_aligned_are_counted_and_cost_nothing(model, device):
    """Six slots hold neither seven labels nor 'a a a a', which needs seven."""
    sources = builders.source_rows([3, 5, 3])
    targets = builders.target_rows([7, 3, 0])
    targets[2] = torch.tensor([9, 9, 9, 9, builders.EOS])
    batch = builders.to_device(builders.batch(sources, targets), device)
    aligned = builders.to_device(builders.batch(sources[1:2], targets[1:2]), device)
    loss, size, log = build_criterion()(model, batch)
    expected, _, aligned_log = build_criterion()(model, aligned)
    assert (int(log["unalignable"]), int(aligned_log["unalignable"])) == (2, 0)
    torch.testing.assert_close(loss, expected, rtol=1e-10, atol=1e-10)
    assert size == 7 + 3 + 4
    loss.backward()
    assert all(bool(p.grad.isfinite().all()) for p in model.parameters() if p.requires_grad)


class Wrapper(nn.Module):
    """Wraps a model as DistributedDataParallel does: only forward and .module."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, *args, **kwargs):
        return self.module(*args, **kwargs)


def test_wrappers_of_several_processes_are_removed():
    """fairseq puts a wrapper that forwards attributes around that of torch."""
    model = builders.sga_model()
    for wrapped in (model, Wrapper(model), ModuleProxyWrapper(Wrapper(model))):
        assert unwrapped(wrapped) is model


def test_losses_are_sums_in_nats_also_of_a_wrapped_model(model, device):
    sample = builders.sample(device, extra=1)
    losses = builders.forward_losses(model, sample)
    sums = {f"{name}_loss": loss.sum().detach() for name, loss in losses.items()}
    sums["loss"] = sum(sums.values())
    tokens, sentences = sum(TARGETS), len(TARGETS)
    for sentence_avg, size in ((False, tokens), (True, sentences)):
        criterion = build_criterion(sentence_avg=sentence_avg, ctc_chunk_size=7)
        loss, sample_size, log = criterion(Wrapper(model).eval(), sample)
        assert sample_size == log["sample_size"] == size
        assert (log["ntokens"], log["nsentences"]) == (tokens, sentences)
        for name, expected in sums.items():
            torch.testing.assert_close(log[name], expected, rtol=1e-10, atol=1e-10)
            assert not log[name].requires_grad
        assert loss.item() == log["loss"].item()


def test_only_training_has_noise_which_the_seed_decides(model, device):
    sample = builders.sample(device, extra=1)
    noisy, clean = build_criterion(denoise_noise=1.0), build_criterion(denoise_noise=0.0)

    def compute_loss(criterion, seed=1):
        torch.manual_seed(seed)
        return criterion(model, sample)[0].item()

    expected = compute_loss(clean)
    assert compute_loss(noisy) == pytest.approx(expected, rel=1e-12)
    model.train()
    assert compute_loss(clean) == pytest.approx(expected, rel=1e-12)
    first, second = compute_loss(noisy), compute_loss(noisy, seed=2)
    assert abs(first - expected) > 1e-3 and abs(first - second) > 1e-3
    assert compute_loss(noisy) == first


def test_noise_is_in_slots_only_and_of_the_kinds_asked_for(model, monkeypatch, device):
    sample = builders.sample(device, extra=1)
    inside = torch.arange(12, device=device) < 2 * sample["net_input"]["src_lengths"][:, None]
    inputs, original = [], model.denoise

    def denoise(tokens, guidance, lengths):
        inputs.append(tokens.clone())
        return original(tokens, guidance, lengths)

    monkeypatch.setattr(model, "denoise", denoise)

    def denoiser_input(**options):
        build_criterion(**options)(model, sample)
        return inputs.pop()

    def draw(**options):
        return torch.stack([denoiser_input(**options) for _ in range(40)])

    clean = denoiser_input()
    model.train()
    noisy = draw(denoise_noise=1.0, denoise_noise_mix="random=1")
    changed = noisy != clean
    assert not bool((changed & ~inside).any())
    pieces = set(range(builders.FIRST_PIECE, builders.MASK))
    assert set(noisy[changed].tolist()) == pieces, "every piece and no special symbol"
    blanked = draw(denoise_noise=0.5, denoise_noise_mix="blank=1")
    changed = blanked != clean
    assert bool((blanked[changed] == model.blank).all())
    assert 0 < float(changed.sum()) / (40 * int((clean != model.blank).sum())) < 0.4
