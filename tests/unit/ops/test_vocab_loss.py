"""Chunked cross-entropy against materialised logits, value and gradient."""

import pytest
import torch
from fairseq.criterions.label_smoothed_cross_entropy import label_smoothed_nll_loss

from fairseq_plugins.ops.vocab_loss import label_smoothed, linear_nll, linear_token_losses
from tests.unit.ops.test_ctc import HALF, TensorSizes

VOCAB, WIDTH, PAD = 37, 8, 1


@pytest.fixture
def inputs(device):
    generator = torch.Generator().manual_seed(3)

    def draw(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64).to(device)

    target = torch.randint(2, VOCAB, (3, 5), generator=generator).to(device)
    target[1, 3:] = PAD
    return draw(3, 5, WIDTH), draw(VOCAB, WIDTH), draw(VOCAB), target


def materialised(hidden, weight, bias, target):
    lprobs = torch.log_softmax(torch.nn.functional.linear(hidden, weight, bias), dim=-1)
    return -lprobs.gather(-1, target[..., None])[..., 0], -lprobs.sum(-1)


def leaves(*tensors, frozen=False):
    """Of hidden, weight and bias; frozen: of hidden alone."""
    return [t if t is None else t.clone().requires_grad_(not (frozen and n)) for n, t in enumerate(tensors)]


@pytest.mark.parametrize("chunk", [1, 4, 256])
@pytest.mark.parametrize("epsilon", [0.0, 0.1])
@pytest.mark.parametrize("frozen", [False, True])
def test_value_and_gradients_are_stock(inputs, epsilon, chunk, frozen):
    """Ignored targets count nothing, and a frozen projection, here without a bias, gets no gradient."""
    hidden, weight, bias, target = inputs
    ours, theirs = (leaves(hidden, weight, None if frozen else bias, frozen=frozen) for _ in range(2))
    losses = linear_token_losses(*ours, target, epsilon, chunk, ignore_index=PAD, want_best=True)
    loss = label_smoothed(losses.nll, losses.smooth, epsilon, VOCAB).sum()
    logits = torch.nn.functional.linear(*theirs)
    lprobs, ignored = logits.log_softmax(-1).flatten(0, 1), target.eq(PAD)
    expected, expected_nll = label_smoothed_nll_loss(lprobs, target.flatten(), epsilon, ignore_index=PAD)
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(losses.nll.sum(), expected_nll)
    assert torch.equal(losses.best, logits.argmax(-1).masked_fill(ignored, -1))
    assert not losses.nll[ignored].any() and not losses.smooth[ignored].any()
    assert bool(losses.smooth.any()) == (epsilon > 0)
    (loss / 7).backward()
    (expected / 7).backward()
    for mine, reference in zip(ours, theirs):
        assert frozen or mine.grad is not None
        if mine is not None and mine.grad is not None:
            torch.testing.assert_close(mine.grad, reference.grad)


@HALF
@pytest.mark.parametrize("epsilon", [0.0, 0.1])
@pytest.mark.parametrize("weighted", [False, True])
def test_half_precision_is_summed_in_float32_over_many_chunks(device, dtype, epsilon, weighted):
    """600 tokens, two at a time, whose shares of the weight's gradient all have one sign: a sum in half precision stalls."""
    generator = torch.Generator().manual_seed(4)
    hidden = (1 + 0.1 * torch.randn(600, WIDTH, generator=generator)).to(device, dtype)
    weight = (0.3 * torch.randn(VOCAB, WIDTH, generator=generator)).to(device, dtype)
    bias = torch.randn(VOCAB, generator=generator).to(device, dtype)
    target = torch.randint(2, 5, (600,), generator=generator).to(device)
    scale = torch.linspace(0.5, 1.5, 600, device=device) if weighted else torch.ones(600, device=device)
    ours, theirs = leaves(hidden, weight, bias), leaves(hidden.double(), weight.double(), bias.double())
    found, expected = linear_nll(*ours, target, epsilon, chunk_size=2), materialised(*theirs, target)
    rounding = 4 * torch.finfo(dtype).eps
    for mine, reference in list(zip(found, expected))[: 2 if epsilon else 1]:
        assert mine.dtype == torch.float32
        torch.testing.assert_close(mine.double(), reference, rtol=rounding, atol=rounding)
    (label_smoothed(*found, epsilon, VOCAB) * scale).sum().backward()
    (label_smoothed(*expected, epsilon, VOCAB) * scale).sum().backward()
    for mine, reference in zip(ours, theirs):
        assert mine.grad.dtype == dtype
        allowed = rounding * float(reference.grad.abs().max())
        torch.testing.assert_close(mine.grad.double(), reference.grad, rtol=rounding, atol=allowed)


@HALF
@pytest.mark.parametrize("trained", [False, True])
def test_half_precision_holds_more_words_than_its_largest_number(device, dtype, trained):
    """float16 ends at 65,504: the sum of so many equally likely rows is larger."""
    words = 70_000
    hidden = torch.zeros(3, 1, device=device, dtype=dtype, requires_grad=True)
    weight = torch.ones(words, 1, device=device, dtype=dtype, requires_grad=trained)
    target = torch.tensor([0, 5, words - 1], device=device)
    losses = linear_token_losses(hidden, weight, None, target, 0.1, chunk_size=2, want_best=True)
    torch.testing.assert_close(losses.nll, torch.full((3,), words, device=device).float().log())
    torch.testing.assert_close(losses.smooth / words, losses.nll)
    assert losses.best.tolist() == [0, 0, 0], "of equal ones the first, as argmax takes it"
    losses.nll.sum().backward()
    torch.testing.assert_close(hidden.grad, torch.zeros_like(hidden), rtol=0, atol=1e-2)
    assert weight.grad is None or bool((weight.grad == 0).all()), "the states are zero"


def test_weights_that_differ_between_tokens_and_a_second_backward(inputs):
    """The sums of the forward pass cannot be used then."""
    hidden, weight, bias, target = inputs
    scale = torch.linspace(0.5, 2.0, target.numel(), dtype=torch.float64, device=target.device).view_as(target)
    ours, theirs = leaves(hidden, weight, bias), leaves(hidden, weight, bias)
    (nll, smooth), expected = linear_nll(*ours, target, 0.1, 4), materialised(*theirs, target)
    weighted = [one * scale + two * scale**2 for one, two in ((nll, smooth), expected)]
    for loss, slow in (weighted, (nll, expected[0]), (nll, expected[0])):
        wanted = torch.autograd.grad(slow.sum(), theirs, retain_graph=True)
        for mine, reference in zip(torch.autograd.grad(loss.sum(), ours, retain_graph=True), wanted):
            torch.testing.assert_close(mine, reference)


@pytest.mark.parametrize("trained", [False, True])
def test_tokens_times_vocabulary_never_exists(device, trained):
    """Nor, without gradients, a buffer of V x C."""
    tokens, vocab, chunk = 64, 1000, 8
    hidden = torch.randn(tokens, WIDTH, device=device, requires_grad=True)
    weight = torch.randn(vocab, WIDTH, device=device, requires_grad=trained)
    target = torch.randint(0, vocab, (tokens,), device=device)
    with TensorSizes() as sizes:
        label_smoothed(*linear_nll(hidden, weight, None, target, 0.1, chunk), 0.1, vocab).sum().backward()
    assert sizes.largest() <= max(chunk * vocab, vocab * WIDTH)
    with torch.no_grad(), TensorSizes() as sizes:
        linear_nll(hidden, weight, None, target, 0.1, chunk_size=1)
    assert sizes.largest() < weight.numel()
