"""sga_ctc: what is summed, what it is divided by, what is counted, and when there is noise."""

import math
from typing import Any, Dict, List, Optional, Tuple

import pytest
import torch
import torch.nn.functional as F
from fairseq.logging import metrics
from torch import Tensor, nn

from fairseq_plugins.criterions.sga_ctc import SGACTCConfig, SGACTCCriterion
from fairseq_plugins.models.sga import SGAModel
from tests import builders

SOURCES, TARGETS = [6, 3, 5], [4, 2, 3]


def criterion(**options: Any) -> SGACTCCriterion:
    """With a sum over tokens unless told otherwise."""
    return SGACTCCriterion(builders.task(), SGACTCConfig(**{"sentence_avg": False, **options}))


def test_options_for_a_denoiser_that_is_not_there_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    task, given = builders.task(), {"denoise_noise": 0.1, "denoise_noise_mix": "random=1.0", "denoise_unroll": 2}
    for has_denoiser, options in ((True, given), (False, {}), (False, given)):
        assert not caplog.text
        task.has_denoiser = has_denoiser
        SGACTCCriterion(task, SGACTCConfig(sentence_avg=False, **options))
    for option in ("--denoise-noise 0.1 has", "--denoise-noise-mix random=1.0 has", "--denoise-unroll 2 has"):
        assert f"{option} no effect: this model has no denoiser" in caplog.text


def _sample(device: torch.device, sources: Optional[List[int]] = None, targets: Optional[List[int]] = None) -> Any:
    rows = builders.source_rows(sources or SOURCES), builders.target_rows(TARGETS if targets is None else targets)
    return builders.to_device(builders.batch(*rows, extra=1), device)


@pytest.fixture
def model(device: torch.device) -> SGAModel:
    """Three units, float64, evaluation mode."""
    return builders.sga_model().double().to(device)


def _materialised(model: SGAModel, sample: Dict[str, Any]) -> Tuple[Tensor, Tensor]:
    """Both CTC losses by torch, sentence by sentence, on the targets without </s>."""
    results = []
    for row in range(len(sample["id"])):
        source = sample["net_input"]["src_tokens"][row : row + 1, : sample["net_input"]["src_lengths"][row]]
        target = sample["target"][row]
        target = target[(target != builders.PAD) & (target != builders.EOS)]
        guidance, slots = model.encode(source), 2 * sample["net_input"]["src_lengths"][row : row + 1]
        losses, hidden = [], model.align(guidance, slots)
        for unit in range(2):
            logits = F.linear(hidden, model.masked_lm.output_weight, model.masked_lm.output_bias)
            log_probs = logits.log_softmax(-1).transpose(0, 1)
            lengths = slots, slots.new_tensor([len(target)])
            losses.append(F.ctc_loss(log_probs, target[None], *lengths, blank=model.blank, reduction="sum"))
            if unit == 0:
                hidden = model.denoise(logits.argmax(-1), guidance, slots)
        results.append(torch.stack(losses))
    return tuple(torch.stack(results).unbind(1))


