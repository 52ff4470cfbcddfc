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


@pytest.mark.cases(
    "scale options",
    (None, {}),
    (0.5, {"prompt_scale": True}),
    (2.5, {"prompt_scale": True, "upsample": 1}),
    (None, {"upsample": 3, "fill_blanks": True}),
    (None, {"prompt_length": 0}),
)
def test_losses_and_gradients_equal_the_loops(scale, options):
    """Eq. 7 in float64: value, and gradient of every trainable parameter."""
    model, reference = _pair(**options)
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
    total = (slow["alignment"] + slow["denoising"]) @ upstream
    expected = torch.autograd.grad(total, list(trained.values()), allow_unused=True)
    for name in fast:
        torch.testing.assert_close(fast[name], slow[name], rtol=1e-9, atol=1e-9)
    for name, ours, theirs in zip(trained, gradients, expected):
        theirs = torch.zeros_like(ours) if theirs is None else theirs
        torch.testing.assert_close(ours, theirs, rtol=1e-7, atol=1e-8, msg=name)


def test_unrolled_loss_is_the_mean_over_the_steps():
    """T_1 is scored on T_0, T_2 on T_1 (Eq. 6)."""
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
