"""sga_mask_predict: masks, the three losses against a materialised computation, what is detached, what is refused."""

import math
from typing import Any, Dict, List, Optional, Tuple

import pytest
import torch
import torch.nn.functional as F
from fairseq.logging import metrics
from torch import Tensor

from fairseq_plugins.criterions.sga_ctc import SGACTCConfig, SGACTCCriterion
from fairseq_plugins.criterions.sga_mask_predict import SGAMaskPredictConfig, SGAMaskPredictCriterion
from fairseq_plugins.models.sga import SGAModel
from fairseq_plugins.ops.mask_predict import draw_masks
from tests import builders

SOURCES, TARGETS = [6, 3, 5], [4, 2, 3]


def criterion(task: Any = None, **options: Any) -> SGAMaskPredictCriterion:
    """With a sum over tokens unless told otherwise."""
    cfg = SGAMaskPredictConfig(**{"sentence_avg": False, **options})
    return SGAMaskPredictCriterion(builders.task() if task is None else task, cfg)


@pytest.fixture
def model(device: torch.device) -> SGAModel:
    """Three units and a length predictor, float64, evaluation mode."""
    return builders.sga_model(alignment="mask_predict").double().to(device)


def _sample(device: torch.device, targets: Optional[List[int]] = None) -> Any:
    rows = builders.source_rows(SOURCES), builders.target_rows(TARGETS if targets is None else targets)
    return builders.to_device(builders.batch(*rows, extra=1), device)


def _run(model: SGAModel, sample: Any, seed: int = 3, **options: Any) -> Any:
    torch.manual_seed(seed)
    return criterion(**options)(model, sample)


def _masks(seed: int, device: torch.device, targets: List[int] = TARGETS) -> Tensor:
    """What the criterion draws after the same seed."""
    torch.manual_seed(seed)
    return draw_masks(torch.tensor(targets, device=device), max(max(targets), 1))


def _materialised(model: SGAModel, sample: Any, masks: Tensor, upsample: int = 2) -> Tuple[Tensor, Tensor, Tensor]:
    """The three losses by torch over whole softmaxes, sentence by sentence."""
    results = []
    for row, mask in enumerate(masks):
        source = sample["net_input"]["src_tokens"][row : row + 1, : sample["net_input"]["src_lengths"][row]]
        target = sample["target"][row]
        target = target[(target != builders.PAD) & (target != builders.EOS)]
        mask, size = mask[: len(target)], target.new_tensor([len(target)])
        guidance = model.encode(source)

        def logits(hidden: Tensor) -> Tensor:
            return F.linear(hidden, model.masked_lm.output_weight, model.masked_lm.output_bias)

        read = torch.where(mask, torch.full_like(target, builders.MASK), target)
        scores = logits(model.run_unit(read[None], size, model.alignment_prompts, guidance))[0]
        alignment = F.cross_entropy(scores[mask], target[mask], reduction="sum")
        length = -guidance.length_log_probs[0, len(target) - 1]
        written = torch.where(mask, scores.argmax(-1), target)
        slots = torch.stack([written] * upsample, dim=1).flatten()
        denoised = logits(model.denoise(slots[None], guidance, upsample * size)).log_softmax(-1).transpose(0, 1)
        ctc = F.ctc_loss(denoised, target[None], upsample * size, size, blank=model.blank, reduction="sum")
        results.append(torch.stack([alignment, length, ctc]))
    return tuple(torch.stack(results).unbind(1))


@pytest.mark.parametrize("seed", [3, 4])
def test_losses_and_gradients_equal_a_materialised_computation(
    model: SGAModel, seed: int, device: torch.device
) -> None:
    """Eq. 7 and the length, in float64, for every trained parameter."""
    sample = _sample(device)
    loss, size, logged = _run(model, sample, seed)
    parts = _materialised(model, sample, _masks(seed, device))
    torch.testing.assert_close(loss, torch.stack(parts).sum(), rtol=1e-10, atol=1e-10)
    for name, part in zip(("alignment", "length", "denoising"), parts):
        torch.testing.assert_close(torch.as_tensor(logged[f"{name}_loss"]), part.sum().detach())
    trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
    ours = torch.autograd.grad(loss, list(trained.values()))
    expected = torch.autograd.grad(torch.stack(parts).sum(), list(trained.values()))
    for name, left, right in zip(trained, ours, expected):
        torch.testing.assert_close(left, right, rtol=1e-7, atol=1e-9, msg=name)
        assert bool((left != 0).any()), name
    assert size == logged["sample_size"] == logged["ntokens"] == sum(TARGETS)
    assert logged["nmasked"] == int(_masks(seed, device).sum())
    assert logged["unalignable"] == 0