def test_total_is_alignment_plus_denoising_in_nats(model: SGAModel, device: torch.device) -> None:
    sample = _sample(device)
    loss, _, logged = criterion()(model, sample)
    alignment, denoising = _materialised(model, sample)
    torch.testing.assert_close(loss, (alignment + denoising).sum(), rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(torch.as_tensor(logged["loss"]), loss.detach())
    torch.testing.assert_close(torch.as_tensor(logged["alignment_loss"]), alignment.sum().detach())
    torch.testing.assert_close(torch.as_tensor(logged["denoising_loss"]), denoising.sum().detach())
    assert loss.dim() == 0


def test_sample_size_counts_target_tokens_without_eos_or_sentences(model: SGAModel, device: torch.device) -> None:
    sample = _sample(device)
    by_tokens, by_sentences = criterion()(model, sample), criterion(sentence_avg=True)(model, sample)
    assert by_tokens[1] == sum(TARGETS)
    assert by_sentences[1] == len(TARGETS)
    torch.testing.assert_close(by_tokens[0], by_sentences[0])
    for _, size, logged in (by_tokens, by_sentences):
        assert logged["sample_size"] == size
        assert logged["ntokens"] == sum(TARGETS)
        assert logged["nsentences"] == len(TARGETS)


def test_losses_add_up_over_batches(model: SGAModel, device: torch.device) -> None:
    """--update-freq and several processes sum losses and sizes."""
    whole, size, _ = criterion()(model, _sample(device))
    parts = []
    for source, target in zip(builders.source_rows(SOURCES), builders.target_rows(TARGETS)):
        parts.append(criterion()(model, builders.to_device(builders.batch([source], [target]), device)))
    torch.testing.assert_close(sum(part[0] for part in parts), whole, rtol=1e-10, atol=1e-10)
    assert sum(part[1] for part in parts) == size


def test_targets_that_cannot_be_aligned_count_and_cost_nothing(model: SGAModel, device: torch.device) -> None:
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


def test_a_blank_inside_a_target_is_counted(device: torch.device) -> None:
    model = builders.sga_model(blank=9).double().to(device)
    targets = [torch.tensor([8, 9, 10, builders.EOS]), torch.tensor([8, 10, builders.EOS])]
    sample = builders.to_device(builders.batch(builders.source_rows([5, 5]), targets), device)
    loss, _, logged = criterion()(model, sample)
    assert int(logged["unalignable"]) == 1
    assert bool(loss.isfinite())


@pytest.mark.parametrize("targets", [[0, 3, 2], [0, 0, 0]])
def test_empty_targets(model: SGAModel, targets: List[int], device: torch.device) -> None:
    """An empty line in the data: only </s> is there."""
    sample = _sample(device, targets=targets)
    loss, size, logged = criterion()(model, sample)
    assert size == sum(targets)
    alignment, denoising = _materialised(model, sample)
    torch.testing.assert_close(loss, (alignment + denoising).sum(), rtol=1e-10, atol=1e-10)
    assert int(logged["unalignable"]) == 0


# ---- Noise. ----


def _denoiser_inputs(model: SGAModel, monkeypatch: pytest.MonkeyPatch, sample: Any, **options: Any) -> List[Tensor]:
    """What the denoiser reads during one forward of the criterion."""
    seen: List[Tensor] = []
    original = model.denoise

    def denoise(tokens: Tensor, guidance: Any, lengths: Tensor) -> Tensor:
        seen.append(tokens.clone())
        return original(tokens, guidance, lengths)

    with monkeypatch.context() as patch:
        patch.setattr(model, "denoise", denoise)
        criterion(**options)(model, sample)
    return seen


def test_evaluation_has_no_noise(model: SGAModel, device: torch.device) -> None:
    sample = _sample(device)
    noisy = criterion(denoise_noise=1.0)
    model.eval()
    clean = noisy(model, sample)[0]
    torch.testing.assert_close(clean, criterion(denoise_noise=0.0)(model, sample)[0])
    model.train()
    torch.testing.assert_close(criterion(denoise_noise=0.0)(model, sample)[0], clean)
    torch.manual_seed(1)
    first = noisy(model, sample)[0]
    second = noisy(model, sample)[0]
    torch.manual_seed(1)
    again = noisy(model, sample)[0]
    assert abs((first - clean).item()) > 1e-3
    assert abs((first - second).item()) > 1e-3
    assert first.item() == again.item(), "the seed of the update decides about the noise"


def test_noise_touches_slots_only_and_writes_real_pieces(
    model: SGAModel, monkeypatch: pytest.MonkeyPatch, device: torch.device
) -> None:
    sample = _sample(device)
    inside = torch.arange(12, device=device) < 2 * sample["net_input"]["src_lengths"][:, None]
    clean = _denoiser_inputs(model, monkeypatch, sample)[0]
    model.train()
    written = set()
    for _ in range(40):
        noisy = _denoiser_inputs(model, monkeypatch, sample, denoise_noise=1.0, denoise_noise_mix="random=1")[0]
        assert torch.equal(noisy[~inside], clean[~inside])
        written |= set(noisy[(noisy != clean) & inside].tolist())
    assert written <= set(range(builders.FIRST_PIECE, builders.MASK)), "a special symbol or <mask> was written"
    assert len(written) == builders.PIECES


def test_noise_mix_and_ratio_reach_the_denoiser(
    model: SGAModel, monkeypatch: pytest.MonkeyPatch, device: torch.device
) -> None:
    sample = _sample(device)
    clean = _denoiser_inputs(model, monkeypatch, sample)[0]
    model.train()
    blanks = [
        _denoiser_inputs(model, monkeypatch, sample, denoise_noise=0.5, denoise_noise_mix="blank=1")[0]
        for _ in range(30)
    ]
    changed = torch.stack([noisy != clean for noisy in blanks])
    assert bool(changed.any())
    assert bool((torch.stack(blanks)[changed] == model.blank).all())
    possible = int((clean != model.blank).sum())
    assert float(changed.sum()) / (30 * possible) < 0.4


def test_unroll_reaches_the_model(model: SGAModel, monkeypatch: pytest.MonkeyPatch, device: torch.device) -> None:
    sample = _sample(device)
    assert len(_denoiser_inputs(model, monkeypatch, sample)) == 1
    assert len(_denoiser_inputs(model, monkeypatch, sample, denoise_unroll=3)) == 3


def test_chunk_size_does_not_matter(model: SGAModel, device: torch.device) -> None:
    sample = _sample(device)
    losses = [criterion(ctc_chunk_size=size)(model, sample)[0] for size in (1, 7, 10_000)]
    torch.testing.assert_close(losses[0], losses[1])
    torch.testing.assert_close(losses[0], losses[2])


class Wrapper(nn.Module):
    """As DistributedDataParallel: only forward and .module."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Pass through."""
        return self.module(*args, **kwargs)


def test_everything_happens_inside_the_wrapped_forward(model: SGAModel, device: torch.device) -> None:
    """Weights used outside a wrapped forward break DDP and sharding."""
    sample = _sample(device)
    wrapped = Wrapper(model).eval()
    torch.testing.assert_close(criterion()(wrapped, sample)[0], criterion()(model, sample)[0])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"denoise_noise": 1.2}, ["--denoise-noise", "1.2", "[0, 1]"]),
        ({"denoise_noise": -0.1}, ["--denoise-noise", "-0.1"]),
        ({"denoise_noise": float("nan")}, ["--denoise-noise", "nan"]),
        ({"denoise_unroll": 0}, ["--denoise-unroll", "0", "at least 1"]),
        ({"denoise_noise_mix": "swap=1"}, ["--denoise-noise-mix", "swap", "blank"]),
        ({"ctc_chunk_size": 0}, ["--ctc-chunk-size", "got 0"]),
    ],
)
def test_wrong_options_are_named(options: Dict[str, Any], words: List[str]) -> None:
    with pytest.raises(ValueError) as error:
        criterion(**options)
    for word in words:
        assert word in str(error.value)


