"""The whole SGA model against Eq. 1 to 7 written as loops over one sentence at a time."""

import pytest
import torch
import torch.nn.functional as F

from tests import builders
from tests.reference.loops import SGALoops

SOURCES, TARGETS = [5, 3, 4], [4, 2, 0]


def _pair(upsample=2, **options):
    model = builders.sga_model(ctc_upsample=upsample, seed=5, **options).double()
    model.masked_lm.lm_head.bias[model.blank] += 5.0  # about half of the slots are blanks, as in a trained model
    return model, SGALoops(model, builders.HEADS, upsample, builders.PAD)


def _ctc(logits, target, blank):
    """CTC of one sentence over its whole log-softmax."""
    log_probs = logits.log_softmax(-1)[:, None]
    lengths = torch.tensor([len(logits)]), torch.tensor([len(target)])
    return F.ctc_loss(log_probs, target[None], *lengths, blank=blank, reduction="none")[0]


def _slow_losses(reference, sources, targets):
    model, rows = reference.model, []
    for source, target in zip(sources, targets):
        alignment = reference.alignment(source.tolist())
        tokens = reference.denoiser_input(alignment, model.fill_blanks)
        denoising = reference.denoising(source.tolist(), tokens)
        rows.append([_ctc(logits, target[:-1], model.blank) for logits in (alignment, denoising)])
    return {"alignment": torch.stack([row[0] for row in rows]), "denoising": torch.stack([row[1] for row in rows])}


@pytest.mark.parametrize(
    ("upsample", "options"), [(1, {}), (2, {}), (3, {}), (2, {"fill_blanks": True}), (2, {"prompt_length": 0})]
)
def test_logits_of_both_units_equal_the_loops(upsample, options):
    model, reference = _pair(upsample, **options)
    sample = builders.batch(builders.source_rows(SOURCES), extra=2)["net_input"]
    guidance = model.encode(sample["src_tokens"])
    lengths = model.slot_lengths(sample["src_lengths"])
    assert lengths.tolist() == [upsample * length for length in SOURCES]

    aligned = model.align(guidance, lengths)
    path = model.best_path(aligned, lengths)
    tokens = model.denoiser_input(path)
    denoised = model.denoise(tokens, guidance, lengths)
    for row, source in enumerate(builders.source_rows(SOURCES)):
        slots = int(lengths[row])
        alignment = reference.alignment(source.tolist())
        expected_tokens = reference.denoiser_input(alignment, model.fill_blanks)
        assert tokens[row, :slots].tolist() == expected_tokens
        blanks = path.tokens[row, :slots] == model.blank
        assert 0 < int(blanks.sum()) < slots or not model.fill_blanks, "else filling them would not show"
        denoising = reference.denoising(source.tolist(), expected_tokens)
        for hidden, expected in ((aligned, alignment), (denoised, denoising)):
            logits = F.linear(hidden[row, :slots], model.masked_lm.output_weight, model.masked_lm.output_bias)
            torch.testing.assert_close(logits, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("scale", [None, 0.5, 2.5])
def test_losses_and_gradients_equal_the_loops(scale):
    """Eq. 7 in float64: value, and gradient of every trainable parameter."""
    model, reference = _pair(prompt_scale=scale is not None)
    if scale is not None:
        for name, parameter in model.named_parameters():
            if name.endswith("scale"):
                parameter.data.fill_(scale)
    sources, targets = builders.source_rows(SOURCES), builders.target_rows(TARGETS)
    sample = builders.batch(sources, targets, extra=1)
    upstream = torch.tensor([1.0, 0.5, 2.0], dtype=torch.float64)
    trained = {name: p for name, p in model.named_parameters() if p.requires_grad}

    fast = builders.forward_losses(model, sample)
    assert set(fast) == {"alignment", "denoising"}
    gradients = torch.autograd.grad((fast["alignment"] + fast["denoising"]) @ upstream, list(trained.values()))
    slow = _slow_losses(reference, sources, targets)
    expected = torch.autograd.grad(
        (slow["alignment"] + slow["denoising"]) @ upstream, list(trained.values()), allow_unused=True
    )
    for name in fast:
        torch.testing.assert_close(fast[name], slow[name], rtol=1e-9, atol=1e-9)
    for name, ours, theirs in zip(trained, gradients, expected):
        theirs = torch.zeros_like(ours) if theirs is None else theirs
        torch.testing.assert_close(ours, theirs, rtol=1e-7, atol=1e-8, msg=name)


def test_unrolled_loss_is_the_mean_over_the_steps():
    """T_1 is scored on T_0, T_2 on T_1 (Eq. 6): both steps train, with the weight of one denoising loss."""
    model, reference = _pair()
    sources, targets = builders.source_rows(SOURCES), builders.target_rows(TARGETS)
    found = builders.forward_losses(model, builders.batch(sources, targets), unroll=2)["denoising"]
    expected = []
    for source, target in zip(sources, targets):
        tokens = reference.denoiser_input(reference.alignment(source.tolist()))
        first = reference.denoising(source.tolist(), tokens)
        second = reference.denoising(source.tolist(), reference.denoiser_input(first))
        assert not torch.equal(first, second)
        expected.append((_ctc(first, target[:-1], model.blank) + _ctc(second, target[:-1], model.blank)) / 2)
    torch.testing.assert_close(found, torch.stack(expected), rtol=1e-9, atol=1e-9)
