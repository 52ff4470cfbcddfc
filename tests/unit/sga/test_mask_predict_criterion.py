"""sga_mask_predict: masks, what is summed, what is detached, what is refused. Losses are compared with loops in tests/reference."""

import math
from contextlib import nullcontext

import pytest
import torch
from fairseq.logging import metrics
from omegaconf import OmegaConf

from fairseq_plugins.sga.config import SGACTCConfig
from fairseq_plugins.sga.criterion import SGACTCCriterion
from fairseq_plugins.sga.mask_predict import (
    SGAMaskPredictConfig,
    SGAMaskPredictCriterion,
    draw_masks,
)
from tests import builders
from tests.builders import TARGETS


def criterion(**options):
    cfg = SGAMaskPredictConfig(**{"sentence_avg": False, **options})
    return SGAMaskPredictCriterion(builders.task(), cfg)


@pytest.fixture
def model(device):
    return builders.sga_model(alignment="mask_predict").double().to(device)


def _run(model, sample, seed=3, **options):
    torch.manual_seed(seed)
    return criterion(**options)(model, sample)


def test_a_batch_without_a_mask_has_no_alignment_loss(model, device):
    """A ratio leaves short sentences without a mask, at times all of a small batch."""
    sample = builders.to_device(
        builders.batch(builders.source_rows([4]), builders.target_rows([1])), device
    )
    counts = set()
    for seed in range(12):
        loss, _, logged = _run(model, sample, seed, min_mask_ratio=0.0, label_smoothing=0.1)
        counts.add(int(logged["nmasked"]))
        assert (float(logged["alignment_loss"]) == 0) == (logged["nmasked"] == 0)
        parts = [logged[f"{name}_loss"] for name in ("alignment", "length", "denoising")]
        torch.testing.assert_close(
            loss.detach(), torch.stack([torch.as_tensor(part) for part in parts]).sum()
        )
        loss.backward()
        assert all(p.grad is None or bool(p.grad.isfinite().all()) for p in model.parameters())
    assert counts == {0, 1}


@pytest.mark.parametrize("targets", [[0, 3, 2], [0, 0, 0]])
def test_sentences_without_target_tokens_have_a_denoising_loss_only(model, targets, device):
    loss, size, logged = _run(model, builders.sample(device, 1, targets))
    assert size == sum(targets) and logged["nmasked"] >= sum(target > 0 for target in targets)
    loss.backward()
    assert all(p.grad is None or bool(p.grad.isfinite().all()) for p in model.parameters())
    losses = [float(logged[f"{name}_loss"]) for name in ("alignment", "length", "denoising")]
    assert all(losses) if size else losses[:2] == [0.0, 0.0] and losses[2] > 0


def test_a_target_longer_than_the_lengths_is_refused(device):
    """20 tokens have 40 slots, as many as positions."""
    model = builders.sga_model(alignment="mask_predict").to(device)
    fits, long = (
        builders.batch(builders.source_rows([4]), builders.target_rows([size])) for size in (20, 21)
    )
    assert bool(criterion()(model, builders.to_device(fits, device))[0].isfinite())
    with pytest.raises(ValueError, match="target of 21 tokens.*1 to 20.*--max-target-positions"):
        criterion()(model, builders.to_device(long, device))


def test_what_is_summed_and_logged(model, device):
    sample = builders.sample(device, extra=1)
    loss, size, plain = _run(model, sample)
    for seed in range(4):
        torch.manual_seed(seed)
        masks = draw_masks(torch.tensor(TARGETS, device=device), max(TARGETS))
        assert _run(model, sample, seed)[2]["nmasked"] == int(masks.sum())
    assert size == plain["sample_size"] == plain["ntokens"] == sum(TARGETS)
    for weight in (0.0, 0.5):
        other, _, same = _run(model, sample, length_loss_weight=weight)
        torch.testing.assert_close(other, loss + (weight - 1) * plain["length_loss"])
        torch.testing.assert_close(same["length_loss"], plain["length_loss"])
    total, _, smooth = _run(model, sample, label_smoothing=0.1, denoise_noise=1.0)
    assert "alignment_nll_loss" not in plain
    torch.testing.assert_close(smooth["alignment_nll_loss"], plain["alignment_loss"])
    assert abs(float(smooth["alignment_loss"]) - float(plain["alignment_loss"])) > 0.01
    assert float(smooth["denoising_loss"]) == float(plain["denoising_loss"])
    parts = [smooth[f"{name}_loss"] for name in ("alignment", "length", "denoising")]
    torch.testing.assert_close(total.detach(), torch.stack(parts).sum())
    short = (
        builders.sga_model(alignment="mask_predict", no_denoising=True, ctc_upsample=1)
        .double()
        .to(device)
    )
    repeated = builders.batch(builders.source_rows([4]), [torch.tensor([9, 9, 9, builders.EOS])])
    loss, _, logged = _run(short, builders.to_device(repeated, device))
    assert "denoising_loss" not in logged and logged["unalignable"] == 0
    torch.testing.assert_close(loss.detach(), logged["alignment_loss"] + logged["length_loss"])


def test_criterion_and_model_must_agree(model, device):
    words = {
        "ctc": "sga_ctc trains.*--alignment ctc.*mask_predict.*--criterion sga_mask_predict",
        "mask_predict": "sga_mask_predict trains.*--alignment mask_predict.*--criterion sga_ctc",
    }
    options = {"sentence_avg": False}
    for kind, cfg, name, other in (
        (SGACTCCriterion, SGACTCConfig(**options), "ctc", model),
        (
            SGAMaskPredictCriterion,
            SGAMaskPredictConfig(**options),
            "mask_predict",
            builders.sga_model().to(device),
        ),
    ):
        with pytest.raises(ValueError, match=words[name]):
            kind(builders.task(), cfg)(other, builders.sample(device, extra=1))
        for arch in ({"alignment": "ctc"}, {"alignment": "mask_predict"}, {"_name": "nat_ctc"}):
            whole = OmegaConf.create({"model": arch, "criterion": {**vars(cfg), **options}})
            OmegaConf.set_struct(whole, True)  # as fairseq's is: else old omegaconf has every name
            fits = arch.get("alignment", "ctc") == name
            with nullcontext() if fits else pytest.raises(ValueError, match=words[name]):
                kind.build_criterion(whole.criterion, builders.task())


def test_metrics_are_bits_of_their_own_units(model, device):
    logs = [
        _run(model, builders.sample(device, extra=1), seed, label_smoothing=0.1)[2]
        for seed in (3, 4)
    ]
    logs[0]["unalignable"] = 3
    with metrics.aggregate(new_root=True) as aggregated:
        for _ in range(2):
            SGAMaskPredictCriterion.reduce_metrics(logs)
    found = aggregated.get_smoothed_values()
    units = {"loss": "sample_size", "denoising_loss": "sample_size", "alignment_loss": "nmasked"}
    for key, unit in {
        **units,
        "alignment_nll_loss": "nmasked",
        "length_loss": "nsentences",
    }.items():
        expected = (
            sum(float(log[key]) for log in logs) / sum(int(log[unit]) for log in logs) / math.log(2)
        )
        assert float(found[key]) == pytest.approx(expected, abs=1e-3)
    assert found["unalignable"] == 6, "a sum over the epoch"
