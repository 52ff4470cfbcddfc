"""sga_ctc: what is summed, what it is divided by, what is counted, and when there is noise. Losses: see tests/reference."""

import pytest
import torch
from fairseq.distributed.module_proxy_wrapper import ModuleProxyWrapper
from torch import nn

from fairseq_plugins.sga.config import SGACTCConfig
from fairseq_plugins.sga.criterion import SGACTCCriterion, unwrapped
from tests import builders
from tests.builders import TARGETS


def criterion(**options):
    return SGACTCCriterion(builders.task(), SGACTCConfig(**{"sentence_avg": False, **options}))


@pytest.fixture
def model(device):
    return builders.sga_model().double().to(device)


def test_targets_that_cannot_be_aligned_count_and_cost_nothing(model, device):
    """Six slots for seven labels, and 'a a a a' (seven needed) in six."""
    sources = builders.source_rows([3, 5, 3])
    targets = builders.target_rows([7, 3, 0])
    targets[2] = torch.tensor([9, 9, 9, 9, builders.EOS])
    sample = builders.to_device(builders.batch(sources, targets), device)
    loss, size, logged = criterion()(model, sample)
    good = builders.to_device(builders.batch(sources[1:2], targets[1:2]), device)
    expected, _, clean = criterion()(model, good)
    assert int(logged["unalignable"]) == 2
    assert int(clean["unalignable"]) == 0
    torch.testing.assert_close(loss, expected, rtol=1e-10, atol=1e-10)
    assert size == 7 + 3 + 4
    loss.backward()
    assert all(bool(p.grad.isfinite().all()) for p in model.parameters() if p.requires_grad)


def test_the_wrappers_of_several_processes_are_taken_off():
    """fairseq puts a wrapper that forwards attributes around that of torch."""

    class Parallel(nn.Module):
        def __init__(self, module):
            super().__init__()
            self.module = module

    model = builders.sga_model()
    for wrapped in (model, Parallel(model), ModuleProxyWrapper(Parallel(model))):
        assert unwrapped(wrapped) is model


def _denoiser_inputs(model, monkeypatch, sample, **options):
    seen = []
    original = model.denoise

    def denoise(tokens, guidance, lengths):
        seen.append(tokens.clone())
        return original(tokens, guidance, lengths)

    with monkeypatch.context() as patch:
        patch.setattr(model, "denoise", denoise)
        criterion(**options)(model, sample)
    return seen


def test_evaluation_has_no_noise(model, device):
    sample = builders.sample(device, extra=1)
    noisy = criterion(denoise_noise=1.0)
    model.eval()
    clean = noisy(model, sample)[0]
    torch.testing.assert_close(clean, criterion(denoise_noise=0.0)(model, sample)[0])
    model.train()
    torch.testing.assert_close(criterion(denoise_noise=0.0)(model, sample)[0], clean)
    torch.manual_seed(1)
    first, second = (noisy(model, sample)[0] for _ in range(2))
    torch.manual_seed(1)
    assert abs((first - clean).item()) > 1e-3 and abs((first - second).item()) > 1e-3
    assert first.item() == noisy(model, sample)[0].item(), "the seed of the update decides about the noise"


def test_losses_are_sums_in_nats_over_tokens_or_sentences_also_of_a_wrapped_model(model, device):
    sample = builders.sample(device, extra=1)
    alignment, denoising = builders.forward_losses(model, sample).values()
    tokens, sentences = sum(TARGETS), len(TARGETS)
    wrapped = nn.Module()  # as DistributedDataParallel: only forward and .module
    wrapped.module, wrapped.forward = model, model.forward
    for sentence_avg, size in ((False, tokens), (True, sentences)):
        loss, found, logged = criterion(sentence_avg=sentence_avg, ctc_chunk_size=7)(wrapped.eval(), sample)
        assert found == logged["sample_size"] == size
        assert (logged["ntokens"], logged["nsentences"]) == (tokens, sentences)
        parts = {"alignment_loss": alignment, "denoising_loss": denoising, "loss": alignment + denoising}
        for name, part in parts.items():
            torch.testing.assert_close(logged[name], part.sum().detach(), rtol=1e-10, atol=1e-10)
        assert loss.item() == logged["loss"].item()
        assert not logged["loss"].requires_grad and not logged["alignment_loss"].requires_grad


def test_noise_touches_slots_only_and_writes_what_the_options_say(model, monkeypatch, device):
    sample = builders.sample(device, extra=1)
    inside = torch.arange(12, device=device) < 2 * sample["net_input"]["src_lengths"][:, None]
    clean = _denoiser_inputs(model, monkeypatch, sample)[0]
    model.train()
    written, blanks = set(), []
    for _ in range(40):
        noisy = _denoiser_inputs(model, monkeypatch, sample, denoise_noise=1.0, denoise_noise_mix="random=1")[0]
        assert torch.equal(noisy[~inside], clean[~inside])
        written |= set(noisy[(noisy != clean) & inside].tolist())
        blanks += _denoiser_inputs(model, monkeypatch, sample, denoise_noise=0.5, denoise_noise_mix="blank=1")
    assert written == set(range(builders.FIRST_PIECE, builders.MASK)), "every piece, no special symbol, no <mask>"
    changed = torch.stack([noisy != clean for noisy in blanks])
    assert bool((torch.stack(blanks)[changed] == model.blank).all())
    assert 0 < float(changed.sum()) / (40 * int((clean != model.blank).sum())) < 0.4
    assert len(_denoiser_inputs(model, monkeypatch, sample, denoise_unroll=3)) == 3


def test_options_for_a_denoiser_that_is_not_there_are_warned_of_once(caplog, device):
    given = criterion(denoise_noise=0.1, denoise_unroll=2)
    given(builders.sga_model().to(device), builders.sample(device, extra=1))
    assert not caplog.text
    for _ in range(2):
        given(builders.sga_model(no_denoising=True).to(device), builders.sample(device, extra=1))
    for option in ("--denoise-noise 0.1 has", "--denoise-unroll 2 has"):
        assert caplog.text.count(f"{option} no effect: this model has no denoiser") == 1
