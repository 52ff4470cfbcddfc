"""Test sga_mask_predict: masks, sums, logs, errors; tests/reference compares the losses."""

import math
from contextlib import nullcontext

import pytest
import torch
from fairseq.logging import metrics
from omegaconf import OmegaConf

from fairseq_plugins.sga.config import SGACTCConfig
from fairseq_plugins.sga.criterion import SGACTCCriterion
from fairseq_plugins.sga.mask_predict import SGAMaskPredictConfig, SGAMaskPredictCriterion
from tests import builders

LOSSES = ("alignment_loss", "length_loss", "denoising_loss")


def run_criterion(model, sample, seed=3, **options):
    """Return loss, sample size and logging output."""
    cfg = SGAMaskPredictConfig(**{"sentence_avg": False, **options})
    device = next(model.parameters()).device
    torch.manual_seed(seed)
    return SGAMaskPredictCriterion(builders.task(), cfg)(model, builders.to_device(sample, device))


def make_pair(source_length, target_length):
    sources, targets = builders.source_rows([source_length]), builders.target_rows([target_length])
    return builders.batch(sources, targets)


def assert_finite_gradients(model):
    assert all(p.grad is None or bool(p.grad.isfinite().all()) for p in model.parameters())


@pytest.fixture
def model(device):
    return builders.sga_model(alignment="mask_predict").double().to(device)


def test_a_batch_without_a_mask_has_no_alignment_loss(model):
    """A ratio leaves short sentences without a mask, and at times a small batch."""
    sample, counts = make_pair(4, 1), set()
    for seed in range(12):
        loss, _, log = run_criterion(model, sample, seed, min_mask_ratio=0.0, label_smoothing=0.1)
        counts.add(int(log["nmasked"]))
        assert (float(log["alignment_loss"]) == 0) == (log["nmasked"] == 0)
        assert loss.item() == pytest.approx(sum(float(log[name]) for name in LOSSES))
        loss.backward()
        assert_finite_gradients(model)
    assert counts == {0, 1}


@pytest.mark.parametrize("targets", [[0, 3, 2], [0, 0, 0]])
def test_sentences_without_target_tokens_have_a_denoising_loss_only(model, targets):
    loss, size, log = run_criterion(model, builders.sample(extra=1, targets=targets))
    assert size == sum(targets) and log["nmasked"] >= sum(target > 0 for target in targets)
    loss.backward()
    assert_finite_gradients(model)
    alignment, length, denoising = (float(log[name]) for name in LOSSES)
    assert denoising > 0
    assert (alignment > 0, length > 0) == (size > 0, size > 0)


def test_a_target_longer_than_the_lengths_is_refused(model):
    """20 tokens have 40 slots, as many as there are positions."""
    assert bool(run_criterion(model, make_pair(4, 20))[0].isfinite())
    with pytest.raises(ValueError, match="target of 21 tokens.*1 to 20"):
        run_criterion(model, make_pair(4, 21))


def test_losses_are_weighed_smoothed_and_summed(model):
    sample = builders.sample(extra=1)
    loss, _, log = run_criterion(model, sample)
    for weight in (0.0, 0.5):
        weighted, _, weighted_log = run_criterion(model, sample, length_loss_weight=weight)
        torch.testing.assert_close(weighted, loss + (weight - 1) * log["length_loss"])
        torch.testing.assert_close(weighted_log["length_loss"], log["length_loss"])
    # In evaluation mode there is no noise.
    loss, _, smooth = run_criterion(model, sample, label_smoothing=0.1, denoise_noise=1.0)
    assert "alignment_nll_loss" not in log
    torch.testing.assert_close(smooth["alignment_nll_loss"], log["alignment_loss"])
    assert abs(float(smooth["alignment_loss"]) - float(log["alignment_loss"])) > 0.01
    assert float(smooth["denoising_loss"]) == float(log["denoising_loss"])
    assert loss.item() == pytest.approx(sum(float(smooth[name]) for name in LOSSES))


def test_without_a_denoiser_every_target_can_be_aligned(device, caplog):
    """Options of the denoiser have no effect, of which a warning tells."""
    options = {"alignment": "mask_predict", "no_denoising": True, "ctc_upsample": 1}
    model = builders.sga_model(**options).double().to(device)
    target = torch.tensor([9, 9, 9, builders.EOS])  # CTC would need five slots
    sample = builders.batch(builders.source_rows([4]), [target])
    loss, _, log = run_criterion(model, sample, denoise_unroll=2)
    assert "--denoise-unroll 2 has no effect" in caplog.text
    assert "denoising_loss" not in log and log["unalignable"] == 0
    assert loss.item() == pytest.approx(float(log["alignment_loss"] + log["length_loss"]))


@pytest.mark.cases(
    "criterion_class config alignment wrong",
    (SGACTCCriterion, SGACTCConfig, "ctc", "mask_predict"),
    (SGAMaskPredictCriterion, SGAMaskPredictConfig, "mask_predict", "ctc"),
)
def test_criterion_and_model_must_agree(criterion_class, config, alignment, wrong):
    names = {"ctc": "sga_ctc", "mask_predict": "sga_mask_predict"}
    message = f"{names[alignment]} trains.*--alignment {alignment}.*--criterion {names[wrong]}"
    cfg = config(sentence_avg=False)
    with pytest.raises(ValueError, match=message):
        criterion_class(builders.task(), cfg)(
            builders.sga_model(alignment=wrong), builders.sample()
        )
    for options in ({"alignment": "ctc"}, {"alignment": "mask_predict"}, {"_name": "nat_ctc"}):
        root = OmegaConf.create({"model": options, "criterion": vars(cfg)})
        OmegaConf.set_struct(root, True)  # as fairseq's: else old omegaconf has every name
        fits = options.get("alignment", "ctc") == alignment
        with nullcontext() if fits else pytest.raises(ValueError, match=message):
            criterion_class.build_criterion(root.criterion, builders.task())


def test_metrics_are_bits_per_unit(model):
    sample = builders.sample(extra=1)
    logs = [run_criterion(model, sample, seed, label_smoothing=0.1)[2] for seed in (3, 4)]
    logs[0]["unalignable"] = 3
    with metrics.aggregate(new_root=True) as aggregated:
        for _ in range(2):
            SGAMaskPredictCriterion.reduce_metrics(logs)
    values = aggregated.get_smoothed_values()
    for name, unit in {
        "loss": "sample_size",
        "denoising_loss": "sample_size",
        "alignment_loss": "nmasked",
        "alignment_nll_loss": "nmasked",
        "length_loss": "nsentences",
    }.items():
        nats = sum(float(log[name]) for log in logs) / sum(int(log[unit]) for log in logs)
        assert float(values[name]) == pytest.approx(nats / math.log(2), abs=1e-3)
    assert values["unalignable"] == 6, "a sum over the epoch"