# ---- Logging. ----


def _reduced(logs: List[Dict[str, Any]]) -> Dict[str, float]:
    with metrics.aggregate(new_root=True) as aggregated:
        SGACTCCriterion.reduce_metrics(logs)
    return {name: float(value) for name, value in aggregated.get_smoothed_values().items()}


def test_metrics_are_bits_per_unit_and_counts(model: SGAModel, device: torch.device) -> None:
    logs = [criterion()(model, _sample(device))[2], criterion()(model, _sample(device, sources=[3, 4, 5]))[2]]
    found = _reduced(logs)
    size = sum(log["sample_size"] for log in logs)
    for key in ("loss", "alignment_loss", "denoising_loss"):
        expected = sum(float(log[key]) for log in logs) / size / math.log(2)
        assert found[key] == pytest.approx(expected, abs=1e-3)
    assert found["unalignable"] == 0
    assert SGACTCCriterion.logging_outputs_can_be_summed()


def test_unalignable_targets_are_summed_over_the_epoch() -> None:
    log = {"loss": 1.0, "alignment_loss": 1.0, "sample_size": 2, "unalignable": 3}
    with metrics.aggregate(new_root=True) as epoch:
        for _ in range(2):
            SGACTCCriterion.reduce_metrics([log, log])
    assert float(epoch.get_smoothed_values()["unalignable"]) == 12


def test_a_batch_without_target_tokens_does_not_stop_the_run() -> None:
    log = {"loss": 0.0, "alignment_loss": 0.0, "denoising_loss": 0.0, "sample_size": 0, "ntokens": 0, "unalignable": 0}
    assert math.isfinite(_reduced([log]).get("loss", 0.0))