def test_masks_of_the_sentences_have_uniform_sizes(model: SGAModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """1 .. N equally often, N without </s>, seen in what the alignment unit reads."""
    seen: List[Tensor] = []

    def forward(self: Any, **inputs: Any) -> Dict[str, Tensor]:
        seen.append(inputs["masked"].tokens)
        assert inputs["masked"].lengths.tolist() == [4] * 500
        return {"alignment": torch.zeros(500)}

    monkeypatch.setattr(SGAModel, "forward", forward)
    sample = builders.batch(builders.source_rows([3] * 500), builders.target_rows([4] * 500))
    for _ in range(4):
        criterion()(model, sample)
    tokens = torch.cat(seen)
    targets = sample["target"][:, :4].repeat(4, 1)
    masked = tokens == builders.MASK
    assert torch.equal(tokens[~masked], targets[~masked])
    shares = torch.bincount(masked.sum(dim=1), minlength=5).float() / len(tokens)
    assert shares[0] == 0
    assert bool(((shares[1:] - 0.25).abs() < 0.035).all()), shares


def test_the_denoiser_reads_predictions_and_nothing_flows_back(model: SGAModel, device: torch.device) -> None:
    """Loss 2 trains theta_s and theta_d; theta_a and the length predictor get exactly nothing."""
    sample, seen = _sample(device), []
    original = model.denoise

    def denoise(tokens: Tensor, guidance: Any, lengths: Tensor) -> Tensor:
        seen.append(tokens)
        return original(tokens, guidance, lengths)

    model.denoise = denoise
    targets, lengths = criterion()._targets(sample["target"])
    masks = torch.tensor([[1, 0, 1, 1], [0, 1, 0, 0], [1, 1, 1, 0]], device=device).bool()
    made = criterion()._masked_targets(targets, lengths, masks, [])
    slots: List[Tensor] = []
    losses = model(**sample["net_input"], reduce=criterion()._ctc(model, targets, lengths, slots), masked=made)
    read = seen[0].view(3, 4, 2)
    assert torch.equal(read[..., 0], read[..., 1])
    inside = torch.arange(4, device=device) < lengths[:, None]
    assert torch.equal(read[..., 0][inside & ~masks], targets[inside & ~masks])
    assert bool((read[..., 0][masks] != targets[masks]).any()), "predictions, not the answers"
    assert bool((read[..., 0][masks] != builders.MASK).any())
    losses["denoising"].sum().backward()
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            reached = parameter.grad is not None and bool((parameter.grad != 0).any())
            assert reached != name.startswith(("alignment_prompts", "length_predictor")), name


def test_later_steps_of_the_denoiser_are_trained_on_its_own_output(
    model: SGAModel, monkeypatch: pytest.MonkeyPatch, device: torch.device
) -> None:
    """--denoise-unroll, as the passes of decoding: the duplicated tokens first, then what the pass before wrote."""
    sample, read, written = _sample(device), [], []
    original = model.denoise

    def denoise(tokens: Tensor, guidance: Any, lengths: Tensor) -> Tensor:
        hidden = original(tokens, guidance, lengths)
        read.append(tokens)
        written.append(model.best_path(hidden, lengths).tokens)
        return hidden

    single = [_run(model, sample)[2]["denoising_loss"]]
    monkeypatch.setattr(model, "denoise", denoise)
    losses = [_run(model, sample, denoise_unroll=steps)[2]["denoising_loss"] for steps in (1, 2, 3)]
    torch.testing.assert_close(losses[0], single[0])
    one, two, three = read[:1], read[1:3], read[3:]
    assert (
        torch.equal(one[0][:, ::2], one[0][:, 1::2]) and torch.equal(one[0], two[0]) and torch.equal(one[0], three[0])
    )
    inside = torch.arange(8, device=device) < 2 * torch.tensor(TARGETS, device=device)[:, None]
    for step, before in ((two[1], written[1]), (three[1], written[3]), (three[2], written[4])):
        assert torch.equal(step[inside], before[inside])
        assert not torch.equal(step[:, ::2], step[:, 1::2]), "no duplicated rows any more"
    second, third = 2 * losses[1] - losses[0], 3 * losses[2] - 2 * losses[1]  # the mean over the steps
    assert len({round(float(part), 6) for part in (losses[0], second, third)}) >= 2
    assert float(second) > 0 and float(third) > 0


def test_without_a_denoiser_there_are_two_losses(device: torch.device) -> None:
    model = builders.sga_model(alignment="mask_predict", no_denoising=True).double().to(device)
    loss, _, logged = _run(model, _sample(device))
    assert "denoising_loss" not in logged
    torch.testing.assert_close(loss.detach(), logged["alignment_loss"] + logged["length_loss"])


def test_the_weight_of_the_length(model: SGAModel, device: torch.device) -> None:
    sample = _sample(device)
    loss, _, logged = _run(model, sample)
    for weight in (0.0, 0.5):
        other, _, same = _run(model, sample, length_loss_weight=weight)
        torch.testing.assert_close(other, loss + (weight - 1) * logged["length_loss"])
        torch.testing.assert_close(same["length_loss"], logged["length_loss"])


def test_the_likelihood_is_logged_beside_a_smoothed_loss(model: SGAModel, device: torch.device) -> None:
    """Validation losses of runs with and without smoothing are compared by it."""
    sample = _sample(device)
    _, _, plain = _run(model, sample)
    _, _, smooth = _run(model, sample, label_smoothing=0.1)
    assert "alignment_nll_loss" not in plain
    torch.testing.assert_close(smooth["alignment_nll_loss"], plain["alignment_loss"])
    assert abs(float(smooth["alignment_loss"]) - float(plain["alignment_loss"])) > 0.01
    for name in ("length_loss", "denoising_loss"):
        assert float(smooth[name]) == float(plain[name])


def test_a_batch_without_a_mask_has_no_alignment_loss(model: SGAModel, device: torch.device) -> None:
    """A ratio leaves short sentences without a mask, at times all of a small batch."""
    sample = builders.to_device(builders.batch(builders.source_rows([4]), builders.target_rows([1])), device)
    counts = set()
    for seed in range(12):
        loss, _, logged = _run(model, sample, seed, min_mask_ratio=0.0, label_smoothing=0.1)
        counts.add(logged["nmasked"])
        assert (float(logged["alignment_loss"]) == 0) == (logged["nmasked"] == 0)
        parts = [logged[f"{name}_loss"] for name in ("alignment", "length", "denoising")]
        torch.testing.assert_close(loss.detach(), torch.stack([torch.as_tensor(part) for part in parts]).sum())
        loss.backward()
        assert all(p.grad is None or bool(p.grad.isfinite().all()) for p in model.parameters())
    assert counts == {0, 1}


def test_options_of_the_denoiser_are_named_where_there_is_none(caplog: pytest.LogCaptureFixture) -> None:
    task = builders.task()
    task.has_denoiser = False
    criterion(task, denoise_all_positions=True, denoise_unroll=2, label_smoothing=0.1)
    assert [record.getMessage().split()[0] for record in caplog.records] == [
        "--denoise-unroll",
        "--denoise-all-positions",
    ]


def test_noise_acts_in_training_only_and_follows_the_seed(model: SGAModel, device: torch.device) -> None:
    sample = _sample(device)
    clean = _run(model, sample)[0]
    torch.testing.assert_close(_run(model, sample, denoise_noise=1.0)[0], clean)
    model.train()
    noisy = _run(model, sample, denoise_noise=1.0)[2]
    assert float(noisy["loss"]) == float(_run(model, sample, denoise_noise=1.0)[2]["loss"])
    still = _run(model, sample, denoise_noise=0.0)[2]
    assert float(noisy["alignment_loss"]) == float(still["alignment_loss"])
    assert abs(float(noisy["denoising_loss"]) - float(still["denoising_loss"])) > 1e-3


def test_losses_add_up_over_batches_whatever_the_padding(model: SGAModel, device: torch.device) -> None:
    """The same masks for a sentence alone and in the batch: --update-freq and processes sum losses and sizes."""
    sample, masks = _sample(device), _masks(3, device)
    whole = _materialised(model, sample, masks)
    made = criterion()
    targets, lengths = made._targets(sample["target"])
    slots: List[Tensor] = []
    masked = made._masked_targets(targets, lengths, masks, [])
    losses = model(**sample["net_input"], reduce=made._ctc(model, targets, lengths, slots), masked=masked)
    for name, part in zip(("alignment", "length", "denoising"), whole):
        torch.testing.assert_close(losses[name], part, rtol=1e-10, atol=1e-10)
    assert slots[0].tolist() == [8, 4, 6]


@pytest.mark.parametrize("targets", [[0, 3, 2], [0, 0, 0]])
def test_sentences_without_target_tokens_have_a_denoising_loss_only(
    model: SGAModel, targets: List[int], device: torch.device
) -> None:
    sample = _sample(device, targets)
    loss, size, logged = _run(model, sample)
    assert size == sum(targets)
    assert logged["nmasked"] >= sum(target > 0 for target in targets)
    assert bool(loss.isfinite())
    loss.backward()
    assert all(p.grad is None or bool(p.grad.isfinite().all()) for p in model.parameters())
    if not size:
        assert float(logged["alignment_loss"]) == float(logged["length_loss"]) == 0.0
        assert float(logged["denoising_loss"]) > 0


def test_a_target_longer_than_the_lengths_is_refused(device: torch.device) -> None:
    """20 tokens have 40 slots, as many as positions."""
    model, task = builders.sga_model(alignment="mask_predict").to(device), builders.task()
    fits = builders.to_device(builders.batch(builders.source_rows([4]), builders.target_rows([20])), device)
    assert bool(criterion(task)(model, fits)[0].isfinite())
    long = builders.to_device(builders.batch(builders.source_rows([4]), builders.target_rows([21])), device)
    with pytest.raises(ValueError, match="target of 21 tokens.*1 to 20.*--max-target-positions"):
        criterion(task)(model, long)


def test_wrong_options_are_named() -> None:
    for weight in (-0.5, math.nan, math.inf):
        with pytest.raises(ValueError, match=f"--length-loss-weight must be 0 or more; got {weight}"):
            criterion(length_loss_weight=weight)
    for option, value, valid in (
        ("label_smoothing", 1.0, r"\[0, 1\)"),
        ("label_smoothing", -0.1, r"\[0, 1\)"),
        ("label_smoothing", math.nan, r"\[0, 1\)"),
        ("min_mask_ratio", 1.5, r"\[0, 1\]"),
        ("min_mask_ratio", -0.1, r"\[0, 1\]"),
        ("min_mask_ratio", math.nan, r"\[0, 1\]"),
        ("denoise_noise", 2.0, r"\[0, 1\]"),
    ):
        with pytest.raises(ValueError, match=f"--{option.replace('_', '-')} must lie in {valid}; got {value}"):
            criterion(**{option: value})


def test_criterion_and_model_must_agree(model: SGAModel, device: torch.device) -> None:
    """As soon as the criterion is built where the task has built the model; at the first batch otherwise."""
    task = builders.task()
    ctc = SGACTCConfig(sentence_avg=False)
    task.alignment = "mask_predict"
    assert criterion(task).alignment == "mask_predict"
    with pytest.raises(ValueError, match="sga_ctc trains.*--alignment ctc.*mask_predict.*--criterion sga_mask_predict"):
        SGACTCCriterion(task, ctc)
    task.alignment = "ctc"
    SGACTCCriterion(task, ctc)
    with pytest.raises(ValueError, match="sga_mask_predict trains.*--alignment mask_predict.*--criterion sga_ctc"):
        criterion(task)
    with pytest.raises(ValueError, match="--criterion sga_mask_predict"):
        SGACTCCriterion(builders.task(), ctc)(model, _sample(device))
    with pytest.raises(ValueError, match="--criterion sga_ctc"):
        criterion()(builders.sga_model().to(device), _sample(device))


def test_metrics_are_bits_of_their_own_units(model: SGAModel, device: torch.device) -> None:
    logs = [_run(model, _sample(device), seed, label_smoothing=0.1)[2] for seed in (3, 4)]
    with metrics.aggregate(new_root=True) as aggregated:
        SGAMaskPredictCriterion.reduce_metrics(logs)
    found = aggregated.get_smoothed_values()
    units = {"loss": "sample_size", "denoising_loss": "sample_size", "alignment_loss": "nmasked"}
    for key, unit in {**units, "alignment_nll_loss": "nmasked", "length_loss": "nsentences"}.items():
        expected = sum(float(log[key]) for log in logs) / sum(log[unit] for log in logs) / math.log(2)
        assert float(found[key]) == pytest.approx(expected, abs=1e-3)
    assert found["unalignable"] == 0
    assert SGAMaskPredictCriterion.logging_outputs_can_be_summed()
