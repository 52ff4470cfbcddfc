"""Test SGA against Eq. 1 to 7 written as loops over one sentence at a time."""

import pytest
import torch
import torch.nn.functional as F

from tests import builders
from tests.reference.loops import SGALoops

SOURCES, TARGETS = [5, 3, 4], [4, 2, 0]


def build_with_loops(upsample=2, **options):
    model = builders.sga_model(ctc_upsample=upsample, seed=5, **options).double()
    # About half of the slots are blanks, as in a trained model.
    model.masked_lm.lm_head.bias[model.blank] += 5.0
    return model, SGALoops(model, builders.HEADS, upsample, builders.PAD)


def ctc_loss(logits, target, blank):
    """Compute CTC of one sentence over its complete log-softmax; the target ends with </s>."""
    log_probs, labels = logits.log_softmax(-1)[:, None], target[:-1]
    lengths = torch.tensor([len(logits)]), torch.tensor([len(labels)])
    return F.ctc_loss(log_probs, labels[None], *lengths, blank=blank, reduction="none")[0]


def slow_losses(loops, sources, targets):
    model = loops.model
    losses = {"alignment": [], "denoising": []}
    for source, target in zip(sources, targets):
        alignment = loops.alignment(source.tolist())
        tokens = loops.denoiser_input(alignment, model.fill_blanks)
        denoising = loops.denoising(source.tolist(), tokens)
        losses["alignment"].append(ctc_loss(alignment, target, model.blank))
        losses["denoising"].append(ctc_loss(denoising, target, model.blank))
    return {name: torch.stack(rows) for name, rows in losses.items()}


@pytest.mark.cases(
    "scale options",
    (None, {}),
    (0.5, {"prompt_scale": True}),
    (2.5, {"prompt_scale": True, "upsample": 1}),
    (None, {"upsample": 3, "fill_blanks": True}),
    (None, {"prompt_length": 0}),
)
def test_losses_and_gradients_equal_the_loops(scale, options):
    """Compare Eq. 7 in float64: value, and gradient of every trainable parameter."""
    model, loops = build_with_loops(**options)
    for name, parameter in model.named_parameters():
        if name.endswith("scale"):
            parameter.data.fill_(scale)
    sources, targets = builders.source_rows(SOURCES), builders.target_rows(TARGETS)
    sample = builders.batch(sources, targets, extra=1)
    upstream = torch.tensor([1.0, 0.5, 2.0], dtype=torch.float64)
    trainable = {name: p for name, p in model.named_parameters() if p.requires_grad}

    fast, slow = builders.forward_losses(model, sample), slow_losses(loops, sources, targets)
    assert set(fast) == {"alignment", "denoising"}
    for name in fast:
        torch.testing.assert_close(fast[name], slow[name], rtol=1e-9, atol=1e-9)

    fast_gradients, slow_gradients = (
        torch.autograd.grad(
            (losses["alignment"] + losses["denoising"]) @ upstream,
            list(trainable.values()),
            materialize_grads=True,
        )
        for losses in (fast, slow)
    )
    for name, actual, expected in zip(trainable, fast_gradients, slow_gradients):
        torch.testing.assert_close(actual, expected, rtol=1e-7, atol=1e-8, msg=name)


def test_the_unrolled_loss_is_the_mean_over_the_steps():
    """Score T_1 given T_0, and T_2 given T_1 (Eq. 6)."""
    model, loops = build_with_loops()
    sources, targets = builders.source_rows(SOURCES), builders.target_rows(TARGETS)
    losses = builders.forward_losses(model, builders.batch(sources, targets), unroll=2)
    expected = []
    for source, target in zip(sources, targets):
        tokens = loops.denoiser_input(loops.alignment(source.tolist()))
        first = loops.denoising(source.tolist(), tokens)
        second = loops.denoising(source.tolist(), loops.denoiser_input(first))
        assert not torch.equal(first, second)
        steps = [ctc_loss(logits, target, model.blank) for logits in (first, second)]
        expected.append(sum(steps) / 2)
    torch.testing.assert_close(losses["denoising"], torch.stack(expected), rtol=1e-9, atol=1e-9)
